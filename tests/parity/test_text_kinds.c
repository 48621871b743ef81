/* Tokenizers of every kind against the tokenizers package: ids and decoded texts that make_tokenizer_kinds.py wrote.
 *   test_text_kinds --serve DIR   encodes and decodes what compare_tokenizers.py sends, for comparing at length */
#include "base/alloc.h"
#include "base/json.h"
#include "support/text_lab.h"
#include "text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *cases; /* the whole file */

static void expect_ids(const fw_ids *ids, const json_t *expected, const char *name, size_t index, const char *how) {
    size_t at = 0, n = json_array_size(expected);
    while (at < ids->n && at < n && ids->id[at] == json_integer_value(json_array_get(expected, at))) at++;
    if (ids->n != n || at < n)
        fail_msg("\"%s\", text %zu, %s: %zu ids instead of %zu, id %zu is %d instead of %lld", name, index, how, ids->n,
                 n, at, at < ids->n ? ids->id[at] : -1, (long long)json_integer_value(json_array_get(expected, at)));
}

/* Bytes that are no character become U+FFFD, as where the reference makes a string. */
static fw_status append_shown(fw_strbuf *out, const char *bytes, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes;) {
        int complete;
        size_t n = fw_utf8_measure((const unsigned char *)bytes + i, n_bytes - i, &complete);
        FW_TRY(complete ? fw_strbuf_append(out, bytes + i, n) : fw_strbuf_puts(out, "\xef\xbf\xbd"));
        i += n;
    }
    return FW_OK;
}

static fw_status decode(const fw_tokenizer *t, const fw_ids *ids, bool skip_special, fw_strbuf *shown) {
    fw_strbuf bytes = {0};
    fw_status status;
    fw_strbuf_clear(shown);
    FW_TRY_OR(fw_tokenizer_decode(t, &bytes, ids->id, ids->n, skip_special), done);
    FW_TRY_OR(append_shown(shown, fw_strbuf_text(&bytes), bytes.len_bytes), done);
done:
    fw_strbuf_fini(&bytes);
    return status;
}

/* Id by id: nothing is shown that would have to be taken back, and in the end all is there. */
static void expect_stream(const fw_tokenizer *t, const fw_ids *ids, const json_t *expected, const char *name) {
    fw_decoder decoder;
    fw_strbuf out = {0};
    fw_decoder_init(&decoder, t, false);
    for (size_t i = 0; i < ids->n; i++) assert_int_equal(fw_decoder_push(&decoder, &out, ids->id[i]), FW_OK);
    assert_int_equal(fw_decoder_finish(&decoder, &out), FW_OK);
    if (out.len_bytes != json_string_length(expected) ||
        memcmp(fw_strbuf_text(&out), json_string_value(expected), out.len_bytes) != 0)
        fail_msg("\"%s\": id by id \"%s\" comes out instead of \"%s\"", name, fw_strbuf_text(&out),
                 json_string_value(expected));
    fw_decoder_fini(&decoder);
    fw_strbuf_fini(&out);
}

static void check_case(fw_text_lab *lab, const char *name, size_t index, const json_t *row) {
    const json_t *in = json_object_get(row, "in"), *ids_json = json_object_get(row, "ids");
    const json_t *literal = json_object_get(row, "literal"), *text = json_object_get(row, "text");
    const json_t *plain = json_object_get(row, "plain");
    if (literal == NULL) literal = ids_json;
    if (text == NULL) text = in;
    if (plain == NULL) plain = text;
    fw_ids ids = {0};
    fw_offsets offsets = {0};
    fw_strbuf shown = {0};
    for (int again = 0; again < 2; again++) { /* once more from the cache */
        for (unsigned flags = 0; flags < 2; flags++) {
            fw_ids_clear(&ids);
            assert_int_equal(
                fw_tokenizer_encode(lab->encoder, &ids, json_string_value(in), json_string_length(in), flags), FW_OK);
            expect_ids(&ids, flags == FW_ENCODE_SPECIAL ? ids_json : literal, name, index,
                       flags ? "special" : "literal");
        }
        fw_ids_clear(&ids);
        assert_int_equal(fw_tokenizer_encode_offsets(lab->encoder, &ids, &offsets, json_string_value(in),
                                                     json_string_length(in), FW_ENCODE_SPECIAL),
                         FW_OK);
        expect_ids(&ids, ids_json, name, index, "with offsets");
        assert_int_equal(offsets.n, ids.n);
        for (size_t i = 0; i < offsets.n; i++) assert_true(offsets.offset[i] <= json_string_length(in));
        offsets.n = 0;
    }
    const json_t *expected[] = {text, plain};
    for (int skip = 0; skip < 2; skip++) {
        assert_int_equal(decode(lab->tokenizer, &ids, skip == 1, &shown), FW_OK);
        if (shown.len_bytes != json_string_length(expected[skip]) ||
            memcmp(fw_strbuf_text(&shown), json_string_value(expected[skip]), shown.len_bytes) != 0)
            fail_msg("\"%s\", text %zu: decoded \"%s\" instead of \"%s\"", name, index, fw_strbuf_text(&shown),
                     json_string_value(expected[skip]));
    }
    expect_stream(lab->tokenizer, &ids, text, name);
    fw_strbuf_fini(&shown);
    fw_offsets_fini(&offsets);
    fw_ids_fini(&ids);
}

