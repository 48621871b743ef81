/* Ids and renderings equal to those of the tokenizers and transformers packages (make_text_cases.py).
 *   test_text_parity --write DIR   writes the tiny tokenizers that the script asks about */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "support/text_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_t *cases; /* the whole file */
static const char *const style_names[FW_TEST_STYLE_N] = {"smollm2", "qwen2", "qwen3"};

static fw_test_tokenizer_style find_style(const char *name) {
    int style = 0;
    while (style < FW_TEST_STYLE_N && strcmp(style_names[style], name) != 0) style++;
    assert_true(style < FW_TEST_STYLE_N);
    return (fw_test_tokenizer_style)style;
}

static void apply(json_t *file, const json_t *patch) {
    const char *key;
    json_t *value, *model = json_object_get(file, "model"), *vocab = json_object_get(model, "vocab");
    json_object_foreach((json_t *)(uintptr_t)patch, key, value) {
        if (strcmp(key, "model") == 0) {
            json_object_update(model, value);
        } else if (strcmp(key, "drop") == 0) {
            for (size_t i = 0; i < json_array_size(value); i++) {
                char name[32];
                const char *token = json_string_value(json_array_get(value, i));
                snprintf(name, sizeof name, "gone %s", token);
                json_object_set(vocab, name, json_object_get(vocab, token));
                json_object_del(vocab, token);
            }
        } else {
            json_object_set(file, key, value);
        }
    }
}

static void expect_ids(const fw_ids *ids, const json_t *expected, const char *name, const char *text, const char *how) {
    bool same = ids->n == json_array_size(expected);
    size_t at = 0;
    for (; at < ids->n && at < json_array_size(expected); at++)
        if (ids->id[at] != json_integer_value(json_array_get(expected, at))) break;
    if (!same || at < ids->n)
        fail_msg("tokenizer \"%s\", text \"%.60s\", %s: %zu ids instead of %zu, id %zu is %d instead of %lld", name,
                 text, how, ids->n, json_array_size(expected), at, at < ids->n ? ids->id[at] : -1,
                 (long long)json_integer_value(json_array_get(expected, at)));
}

/* The ids, with and without offsets, and again when the words are in the cache. */
static void check_case(fw_text_lab *lab, const char *name, const json_t *row, const json_t *expected, unsigned flags) {
    const json_t *value = json_object_get(row, "text");
    const char *text = json_string_value(value);
    size_t text_bytes = json_string_length(value);
    for (int again = 0; again < 2; again++) {
        fw_ids ids = {0};
        fw_offsets offsets = {0};
        assert_int_equal(fw_tokenizer_encode(lab->encoder, &ids, text, text_bytes, flags), FW_OK);
        expect_ids(&ids, expected, name, text, flags ? "special" : "literal");
        fw_ids_clear(&ids);
        assert_int_equal(fw_tokenizer_encode_offsets(lab->encoder, &ids, &offsets, text, text_bytes, flags), FW_OK);
        expect_ids(&ids, expected, name, text, "with offsets");
        assert_int_equal(offsets.n, ids.n);
        for (size_t i = 0; i < offsets.n; i++) assert_true(offsets.offset[i] < text_bytes);
        fw_ids_fini(&ids);
        fw_offsets_fini(&offsets);
    }
}

static void test_ids(void **state) {
    (void)state;
    const json_t *tokenizers = json_object_get(cases, "tokenizers");
    assert_true(json_array_size(tokenizers) > 10);
    for (size_t t = 0; t < json_array_size(tokenizers); t++) {
        const json_t *entry = json_array_get(tokenizers, t), *rows = json_object_get(entry, "cases");
        const char *name = json_string_value(json_object_get(entry, "name"));
        json_t *file = fw_text_lab_file(find_style(json_string_value(json_object_get(entry, "base"))));
        apply(file, json_object_get(entry, "patch"));
        fw_text_lab lab;
        fw_text_lab_init_file(&lab, file);
        assert_true(json_array_size(rows) > 10);
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i), *literal = json_object_get(row, "literal");
            check_case(&lab, name, row, json_object_get(row, "ids"), FW_ENCODE_SPECIAL);
            check_case(&lab, name, row, literal ? literal : json_object_get(row, "ids"), FW_ENCODE_LITERAL);
        }
        fw_text_lab_fini(&lab);
        json_decref(file);
    }
}

static void load_messages(const json_t *list, fw_chat_message *messages, size_t message_cap, size_t *message_n) {
    *message_n = json_array_size(list);
    assert_true(*message_n <= message_cap);
    for (size_t i = 0; i < *message_n; i++) {
        const json_t *content = json_object_get(json_array_get(list, i), "content");
        messages[i] = (fw_chat_message){json_string_value(json_object_get(json_array_get(list, i), "role")),
                                        json_string_value(content), json_string_length(content)};
    }
}

