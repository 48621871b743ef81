/* The n-th allocation fails while a tokenizer of characters loads, encodes and decodes: an error, nothing leaked. */
#include "base/alloc.h"
#include "base/file.h"
#include "support/piece_tokenizer.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static const char text[] =
    "  ab <s>  abc\xc3\xa9 e\xcc\x81 12,b \xe1\xb2\x89 \xf0\x9f\x98\x80 \xe4\xb8\xad a word long enough "
    "that no cache takes it, and spaces   behind";

static fw_status encode_and_decode(fw_encoder *encoder, const fw_tokenizer *t, fw_ids *ids, fw_offsets *offsets,
                                   fw_strbuf *out) {
    FW_TRY(fw_tokenizer_encode_offsets(encoder, ids, offsets, text, sizeof text - 1, FW_ENCODE_SPECIAL));
    fw_decoder decoder;
    fw_status status = FW_OK;
    fw_decoder_init(&decoder, t, false);
    for (size_t i = 0; i < ids->n && status == FW_OK; i++) status = fw_decoder_push(&decoder, out, ids->id[i]);
    if (status == FW_OK) status = fw_decoder_finish(&decoder, out);
    fw_decoder_fini(&decoder);
    return status;
}

static void check_use(const fw_tokenizer *t) {
    uint64_t n = 1;
    for (fw_status status = FW_ERR_NOMEM; status != FW_OK; n++) {
        fw_encoder *encoder = NULL;
        fw_ids ids = {0};
        fw_offsets offsets = {0};
        fw_strbuf out = {0};
        fw_alloc_fail_at(n);
        status = fw_encoder_create(&encoder, t);
        if (status == FW_OK) status = encode_and_decode(encoder, t, &ids, &offsets, &out);
        fw_alloc_fail_at(0);
        if (status != FW_OK) {
            assert_int_equal(status, FW_ERR_NOMEM);
            assert_true(fw_trail_message()[0] != 0);
        }
        fw_strbuf_fini(&out);
        fw_offsets_fini(&offsets);
        fw_ids_fini(&ids);
        fw_encoder_destroy(encoder);
    }
    assert_true(n > 5);
}

static void test_variants(void **state) {
    (void)state;
    char dir[] = "/tmp/fw_faults_XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (unsigned i = 0; i < 24; i++) {
        /* every normalizer, pre_tokenizer and decoder, and the model's flags in turn */
        unsigned variant = i % 8 | (i * 3 + i / 8) % 8 << 3 | (i * 5 + 1) % 8 << 6 | (i * 37 % 128) << 9;
        assert_int_equal(fw_test_write_piece_tokenizer(dir, variant), FW_OK);
        uint64_t n = 1;
        for (fw_status status = FW_ERR_NOMEM; status != FW_OK; n += n < 200 || i < 2 ? 1 : 41) {
            fw_tokenizer *t = NULL;
            fw_alloc_fail_at(n);
            status = fw_tokenizer_load(&t, dir);
            fw_alloc_fail_at(0);
            if (status != FW_OK) assert_int_equal(status, FW_ERR_NOMEM);
            if (status == FW_OK) check_use(t);
            fw_tokenizer_destroy(t);
        }
        assert_true(n > 200);
    }
    assert_int_equal(fw_dir_remove(dir), FW_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
