/* spill: what goes out comes back, by every way there is; failures of single reads and writes, full disks, and that nothing
 * is left in the folder. */
#include "base/alloc.h"
#include "base/file.h"
#include "spill/spill.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

static void expect_empty_folder(void) {
    char **names;
    size_t n;
    assert_int_equal(fw_dir_list(&names, &n, dir), FW_OK);
    assert_int_equal(n, 0);
    fw_dir_list_free(names, n);
}

static fw_spill *open_spill(uint64_t bytes, int way) {
    fw_spill *s;
    const fw_spill_options o = {.folder = dir, .bytes = bytes, .no_ring = (way & 1) != 0, .no_direct = (way & 2) != 0};
    assert_int_equal(fw_spill_create(&s, &o), FW_OK);
    return s;
}

/* Bytes that say where they belong. */
static void fill(char *memory, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) memory[i] = (char)((i * 2654435761u + seed * 40503u + (i >> 12)) >> 7);
}

static void expect_filled(const char *memory, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != (char)((i * 2654435761u + seed * 40503u + (i >> 12)) >> 7)) fail_msg("byte %zu differs", i);
}

/* Ranges of odd lengths at odd addresses, all on their way at once, in all four ways; what lies around them is not touched. */
static void test_there_and_back(void **state) {
    (void)state;
    static const size_t sizes[] = {1,
                                   4095,
                                   4096,
                                   4097,
                                   FW_SPILL_PIECE_BYTES - 1,
                                   FW_SPILL_PIECE_BYTES,
                                   3 * FW_SPILL_PIECE_BYTES + 12345,
                                   12 * FW_SPILL_PIECE_BYTES + 8192};
    enum { RANGES = sizeof sizes / sizeof *sizes, GUARD = 64 };
    for (int way = 0; way < 4; way++) {
        uint64_t at[RANGES], bytes = 0;
        char *memory[RANGES];
        fw_spill_move move[RANGES] = {0};
        for (int i = 0; i < RANGES; i++) {
            at[i] = bytes;
            bytes += fw_spill_round(sizes[i]);
            /* every other one where direct I/O takes it as it is */
            void *block = NULL;
            assert_int_equal(posix_memalign(&block, 4096, sizes[i] + 8192), 0);
            memory[i] = (char *)block + (i % 2 == 0 ? 4096 : GUARD + 4);
            memset(block, 0x55, sizes[i] + 8192);
        }
        fw_spill *s = open_spill(bytes, way);
        assert_non_null(strstr(fw_spill_way(s), way & 1 ? "threads" : ""));
        assert_non_null(strstr(fw_spill_way(s), way & 2 ? "page cache" : ""));
        for (unsigned round = 0; round < 3; round++) {
            for (int i = 0; i < RANGES; i++) {
                fill(memory[i], sizes[i], round * 100 + (unsigned)i);
                assert_int_equal(fw_spill_write(s, &move[i], memory[i], at[i], sizes[i]), FW_OK);
            }
            for (int i = 0; i < RANGES; i++) {
                assert_int_equal(fw_spill_wait(s, &move[i]), FW_OK);
                memset(memory[i], 0, sizes[i]);
            }
            for (int i = RANGES - 1; i >= 0; i--)
                assert_int_equal(fw_spill_read(s, &move[i], memory[i], at[i], sizes[i]), FW_OK);
            for (int i = 0; i < RANGES; i++) {
                assert_int_equal(fw_spill_wait(s, &move[i]), FW_OK);
                expect_filled(memory[i], sizes[i], round * 100 + (unsigned)i);
                assert_int_equal(memory[i][-1], 0x55);
                assert_int_equal(memory[i][sizes[i]], 0x55);
            }
        }
        fw_spill_counters c;
        fw_spill_get_counters(s, &c);
        assert_int_equal(c.read_bytes, 3 * bytes);
        assert_int_equal(c.written_bytes, 3 * bytes);
        expect_empty_folder();
        fw_spill_destroy(s);
        for (int i = 0; i < RANGES; i++) free(memory[i] - (i % 2 == 0 ? 4096 : GUARD + 4));
    }
    expect_empty_folder();
}

