/* Every collective, in every kind of memory, against sums made in the same order by a plain loop: bit-equal on every
 * rank and in every run; and the counters against their formulas. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/rng.h"
#include "base/trace_event.h"
#include "comm/launcher.h"
#include "support/world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MAX_WORLD = 8, BIG_N = 270 * 1000 + 3 }; /* more than one staging buffer */

/* Values of very different sizes, so that another order of summation gives other bits. Made once, before the ranks. */
static float (*values)[BIG_N];

static int make_values(void **state) {
    (void)state;
    if (fw_calloc((void **)&values, MAX_WORLD, sizeof *values) != FW_OK) return 1;
    for (uint64_t r = 0; r < MAX_WORLD; r++)
        for (uint64_t i = 0; i < BIG_N; i++) {
            uint64_t bits = fw_rng_bits(1, r, i);
            values[r][i] = (float)ldexp((double)(bits >> 32) - 2147483648.0, (int)(bits % 24) - 43);
        }
    return 0;
}

static int drop_values(void **state) {
    (void)state;
    fw_free(values);
    return 0;
}

static float value_of(int rank, int64_t i) { return values[rank][i]; }

static void put(void *buffer, int64_t i, fw_dtype dtype, float value) {
    if (dtype == FW_F32)
        ((float *)buffer)[i] = value;
    else
        ((fw_bf16 *)buffer)[i] = fw_bf16_from_f32(value);
}

static float as_stored(float value, fw_dtype dtype) {
    return dtype == FW_F32 ? value : fw_bf16_to_f32(fw_bf16_from_f32(value));
}

static float get(const void *buffer, int64_t i, fw_dtype dtype) {
    return dtype == FW_F32 ? ((const float *)buffer)[i] : fw_bf16_to_f32(((const fw_bf16 *)buffer)[i]);
}

static float expected_sum(int world, int64_t i, fw_dtype dtype) {
    float sum = as_stored(value_of(0, i), dtype);
    for (int r = 1; r < world; r++) sum += as_stored(value_of(r, i), dtype);
    return as_stored(sum, dtype);
}

