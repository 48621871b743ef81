/* One rank fails, dies, leaves, falls silent, diverges or does not come: every other rank hears of it by name, soon,
 * wherever it waits. */
#include "base/alloc.h"
#include "base/host.h"
#include "support/waiting.h"
#include "support/world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 100 * 1000 };

/* Written by the ranks, read by the test. */
typedef struct shared_page {
    _Atomic int pid[FW_COMM_MAX_WORLD];
    _Atomic int step;
    char message[FW_COMM_MAX_WORLD][300];
    int origin[FW_COMM_MAX_WORLD], reports[FW_COMM_MAX_WORLD];
} shared_page;
static shared_page *page;

/* Sums without end until something fails; notes what it was told. */
static int sum_until_failure(fw_comm *c, int with_exchanges) {
    float *x;
    fw_comm_request request[2] = {0};
    fw_status status = fw_comm_alloc(c, (void **)&x, 2 * N * sizeof *x, "x");
    for (int k = 0; status == FW_OK && k < 100000; k++) {
        atomic_store(&page->step, k);
        status = fw_comm_all_reduce(c, x, N, FW_F32, &request[0]);
        if (status == FW_OK) status = fw_comm_all_reduce(c, x + N, N, FW_F32, &request[1]);
        if (status == FW_OK && with_exchanges) status = fw_comm_barrier(c);
        if (status == FW_OK) status = fw_comm_wait(c, &request[0]);
        if (status == FW_OK) status = fw_comm_wait(c, &request[1]);
    }
    int me = fw_comm_rank(c);
    snprintf(page->message[me], sizeof page->message[me], "%s", fw_trail_message());
    page->origin[me] = fw_comm_abort_origin(c);
    page->reports[me] = fw_comm_reports_failure(c);
    /* it stays so */
    FW_RANK_CHECK(fw_comm_barrier(c) == status && fw_comm_agree(c, FW_OK) == status);
    return status == FW_ERR_RANK ? 0 : 100 + (int)status;
}

static void clear_page(void) { memset(page, 0, sizeof *page); }

static int killed_in_the_middle(fw_comm *c, void *context) {
    int with_exchanges = *(int *)context;
    atomic_store(&page->pid[fw_comm_rank(c)], getpid());
    if (fw_comm_rank(c) != 1) return sum_until_failure(c, with_exchanges);
    float *x;
    fw_comm_request request = {0};
    if (fw_comm_alloc(c, (void **)&x, 2 * N * sizeof *x, "x") != FW_OK) return 1;
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < 2; i++)
            if (fw_comm_all_reduce(c, x + i * N, N, FW_F32, &request) != FW_OK) return 1;
        if (with_exchanges && fw_comm_barrier(c) != FW_OK) return 1;
        if (fw_comm_wait(c, &request) != FW_OK) return 1;
    }
    if (with_exchanges == 2) exit(0); /* ends in the middle, as if all were well */
    kill(getpid(), SIGKILL);
    return 1;
}

static void a_dead_rank_is_named(void **state) {
    (void)state;
    for (int world = 2; world <= 4; world += 2)
        for (int way = 0; way < 3; way++) {
            fw_test_rank_result results[4];
            clear_page();
            fw_test_world_run(world, killed_in_the_middle, &way, NULL, 60, results);
            for (int r = 0; r < world; r++) {
                if (r == 1) {
                    assert_int_equal(results[1].signal, way == 2 ? 0 : SIGKILL);
                    continue;
                }
                assert_int_equal(results[r].exit_code, 0);
                assert_int_equal(results[r].signal, 0);
                assert_string_equal(page->message[r], "rank 1 died (connection closed)");
                assert_int_equal(page->origin[r], 1);
                assert_int_equal(page->reports[r], r == 0); /* no launcher of ours: one rank speaks for the dead */
            }
        }
}

static int zero_dies(fw_comm *c, void *context) {
    (void)context;
    if (fw_comm_rank(c) == 0) {
        nap(0.05);
        kill(getpid(), SIGKILL);
    }
    return sum_until_failure(c, 0);
}

static void a_dead_rank_0_is_named(void **state) {
    (void)state;
    fw_test_rank_result results[3];
    clear_page();
    fw_test_world_run(3, zero_dies, NULL, NULL, 60, results);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(results[r].exit_code, 0);
        assert_string_equal(page->message[r], "rank 0 died (connection closed)");
        assert_int_equal(page->reports[r], r == 1);
    }
}