/* More ranges than the queue holds. */
static void test_long_queue(void **state) {
    (void)state;
    enum { N = 500, BYTES = 8192 };
    static char memory[N][BYTES];
    static fw_spill_move move[N];
    fw_spill *s = open_spill(N * BYTES, 0);
    for (int i = 0; i < N; i++) {
        fill(memory[i], BYTES, (unsigned)i);
        assert_int_equal(fw_spill_write(s, &move[i], memory[i], (uint64_t)i * BYTES, BYTES), FW_OK);
    }
    for (int i = 0; i < N; i++) assert_int_equal(fw_spill_wait(s, &move[i]), FW_OK);
    memset(memory, 0, sizeof memory);
    for (int i = 0; i < N; i++)
        assert_int_equal(fw_spill_read(s, &move[i], memory[i], (uint64_t)i * BYTES, BYTES), FW_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(fw_spill_wait(s, &move[i]), FW_OK);
        expect_filled(memory[i], BYTES, (unsigned)i);
    }
    fw_spill_destroy(s);
}

/* The n-th piece fails: everything asked for ends, with one message that says what and where, and so does all that comes
 * after. */
static void test_faults(void **state) {
    (void)state;
    enum { PIECES = 5 };
    const size_t bytes = PIECES * FW_SPILL_PIECE_BYTES;
    char *memory = calloc(1, bytes);
    assert_non_null(memory);
    for (int way = 0; way < 4; way++)
        for (uint64_t n = 1; n <= PIECES + 1; n++)
            for (int writes = 0; writes < 2; writes++) {
                fw_spill *s = open_spill(bytes, way);
                fw_spill_move move = {0};
                assert_int_equal(fw_spill_write(s, &move, memory, 0, bytes), FW_OK);
                assert_int_equal(fw_spill_wait(s, &move), FW_OK);
                (writes ? fw_spill_fail_write_at : fw_spill_fail_read_at)(n);
                fw_status asked =
                    writes ? fw_spill_write(s, &move, memory, 0, bytes) : fw_spill_read(s, &move, memory, 0, bytes);
                assert_int_equal(asked, FW_OK);
                const fw_status status = fw_spill_wait(s, &move);
                assert_int_equal(status, n <= PIECES ? FW_ERR_IO : FW_OK);
                if (n <= PIECES) {
                    assert_non_null(strstr(fw_trail_message(), writes ? "could not write offloaded state to"
                                                                      : "could not read offloaded state from"));
                    assert_non_null(strstr(fw_trail_message(), dir));
                    if (writes) assert_non_null(strstr(fw_trail_message(), "--offload_dir"));
                    assert_int_equal(fw_spill_read(s, &move, memory, 0, bytes), FW_ERR_IO);
                    assert_int_equal(fw_spill_wait(s, &move), FW_ERR_IO);
                }
                (writes ? fw_spill_fail_write_at : fw_spill_fail_read_at)(0);
                fw_spill_destroy(s);
            }
    free(memory);
    expect_empty_folder();
}

static void test_no_room(void **state) {
    (void)state;
    fw_spill *s;
    const fw_spill_options o = {.folder = dir, .bytes = (uint64_t)1 << 55};
    assert_int_equal(fw_spill_create(&s, &o), FW_ERR_IO);
    assert_null(s);
    assert_non_null(strstr(fw_trail_message(), "GiB free; name another folder with --offload_dir"));
    expect_empty_folder();
    char path[FW_TEST_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(fw_file_write(path, "x", 1), FW_OK);
    const fw_spill_options in_file = {.folder = path, .bytes = 4096};
    assert_int_equal(fw_spill_create(&s, &in_file), FW_ERR_IO);
    assert_int_equal(unlink(path), 0);
}

static void test_no_memory(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        fw_spill *s;
        fw_alloc_fail_at(n);
        const fw_spill_options o = {.folder = dir, .bytes = 1 << 20};
        const fw_status status = fw_spill_create(&s, &o);
        const bool failed = fw_alloc_count() >= n;
        fw_alloc_fail_at(0);
        if (!failed) {
            assert_int_equal(status, FW_OK);
            fw_spill_destroy(s);
            break;
        }
        assert_int_equal(status, FW_ERR_NOMEM);
        assert_null(s);
    }
    expect_empty_folder();
}

/* A process that is killed in the midst of writing leaves nothing. */
static void test_killed(void **state) {
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static char memory[4 * FW_SPILL_PIECE_BYTES];
        fw_spill *s;
        fw_spill_move move = {0};
        const fw_spill_options o = {.folder = dir, .bytes = sizeof memory};
        if (fw_spill_create(&s, &o) != FW_OK) _exit(1);
        if (fw_spill_write(s, &move, memory, 0, sizeof memory) != FW_OK) _exit(1);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    close(ready[0]);
    close(ready[1]);
    expect_empty_folder();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_long_queue), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_no_room),        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
