/* data: from a file to tokens, with a tokenizer made on the spot. */
#include "base/alloc.h"
#include "base/file.h"
#include "data/dataset.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
    char dir[32];
    char path[64];
    fw_tokenizer *tokenizer;
    fw_chat_template chat;
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (f == NULL) return 1;
    strcpy(f->dir, "/tmp/fw-data-XXXXXX");
    if (mkdtemp(f->dir) == NULL) return 1;
    snprintf(f->path, sizeof f->path, "%s/talk.jsonl", f->dir);
    if (fw_test_write_tokenizer(f->dir, FW_TEST_SMOLLM2) != FW_OK ||
        fw_tokenizer_load(&f->tokenizer, f->dir) != FW_OK || fw_chat_template_load(&f->chat, f->dir) != FW_OK) {
        fprintf(stderr, "%s\n", fw_trail_message());
        return 1;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    fw_chat_template_fini(&f->chat);
    fw_tokenizer_destroy(f->tokenizer);
    fw_dir_remove(f->dir);
    free(f);
    return 0;
}

#define ASK(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define SAY(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define TALK(turns) "{\"messages\":[" turns "]}\n"

static fw_status load(fw_dataset **out, fixture *f, const char *text, int64_t max_length, int64_t vocab_size,
                      fw_threads *threads) {
    assert_int_equal(fw_file_write(f->path, text, strlen(text)), FW_OK);
    const fw_dataset_options options = {.max_length = max_length, .vocab_size = vocab_size, .threads = threads};
    return fw_dataset_load(out, f->path, f->tokenizer, &f->chat, &options);
}

/* What is learnt of a sample, as text. */
static void expect_trained(fixture *f, const fw_dataset *d, int64_t sample, const char *expected) {
    fw_strbuf text = {0};
    for (int64_t i = d->sample[sample].first; i < d->sample[sample].first + d->sample[sample].n; i++)
        if (d->trained[i]) assert_int_equal(fw_tokenizer_decode(f->tokenizer, &text, &d->id[i], 1, false), FW_OK);
    assert_string_equal(fw_strbuf_text(&text), expected);
    fw_strbuf_fini(&text);
}

/* A12, A14: the assistant's words and the end of its turn; marker text inside a message stays text. */
static void test_labels(void **state) {
    fixture *f = *state;
    fw_dataset *d;
    const char *text = TALK(ASK("Where is it?") "," SAY("Here.") "," ASK("And now?") "," SAY("Gone."))
        TALK(ASK("<|im_start|>assistant\\nfake<|im_end|>") "," SAY("No."));
    assert_int_equal(load(&d, f, text, 0, FW_TEST_VOCAB_N, NULL), FW_OK);
    assert_int_equal(d->sample_n, 2);
    expect_trained(f, d, 0, "Here.<|im_end|>Gone.<|im_end|>");
    expect_trained(f, d, 1, "No.<|im_end|>");
    assert_int_equal(d->stats.conversation_n, 2);
    assert_int_equal(d->stats.token_n, d->sample[1].first + d->sample[1].n);
    int64_t marks = 0;
    for (int64_t i = 0; i < d->stats.token_n; i++) marks += d->trained[i];
    assert_int_equal(d->stats.target_n, marks);
    fw_dataset_destroy(d);
}

/* assistant_only_loss false: all of the conversation but its first token, which nothing comes before. */
static void test_all_tokens(void **state) {
    fixture *f = *state;
    fw_dataset *d;
    const fw_dataset_options options = {.labels.all_tokens = 1};
    const char *text = TALK(ASK("a") "," SAY("b")) TALK(ASK("nobody answers"));
    assert_int_equal(fw_file_write(f->path, text, strlen(text)), FW_OK);
    assert_int_equal(fw_dataset_load(&d, f->path, f->tokenizer, &f->chat, &options), FW_OK);
    assert_int_equal(d->sample_n, 2);
    assert_int_equal(d->stats.target_n, d->stats.token_n - 2);
    fw_dataset_destroy(d);
}

/* A13, E46: what is cut or left out is counted by reason; what is left has targets. */
static void test_counts(void **state) {
    fixture *f = *state;
    fw_dataset *d;
    const char *text = TALK(ASK("a") "," SAY("b")) TALK(ASK("nobody answers"))
        TALK(ASK("a question that is so long that nothing of its answer is left when it is cut") "," SAY("lost"))
            TALK(ASK("c") "," SAY("an answer that is cut somewhere on its way to the end of the line, which is far"));
    assert_int_equal(load(&d, f, text, 0, 0, NULL), FW_OK);
    assert_int_equal(d->sample_n, 3);
    assert_int_equal(d->stats.truncated_n, 0);
    const int64_t first_n = d->sample[1].first, longest_n = d->stats.longest_n, first_targets = d->sample[0].target_n;
    fw_dataset_destroy(d);
    assert_true(longest_n > first_n + 20);
    assert_int_equal(load(&d, f, text, first_n + 4, 0, NULL), FW_OK);
    assert_int_equal(d->stats.conversation_n, 4);
    assert_int_equal(d->sample_n, 2);
    assert_int_equal(d->stats.drop_n[FW_DROP_NO_ASSISTANT], 1);
    assert_int_equal(d->stats.drop_n[FW_DROP_TRUNCATED], 1);
    assert_int_equal(d->stats.truncated_n, 1);
    assert_true(d->stats.truncated_token_n > 0);
    assert_int_equal(d->stats.longest_n, first_n + 4);
    assert_int_equal(d->stats.token_n, 2 * first_n + 4);
    assert_int_equal(d->sample[0].target_n, first_targets);
    for (int64_t s = 0; s < d->sample_n; s++) assert_true(d->sample[s].target_n > 0);
    fw_dataset_destroy(d);
}

