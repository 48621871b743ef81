/* Tensors of more than a block: every block that is touched is checked, and no other; by any number of threads. */
#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint_blocks.h"
#include "store/manifest.h"
#include "support/checkpoint_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { BLOCK_N = FW_CHECKPOINT_CHUNK_N, PLACE_N = 2 };

static fw_param_table table;
static char out[FW_TEST_PATH_BYTES], one[FW_TEST_PATH_BYTES];

/* Element i of an array is a number that is found nowhere else. */
static float value_of(fw_checkpoint_array array, const fw_param *p, int64_t i) {
    return (float)(table.unit_offset_n[p->unit] + p->offset_n + i) + 0.25f * (float)array;
}

static fw_status make(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                      void *values) {
    float *to = values;
    (void)context;
    for (int64_t i = 0; i < n; i++) to[i] = value_of(array, p, first_n + i);
    return FW_OK;
}

/* An embedding of 2.6 blocks, which two writers cut inside of a block. */
static int setup(void **state) {
    const fw_model_config c = {
        .architecture = FW_ARCH_LLAMA, .C = 64, .H = 2, .K = 1, .D = 32, .F = 96, .V = 10651, .L = 1, .tied = true};
    fw_test_checkpoint_setup(state);
    fw_test_must(fw_param_table_init(&table, &c));
    assert_true(table.param[0].n > 2 * BLOCK_N);
    fw_test_scratch_make(out);
    const fw_checkpoint_state at = {.step = 3, .world_size = PLACE_N, .strategy = "zero3"};
    fw_test_must(fw_checkpoint_save(NULL, out, fw_lab.source, &table, PLACE_N, make, NULL, &at));
    snprintf(one, sizeof one, "%s", fw_test_step_path(out, 3));
    return 0;
}

static int teardown(void **state) {
    fw_test_scratch_remove(out);
    fw_param_table_fini(&table);
    return fw_test_checkpoint_teardown(state);
}

static fw_status read_embedding(const fw_checkpoint_files *files, int64_t first_n, int64_t n, float *to) {
    const fw_param *p = &table.param[0];
    FW_TRY(fw_checkpoint_read(files, FW_CHECKPOINT_EXP_AVG, p->unit, p->offset_n + first_n, n, to));
    for (int64_t i = 0; i < n; i++) assert_true(to[i] == value_of(FW_CHECKPOINT_EXP_AVG, p, first_n + i));
    return FW_OK;
}

static void test_ranges(void **unused) {
    (void)unused;
    const int64_t all_n = table.param[0].n;
    const struct {
        int64_t first_n, n;
    } range[] = {{0, all_n},         {0, 1},         {all_n - 1, 1}, {BLOCK_N - 1, 2},
                 {BLOCK_N, BLOCK_N}, {1, all_n - 2}, {7, BLOCK_N},   {all_n / 2 - 3, 6}};
    float *to;
    fw_test_must(FW_NEW_ARRAY(to, (size_t)all_n));
    for (int thread_n = 0; thread_n < 4; thread_n++) { /* 0: no pool */
        fw_checkpoint_files files;
        fw_threads *threads = NULL;
        if (thread_n > 0) fw_test_must(fw_threads_create(&threads, thread_n, NULL));
        fw_test_must(fw_checkpoint_open(&files, one, &table, NULL));
        files.threads = threads;
        for (size_t i = 0; i < sizeof range / sizeof *range; i++)
            fw_test_must(read_embedding(&files, range[i].first_n, range[i].n, to));
        fw_checkpoint_close(&files);
        fw_threads_destroy(threads);
    }
    fw_free(to);
}

/* The piece of the embedding's moment that the first writer wrote: its file and where it begins there. */
static const fw_manifest_piece *first_piece(const fw_checkpoint_files *files, const char **path) {
    const fw_manifest_tensor *t = fw_manifest_find(files->index, "optimizer.state.model.embed_tokens.weight.exp_avg");
    assert_non_null(t);
    assert_true(t->piece_n >= PLACE_N && (uint64_t)t->piece[0].box.n * sizeof(float) > FW_CHECKPOINT_BLOCK_BYTES);
    *path = files->file[t->piece[0].file].path;
    return &t->piece[0];
}