static int gives_up(fw_comm *c, void *context) {
    int who = *(int *)context;
    if (fw_comm_rank(c) != who) return sum_until_failure(c, 0);
    fw_fail(FW_ERR_INPUT, "reading x: value %d is bad", 17);
    fw_comm_abort(c, FW_ERR_INPUT);
    fw_comm_request request = {0};
    float x = 0;
    FW_RANK_CHECK(fw_comm_all_reduce(c, &x, 1, FW_F32, &request) == FW_ERR_INPUT); /* its own reason stays its own */
    FW_RANK_CHECK(fw_comm_abort_origin(c) == who && fw_comm_reports_failure(c));
    return 0;
}

static void a_rank_that_gives_up_tells_why(void **state) {
    (void)state;
    for (int who = 0; who < 3; who++) {
        clear_page();
        assert_int_equal(fw_test_world(3, gives_up, &who), 0);
        char text[100];
        snprintf(text, sizeof text, "rank %d failed: reading x: value 17 is bad", who);
        for (int r = 0; r < 3; r++) {
            if (r == who) continue;
            assert_string_equal(page->message[r], text);
            assert_true(page->origin[r] == who && !page->reports[r]);
        }
    }
}

static int does_not_come(fw_comm *c, void *context) {
    (void)context;
    if (fw_comm_rank(c) == 1) { /* alive, but elsewhere, until the others have given up */
        while (fw_comm_abort_origin(c) < 0) nap(0.01);
        return 0;
    }
    return sum_until_failure(c, 0);
}

static void a_rank_that_does_not_come_is_named(void **state) {
    (void)state;
    clear_page();
    fw_comm_options o = {.timeout_s = 0.3};
    assert_int_equal(fw_test_world_run(2, does_not_come, NULL, &o, 60, NULL), 0);
    /* fw_comm_alloc is the first thing rank 1 misses */
    assert_non_null(strstr(page->message[0], "rank 1 is alive but did not come to alloc 1 within 0.3 s (ddp_timeout)"));
    assert_true(page->origin[0] == 0 && page->reports[0]);
}