static int same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* One collective of each kind over n elements of `buffer` and `part` (n / world), which the caller owns. */
static int try_all_kinds(fw_comm *c, void *buffer, void *part, int64_t n, fw_dtype dtype, int in_place) {
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    const int64_t even_n = n / world * world, part_n = even_n / world;
    fw_comm_request request = {0};
    void *own_part = (char *)buffer + (size_t)(me * part_n) * fw_dtype_bytes(dtype);

    for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, value_of(me, i));
    FW_RANK_CHECK(fw_comm_all_reduce(c, buffer, n, dtype, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(same_bits(get(buffer, i, dtype), expected_sum(world, i, dtype)));

    for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, value_of(me, i));
    void *out = in_place ? own_part : part;
    FW_RANK_CHECK(fw_comm_reduce_scatter(c, out, buffer, even_n, dtype, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    for (int64_t i = 0; i < part_n; i++)
        FW_RANK_CHECK(same_bits(get(out, i, dtype), expected_sum(world, me * part_n + i, dtype)));
    for (int64_t i = 0; i < n; i++) /* all else is untouched */
        if (!in_place || i < me * part_n || i >= (me + 1) * part_n)
            FW_RANK_CHECK(same_bits(get(buffer, i, dtype), as_stored(value_of(me, i), dtype)));

    for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, -1);
    for (int64_t i = 0; i < part_n; i++) put(out, i, dtype, value_of(me, i));
    FW_RANK_CHECK(fw_comm_all_gather(c, buffer, out, even_n, dtype, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    for (int r = 0; r < world; r++)
        for (int64_t i = 0; i < part_n; i++)
            FW_RANK_CHECK(same_bits(get(buffer, r * part_n + i, dtype), as_stored(value_of(r, i), dtype)));
    for (int64_t i = even_n; i < n; i++) FW_RANK_CHECK(get(buffer, i, dtype) == -1);

    char *transposed; /* apart from buffer: beside it in shared memory, or private */
    FW_RANK_CHECK(FW_NEW_ARRAY(transposed, (size_t)n * 4 + 1) == FW_OK);
    for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, value_of(me, i));
    FW_RANK_CHECK(fw_comm_all_to_all(c, transposed, buffer, even_n, dtype, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    for (int r = 0; r < world; r++)
        for (int64_t i = 0; i < part_n; i++)
            FW_RANK_CHECK(
                same_bits(get(transposed, r * part_n + i, dtype), as_stored(value_of(r, me * part_n + i), dtype)));
    for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(same_bits(get(buffer, i, dtype), as_stored(value_of(me, i), dtype)));
    fw_free(transposed);

    for (int root = n == BIG_N ? world - 1 : 0; root < world; root++) {
        for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, me == root ? value_of(root, i) : 0);
        FW_RANK_CHECK(fw_comm_broadcast(c, buffer, (size_t)n * fw_dtype_bytes(dtype), root, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
        for (int64_t i = 0; i < n; i++)
            FW_RANK_CHECK(same_bits(get(buffer, i, dtype), as_stored(value_of(root, i), dtype)));
    }
    return 0;
}

static int all_kinds(fw_comm *c, void *context) {
    static const int64_t sizes[] = {0, 1, 2, 3, 15, 17, 64, 1000, 4097, BIG_N};
    (void)context;
    char *shared, *private;
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&shared, (BIG_N + 64) * 4, "a test buffer") == FW_OK);
    FW_RANK_CHECK((uintptr_t)shared % 64 == 0);
    for (int64_t i = 0; i < BIG_N * 4; i++) FW_RANK_CHECK(shared[i] == 0);
    FW_RANK_CHECK(FW_NEW_ARRAY(private, (BIG_N + 64) * 4) == FW_OK);
    void *part;
    FW_RANK_CHECK(fw_calloc(&part, BIG_N, 4) == FW_OK);
    int result = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes && result == 0; k++)
        for (int way = 0; way < 8 && result == 0; way++) {
            fw_dtype dtype = way & 1 ? FW_BF16 : FW_F32;
            if (sizes[k] == BIG_N && way != 0 && way != 1 && (way != 6 || fw_comm_world(c) > 3)) continue; /* quick */
            char *buffer = way & 2 ? shared + 8 : private;
            result = try_all_kinds(c, buffer, part, sizes[k], dtype, way & 4);
        }
    /* one rank alone with private memory: all take the way round */
    if (result == 0) result = try_all_kinds(c, fw_comm_rank(c) == 0 ? private : shared, part, 1000, FW_F32, 0);
    fw_free(part);
    fw_free(private);
    return result;
}

static int counters(fw_comm *c, void *context) {
    (void)context;
    const uint64_t w = (uint64_t)fw_comm_world(c);
    float *x;
    fw_comm_request request[5] = {0};
    fw_comm_counters n;
    const int64_t elements = 60 * 1000; /* 60 divides by 1..5 */
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, (size_t)elements * 4, "x") == FW_OK);
    for (int i = 0; i < 3; i++) FW_RANK_CHECK(fw_comm_all_reduce(c, x, elements, FW_F32, &request[0]) == FW_OK);
    fw_bf16 *half = (fw_bf16 *)x;
    FW_RANK_CHECK(fw_comm_reduce_scatter(c, half + fw_comm_rank(c) * elements / fw_comm_world(c), half, elements,
                                         FW_BF16, &request[1]) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_gather(c, x, x + fw_comm_rank(c) * elements / fw_comm_world(c), elements, FW_F32,
                                     &request[2]) == FW_OK);
    FW_RANK_CHECK(fw_comm_broadcast(c, x, 12345, 0, &request[3]) == FW_OK);
    static float transposed[60 * 1000];
    FW_RANK_CHECK(fw_comm_all_to_all(c, transposed, x, elements, FW_F32, &request[4]) == FW_OK);
    for (int i = 4; i >= 0; i--) FW_RANK_CHECK(fw_comm_wait(c, &request[i]) == FW_OK); /* any order */
    fw_comm_get_counters(c, &n);
    const uint64_t sum = 3 * 2 * (w - 1) * 240000 / w, scatter = (w - 1) * 120000 / w, gather = (w - 1) * 240000 / w;
    const uint64_t cast = w > 1 ? 12345 : 0;
    int is_root = fw_comm_rank(c) == 0;
    FW_RANK_CHECK(n.all_reduce.call_n == 3 && n.all_reduce.sent_bytes == sum && n.all_reduce.received_bytes == sum);
    FW_RANK_CHECK(n.reduce_scatter.call_n == 1 && n.reduce_scatter.sent_bytes == scatter);
    FW_RANK_CHECK(n.reduce_scatter.received_bytes == scatter);
    FW_RANK_CHECK(n.all_gather.call_n == 1 && n.all_gather.sent_bytes == gather);
    FW_RANK_CHECK(n.all_gather.received_bytes == gather);
    FW_RANK_CHECK(n.broadcast.call_n == 1 && n.broadcast.sent_bytes == (is_root ? cast : 0));
    FW_RANK_CHECK(n.broadcast.received_bytes == (is_root ? 0 : cast));
    FW_RANK_CHECK(n.all_to_all.call_n == 1 && n.all_to_all.sent_bytes == gather);
    FW_RANK_CHECK(n.all_to_all.received_bytes == gather);
    FW_RANK_CHECK(n.total.call_n == 7 && n.total.sent_bytes == sum + scatter + 2 * gather + (is_root ? cast : 0));
    FW_RANK_CHECK(n.total.received_bytes == sum + scatter + 2 * gather + (is_root ? 0 : cast));
    return 0;
}

