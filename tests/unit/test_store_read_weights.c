/* Weights read by several threads into memory that holds anything, and the hash that says which weights they are. */
#include "base/alloc.h"
#include "store/model_folder.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One unit: "a" of 3 blocks and a bit, a gap, "b" of the size of "a", a gap, "c" of 7 elements. bf16. */
enum {
    LONG_ROWS = 1750,
    LONG_COLS = 1000,
    LONG_N = LONG_ROWS * LONG_COLS,
    SHORT_N = 7,
    GAP_N = 16,
    UNIT_N = 2 * (LONG_N + GAP_N) + SHORT_N + GAP_N,
    DATA_N = 2 * LONG_N + SHORT_N,
    LONG_BLOCKS = 4,
    BLOCK_N = 9,
};
static fw_param params[3] = {
    {.name = "a", .rows = LONG_ROWS, .cols = LONG_COLS, .n = LONG_N},
    {.name = "b", .rows = LONG_ROWS, .cols = LONG_COLS, .n = LONG_N, .offset_n = LONG_N + GAP_N},
    {.name = "c", .rows = SHORT_N, .n = SHORT_N, .offset_n = 2 * (LONG_N + GAP_N)},
};
static int64_t unit_size = UNIT_N, unit_offset = 0;
static int32_t unit_first[2] = {0, 3};
static const fw_param_table table = {params, 3, 1, &unit_size, &unit_offset, UNIT_N, DATA_N, unit_first};

static char dir[FW_TEST_PATH_BYTES];
static fw_bf16 *data;
static float *got;

static fw_bf16 stored(int64_t i) { return (fw_bf16)(0x3c00 + i % 1021); }

static void write_file(const char *name, const char *header) {
    static unsigned char file[8 + 400 + 2 * DATA_N];
    size_t header_bytes = strlen(header), data_bytes = 2 * DATA_N;
    memset(file, 0, 8);
    file[0] = (unsigned char)(header_bytes & 255);
    file[1] = (unsigned char)(header_bytes >> 8);
    memcpy(file + 8, header, header_bytes);
    memcpy(file + 8 + header_bytes, data, data_bytes);
    fw_test_write(fw_test_path(dir, name), file, 8 + header_bytes + data_bytes);
}

/* first, second: the names of the two long tensors in the order of the file; extra spaces move the data. */
static void write_model(const char *first, const char *second, const char *dtype, const char *spaces) {
    char header[400];
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
             "\"%s\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]},"
             "\"c\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}%s",
             first, dtype, LONG_ROWS, LONG_COLS, 2 * LONG_N, second, dtype, LONG_ROWS, LONG_COLS, 2 * LONG_N,
             4 * LONG_N, dtype, SHORT_N, 4 * LONG_N, 4 * LONG_N + 2 * SHORT_N, spaces);
    write_file("model.safetensors", header);
}

static void open_folder(fw_model_folder *folder, fw_threads *threads) {
    if (fw_model_folder_open(folder, dir) != FW_OK) fail_msg("%s", fw_trail_message());
    folder->threads = threads;
}

static uint64_t hash_now(void) {
    fw_model_folder folder;
    open_folder(&folder, NULL);
    assert_int_equal(fw_model_folder_blocks(&folder, &table), BLOCK_N);
    uint64_t hash = fw_model_folder_hash(&folder, &table, 0, BLOCK_N);
    fw_model_folder_close(&folder);
    return hash;
}

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    if (FW_NEW_ARRAY(data, DATA_N) != FW_OK || FW_NEW_ARRAY(got, UNIT_N + 2) != FW_OK) return 1;
    for (int64_t i = 0; i < DATA_N; i++) data[i] = stored(i);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    fw_free(data);
    fw_free(got);
    fw_test_scratch_remove(dir);
    return 0;
}

static float right(int64_t at) {
    for (int p = 0; p < 3; p++) {
        int64_t i = at - params[p].offset_n;
        if (i >= 0 && i < params[p].n) return fw_bf16_to_f32(stored(p * (int64_t)LONG_N + i));
    }
    return 0;
}

static void compare(int64_t first, int64_t n, int thread_n) {
    for (int64_t i = 0; i < n; i++)
        if (got[1 + i] != right(first + i))
            fail_msg("%d threads: element %lld is %g, not %g", thread_n, (long long)(first + i), (double)got[1 + i],
                     (double)right(first + i));
    assert_true(isnan(got[0]) && isnan(got[1 + n])); /* nothing beside it was written */
}

