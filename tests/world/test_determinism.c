/* The same bits whatever the order of arrival: ranks come late by random times, in every size of world, small, in place
 * and staged; and every collective among 64 ranks. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/rng.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

enum { ROUND_N = 12, MOST_N = 200 * 1000 };

/* Of each rank, for the test to compare. */
static uint64_t *sums;

static float value_of(int rank, int64_t i) {
    uint64_t bits = fw_rng_bits(11, (uint64_t)rank, (uint64_t)i);
    return (float)((double)(bits >> 32) - 2147483648.0) * (bits % 3 ? 1e-10f : 1e-5f);
}

static void nap(uint64_t *seed) {
    *seed = fw_rng_bits(*seed, 1, 2);
    if (*seed % 3 == 0) return;
    nanosleep(&(struct timespec){.tv_nsec = (long)(*seed / 3 % 3000000)}, NULL);
}

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return hash;
}

static void fill(void *x, int me, int64_t n, fw_dtype dtype) {
    for (int64_t i = 0; i < n; i++)
        if (dtype == FW_F32)
            ((float *)x)[i] = value_of(me, i);
        else
            ((fw_bf16 *)x)[i] = fw_bf16_from_f32(value_of(me, i));
}

static float as_stored(float value, fw_dtype dtype) {
    return dtype == FW_F32 ? value : fw_bf16_to_f32(fw_bf16_from_f32(value));
}

static int late_rank(fw_comm *c, void *context) {
    static const int64_t sizes[] = {1, 100, 5000, MOST_N / 2};
    const int me = fw_comm_rank(c), world = fw_comm_world(c);
    uint64_t seed = fw_host_now_ns() ^ ((uint64_t)me << 50), hash = 0xcbf29ce484222325u;
    char *shared, *private;
    (void)context;
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&shared, MOST_N * 4, "x") == FW_OK);
    FW_RANK_CHECK(fw_calloc((void **)&private, MOST_N, 4) == FW_OK);
    for (int round = 0; round < ROUND_N; round++) {
        char *x = round & 1 ? private : shared;
        fw_dtype dtype = round & 2 ? FW_BF16 : FW_F32;
        int64_t n = sizes[round % 4] * world, part_n = sizes[round % 4];
        size_t size = fw_dtype_bytes(dtype);
        if (n > MOST_N) n = MOST_N / world * world, part_n = n / world;
        void *part = x + (size_t)(me * part_n) * size;
        fw_comm_request a = {0}, b = {0}, d = {0};
        fill(x, me, n, dtype);
        nap(&seed);
        if (round % 3 == 0) {
            FW_RANK_CHECK(fw_comm_all_reduce(c, x, n, dtype, &a) == FW_OK);
        } else { /* the same sums, in two steps */
            FW_RANK_CHECK(fw_comm_reduce_scatter(c, part, x, n, dtype, &a) == FW_OK);
            nap(&seed);
            FW_RANK_CHECK(fw_comm_all_gather(c, x, part, n, dtype, &b) == FW_OK);
        }
        FW_RANK_CHECK(fw_comm_broadcast(c, x, (size_t)n * size, round % world, &d) == FW_OK);
        nap(&seed);
        FW_RANK_CHECK(fw_comm_wait(c, &d) == FW_OK);
        hash = mix(hash, x, (size_t)n * size);
        for (int64_t i = 0; i < n; i += 1 + n / 500) {
            float sum = as_stored(value_of(0, i), dtype), got;
            for (int r = 1; r < world; r++) sum += as_stored(value_of(r, i), dtype);
            sum = as_stored(sum, dtype);
            got = dtype == FW_F32 ? ((float *)x)[i] : fw_bf16_to_f32(((fw_bf16 *)x)[i]);
            FW_RANK_CHECK(memcmp(&sum, &got, sizeof sum) == 0);
        }
    }
    sums[me] = hash;
    fw_free(private);
    return 0;
}

static void the_order_of_arrival_does_not_matter(void **state) {
    (void)state;
    static const int worlds[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < 5; i++) {
        uint64_t first = 0;
        for (int again = 0; again < 3; again++) {
            memset(sums, 0, FW_COMM_MAX_WORLD * sizeof *sums);
            assert_int_equal(fw_test_world(worlds[i], late_rank, NULL), 0);
            if (again == 0) first = sums[0];
            assert_true(first != 0);
            for (int r = 0; r < worlds[i]; r++) assert_true(sums[r] == first); /* every rank, every run */
        }
    }
}

static int one_of_many(fw_comm *c, void *context) {
    enum { PART_N = 40, N = PART_N * FW_COMM_MAX_WORLD, BIG_N = 64 * 1100 };
    const int me = fw_comm_rank(c), world = fw_comm_world(c);
    static float private[BIG_N];
    float *shared;
    (void)context;
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&shared, BIG_N * sizeof *shared, "x") == FW_OK);
    for (int way = 0; way < 4; way++) { /* small enough for a slot, and not */
        float *x = way & 1 ? private : shared;
        const int64_t n = way & 2 ? BIG_N : N, part_n = n / world;
        fw_comm_request request = {.label = "many"};
        for (int64_t i = 0; i < n; i++) x[i] = (float)(me + i % 7);
        FW_RANK_CHECK(fw_comm_all_reduce(c, x, n, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
        for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(x[i] == (float)(world * (world - 1) / 2 + world * (i % 7)));
        FW_RANK_CHECK(fw_comm_reduce_scatter(c, x + me * part_n, x, n, FW_F32, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_all_gather(c, x, x + me * part_n, n, FW_F32, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
        for (int64_t i = 0; i < n; i++)
            FW_RANK_CHECK(x[i] == (float)world * (float)(world * (world - 1) / 2 + world * (i % 7)));
        for (int64_t i = 0; i < n; i++) x[i] = (float)me;
        FW_RANK_CHECK(fw_comm_broadcast(c, x, (size_t)n * 4, world - 1 - way, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK && fw_comm_barrier(c) == FW_OK);
        for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(x[i] == (float)(world - 1 - way));
    }
    fw_comm *shard, *replica; /* 8 groups of 8, both ways */
    fw_comm_request down = {0}, across = {0};
    float one[8] = {(float)me, 1, 1, 1, 1, 1, 1, 1};
    FW_RANK_CHECK(fw_comm_group(&shard, c, me / 8 * 8, 1, 8) == FW_OK);
    FW_RANK_CHECK(fw_comm_group(&replica, c, me % 8, 8, 8) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_reduce(shard, one, 8, FW_F32, &down) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_reduce(replica, one, 8, FW_F32, &across) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(replica, &across) == FW_OK && one[0] == 64 * 63 / 2 && one[7] == 64);
    fw_comm_destroy(replica);
    fw_comm_destroy(shard);
    return 0;
}

static void sixty_four_ranks(void **state) {
    (void)state;
    assert_int_equal(fw_test_world_run(FW_COMM_MAX_WORLD, one_of_many, NULL, NULL, 240, NULL), 0);
}

int main(void) {
    sums = mmap(NULL, FW_COMM_MAX_WORLD * sizeof *sums, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sums == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_arrival_does_not_matter),
        cmocka_unit_test(sixty_four_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