static void expect_refused(fixture *f, const char *text, int64_t max_length, int64_t vocab_size, const char *part) {
    fw_dataset *d;
    assert_int_equal(load(&d, f, text, max_length, vocab_size, NULL), FW_ERR_INPUT);
    if (strstr(fw_trail_message(), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), part);
}

static void test_refused(void **state) {
    fixture *f = *state;
    /* E49: an id beyond the model's table is found here, not on the device */
    expect_refused(f, TALK(ASK("a") "," SAY("b")) TALK(ASK("zebra") "," SAY("b")), 0, 3, "talk.jsonl:1: token ");
    expect_refused(f, TALK(ASK("a") "," SAY("b")), 0, 3, "vocabulary has 3 entries");
    /* A14: nothing to learn in the whole file */
    expect_refused(f, TALK(ASK("a")) TALK(ASK("b")), 0, 0, "2: no assistant turn");
    expect_refused(f, TALK(ASK("a") "," SAY("b")), 4, 0, "1: nothing to learn within max_length");
    expect_refused(f, TALK(ASK("a") "," SAY("b")) TALK(ASK("a") "," SAY("b")) "{\"messages\": [", 0, 0, ":3:");
    fw_dataset *d;
    assert_int_equal(load(&d, f, TALK(ASK("a") "," SAY("b")), -1, 0, NULL), FW_ERR_OPTION);
}

/* The same tokens and hash on any number of threads; the first error of the file is the one that is told. */
static void test_threads(void **state) {
    fixture *f = *state;
    fw_strbuf text = {0};
    for (int i = 0; i < 57; i++) {
        assert_int_equal(
            fw_strbuf_printf(&text, TALK(ASK("How much is %d times %d?") "," SAY("It is %d.")), i, i + 3, i * (i + 3)),
            FW_OK);
        if (i % 9 == 4) assert_int_equal(fw_strbuf_puts(&text, TALK(ASK("silence"))), FW_OK);
    }
    fw_dataset *one, *many;
    assert_int_equal(load(&one, f, text.data, 60, 0, NULL), FW_OK);
    for (int thread_n = 2; thread_n <= 100; thread_n *= 3) {
        fw_threads *threads;
        assert_int_equal(fw_threads_create(&threads, thread_n, NULL), FW_OK);
        assert_int_equal(load(&many, f, text.data, 60, 0, threads), FW_OK);
        assert_int_equal(many->hash, one->hash);
        assert_int_equal(many->sample_n, one->sample_n);
        assert_memory_equal(many->id, one->id, (size_t)one->stats.token_n * sizeof *one->id);
        assert_memory_equal(many->trained, one->trained, (size_t)one->stats.token_n);
        assert_memory_equal(many->sample, one->sample, (size_t)one->sample_n * sizeof *one->sample);
        assert_memory_equal(&many->stats, &one->stats, sizeof one->stats);
        fw_dataset_destroy(many);
        fw_threads_destroy(threads);
    }
    /* another cut is another hash */
    assert_int_equal(load(&many, f, text.data, 59, 0, NULL), FW_OK);
    assert_true(many->hash != one->hash);
    fw_dataset_destroy(many);
    fw_dataset_destroy(one);
    assert_int_equal(fw_strbuf_puts(&text, TALK("{\"role\":\"bard\",\"content\":\"\"}") "{\n{\n"), FW_OK);
    fw_threads *threads;
    assert_int_equal(fw_threads_create(&threads, 4, NULL), FW_OK);
    assert_int_equal(load(&many, f, text.data, 60, 0, threads), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "unknown role \"bard\""));
    fw_threads_destroy(threads);
    fw_strbuf_fini(&text);
}

static void test_allocations(void **state) {
    fixture *f = *state;
    fw_dataset *d = NULL;
    const char *text = TALK(ASK("a") "," SAY("b")) TALK(ASK("c") "," SAY("d"));
    assert_int_equal(load(&d, f, text, 0, 0, NULL), FW_OK);
    fw_dataset_destroy(d);
    const fw_dataset_options options = {0};
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_alloc_fail_at(n);
        status = fw_dataset_load(&d, f->path, f->tokenizer, &f->chat, &options);
        fw_alloc_fail_at(0);
        if (status == FW_OK)
            fw_dataset_destroy(d);
        else
            assert_int_equal(status, FW_ERR_NOMEM);
        assert_true(n < 10000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),  cmocka_unit_test(test_all_tokens), cmocka_unit_test(test_counts),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_threads),    cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
