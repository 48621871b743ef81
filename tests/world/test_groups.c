/* Groups made of the ranks of a job: shard groups and replica groups side by side, as hybrid sharding uses them; the
 * order of the one queue; and every way in which they may not fit together. */
#include "base/alloc.h"
#include "base/rng.h"
#include "support/world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char (*message)[300]; /* of each rank; shared with the test */

static void note(fw_comm *c) { snprintf(message[fw_comm_rank(c)], sizeof *message, "%s", fw_trail_message()); }

static float value_of(int rank, int64_t i) {
    uint64_t bits = fw_rng_bits(3, (uint64_t)rank, (uint64_t)i);
    return (float)((double)(bits >> 32) - 2147483648.0) * (bits % 2 ? 1e-9f : 1e-4f);
}

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

/* Sum over the shard group, then over its replicas: rounded after each. */
static float expected(int world, int shard_n, int64_t i, fw_dtype dtype) {
    float total = 0;
    for (int g = 0; g < world / shard_n; g++) {
        float sum = as_stored(value_of(g * shard_n, i), dtype);
        for (int r = 1; r < shard_n; r++) sum += as_stored(value_of(g * shard_n + r, i), dtype);
        total = g == 0 ? as_stored(sum, dtype) : total + as_stored(sum, dtype);
    }
    return as_stored(total, dtype);
}

typedef struct hybrid {
    fw_comm *shard, *replica;
} hybrid;

static int open_hybrid(fw_comm *c, int shard_n, hybrid *h) {
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    FW_RANK_CHECK(fw_comm_group(&h->shard, c, me / shard_n * shard_n, 1, shard_n) == FW_OK);
    FW_RANK_CHECK(fw_comm_group(&h->replica, c, me % shard_n, shard_n, world / shard_n) == FW_OK);
    FW_RANK_CHECK(fw_comm_rank(h->shard) == me % shard_n && fw_comm_world(h->shard) == shard_n);
    FW_RANK_CHECK(fw_comm_rank(h->replica) == me / shard_n && fw_comm_world(h->replica) == world / shard_n);
    return 0;
}

/* Gradients go down through both groups and come back, all in flight at once: the queue keeps the order. */
static int down_and_up(fw_comm *c, hybrid *h, int shard_n, void *buffer, int64_t n, fw_dtype dtype) {
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    const int64_t part_n = n / shard_n;
    void *part = (char *)buffer + (size_t)(me % shard_n * part_n) * fw_dtype_bytes(dtype);
    fw_comm_request scatter = {.label = "g"}, sum = {.label = "g"}, gather = {.label = "w"}, cast = {0};
    for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, value_of(me, i));
    FW_RANK_CHECK(fw_comm_reduce_scatter(h->shard, part, buffer, n, dtype, &scatter) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_reduce(h->replica, part, part_n, dtype, &sum) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_gather(h->shard, buffer, part, n, dtype, &gather) == FW_OK);
    FW_RANK_CHECK(fw_comm_barrier(h->replica) == FW_OK && fw_comm_barrier(c) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(h->shard, &gather) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(h->replica, &sum) == FW_OK && fw_comm_wait(h->shard, &scatter) == FW_OK);
    for (int64_t i = 0; i < n; i++) {
        float want = expected(world, shard_n, i, dtype), got = get(buffer, i, dtype);
        FW_RANK_CHECK(memcmp(&want, &got, sizeof want) == 0);
    }
    /* The last replica's bytes everywhere. */
    for (int64_t i = 0; i < n; i++) put(buffer, i, dtype, value_of(me, i));
    FW_RANK_CHECK(
        fw_comm_broadcast(h->replica, buffer, (size_t)n * fw_dtype_bytes(dtype), world / shard_n - 1, &cast) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(h->replica, &cast) == FW_OK);
    int root = world - shard_n + me % shard_n;
    for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(get(buffer, i, dtype) == as_stored(value_of(root, i), dtype));
    return 0;
}

