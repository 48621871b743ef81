/* Measured collectives between real ranks: right results count as right in every way and at every size, and each element
 * that is not what it must be is counted. */
#include "measure/collective.h"
#include "measure/gemm.h"
#include "measure/memory.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct seen {
    int row_n, way_n;
    int64_t wrong_n, last_bytes;
} seen;

static void see_timing(seen *s, const fw_collective_timing *t) {
    if (!t->done) return;
    s->way_n += t->seconds > 0;
    s->wrong_n += t->wrong_n; /* -1 where nothing was compared */
}

static void see(void *context, const fw_collective_row *row) {
    seen *s = context;
    s->row_n++;
    s->last_bytes = row->shape.bytes;
    see_timing(s, &row->out_of_place);
    see_timing(s, &row->in_place);
}

static int measure(fw_comm *c, fw_collective_bench *b, seen *s) {
    *s = (seen){0};
    FW_RANK_CHECK(fw_collective_measure(b, see, s) == FW_OK);
    return 0;
}

static fw_status prepare(fw_comm *c, fw_device **device, fw_collective_bench *b) {
    *b = (fw_collective_bench){.comm = c,
                               .iter_n = 2,
                               .warmup_n = 1,
                               .check = true,
                               .sweep = {.min_bytes = 8, .max_bytes = 1 << 17, .factor = 4}};
    FW_TRY(fw_device_create(device, "ref", NULL));
    b->device = *device;
    return fw_collective_take_buffers(b);
}

static int right_results(fw_comm *c, void *context) {
    (void)context;
    fw_device *device;
    fw_collective_bench b;
    const int world = fw_comm_world(c);
    FW_RANK_CHECK(prepare(c, &device, &b) == FW_OK);
    for (int what = FW_MEASURED_ALL_REDUCE; what <= FW_MEASURED_ALL_TO_ALL; what++)
        for (int half = 0; half < 2; half++) {
            seen s;
            b.what = (fw_measured_what)what;
            b.dtype = half ? FW_BF16 : FW_F32;
            b.root = world - 1;
            int bad = measure(c, &b, &s);
            if (bad != 0) return bad;
            const bool parts = what != FW_MEASURED_ALL_REDUCE && what != FW_MEASURED_BROADCAST;
            /* 8, 32, 128 ... 131072: what is smaller than 16 bytes a rank cannot be cut into parts */
            const int row_n = !parts ? 8 : world <= 2 ? 7 : 6;
            FW_RANK_CHECK(s.row_n == row_n);
            FW_RANK_CHECK(s.way_n == (what == FW_MEASURED_ALL_TO_ALL ? 1 : 2) * row_n);
            FW_RANK_CHECK(s.wrong_n == 0);
            FW_RANK_CHECK(s.last_bytes <= 1 << 17 && s.last_bytes > (1 << 17) - 16 * world);
        }
    seen s;
    b.check = false;
    FW_RANK_CHECK(measure(c, &b, &s) == 0 && s.wrong_n == -s.way_n);
    fw_device_destroy(device);
    return 0;
}

/* The last element of rank 1's result, each time; the smallest size has one of two bytes. */
static void spoil(int rank, void *result, size_t bytes) {
    if (rank == 1) ((unsigned char *)result)[bytes - 1] ^= 0x40;
}

static int wrong_results(fw_comm *c, void *context) {
    (void)context;
    fw_device *device;
    fw_collective_bench b;
    FW_RANK_CHECK(prepare(c, &device, &b) == FW_OK);
    b.tamper = spoil;
    for (int what = FW_MEASURED_ALL_REDUCE; what <= FW_MEASURED_ALL_TO_ALL; what++) {
        seen s;
        b.what = (fw_measured_what)what;
        FW_RANK_CHECK(measure(c, &b, &s) == 0);
        FW_RANK_CHECK(s.way_n > 0 && s.wrong_n == s.way_n); /* one element, on every rank's account */
    }
    fw_device_destroy(device);
    return 0;
}

/* A collective that leaves nothing behind. */
static void forget(int rank, void *result, size_t bytes) {
    (void)rank;
    memset(result, 0, bytes);
}

static int missing_results(fw_comm *c, void *context) {
    (void)context;
    fw_device *device;
    fw_collective_bench b;
    FW_RANK_CHECK(prepare(c, &device, &b) == FW_OK);
    b.tamper = forget;
    b.what = FW_MEASURED_ALL_GATHER;
    seen s;
    FW_RANK_CHECK(measure(c, &b, &s) == 0);
    FW_RANK_CHECK(s.wrong_n > 1000); /* nearly all: a few values are zero */
    fw_device_destroy(device);
    return 0;
}

static bool stop_at_once(void) { return true; }
static bool never(void) { return false; }

static int interrupted(fw_comm *c, void *context) {
    (void)context;
    fw_device *device;
    fw_collective_bench b;
    seen s = {0};
    FW_RANK_CHECK(prepare(c, &device, &b) == FW_OK);
    b.stop = fw_comm_rank(c) == 1 ? stop_at_once : never; /* one rank alone got the signal */
    FW_RANK_CHECK(fw_collective_measure(&b, see, &s) == FW_ERR_INTERRUPTED && s.row_n == 0);
    FW_RANK_CHECK(fw_gemm_measure(c, device, 1 << 20, b.stop, NULL, NULL) == FW_ERR_INTERRUPTED);
    FW_RANK_CHECK(fw_memory_measure(c, device, b.stop, NULL, NULL) == FW_ERR_INTERRUPTED);
    fw_device_destroy(device);
    return 0;
}

static void results_that_are_right(void **state) {
    (void)state;
    for (int world = 2; world <= 4; world++) assert_int_equal(fw_test_world(world, right_results, NULL), 0);
}

static void results_that_are_wrong(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(2, wrong_results, NULL), 0);
    assert_int_equal(fw_test_world(3, missing_results, NULL), 0);
}

static void a_signal_to_one_rank(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(2, interrupted, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_that_are_right),
        cmocka_unit_test(results_that_are_wrong),
        cmocka_unit_test(a_signal_to_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
