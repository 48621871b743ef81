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
        json_t *base = fw_text_lab_file(find_style(json_string_value(json_object_get(entry, "base"))));
        json_t *file = fw_text_lab_patched(base, json_object_get(entry, "patch"));
        json_decref(base);
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

/* flags of the file: 1 generation prompt, 2 without thinking */
static void start_chat(fw_lab_chat *chat, const json_t *row, json_t *no_thinking, unsigned *flags) {
    json_int_t of_row = json_integer_value(json_object_get(row, "flags"));
    fw_lab_chat_init_json(chat, json_object_get(row, "messages"), NULL, of_row & 2 ? no_thinking : NULL);
    *flags = of_row & 1 ? FW_CHAT_GENERATION_PROMPT : 0;
}

static void expect_text(const fw_chat_rendering *r, const json_t *row) {
    const json_t *text = json_object_get(row, "text");
    if (r->text_bytes != json_string_length(text) || memcmp(r->text, json_string_value(text), r->text_bytes) != 0)
        fail_msg("rendered \"%.*s\" instead of \"%s\"", (int)r->text_bytes, r->text, json_string_value(text));
    size_t covered = 0;
    for (size_t i = 0; i < r->segment_n; covered += r->segment[i++].bytes)
        assert_int_equal(r->segment[i].offset, covered);
    assert_int_equal(covered, r->text_bytes);
}

static void test_chats(void **state) {
    (void)state;
    const json_t *rows = json_object_get(cases, "chats");
    json_t *no_thinking = json_pack("{sb}", "enable_thinking", 0);
    fw_text_lab labs[FW_TEST_STYLE_N];
    for (int s = 0; s < FW_TEST_STYLE_N; s++) fw_text_lab_init(&labs[s], (fw_test_tokenizer_style)s);
    assert_true(json_array_size(rows) > 50);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        fw_text_lab *lab = &labs[find_style(json_string_value(json_object_get(row, "style")))];
        fw_lab_chat chat;
        unsigned flags;
        start_chat(&chat, row, no_thinking, &flags);
        if (fw_lab_chat_encode(&chat, lab, flags) != FW_OK) fail_msg("%s", fw_trail_message());
        expect_text(&chat.rendering, row);
        expect_ids(&chat.ids, json_object_get(row, "ids"), "chat", json_string_value(json_object_get(row, "text")),
                   "rendered");
        assert_int_equal(chat.trained.n, chat.ids.n);
        fw_lab_chat_fini(&chat);
    }
    json_decref(no_thinking);
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
    json_t *no_thinking = json_pack("{sb}", "enable_thinking", 0);
    for (size_t i = 0; i < json_array_size(chats); i++) {
        const json_t *row = json_array_get(chats, i);
        if (strcmp(json_string_value(json_object_get(row, "style")), "qwen3") != 0) continue;
        fw_lab_chat one;
        unsigned flags;
        start_chat(&one, row, no_thinking, &flags);
        assert_int_equal(fw_chat_render(&one.rendering, &chat, &one.c, flags), FW_OK);
        expect_text(&one.rendering, row);
        fw_lab_chat_fini(&one);
    }
    json_decref(no_thinking);
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
