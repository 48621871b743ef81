/* Work behind the caller's back: its status and words come to who waits; waiting for nothing is nothing. */
#include "base/behind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

typedef struct gate {
    pthread_mutex_t lock;
    pthread_t worker;
    fw_status status;
} gate;

static fw_status pass(void *context) {
    gate *g = context;
    pthread_mutex_lock(&g->lock);
    g->worker = pthread_self();
    pthread_mutex_unlock(&g->lock);
    return g->status == FW_OK ? FW_OK : fw_fail(g->status, "the gate fell at %s", "noon");
}

static void test_work(void **unused) {
    (void)unused;
    static const fw_status results[] = {FW_OK, FW_ERR_IO, FW_OK};
    fw_behind b = {0};
    fw_threads *pool;
    assert_int_equal(fw_threads_create(&pool, 2, NULL), FW_OK);
    assert_true(fw_behind_is_done(&b) && !fw_behind_is_started(&b));
    assert_int_equal(fw_behind_wait(&b), FW_OK);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) { /* one after the other with the same object */
        gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .status = results[i]};
        pthread_mutex_lock(&g.lock);
        fw_behind_start(&b, pass, &g, pool);
        assert_true(fw_behind_is_started(&b) && !fw_behind_is_done(&b)); /* we compute, it waits at the gate */
        pthread_mutex_unlock(&g.lock);
        assert_int_equal(fw_behind_wait(&b), results[i]);
        assert_false(pthread_equal(g.worker, pthread_self()));
        if (results[i] != FW_OK) assert_non_null(strstr(fw_trail_message(), "the gate fell at noon"));
        assert_true(fw_behind_is_done(&b) && !fw_behind_is_started(&b));
    }
    fw_threads_destroy(pool);
}

/* Who is pinned to one CPU is not pinned any more; without pinning nothing changes. */
static void *spread(void *context) {
    fw_threads *pool = context;
    cpu_set_t one, before, after;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    fw_threads_spread(NULL, pthread_self());
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    if (!CPU_EQUAL(&before, &after)) return "NULL changed something";
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            break;
        }
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    fw_threads_spread(pool, pthread_self());
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    return CPU_COUNT(&after) == fw_threads_n(pool) ? NULL : "not on all CPUs of the pool";
}

static void *make_pool_and_spread(void *unused) {
    (void)unused;
    cpu_set_t set;
    int cpus[2], n = 0;
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
        if (CPU_ISSET((size_t)cpu, &set)) cpus[n++] = cpu;
    fw_threads *pool;
    if (fw_threads_create(&pool, n, cpus) != FW_OK) return "no pool";
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    void *wrong = spread(pool);
    fw_threads_destroy(pool);
    return wrong;
}

static void test_spread(void **unused) {
    (void)unused;
    pthread_t thread;
    void *wrong;
    assert_int_equal(pthread_create(&thread, NULL, make_pool_and_spread, NULL), 0);
    pthread_join(thread, &wrong);
    if (wrong != NULL) fail_msg("%s", (const char *)wrong);
}

static fw_status nothing(void *context) {
    (void)context;
    return FW_OK;
}

/* A run closes its pool while an old checkpoint is still being removed. */
static void test_pool_goes_first(void **unused) {
    (void)unused;
    for (int i = 0; i < 64; i++) {
        fw_threads *pool;
        fw_behind b = {0};
        assert_int_equal(fw_threads_create(&pool, 1, NULL), FW_OK);
        fw_behind_start(&b, nothing, NULL, pool);
        fw_threads_destroy(pool);
        assert_int_equal(fw_behind_wait(&b), FW_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_work), cmocka_unit_test(test_spread),
                                       cmocka_unit_test(test_pool_goes_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
