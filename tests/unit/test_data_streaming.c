/* data: a set larger than the memory that the process may take is tokenised into the cache and read from it. */
#include "base/file.h"
#include "data/batcher.h"
#include "data/cache.h"
#include "support/sanitized.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tokens are TOKENS_MIN x 5 bytes; private memory (heap, stacks, anonymous maps: RLIMIT_DATA) may grow by GROWTH_BYTES
 * from the start of the load to the last batch. Mapped files do not count to it, and may go whenever memory is scarce. */
enum { ROW_N = 60000, TOKENS_MIN = 14000000, GROWTH_BYTES = 44 << 20 };

static fw_status write_rows(const char *path) {
    fw_file_writer w = {0};
    fw_status status;
    fw_strbuf row = {0};
    FW_TRY_OR(fw_file_writer_open(&w, path), done);
    for (int i = 0; i < ROW_N; i++) {
        fw_strbuf_clear(&row);
        FW_TRY_OR(fw_strbuf_puts(&row, "{\"messages\":[{\"role\":\"user\",\"content\":\""), done);
        for (int k = 0; k < 24; k++)
            FW_TRY_OR(fw_strbuf_printf(&row, "%08x.", (unsigned)i * 2654435761u + (unsigned)k * 40503u), done);
        FW_TRY_OR(fw_strbuf_puts(&row, "\"},{\"role\":\"assistant\",\"content\":\"yes\"}]}\n"), done);
        FW_TRY_OR(fw_file_writer_write(&w, row.data, row.len_bytes), done);
    }
    FW_TRY_OR(fw_file_writer_commit(&w), done);
done:
    fw_strbuf_fini(&row);
    fw_file_writer_close(&w);
    return status;
}

/* Private memory in use: field VmData of /proc/self/status, which RLIMIT_DATA bounds. */
static size_t data_bytes(void) {
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f))
        if (sscanf(line, "VmData: %zu", &kib) == 1) break;
    if (f != NULL) fclose(f);
    return kib * 1024;
}

static fw_status load_and_read(const char *folder, const char *data, int expect_from_cache) {
    fw_tokenizer *tokenizer;
    fw_chat_template chat;
    fw_sources sources;
    fw_dataset *d;
    fw_batcher *b;
    fw_batch batch;
    char cache_dir[64];
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", folder);
    FW_TRY(fw_tokenizer_load(&tokenizer, folder));
    FW_TRY(fw_chat_template_load(&chat, folder));
    FW_TRY(fw_sources_find(&sources, data));
    const fw_cache_options cache = {.dir = cache_dir, .limit_bytes = 1ll << 40, .model_dir = folder};
    const fw_dataset_options options = {0};
    const struct rlimit limit = {data_bytes() + GROWTH_BYTES, data_bytes() + GROWTH_BYTES};
    if (setrlimit(RLIMIT_DATA, &limit) != 0) return fw_fail(FW_ERR_INTERNAL, "no limit");
    FW_TRY(fw_dataset_load_cached(&d, &sources, tokenizer, &chat, &options, &cache));
    if (d->stats.token_n < TOKENS_MIN || d->sample_n != ROW_N || d->from_cache != expect_from_cache)
        return fw_fail(FW_ERR_INTERNAL, "%lld tokens", (long long)d->stats.token_n);
    const fw_batcher_options order = {.micro = 8, .accumulation = 4, .world = 1, .shuffle = 1, .data_seed = 1};
    FW_TRY(fw_batcher_create(&b, d, &order));
    FW_TRY(fw_batch_init(&batch, fw_batcher_max_tokens(b)));
    int64_t token_n = 0;
    for (int64_t step = 0; step < fw_batcher_steps_per_epoch(b); step++)
        for (int64_t a = 0; a < fw_batcher_micro_steps(b, step); a++) {
            FW_TRY(fw_batcher_fill(b, 0, step, a, 0, &batch));
            token_n += batch.n;
        }
    return token_n == d->stats.token_n ? FW_OK : fw_fail(FW_ERR_INTERNAL, "%lld tokens read", (long long)token_n);
}

static void test_larger_than_memory(void **state) {
    (void)state;
    char folder[] = "/tmp/fw-stream-XXXXXX", data[64];
    assert_non_null(mkdtemp(folder));
    snprintf(data, sizeof data, "%s/talk.jsonl", folder);
    assert_int_equal(fw_test_write_tokenizer(folder, FW_TEST_SMOLLM2), FW_OK);
    assert_int_equal(write_rows(data), FW_OK);
    for (int round = 0; round < 2; round++) { /* tokenised; then found */
        pid_t child = fork();
        if (child == 0) {
            fw_status status = load_and_read(folder, data, round);
            if (status != FW_OK) fprintf(stderr, "%s\n", fw_trail_message());
            _exit(status);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    fw_dir_remove(folder);
}

int main(void) {
    if (FW_TEST_SANITIZED) {
        printf("skipped: a sanitizer takes memory of its own\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_larger_than_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