/* More collectives in flight than the queue holds, of both kinds of memory, with exchanges between them. */
static int many_in_flight(fw_comm *c, void *context) {
    enum { MANY = 600, N = 50 };
    (void)context;
    static float private[MANY][N];
    static fw_comm_request request[MANY];
    float *shared;
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    int cpus[8], cpu_n = fw_host_cpus(cpus, 8), first, n;
    fw_comm_cpu_share(me, world, cpu_n, &first, &n);
    fw_comm_set_cpus(c, cpus + first, n);
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&shared, sizeof private, "shared") == FW_OK);
    for (int k = 0; k < MANY; k++) {
        float *x = k % 2 ? private[k] : shared + k * N;
        for (int i = 0; i < N; i++) x[i] = value_of(me, k * N + i);
        FW_RANK_CHECK(fw_comm_all_reduce(c, x, N, FW_F32, &request[k]) == FW_OK);
        int64_t sum[3] = {me, k, 1}, max[2] = {me, -me};
        if (k % 40 == 0) {
            FW_RANK_CHECK(fw_comm_sum_i64(c, sum, 3) == FW_OK && fw_comm_max_i64(c, max, 2) == FW_OK);
            FW_RANK_CHECK(sum[0] == world * (world - 1) / 2 && sum[1] == world * k && sum[2] == world);
            FW_RANK_CHECK(max[0] == world - 1 && max[1] == 0);
        }
    }
    FW_RANK_CHECK(fw_comm_wait(c, &request[MANY - 1]) == FW_OK);
    for (int k = 0; k < MANY; k++) {
        FW_RANK_CHECK(fw_comm_wait(c, &request[k]) == FW_OK);
        for (int i = 0; i < N; i++)
            FW_RANK_CHECK(same_bits((k % 2 ? private[k] : shared + k * N)[i], expected_sum(world, k * N + i, FW_F32)));
    }
    return 0;
}

static int small_exchanges(fw_comm *c, void *context) {
    (void)context;
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    static unsigned char mine[FW_COMM_EXCHANGE_BYTES], all[FW_COMM_MAX_WORLD * FW_COMM_EXCHANGE_BYTES];
    static const size_t sizes[] = {0, 1, 7, 64, FW_COMM_EXCHANGE_BYTES};
    for (size_t round = 0; round < 50; round++) {
        size_t bytes = sizes[round % 5];
        memset(mine, (int)(me * 50 + (int)round) & 255, sizeof mine);
        FW_RANK_CHECK(fw_comm_exchange(c, all, mine, bytes) == FW_OK);
        for (int r = 0; r < world; r++)
            for (size_t i = 0; i < bytes; i++)
                FW_RANK_CHECK(all[(size_t)r * bytes + i] == ((r * 50 + (int)round) & 255));
    }
    FW_RANK_CHECK(fw_comm_exchange(c, all, mine, FW_COMM_EXCHANGE_BYTES + 1) == FW_ERR_INTERNAL);
    int64_t numbers[512];
    for (int i = 0; i < 512; i++) numbers[i] = (int64_t)i << 40;
    FW_RANK_CHECK(fw_comm_sum_i64(c, numbers, 512) == FW_OK);
    for (int i = 0; i < 512; i++) FW_RANK_CHECK(numbers[i] == ((int64_t)i << 40) * world);
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);

    FW_RANK_CHECK(fw_comm_agree(c, FW_OK) == FW_OK && fw_comm_abort_origin(c) == -1);
    int bad = world - 1; /* the last two ranks fail: the lower one is named */
    fw_status own = FW_OK;
    if (me >= bad - 1) own = fw_fail(me == bad ? FW_ERR_IO : FW_ERR_INPUT, "line %d is broken", me);
    fw_status agreed = fw_comm_agree(c, own);
    if (world >= 2) {
        FW_RANK_CHECK(agreed == FW_ERR_INPUT);
        char text[64];
        snprintf(text, sizeof text, "rank %d failed: line %d is broken", bad - 1, bad - 1);
        if (me < bad - 1) FW_RANK_CHECK(strcmp(fw_trail_message(), text) == 0);
        FW_RANK_CHECK(fw_comm_abort_origin(c) == bad - 1);
        FW_RANK_CHECK(fw_comm_reports_failure(c) == (me == bad - 1));
    } else {
        FW_RANK_CHECK(agreed == FW_ERR_IO && fw_comm_abort_origin(c) == 0 && fw_comm_reports_failure(c));
    }
    return 0;
}

