/* One tokenizer, several threads, an encoder each: the same ids as one thread makes. */
#include "base/threads.h"
#include "support/text_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { THREADS = 4, TEXTS = 200 };

typedef struct job {
    const fw_tokenizer *tokenizer;
    fw_ids ids[THREADS];
    fw_status status[THREADS];
} job;

static fw_status encode_all(const fw_tokenizer *tokenizer, fw_ids *ids) {
    fw_encoder *encoder;
    FW_TRY(fw_encoder_create(&encoder, tokenizer));
    fw_status status = FW_OK;
    for (int i = 0; i < TEXTS && status == FW_OK; i++) {
        char text[96];
        int n = snprintf(text, sizeof text, "caf\xc3\xa9 e\xcc\x81 number %d, the %dth text\n\n  and  its words %d", i,
                         i * i, i % 7);
        status = fw_tokenizer_encode(encoder, ids, text, (size_t)n, FW_ENCODE_LITERAL);
    }
    fw_encoder_destroy(encoder);
    return status;
}

static void run(void *context, int index, int thread_n) {
    (void)thread_n;
    job *j = context;
    j->status[index] = encode_all(j->tokenizer, &j->ids[index]);
}

static void test_threads(void **state) {
    (void)state;
    for (int style = 0; style < FW_TEST_STYLE_N; style++) {
        fw_text_lab lab;
        fw_text_lab_init(&lab, (fw_test_tokenizer_style)style);
        fw_ids expected = {0};
        assert_int_equal(encode_all(lab.tokenizer, &expected), FW_OK);
        fw_threads *pool;
        assert_int_equal(fw_threads_create(&pool, THREADS, NULL), FW_OK);
        job j = {.tokenizer = lab.tokenizer};
        fw_threads_run(pool, run, &j);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(j.status[i], FW_OK);
            assert_int_equal(j.ids[i].n, expected.n);
            assert_memory_equal(j.ids[i].id, expected.id, expected.n * sizeof *expected.id);
            fw_ids_fini(&j.ids[i]);
        }
        fw_threads_destroy(pool);
        fw_ids_fini(&expected);
        fw_text_lab_fini(&lab);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