static void expect_text(const fw_chat_template *chat, const json_t *row) {
    fw_chat_message messages[16];
    size_t message_n;
    fw_chat_rendering rendering = {0};
    const json_t *text = json_object_get(row, "text");
    load_messages(json_object_get(row, "messages"), messages, 16, &message_n);
    unsigned flags = (unsigned)json_integer_value(json_object_get(row, "flags"));
    assert_int_equal(fw_chat_render(&rendering, chat, messages, message_n, flags), FW_OK);
    if (rendering.text.len_bytes != json_string_length(text) ||
        memcmp(rendering.text.data, json_string_value(text), rendering.text.len_bytes) != 0)
        fail_msg("rendered \"%s\" instead of \"%s\"", rendering.text.data, json_string_value(text));
    size_t covered = 0;
    for (size_t i = 0; i < rendering.segment_n; covered += rendering.segment[i++].bytes)
        assert_int_equal(rendering.segment[i].offset, covered);
    assert_int_equal(covered, rendering.text.len_bytes);
    fw_chat_rendering_fini(&rendering);
}

static void test_chats(void **state) {
    (void)state;
    const json_t *rows = json_object_get(cases, "chats");
    fw_text_lab labs[FW_TEST_STYLE_N];
    for (int s = 0; s < FW_TEST_STYLE_N; s++) fw_text_lab_init(&labs[s], (fw_test_tokenizer_style)s);
    assert_true(json_array_size(rows) > 50);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        fw_text_lab *lab = &labs[find_style(json_string_value(json_object_get(row, "style")))];
        expect_text(&lab->chat, row);
        fw_chat_message messages[16];
        size_t message_n;
        load_messages(json_object_get(row, "messages"), messages, 16, &message_n);
        fw_ids ids = {0};
        fw_trained trained = {0};
        unsigned flags = (unsigned)json_integer_value(json_object_get(row, "flags"));
        assert_int_equal(fw_chat_encode(lab->encoder, &lab->chat, messages, message_n, flags, &ids, &trained, NULL),
                         FW_OK);
        expect_ids(&ids, json_object_get(row, "ids"), "chat", json_string_value(json_object_get(row, "text")),
                   "rendered");
        assert_int_equal(trained.n, ids.n);
        fw_ids_fini(&ids);
        fw_trained_fini(&trained);
    }
    for (int s = 0; s < FW_TEST_STYLE_N; s++) fw_text_lab_fini(&labs[s]);
}

/* The real tokenizer and template of Qwen3, where this machine has them beside the source folder. */
static void test_qwen3(void **state) {
    (void)state;
    const char *dir = FW_SOURCE_DIR "/../shared/tokenizers/qwen3";
    if (!fw_dir_exists(dir)) {
        printf("skipped: no %s\n", dir);
        skip();
    }
    fw_tokenizer *tokenizer;
    fw_encoder *encoder;
    fw_chat_template chat;
    assert_int_equal(fw_tokenizer_load(&tokenizer, dir), FW_OK);
    assert_int_equal(fw_encoder_create(&encoder, tokenizer), FW_OK);
    assert_int_equal(fw_chat_template_load(&chat, dir), FW_OK);
    assert_int_equal(fw_tokenizer_vocab_n(tokenizer), 151669);
    assert_int_equal(fw_tokenizer_eos_id(tokenizer), 151645);
    assert_int_equal(fw_tokenizer_bos_id(tokenizer), -1);
    assert_int_equal(fw_chat_end_of_turn_id(tokenizer, &chat), 151645);
    const json_t *rows = json_object_get(cases, "qwen3"), *chats = json_object_get(cases, "chats");
    assert_true(json_array_size(rows) > 50);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *text = json_object_get(row, "text");
        fw_ids ids = {0};
        assert_int_equal(
            fw_tokenizer_encode(encoder, &ids, json_string_value(text), json_string_length(text), FW_ENCODE_SPECIAL),
            FW_OK);
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t k = 0; k < ids.n; k++) hash = (hash ^ (uint64_t)ids.id[k]) * 0x100000001b3u;
        char digits[24];
        snprintf(digits, sizeof digits, "%016" PRIx64, hash);
        assert_int_equal(ids.n, json_integer_value(json_object_get(row, "n")));
        assert_string_equal(digits, json_string_value(json_object_get(row, "hash")));
        fw_ids_fini(&ids);
    }
    for (size_t i = 0; i < json_array_size(chats); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(chats, i), "style")), "qwen3") == 0)
            expect_text(&chat, json_array_get(chats, i));
    fw_chat_template_fini(&chat);
    fw_encoder_destroy(encoder);
    fw_tokenizer_destroy(tokenizer);
}

static int write_all(const char *dir) {
    for (int s = 0; s < FW_TEST_STYLE_N; s++) {
        char *path;
        if (fw_path_join(&path, dir, style_names[s]) != FW_OK || fw_dir_make(path) != FW_OK ||
            fw_test_write_tokenizer(path, (fw_test_tokenizer_style)s) != FW_OK) {
            fprintf(stderr, "%s\n", fw_trail_message());
            return 1;
        }
        fw_free(path);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--write") == 0) return write_all(argv[2]);
    if (fw_json_load(&cases, FW_TEST_DATA "/text_cases.json", 1 << 24) != FW_OK) {
        fprintf(stderr, "%s\n", fw_trail_message());
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids), cmocka_unit_test(test_chats),
                                       cmocka_unit_test(test_qwen3)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(cases);
    return failed;
}