static int hybrid_sums(fw_comm *c, void *context) {
    const int shard_n = *(int *)context, me = fw_comm_rank(c);
    const int64_t sizes[] = {0, shard_n, 3 * 16 * shard_n, 1000 * shard_n, 70001 * (int64_t)shard_n};
    hybrid h;
    char *shared, *private;
    int result = open_hybrid(c, shard_n, &h);
    if (result != 0) return result;
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&shared, 70001 * 4 * (size_t)shard_n, "units") == FW_OK);
    FW_RANK_CHECK(fw_calloc((void **)&private, 70001 * (size_t)shard_n, 4) == FW_OK);
    for (int k = 0; k < 5 && result == 0; k++)
        for (int way = 0; way < 4 && result == 0; way++)
            result = down_and_up(c, &h, shard_n, way & 1 ? private : shared, sizes[k], way & 2 ? FW_BF16 : FW_F32);
    /* private memory on one rank of one group only: the groups take different ways */
    if (result == 0) result = down_and_up(c, &h, shard_n, me == 0 ? private : shared, sizes[3], FW_F32);
    fw_comm_counters n = {0};
    fw_comm_get_counters(c, &n);
    FW_RANK_CHECK(n.total.call_n == 0 && n.total.sent_bytes == 0);
    fw_comm_get_counters(h.shard, &n);
    FW_RANK_CHECK(n.all_gather.call_n == 21 && n.all_reduce.call_n == 0);
    const uint64_t w = (uint64_t)shard_n, units = 1 + 48 + 1000 + 70001; /* 2 ways of 4 bytes, 2 of 2 bytes */
    FW_RANK_CHECK(n.all_gather.sent_bytes == (w - 1) * (12 * units + 4000));
    FW_RANK_CHECK(n.reduce_scatter.received_bytes == n.all_gather.sent_bytes);
    fw_comm_destroy(h.replica);
    fw_comm_destroy(h.shard);
    fw_free(private);
    return result;
}

static void shard_and_replica_groups_work_side_by_side(void **state) {
    (void)state;
    static const int cases[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 2}, {4, 4}, {4, 1}, {6, 3}, {6, 2}, {8, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int shard_n = cases[i][1];
        assert_int_equal(fw_test_world(cases[i][0], hybrid_sums, &shard_n), 0);
    }
}

/* Groups need not look alike: 0 to 2, 3 and 5, 4. */
static int uneven(fw_comm *c, void *context) {
    (void)context;
    static const int first[] = {0, 0, 0, 3, 4, 3}, stride[] = {1, 1, 1, 2, 7, 2}, n[] = {3, 3, 3, 2, 1, 2};
    static const float want[] = {6, 6, 6, 10, 5, 10};
    const int me = fw_comm_rank(c);
    fw_comm *group;
    fw_comm_request request = {0};
    FW_RANK_CHECK(fw_comm_group(&group, c, first[me], me == 4 ? 1 : stride[me], n[me]) == FW_OK);
    float x = (float)(me + 1), y = 0;
    FW_RANK_CHECK(fw_comm_all_reduce(group, &x, 1, FW_F32, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(group, &request) == FW_OK && x == want[me]);
    /* a group of one moves what has to be moved, in its turn */
    if (n[me] == 1) {
        FW_RANK_CHECK(fw_comm_all_gather(group, &y, &x, 1, FW_F32, &request) == FW_OK);
        FW_RANK_CHECK(fw_comm_wait(group, &request) == FW_OK && y == x);
    }
    void *p;
    int64_t number = 0;
    FW_RANK_CHECK(fw_comm_alloc(group, &p, 10, "x") == FW_ERR_INTERNAL && p == NULL);
    FW_RANK_CHECK(fw_comm_exchange(group, &x, &y, 4) == FW_ERR_INTERNAL);
    FW_RANK_CHECK(fw_comm_sum_i64(group, &number, 1) == FW_ERR_INTERNAL);
    FW_RANK_CHECK(fw_comm_agree(group, FW_OK) == FW_ERR_INTERNAL);
    fw_comm *inner;
    FW_RANK_CHECK(fw_comm_group(&inner, group, 0, 1, 1) == FW_ERR_INTERNAL && inner == NULL);
    FW_RANK_CHECK(fw_comm_abort_origin(c) == -1 && fw_comm_barrier(c) == FW_OK);
    fw_comm_destroy(group);
    return 0;
}

static void groups_may_be_of_different_sizes(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(6, uneven, NULL), 0);
}

static int wrong_rows(fw_comm *c, void *context) {
    const int way = *(int *)context, me = fw_comm_rank(c);
    fw_comm *group;
    fw_status status = FW_OK;
    switch (way) {
    case 0: status = fw_comm_group(&group, c, me == 3 ? 2 : me / 2 * 2, 1, me == 2 ? 1 : 2); break;
    case 1: status = fw_comm_group(&group, c, me % 2, 2, me == 0 ? 1 : 2); break;
    case 2: status = me == 1 ? fw_comm_group(&group, c, 1, 1, 4) : fw_comm_group(&group, c, 0, 1, 4); break;
    case 3: status = me == 1 ? fw_comm_group(&group, c, 0, 2, 2) : fw_comm_group(&group, c, 0, 1, 4); break;
    case 4: status = me == 1 ? fw_comm_barrier(c) : fw_comm_group(&group, c, 0, 1, 4); break;
    }
    note(c);
    FW_RANK_CHECK(status == FW_ERR_RANK || (status == FW_ERR_INTERNAL && me == 1));
    return 0;
}