static void test_kinds(void **state) {
    (void)state;
    const json_t *kinds = json_object_get(cases, "kinds");
    assert_true(json_array_size(kinds) > 40);
    for (size_t k = 0; k < json_array_size(kinds); k++) {
        const json_t *kind = json_array_get(kinds, k), *rows = json_object_get(kind, "cases");
        const char *name = json_string_value(json_object_get(kind, "name"));
        json_t *file = fw_text_lab_patched(
            json_object_get(json_object_get(cases, "bases"), json_string_value(json_object_get(kind, "base"))),
            json_object_get(kind, "patch"));
        fw_text_lab lab;
        fw_text_lab_init_file(&lab, file);
        assert_true(json_array_size(rows) >= 20);
        for (size_t i = 0; i < json_array_size(rows); i++) check_case(&lab, name, i, json_array_get(rows, i));
        fw_text_lab_fini(&lab);
        json_decref(file);
    }
}

/* Numbers are in the machine's own byte order. In: flags, bytes of the text, the text. Out: number of ids, the ids, then
 * twice (with and without special tokens) bytes of the decoded text, the text. */
static int serve(const char *dir) {
    fw_tokenizer *t = NULL;
    fw_encoder *encoder = NULL;
    fw_ids ids = {0};
    fw_strbuf text = {0}, shown = {0};
    uint32_t head[2];
    int rc = 1;
    if (fw_tokenizer_load(&t, dir) != FW_OK || fw_encoder_create(&encoder, t) != FW_OK) goto done;
    while (fread(head, sizeof head, 1, stdin) == 1) {
        fw_strbuf_clear(&text);
        fw_ids_clear(&ids);
        if (fw_strbuf_reserve(&text, head[1]) != FW_OK || fread(text.data, 1, head[1], stdin) != head[1]) goto done;
        if (fw_tokenizer_encode(encoder, &ids, text.data, head[1], head[0]) != FW_OK) goto done;
        uint32_t n = (uint32_t)ids.n;
        fwrite(&n, sizeof n, 1, stdout);
        if (n > 0) fwrite(ids.id, sizeof *ids.id, n, stdout);
        for (int skip = 0; skip < 2; skip++) {
            if (decode(t, &ids, skip == 1, &shown) != FW_OK) goto done;
            n = (uint32_t)shown.len_bytes;
            fwrite(&n, sizeof n, 1, stdout);
            fwrite(fw_strbuf_text(&shown), 1, n, stdout);
        }
    }
    rc = 0;
done:
    if (rc != 0) fprintf(stderr, "%s\n", fw_trail_message());
    fw_strbuf_fini(&text);
    fw_strbuf_fini(&shown);
    fw_ids_fini(&ids);
    fw_encoder_destroy(encoder);
    fw_tokenizer_destroy(t);
    return rc;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--serve") == 0) return serve(argv[2]);
    json_error_t error;
    cases = json_load_file(FW_TEST_DATA "/tokenizer_kinds.json", JSON_ALLOW_NUL, &error);
    if (cases == NULL) {
        fprintf(stderr, "tokenizer_kinds.json: %s\n", error.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(cases);
    return failed;
}