static int works_long(fw_comm *c, void *context) {
    (void)context;
    if (fw_comm_rank(c) == 1) {
        fw_comm_host_work_begin(c, "saving");
        nap(2.2);
        fw_comm_host_work_end(c);
    }
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
    float x = 1;
    fw_comm_request request = {0};
    if (fw_comm_rank(c) == 0) {
        fw_comm_host_work_begin(c, "saving");
        nap(2.2);
        fw_comm_host_work_end(c);
    }
    FW_RANK_CHECK(fw_comm_all_reduce(c, &x, 1, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(x == 3);
    return 0;
}

static void long_work_of_one_rank_is_no_timeout(void **state) {
    (void)state;
    fw_comm_options o = {.timeout_s = 1.5};
    assert_int_equal(fw_test_world_run(3, works_long, NULL, &o, 60, NULL), 0);
}

static int leaves_early(fw_comm *c, void *context) {
    (void)context;
    if (fw_comm_rank(c) == fw_comm_world(c) - 1) return 0; /* in order, but too early */
    return sum_until_failure(c, 0);
}

static void a_rank_that_left_is_not_waited_for(void **state) {
    (void)state;
    for (int world = 2; world <= 3; world++) {
        clear_page();
        assert_int_equal(fw_test_world(world, leaves_early, NULL), 0);
        char text[64];
        snprintf(text, sizeof text, "rank %d has left the job", world - 1);
        for (int r = 0; r < world - 1; r++) assert_non_null(strstr(page->message[r], text));
    }
}

/* Ranks that finish at different times, the first of them long before the last: no failure anywhere. */
static int leaves_in_order(fw_comm *c, void *context) {
    (void)context;
    for (int k = 0; k < 20; k++) FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
    nap(0.05 * ((fw_comm_rank(c) + 1) % fw_comm_world(c)));
    FW_RANK_CHECK(fw_comm_abort_origin(c) == -1);
    return 0;
}

static void leaving_in_any_order_is_no_failure(void **state) {
    (void)state;
    for (int world = 2; world <= 5; world++) assert_int_equal(fw_test_world(world, leaves_in_order, NULL), 0);
}

static int stops_breathing(fw_comm *c, void *context) {
    (void)context;
    int me = fw_comm_rank(c);
    atomic_store(&page->pid[me], getpid());
    if (fw_comm_barrier(c) != FW_OK) return 1;
    if (me == 1) raise(SIGSTOP);
    int result = sum_until_failure(c, 0);
    if (me == 0) kill(atomic_load(&page->pid[1]), SIGKILL);
    return result;
}

static void a_silent_rank_is_named(void **state) {
    (void)state;
    clear_page();
    fw_test_rank_result results[3];
    fw_comm_options o = {.heartbeat_s = 4};
    fw_test_world_run(3, stops_breathing, NULL, &o, 60, results);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(results[r].exit_code, 0);
        assert_non_null(strstr(page->message[r], "rank 1 gives no sign of life (nothing heard for 4 s"));
    }
}

static int diverges(fw_comm *c, void *context) {
    int way = *(int *)context, odd = fw_comm_rank(c) == 1;
    float x[40] = {0};
    char y[80];
    fw_comm_request request = {0};
    fw_status status = FW_OK;
    switch (way) {
    case 0: status = fw_comm_all_reduce(c, x, odd ? 10 : 20, FW_F32, &request); break;
    case 1: status = fw_comm_all_reduce(c, x, 10, odd ? FW_BF16 : FW_F32, &request); break;
    case 2: status = fw_comm_broadcast(c, x, 40, odd, &request); break;
    case 3:
        status = odd ? fw_comm_broadcast(c, x, 40, 0, &request) : fw_comm_all_reduce(c, x, 40, FW_F32, &request);
        break;
    case 4: status = odd ? fw_comm_exchange(c, y, x, 4) : fw_comm_exchange(c, y, x, 8); break;
    case 5: status = odd ? fw_comm_barrier(c) : fw_comm_exchange(c, y, x, 0); break;
    case 6: {
        void *p;
        status = fw_comm_alloc(c, &p, odd ? 100 : 200, "x");
        break;
    }
    }
    if (way < 4 && status == FW_OK) status = fw_comm_wait(c, &request);
    snprintf(page->message[fw_comm_rank(c)], sizeof page->message[0], "%s", fw_trail_message());
    return status == FW_ERR_RANK ? 0 : 1;
}

static void ranks_that_diverge_are_found(void **state) {
    (void)state;
    static const char *const texts[] = {
        "is all_reduce of 20 fp32 (root 0) on rank 0 and all_reduce of 10 fp32 (root 0) on rank 1",
        "is all_reduce of 10 fp32 (root 0) on rank 0 and all_reduce of 10 bf16 (root 0) on rank 1",
        "(root 0) on rank 0 and broadcast of 40 uint8 (root 1) on rank 1",
        "is all_reduce of 40 fp32 (root 0) on rank 0 and broadcast of 40 uint8 (root 0) on rank 1",
        "the ranks have diverged",
        "the ranks have diverged",
        "asks for 100 bytes",
    };
    for (int way = 0; way < 7; way++) {
        clear_page();
        assert_int_equal(fw_test_world(2, diverges, &way), 0);
        for (int r = 0; r < 2; r++)
            if (strstr(page->message[r], texts[way]) == NULL) fail_msg("way %d, rank %d: %s", way, r, page->message[r]);
    }
}

static int fails_at_the_nth(fw_comm *c, void *context) {
    int n = *(int *)context, me = fw_comm_rank(c);
    if (me == 0) fw_comm_fail_at((uint64_t)n);
    fw_status status = FW_OK;
    float x[5] = {1, 2, 3, 4, 5};
    int done = 0;
    for (; done < 10 && status == FW_OK; done++) {
        fw_comm_request request = {0};
        status = fw_comm_all_reduce(c, x, 5, FW_F32, &request);
        if (status == FW_OK) status = fw_comm_wait(c, &request);
    }
    snprintf(page->message[me], sizeof page->message[me], "%s", fw_trail_message());
    FW_RANK_CHECK(done == n && status == (me == 0 ? FW_ERR_IO : FW_ERR_RANK));
    return 0;
}

static void an_injected_failure_reaches_all(void **state) {
    (void)state;
    for (int n = 1; n <= 7; n += 3) {
        clear_page();
        assert_int_equal(fw_test_world(3, fails_at_the_nth, &n), 0);
        char text[100];
        snprintf(text, sizeof text, "rank 0 failed: all_reduce %d failed (injected by a test)", n);
        for (int r = 1; r < 3; r++) assert_string_equal(page->message[r], text);
    }
}

/* Every rank gives up over what was agreed: the one it began with speaks, nobody else. */
static int gives_up_after_agreeing(fw_comm *c, void *context) {
    int who = *(int *)context, me = fw_comm_rank(c);
    fw_status mine = me == who ? fw_fail(FW_ERR_IO, "disk is full") : FW_OK;
    FW_RANK_CHECK(fw_comm_agree(c, mine) == FW_ERR_IO && fw_comm_abort_origin(c) == who);
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK); /* usable */
    if (me == 1) nap(0.1);
    fw_comm_abort(c, FW_ERR_IO);
    if (me == 2) nap(0.2);
    FW_RANK_CHECK(fw_comm_abort_origin(c) == who && fw_comm_reports_failure(c) == (me == who));
    return 0;
}