static void test_damage_is_local(void **unused) {
    (void)unused;
    fw_checkpoint_files files;
    fw_threads *threads;
    float *to;
    const char *path;
    fw_test_must(FW_NEW_ARRAY(to, (size_t)table.param[0].n));
    fw_test_must(fw_threads_create(&threads, 3, NULL));
    fw_test_must(fw_checkpoint_open(&files, one, &table, NULL));
    files.threads = threads;
    const fw_manifest_piece *p = first_piece(&files, &path);
    const uint64_t places[] = {p->start_bytes, p->start_bytes + FW_CHECKPOINT_BLOCK_BYTES - 1,
                               p->start_bytes + FW_CHECKPOINT_BLOCK_BYTES,
                               p->start_bytes + (uint64_t)p->box.n * sizeof(float) - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const bool in_first = places[i] < p->start_bytes + FW_CHECKPOINT_BLOCK_BYTES;
        fw_test_flip_bit(path, places[i]);
        const fw_status sound = read_embedding(&files, in_first ? BLOCK_N : 0, 1, to); /* the other block */
        fw_test_must(sound);
        fw_test_expect(read_embedding(&files, in_first ? 0 : BLOCK_N, 1, to), FW_ERR_INPUT, path);
        fw_test_expect(read_embedding(&files, 0, table.param[0].n, to), FW_ERR_INPUT, "embed_tokens.weight.exp_avg");
        fw_test_expect(fw_checkpoint_verify_with(threads, one, FW_CHECKPOINT_ALL_BYTES), FW_ERR_INPUT, path);
        fw_test_must(fw_checkpoint_verify_with(threads, one, FW_CHECKPOINT_SMALL_FILES));
        fw_test_flip_bit(path, places[i]);
    }
    fw_test_must(fw_checkpoint_verify_with(threads, one, FW_CHECKPOINT_ALL_BYTES));
    fw_checkpoint_close(&files);
    fw_threads_destroy(threads);
    fw_free(to);
}

/* Put one text for another into the manifest and seal it again. */
static void change(fw_strbuf *text, const char *was, const char *is) {
    fw_strbuf next = {0};
    char *at = strstr(text->data, was);
    assert_non_null(at);
    fw_test_must(fw_strbuf_append(&next, text->data, (size_t)(at - text->data)));
    fw_test_must(fw_strbuf_puts(&next, is));
    fw_test_must(fw_strbuf_puts(&next, at + strlen(was)));
    fw_strbuf_fini(text);
    *text = next;
}

static void seal(fw_strbuf *text) {
    text->len_bytes = (size_t)(strstr(text->data, "\"manifest_xxh64\"") - text->data);
    fw_test_must(fw_manifest_seal(text));
}

/* Version 2 had one checksum a piece, and no block_bytes; nor does a wrong number of checksums pass. */
static void test_versions(void **unused) {
    (void)unused;
    const char *folder = fw_test_path(fw_lab.root, "version2");
    char path[FW_TEST_PATH_BYTES];
    fw_test_must(fw_test_save(folder, 1)); /* of a model whose tensors are less than a block: the same checksums */
    snprintf(path, sizeof path, "%s/manifest.json", fw_test_step_path(folder, 1));
    fw_strbuf text = {0};
    fw_test_must(fw_file_read(&text, path, 1 << 20));
    change(&text, "\"format_version\": 3", "\"format_version\": 2");
    change(&text, "  \"block_bytes\": 1048576,\n", "");
    seal(&text);
    fw_test_write(path, text.data, text.len_bytes);
    fw_test_must(fw_checkpoint_verify(fw_test_step_path(folder, 1), true));
    change(&text, "\"format_version\": 2", "\"format_version\": 3,\n  \"block_bytes\": 4096");
    seal(&text);
    fw_test_write(path, text.data, text.len_bytes);
    fw_test_expect(fw_checkpoint_verify(fw_test_step_path(folder, 1), true), FW_ERR_INPUT, "digits for each block");
    change(&text, "\"block_bytes\": 4096", "\"block_bytes\": 0");
    seal(&text);
    fw_test_write(path, text.data, text.len_bytes);
    fw_test_expect(fw_checkpoint_verify(fw_test_step_path(folder, 1), true), FW_ERR_INPUT, "block_bytes");
    fw_strbuf_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges), cmocka_unit_test(test_damage_is_local),
                                       cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