/* Spans by name: the collective at work, and the wait of a rank that really waited. */
static int traced(fw_comm *c, void *context) {
    (void)context;
    const int me = fw_comm_rank(c), world = fw_comm_world(c);
    float x[8] = {0};
    fw_comm_request request = {.label = "layers.3"};
    FW_RANK_CHECK(fw_trace_start(100) == FW_OK && fw_comm_barrier(c) == FW_OK);
    if (me == 1) nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    uint64_t before_ns = fw_host_now_ns();
    FW_RANK_CHECK(fw_comm_all_reduce(c, x, 8, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    uint64_t after_ns = fw_host_now_ns();
    request.label = NULL;
    FW_RANK_CHECK(fw_comm_broadcast(c, x, 8, 0, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    const fw_trace_event **event;
    size_t n, sum_n = 0, wait_n = 0, cast_n = 0;
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK && fw_trace_collect(&event, &n) == FW_OK);
    for (size_t i = 0; i < n; i++) {
        int inside = event[i]->start_ns >= before_ns && event[i]->end_ns <= after_ns;
        sum_n += event[i]->lane == FW_TRACE_COMM && strcmp(event[i]->name, "all_reduce layers.3") == 0 && inside;
        wait_n += event[i]->lane == FW_TRACE_WAIT && strcmp(event[i]->name, "wait layers.3") == 0 && inside;
        cast_n += event[i]->lane == FW_TRACE_COMM && strcmp(event[i]->name, "broadcast") == 0;
    }
    fw_free(event);
    fw_trace_stop();
    FW_RANK_CHECK(sum_n == 1 && cast_n == 1 && wait_n <= 1);
    if (world == 1) FW_RANK_CHECK(wait_n == 0);
    if (world > 1 && me == 0) FW_RANK_CHECK(wait_n == 1);
    return 0;
}

static const int worlds[] = {1, 2, 3, 4, 5};

static void every_collective_in_every_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < 5; i++) assert_int_equal(fw_test_world(worlds[i], all_kinds, NULL), 0);
}

static void counters_equal_their_formulas(void **state) {
    (void)state;
    for (size_t i = 0; i < 5; i++) assert_int_equal(fw_test_world(worlds[i], counters, NULL), 0);
}

static void many_at_once_with_more_ranks_than_cores(void **state) {
    (void)state;
    for (size_t i = 0; i < 5; i++) assert_int_equal(fw_test_world(worlds[i], many_in_flight, NULL), 0);
    assert_int_equal(fw_test_world(8, many_in_flight, NULL), 0);
}

static void small_exchanges_and_agreement(void **state) {
    (void)state;
    for (size_t i = 0; i < 5; i++) assert_int_equal(fw_test_world(worlds[i], small_exchanges, NULL), 0);
}

static void collectives_and_waits_are_traced(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) assert_int_equal(fw_test_world(worlds[i], traced, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_in_every_memory),        cmocka_unit_test(counters_equal_their_formulas),
        cmocka_unit_test(many_at_once_with_more_ranks_than_cores), cmocka_unit_test(small_exchanges_and_agreement),
        cmocka_unit_test(collectives_and_waits_are_traced),
    };
    return cmocka_run_group_tests(tests, make_values, drop_values);
}
