/* The n-th allocation fails, for every n: an error, nothing leaked, nothing half done, and it works afterwards. */
#include "base/alloc.h"
#include "support/text_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void test_load(void **state) {
    (void)state;
    for (int style = 0; style < FW_TEST_STYLE_N; style++) {
        fw_text_lab lab;
        fw_text_lab_init(&lab, (fw_test_tokenizer_style)style);
        fw_status status = FW_ERR_NOMEM;
        uint64_t n = 1;
        while (status != FW_OK) {
            fw_tokenizer *tokenizer = NULL;
            fw_encoder *encoder = NULL;
            fw_chat_template chat = {0};
            fw_alloc_fail_at(n);
            status = fw_tokenizer_load(&tokenizer, lab.dir);
            if (status == FW_OK) status = fw_encoder_create(&encoder, tokenizer);
            if (status == FW_OK) status = fw_chat_template_load(&chat, lab.dir);
            fw_alloc_fail_at(0);
            if (status != FW_OK) assert_int_equal(status, FW_ERR_NOMEM);
            fw_chat_template_fini(&chat);
            fw_encoder_destroy(encoder);
            fw_tokenizer_destroy(tokenizer);
            n += n < 400 ? 1 : 7; /* the vocabulary makes thousands, all alike */
        }
        assert_true(n > 400);
        fw_text_lab_fini(&lab);
    }
}

static const char text[] = "caf\xc3\xa9 e\xcc\x81 <|im_end|> 12 \xe1\xb2\x89 a word that is long enough to miss the "
                           "cache every time it is seen";

static void test_encode(void **state) {
    (void)state;
    const fw_chat_message messages[] = {FW_MESSAGE("user", text),
                                        FW_MESSAGE("assistant", "<think>\nwhy\n</think>\n\nbecause")};
    fw_text_lab lab;
    fw_text_lab_init(&lab, FW_TEST_QWEN3);
    fw_ids expected = {0};
    assert_int_equal(fw_chat_encode(lab.encoder, &lab.chat, messages, 2, 1, &expected, NULL, NULL), FW_OK);
    fw_status status = FW_ERR_NOMEM;
    uint64_t n = 1;
    for (; status != FW_OK; n++) {
        fw_encoder *encoder; /* a new one: its scratch has to grow again */
        assert_int_equal(fw_encoder_create(&encoder, lab.tokenizer), FW_OK);
        fw_ids ids = {0};
        fw_trained trained = {0};
        assert_int_equal(fw_ids_push(&ids, 9), FW_OK);
        fw_alloc_fail_at(n);
        status = fw_chat_encode(encoder, &lab.chat, messages, 2, 1, &ids, &trained, NULL);
        fw_alloc_fail_at(0);
        if (status != FW_OK) {
            assert_int_equal(status, FW_ERR_NOMEM);
            assert_int_equal(ids.n, 1);
            assert_int_equal(trained.n, 0);
            assert_int_equal(fw_chat_encode(encoder, &lab.chat, messages, 2, 1, &ids, &trained, NULL), FW_OK);
        }
        assert_int_equal(ids.n, expected.n + 1);
        assert_memory_equal(ids.id + 1, expected.id, expected.n * sizeof *expected.id);
        fw_ids_fini(&ids);
        fw_trained_fini(&trained);
        fw_encoder_destroy(encoder);
    }
    assert_true(n > 10);
    fw_ids_fini(&expected);
    fw_text_lab_fini(&lab);
}

static void test_decode(void **state) {
    (void)state;
    fw_text_lab lab;
    fw_text_lab_init(&lab, FW_TEST_SMOLLM2);
    fw_ids ids = {0};
    assert_int_equal(fw_tokenizer_encode(lab.encoder, &ids, text, strlen(text), FW_ENCODE_SPECIAL), FW_OK);
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_decoder decoder;
        fw_strbuf out = {0};
        fw_decoder_init(&decoder, lab.tokenizer, false);
        fw_alloc_fail_at(n);
        status = FW_OK;
        for (size_t i = 0; i < ids.n && status == FW_OK; i++) status = fw_decoder_push(&decoder, &out, ids.id[i]);
        fw_alloc_fail_at(0);
        if (status == FW_OK)
            assert_string_equal(out.data, text);
        else
            assert_int_equal(status, FW_ERR_NOMEM);
        fw_strbuf_fini(&out);
    }
    fw_ids_fini(&ids);
    fw_text_lab_fini(&lab);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_load), cmocka_unit_test(test_encode),
                                       cmocka_unit_test(test_decode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