static void groups_that_do_not_fit_together_are_named(void **state) {
    (void)state;
    static const char *const texts[] = {
        "rank 3 is in the group of ranks 2, 3, which has rank 2 too, but that is in the group of rank 2",
        "rank 2 is in the group of ranks 0, 2, which has rank 0 too, but that is in the group of rank 0",
        "rank 1 of 4 wants a group of 4 ranks from 1 in steps of 1",
        "rank 1 of 4 wants a group of 2 ranks from 0 in steps of 2",
        "the ranks have diverged: rank ",
    };
    for (int way = 0; way < 5; way++) {
        memset(message, 0, FW_COMM_MAX_WORLD * sizeof *message);
        assert_int_equal(fw_test_world(4, wrong_rows, &way), 0);
        for (int r = 0; r < 4; r++)
            if (strstr(message[r], texts[way]) == NULL) fail_msg("way %d, rank %d: %s", way, r, message[r]);
    }
}

static int diverges(fw_comm *c, void *context) {
    const int way = *(int *)context, odd = fw_comm_rank(c) == 3;
    hybrid h;
    int result = open_hybrid(c, 2, &h);
    if (result != 0) return result;
    float x[8] = {0};
    fw_comm_request request = {.label = "layers.1"}, other = {.label = "layers.2"};
    fw_comm_request *mine = odd ? &other : &request;
    fw_status status = FW_OK;
    switch (way) {
    case 0: /* the same collective of another thing: bad sums without a word, if nobody looked */
        status = fw_comm_all_reduce(h.replica, x, 8, FW_F32, mine);
        break;
    case 1: status = fw_comm_all_reduce(odd ? c : h.shard, x, 8, FW_F32, mine); break;
    case 2: status = fw_comm_all_reduce(odd ? h.replica : h.shard, x, 8, FW_F32, mine); break;
    case 3: /* one rank's thread is in a barrier, the other's in a wait */
        status = odd ? fw_comm_barrier(h.shard) : fw_comm_all_reduce(h.shard, x, 8, FW_F32, mine);
        break;
    case 4: status = fw_comm_barrier(odd ? c : h.shard); break;
    }
    if (status == FW_OK && (!odd || way < 3)) status = fw_comm_wait(h.shard, mine);
    if (status == FW_OK) { /* not concerned; must hear of it */
        for (int k = 0; k < 3000 && fw_comm_abort_origin(c) < 0; k++)
            nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
        status = fw_comm_barrier(c);
    }
    note(c);
    fw_comm_destroy(h.shard);
    fw_comm_destroy(h.replica);
    FW_RANK_CHECK(status == FW_ERR_RANK);
    return 0;
}

static void diverged_ranks_of_a_group_are_named_with_both_calls(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"is all_reduce layers.1 of 8 fp32 (root 0) on rank 1 and all_reduce layers.2 of 8 fp32 (root 0) on rank 3",
         "collective 1 [ranks 1, 3]"},
        {"all_reduce 1 (layers.1) [ranks 2, 3]", "all_reduce 1 (layers.2) for"},
        {"all_reduce 1 (layers.1) [ranks 2, 3]", "all_reduce 1 (layers.2) [ranks 1, 3]"},
        {"all_reduce 1 (layers.1) [ranks 2, 3]", "barrier 1 [ranks 2, 3]"},
        {"barrier 1 [ranks 2, 3]", "barrier "},
    };
    for (int way = 0; way < 5; way++) {
        if (way == 2) continue; /* see below */
        memset(message, 0, FW_COMM_MAX_WORLD * sizeof *message);
        assert_int_equal(fw_test_world(4, diverges, &way), 0);
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < 2; k++)
                if (strstr(message[r], texts[way][k]) == NULL) fail_msg("way %d, rank %d: %s", way, r, message[r]);
    }
}

/* Rank 2 waits for rank 3, which waits for rank 1, which has gone on: left to the clock. */
static void longer_rings_end_with_the_timeout(void **state) {
    (void)state;
    int way = 2;
    fw_comm_options o = {.timeout_s = 0.5};
    assert_int_equal(fw_test_world_run(4, diverges, &way, &o, 60, NULL), 0);
}

static int killed(fw_comm *c, void *context) {
    (void)context;
    const int me = fw_comm_rank(c);
    hybrid h;
    int result = open_hybrid(c, 2, &h);
    if (result != 0) return result;
    static float x[50000];
    fw_status status = FW_OK;
    for (int k = 0; k < 1000000 && status == FW_OK; k++) {
        fw_comm_request request = {0};
        if (me == 3 && k == 20) kill(getpid(), SIGKILL);
        fw_comm *g = k % 2 ? h.shard : h.replica;
        status = fw_comm_all_reduce(g, x, 50000, FW_F32, &request);
        if (status == FW_OK) status = fw_comm_wait(g, &request);
    }
    note(c);
    fw_comm_destroy(h.shard);
    fw_comm_destroy(h.replica);
    FW_RANK_CHECK(status == FW_ERR_RANK);
    return 0;
}