static void test_any_number_of_threads(void **state) {
    (void)state;
    write_model("a", "b", "BF16", " "); /* the data starts at an odd byte */
    static const int64_t ranges[][2] = {{0, UNIT_N}, {LONG_N - 5, LONG_N + 40}, {1, UNIT_N - 1}, {77, 77}};
    for (int thread_n = 1; thread_n <= 5; thread_n++) {
        fw_threads *threads;
        fw_model_folder folder;
        assert_int_equal(fw_threads_create(&threads, thread_n, NULL), FW_OK);
        open_folder(&folder, threads);
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            int64_t first = ranges[r][0], n = ranges[r][1] - first;
            for (int64_t i = 0; i < UNIT_N + 2; i++) got[i] = NAN;
            assert_int_equal(fw_model_folder_read(&folder, &table, 0, first, n, got + 1), FW_OK);
            compare(first, n, thread_n);
        }
        fw_model_folder_close(&folder);
        fw_threads_destroy(threads);
    }
}

/* Blocks in any parts and any order give the same sum; which of them was left out would be seen. */
static void test_hash_is_a_sum_of_parts(void **state) {
    (void)state;
    write_model("a", "b", "BF16", "");
    uint64_t whole = hash_now();
    fw_model_folder folder;
    open_folder(&folder, NULL);
    for (int part_n = 1; part_n <= BLOCK_N + 2; part_n++) {
        uint64_t sum = 0;
        for (int part = part_n - 1; part >= 0; part--)
            sum += fw_model_folder_hash(&folder, &table, BLOCK_N * part / part_n, BLOCK_N * (part + 1) / part_n);
        assert_true(sum == whole);
    }
    for (int block = 0; block < BLOCK_N; block++)
        assert_true(fw_model_folder_hash(&folder, &table, block, block + 1) != 0);
    assert_true(fw_model_folder_hash(&folder, &table, 3, 3) == 0);
    fw_model_folder_close(&folder);
}

/* The ends and the middle of every block. */
static void test_every_byte_counts(void **state) {
    (void)state;
    write_model("a", "b", "BF16", "");
    uint64_t whole = hash_now();
    const char *path = fw_test_path(dir, "model.safetensors");
    uint64_t start = fw_test_file_bytes(path) - 2 * DATA_N;
    for (int tensor = 0; tensor < 2; tensor++)
        for (int block = 0; block < LONG_BLOCKS; block++) {
            uint64_t at = start + (uint64_t)tensor * 2 * LONG_N + (uint64_t)block * FW_HASH_BLOCK_BYTES;
            uint64_t end = start + ((uint64_t)tensor + 1) * 2 * LONG_N;
            uint64_t last = at + FW_HASH_BLOCK_BYTES < end ? at + FW_HASH_BLOCK_BYTES - 1 : end - 1;
            for (int i = 0; i < 3; i++) {
                uint64_t byte = i == 0 ? at : i == 1 ? (at + last) / 2 : last;
                fw_test_flip_bit(path, byte);
                assert_true(hash_now() != whole);
                fw_test_flip_bit(path, byte);
            }
        }
    fw_test_flip_bit(path, start + 2 * DATA_N - 1); /* the last byte of the short one */
    assert_true(hash_now() != whole);
    fw_test_flip_bit(path, start + 2 * DATA_N - 1);
    assert_true(hash_now() == whole);
}

static void test_hash_is_of_what_it_should_be(void **state) {
    (void)state;
    write_model("a", "b", "BF16", "");
    uint64_t whole = hash_now();
    write_model("a", "b", "BF16", "     "); /* another header, the same tensors */
    assert_true(hash_now() == whole);
    write_model("b", "a", "BF16", ""); /* the numbers of a and b exchanged */
    assert_true(hash_now() != whole);
    write_model("a", "b", "F16", ""); /* the same bytes, other numbers */
    assert_true(hash_now() != whole);
    fw_bf16 kept = data[0]; /* two blocks of one tensor exchanged */
    enum { BLOCK_ELEMENTS = FW_HASH_BLOCK_BYTES / 2 };
    static fw_bf16 block[BLOCK_ELEMENTS];
    memcpy(block, data, sizeof block);
    memcpy(data, data + BLOCK_ELEMENTS, sizeof block);
    memcpy(data + BLOCK_ELEMENTS, block, sizeof block);
    assert_true(data[0] != kept);
    write_model("a", "b", "BF16", "");
    assert_true(hash_now() != whole);
    for (int64_t i = 0; i < DATA_N; i++) data[i] = stored(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_threads),
        cmocka_unit_test(test_hash_is_a_sum_of_parts),
        cmocka_unit_test(test_every_byte_counts),
        cmocka_unit_test(test_hash_is_of_what_it_should_be),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