static void an_agreed_failure_is_told_once(void **state) {
    (void)state;
    for (int who = 0; who < 3; who++) assert_int_equal(fw_test_world(3, gives_up_after_agreeing, &who), 0);
}

static int agrees_and_goes_on(fw_comm *c, void *context) {
    (void)context;
    int me = fw_comm_rank(c);
    FW_RANK_CHECK(fw_comm_agree(c, me == 0 ? fw_fail(FW_ERR_IO, "once") : FW_OK) == FW_ERR_IO);
    FW_RANK_CHECK(fw_comm_agree(c, FW_OK) == FW_OK);
    if (me == 1) {
        FW_RANK_CHECK(fw_comm_abort_origin(c) == -1);
        fw_fail(FW_ERR_INPUT, "later");
        fw_comm_abort(c, FW_ERR_INPUT);
    } else {
        FW_RANK_CHECK(fw_comm_barrier(c) == FW_ERR_RANK);
        FW_RANK_CHECK(strcmp(fw_trail_message(), "rank 1 failed: later") == 0);
    }
    FW_RANK_CHECK(fw_comm_abort_origin(c) == 1 && fw_comm_reports_failure(c) == (me == 1));
    return 0;
}

static void a_job_may_go_on_after_an_agreed_failure(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(3, agrees_and_goes_on, NULL), 0);
}

static int closes_with_work_left(fw_comm *c, void *context) {
    (void)context;
    static float x[300][10];
    fw_comm_request request = {0};
    /* rank 0 starts what the others never will, and closes: nothing hangs */
    int n = fw_comm_rank(c) == 0 ? 200 : 0;
    fw_status status = FW_OK; /* an error once they have left */
    for (int k = 0; k < n && status == FW_OK; k++) status = fw_comm_all_reduce(c, x[k], 10, FW_F32, &request);
    FW_RANK_CHECK(status == FW_OK || status == FW_ERR_RANK);
    return 0;
}

static void closing_with_work_left_does_not_hang(void **state) {
    (void)state;
    assert_int_equal(fw_test_world_run(2, closes_with_work_left, NULL, NULL, 60, NULL), 0);
}

static int asks_for_too_much(fw_comm *c, void *context) {
    (void)context;
    void *p;
    size_t free_bytes = (size_t)fw_host_memory_available();
    int64_t agreed = (int64_t)free_bytes;
    FW_RANK_CHECK(fw_comm_max_i64(c, &agreed, 1) == FW_OK);
    fw_status status = fw_comm_alloc(c, &p, (size_t)agreed * 3 / 4, "the gradients");
    FW_RANK_CHECK(status != FW_OK && p == NULL);
    FW_RANK_CHECK(strstr(fw_trail_message(), "the gradients needs 2 x ") != NULL);
    return 0;
}

static void too_much_shared_memory_is_refused_before_it_is_taken(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(2, asks_for_too_much, NULL), 0);
}

int main(void) {
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_rank_is_named),
        cmocka_unit_test(a_dead_rank_0_is_named),
        cmocka_unit_test(a_rank_that_gives_up_tells_why),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(long_work_of_one_rank_is_no_timeout),
        cmocka_unit_test(a_rank_that_left_is_not_waited_for),
        cmocka_unit_test(leaving_in_any_order_is_no_failure),
        cmocka_unit_test(a_silent_rank_is_named),
        cmocka_unit_test(ranks_that_diverge_are_found),
        cmocka_unit_test(an_injected_failure_reaches_all),
        cmocka_unit_test(an_agreed_failure_is_told_once),
        cmocka_unit_test(a_job_may_go_on_after_an_agreed_failure),
        cmocka_unit_test(closing_with_work_left_does_not_hang),
        cmocka_unit_test(too_much_shared_memory_is_refused_before_it_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