static void a_dead_rank_ends_the_waits_in_every_group(void **state) {
    (void)state;
    fw_test_rank_result results[4];
    fw_test_world_run(4, killed, NULL, NULL, 60, results);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(results[r].exit_code, 0);
        assert_true(results[r].seconds < 10);
        assert_string_equal(message[r], "rank 3 died (connection closed)");
    }
}

static int fails_at(fw_comm *c, void *context) {
    const int n = *(int *)context, me = fw_comm_rank(c);
    hybrid h;
    int result = open_hybrid(c, 2, &h);
    if (result != 0) return result;
    float x[4] = {1};
    fw_status status = FW_OK;
    if (me == 2) fw_comm_fail_at((uint64_t)n);
    for (int k = 0; k < 10 && status == FW_OK; k++) {
        fw_comm_request request = {.label = k % 2 ? "odd" : "even"};
        fw_comm *g = k % 2 ? h.replica : h.shard;
        status = fw_comm_all_reduce(g, x, 4, FW_F32, &request);
        if (status == FW_OK) status = fw_comm_wait(g, &request);
    }
    note(c);
    fw_comm_destroy(h.shard);
    fw_comm_destroy(h.replica);
    FW_RANK_CHECK(status == (me == 2 ? FW_ERR_IO : FW_ERR_RANK) || (me != 2 && status == FW_OK));
    return 0;
}

static void an_injected_failure_in_a_group_reaches_all(void **state) {
    (void)state;
    int n = 4;
    memset(message, 0, FW_COMM_MAX_WORLD * sizeof *message);
    assert_int_equal(fw_test_world(4, fails_at, &n), 0);
    for (int r = 0; r < 4; r++)
        if (r == 0 || r == 3) /* they need rank 2 in the next collective */
            assert_string_equal(message[r],
                                "rank 2 failed: all_reduce 2 (odd) [ranks 0, 2] failed (injected by a test)");
}

static int has_no_memory(fw_comm *c, void *context) {
    fw_comm *group;
    if (fw_comm_rank(c) == 1) fw_alloc_fail_at((uint64_t) * (int *)context);
    fw_status status = fw_comm_group(&group, c, 0, 1, fw_comm_world(c));
    fw_alloc_fail_at(0);
    if (*(int *)context > 1 && status == FW_OK) return 0; /* a transport that needs only one */
    FW_RANK_CHECK(status == FW_ERR_NOMEM && group == NULL && fw_comm_abort_origin(c) == 1);
    return 0;
}

static void a_group_needs_memory_on_every_rank(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) assert_int_equal(fw_test_world(3, has_no_memory, &n), 0);
}

static int closes_early(fw_comm *c, void *context) {
    (void)context;
    fw_comm *group;
    static float x[300][4];
    fw_comm_request request = {0};
    FW_RANK_CHECK(fw_comm_group(&group, c, fw_comm_rank(c) % 2, 2, 2) == FW_OK);
    int n = fw_comm_rank(c) < 2 ? 200 : 0; /* the others never come */
    fw_status status = FW_OK;              /* an error once they have left */
    for (int k = 0; k < n && status == FW_OK; k++) status = fw_comm_all_reduce(group, x[k], 4, FW_F32, &request);
    FW_RANK_CHECK(status == FW_OK || status == FW_ERR_RANK);
    if (fw_comm_rank(c) % 2 == 0) fw_comm_destroy(group); /* else it ends with the job */
    return 0;
}

static void closing_a_group_with_work_left_does_not_hang(void **state) {
    (void)state;
    assert_int_equal(fw_test_world_run(4, closes_early, NULL, NULL, 60, NULL), 0);
}

int main(void) {
    message =
        mmap(NULL, FW_COMM_MAX_WORLD * sizeof *message, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (message == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shard_and_replica_groups_work_side_by_side),
        cmocka_unit_test(groups_may_be_of_different_sizes),
        cmocka_unit_test(groups_that_do_not_fit_together_are_named),
        cmocka_unit_test(diverged_ranks_of_a_group_are_named_with_both_calls),
        cmocka_unit_test(longer_rings_end_with_the_timeout),
        cmocka_unit_test(a_dead_rank_ends_the_waits_in_every_group),
        cmocka_unit_test(an_injected_failure_in_a_group_reaches_all),
        cmocka_unit_test(a_group_needs_memory_on_every_rank),
        cmocka_unit_test(closing_a_group_with_work_left_does_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
