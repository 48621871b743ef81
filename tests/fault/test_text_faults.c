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
    static const char talk[] =
        "[{'role': 'user', 'content': 'caf\xc3\xa9 e\xcc\x81 <|im_end|> 12 \xe1\xb2\x89 a word that is "
        "long enough to miss the cache every time it is seen'},"
        " {'role': 'assistant', 'content': '<think>\\nwhy\\n</think>\\n\\nbecause'}]";
    fw_text_lab lab;
    fw_text_lab_init(&lab, FW_TEST_QWEN3);
    fw_encoder *kept = lab.encoder;
    fw_lab_chat expected;
    fw_lab_chat_init(&expected, talk);
    assert_int_equal(fw_lab_chat_encode(&expected, &lab, FW_CHAT_GENERATION_PROMPT), FW_OK);
    fw_status status = FW_ERR_NOMEM;
    uint64_t n = 1;
    for (; status != FW_OK; n++) {
        fw_lab_chat chat; /* all new: scratch has to grow again */
        fw_lab_chat_init(&chat, talk);
        assert_int_equal(fw_encoder_create(&lab.encoder, lab.tokenizer), FW_OK);
        fw_alloc_fail_at(n);
        status = fw_lab_chat_encode(&chat, &lab, FW_CHAT_GENERATION_PROMPT);
        fw_alloc_fail_at(0);
        if (status != FW_OK) {
            assert_int_equal(status, FW_ERR_NOMEM);
            assert_int_equal(chat.ids.n, 0);
            assert_int_equal(chat.trained.n, 0);
            assert_int_equal(fw_lab_chat_encode(&chat, &lab, FW_CHAT_GENERATION_PROMPT), FW_OK);
        }
        assert_int_equal(chat.ids.n, expected.ids.n);
        assert_memory_equal(chat.ids.id, expected.ids.id, expected.ids.n * sizeof *expected.ids.id);
        assert_memory_equal(chat.trained.mark, expected.trained.mark, expected.trained.n);
        fw_lab_chat_fini(&chat);
        fw_encoder_destroy(lab.encoder);
    }
    assert_true(n > 10);
    lab.encoder = kept;
    fw_lab_chat_fini(&expected);
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
        fw_decoder_fini(&decoder);
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
