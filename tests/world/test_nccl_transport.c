/* The transport between GPUs with a stand-in for NCCL: order on the device, groups, small messages of the host, and what
 * a rank hears of another that died, is stuck, or is at long work. What NCCL itself does is not tested here: that takes
 * GPUs (tools/gpu_check). */
#include "base/log.h"
#include "comm/nccl/nccl_internal.h"
#include "comm/nccl/nccl_open.h"
#include "support/fake_nccl.h"
#include "support/waiting.h"
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

enum { N = 40000 }; /* more than one step of the fake */

/* Written by the ranks, read by the test. */
static struct page {
    char message[8][400];
    int aborted_n[8];
    char lines[4000];
} * page;

static int set_up(void **state) {
    (void)state;
    if (page == NULL) page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return 1;
    memset(page, 0, sizeof *page);
    fw_nccl_replace_plugin(fw_fake_nccl());
    unsetenv("FINEWIRE_SHARE_GPU");
    return fw_fake_nccl_reset();
}

static float value(int rank, int64_t i) { return (float)((rank + 1) * 1000 + (int)(i % 251)); }

static fw_status fill(fw_device *d, float *x, int rank, int64_t n) {
    float host[N];
    for (int64_t i = 0; i < n; i++) host[i] = value(rank, i);
    return fw_copy(d, x, host, (size_t)n * sizeof *host);
}

static float sum_of(int first, int stride, int n, int64_t i) {
    float sum = 0;
    for (int k = 0; k < n; k++) sum += value(first + k * stride, i);
    return sum;
}

/* Every kind over n elements of x, which lies in memory for collectives; the ranks of c are first, first + stride, ... */
static int try_kinds(fw_comm *c, fw_device *d, float *x, int64_t n, int first, int stride, int me_in_job) {
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    const int64_t part_n = n / world;
    float got[N];
    fw_comm_request request = {.label = "layers.3"};
    n = part_n * world;
    FW_RANK_CHECK(fill(d, x, me_in_job, n) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_reduce(c, x, n, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(fw_copy(d, got, x, (size_t)n * sizeof *got) == FW_OK);
    for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(got[i] == sum_of(first, stride, world, i));

    float *own = x + me * part_n;
    FW_RANK_CHECK(fill(d, x, me_in_job, n) == FW_OK);
    FW_RANK_CHECK(fw_comm_reduce_scatter(c, own, x, n, FW_F32, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_gather(c, x, own, n, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(fw_copy(d, got, x, (size_t)n * sizeof *got) == FW_OK);
    for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(got[i] == sum_of(first, stride, world, i));

    const int64_t half_n = part_n / 2 * world; /* from the first half of x to the second */
    FW_RANK_CHECK(fill(d, x, me_in_job, n) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_to_all(c, x + half_n, x, half_n, FW_F32, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(fw_copy(d, got, x + half_n, (size_t)half_n * sizeof *got) == FW_OK);
    for (int64_t i = 0; i < half_n; i++) {
        const int64_t r = i / (part_n / 2), at = me * (part_n / 2) + i % (part_n / 2);
        FW_RANK_CHECK(got[i] == value(first + (int)r * stride, at));
    }

    FW_RANK_CHECK(fill(d, x, me_in_job, n) == FW_OK);
    FW_RANK_CHECK(fw_comm_broadcast(c, x, (size_t)n * sizeof *x, world - 1, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(fw_copy(d, got, x, (size_t)n * sizeof *got) == FW_OK);
    for (int64_t i = 0; i < n; i++) FW_RANK_CHECK(got[i] == value(first + (world - 1) * stride, i));
    return 0;
}

static int all_kinds(fw_comm *c, void *context) {
    (void)context;
    fw_device *d;
    float *x;
    const int world = fw_comm_world(c), me = fw_comm_rank(c);
    FW_RANK_CHECK(fw_fake_gpu_create(&d, me) == FW_OK);
    FW_RANK_CHECK(fw_comm_use_device(c, d) == FW_OK);
    FW_RANK_CHECK(strcmp(fw_comm_transport(c), "nccl") == 0 && fw_comm_ranks_on_gpu(c) == 1);
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, N * sizeof *x, "x") == FW_OK);
    FW_RANK_CHECK(fw_comm_allocated_bytes(c) == N * sizeof *x);
    int bad = try_kinds(c, d, x, N, 0, 1, me);
    if (bad != 0) return bad;
    fw_comm_counters counted;
    fw_comm_get_counters(c, &counted);
    FW_RANK_CHECK(counted.all_reduce.call_n == 1 && counted.all_gather.call_n == 1);
    /* more in flight than there are marks; the last wait is for all of them */
    fw_comm_request request = {0};
    float got[4];
    FW_RANK_CHECK(fill(d, x, 0, 4) == FW_OK);
    for (int k = 0; k < 70; k++) FW_RANK_CHECK(fw_comm_broadcast(c, x, 4 * sizeof *x, k % world, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_all_reduce(c, x, 4, FW_F32, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    FW_RANK_CHECK(fw_copy(d, got, x, sizeof got) == FW_OK && got[3] == (float)world * value(0, 3));
    /* memory of the host: small messages only */
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(me == 1 ? i % 100 : 0);
    FW_RANK_CHECK(fw_comm_broadcast(c, text, sizeof text, 1, &request) == FW_OK && fw_comm_wait(c, &request) == FW_OK);
    for (size_t i = 0; i < sizeof text; i++) FW_RANK_CHECK(text[i] == (char)(i % 100));
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
    fw_comm_destroy(c);
    fw_device_destroy(d);
    _exit(0); /* the group is gone already */
}

static void collectives_between_gpus(void **state) {
    (void)state;
    for (int world = 2; world <= 4; world++) {
        assert_int_equal(fw_fake_nccl_reset(), 0);
        assert_int_equal(fw_test_world(world, all_kinds, NULL), 0);
    }
}

static int in_groups(fw_comm *c, void *context) {
    (void)context;
    fw_device *d;
    float *x;
    fw_comm *shard, *replica;
    const int me = fw_comm_rank(c);
    FW_RANK_CHECK(fw_fake_gpu_create(&d, me) == FW_OK && fw_comm_use_device(c, d) == FW_OK);
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, N * sizeof *x, "x") == FW_OK);
    FW_RANK_CHECK(fw_comm_group(&shard, c, me / 2 * 2, 1, 2) == FW_OK);
    FW_RANK_CHECK(fw_comm_group(&replica, c, me % 2, 2, 2) == FW_OK);
    int bad = try_kinds(shard, d, x, N, me / 2 * 2, 1, me);
    if (bad == 0) bad = try_kinds(replica, d, x, N, me % 2, 2, me);
    if (bad == 0) bad = try_kinds(c, d, x, N, 0, 1, me);
    FW_RANK_CHECK(fw_comm_barrier(replica) == FW_OK);
    fw_comm_destroy(replica);
    return bad; /* the other group ends with the job */
}

static void groups_of_gpus(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(4, in_groups, NULL), 0);
}

static int on_one_gpu(fw_comm *c, void *context) {
    fw_device *d;
    const int may_share = context != NULL;
    FW_RANK_CHECK(fw_fake_gpu_create(&d, fw_comm_rank(c) % 2) == FW_OK);
    fw_status status = fw_comm_use_device(c, d);
    if (may_share) {
        FW_RANK_CHECK(status == FW_OK && fw_comm_ranks_on_gpu(c) == (fw_comm_rank(c) == 1 ? 1 : 2));
        return 0;
    }
    FW_RANK_CHECK(status == FW_ERR_OPTION);
    FW_RANK_CHECK(strstr(fw_trail_message(), "ranks 0 and 2 would both use GPU 0") != NULL);
    return 0;
}

static void two_ranks_on_one_gpu(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(3, on_one_gpu, NULL), 0);
    setenv("FINEWIRE_SHARE_GPU", "1", 1);
    assert_int_equal(fw_fake_nccl_reset(), 0);
    assert_int_equal(fw_test_world(3, on_one_gpu, page), 0);
    unsetenv("FINEWIRE_SHARE_GPU");
}

/* From here on a collective may take no longer than this. The start keeps the job's own time: on a loaded machine the
 * ranks and their first sum take many seconds. The watchdog reads the limit under its lock. */
static void allow_seconds(fw_comm *c, double seconds) {
    fw_nccl *n = fw_nccl_of(c);
    pthread_mutex_lock(&n->lock);
    c->options.timeout_s = seconds;
    pthread_mutex_unlock(&n->lock);
}

/* Sums until something fails; rank 1 does what `context` says after some of them: "die", "stick" or "work". */
static int with_trouble(fw_comm *c, void *context) {
    fw_device *d;
    float *x, got;
    const char *trouble = context;
    const int me = fw_comm_rank(c);
    fw_comm_request request = {.label = "layers.7"};
    FW_RANK_CHECK(fw_fake_gpu_create(&d, me) == FW_OK && fw_comm_use_device(c, d) == FW_OK);
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, N * sizeof *x, "x") == FW_OK);
    if (strcmp(trouble, "die") != 0) allow_seconds(c, 5);
    fw_status status = FW_OK;
    for (int k = 0; k < 8 && status == FW_OK; k++) {
        if (k == 5 && me == 1 && strcmp(trouble, "die") == 0) kill(getpid(), SIGKILL);
        if (k == 5 && me == 1 && strcmp(trouble, "stick") == 0) nap(15);
        if (k == 5 && me == 1 && strcmp(trouble, "work") == 0) {
            fw_comm_host_work_begin(c, "saving");
            nap(8);
            fw_comm_host_work_end(c);
        }
        status = fw_comm_all_reduce(c, x, N, FW_F32, &request);
        if (status == FW_OK) status = fw_comm_wait(c, &request);
        /* where the host really waits */
        if (status == FW_OK) status = fw_copy(d, &got, x, sizeof got);
    }
    if (status == FW_OK) status = fw_comm_barrier(c);
    snprintf(page->message[me], sizeof page->message[me], "%s", status == FW_OK ? "fine" : fw_trail_message());
    page->aborted_n[me] = fw_fake_nccl_aborted();
    return 0;
}

static void a_rank_that_dies(void **state) {
    (void)state;
    fw_test_rank_result result[3];
    fw_test_world_run(3, with_trouble, "die", NULL, 60, result);
    assert_int_equal(result[1].signal, SIGKILL);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(result[r].exit_code, 0);
        assert_int_equal(result[r].signal, 0);
        if (strstr(page->message[r], "rank 1 died (connection closed); the last collective it started is "
                                     "all_reduce 5 (layers.7)") == NULL)
            fail_msg("rank %d: %s", r, page->message[r]);
        assert_int_equal(page->aborted_n[r], 1);
    }
}

static void a_rank_that_sticks(void **state) {
    (void)state;
    const fw_comm_options options = {.timeout_s = 60, .connect_timeout_s = 60};
    fw_test_world_run(3, with_trouble, "stick", &options, 60, NULL);
    assert_int_equal(page->aborted_n[0], 1);
    /* one of the two that wait says it; the other one quotes it */
    for (int r = 0; r < 3; r += 2)
        if (strstr(page->message[r], "all_reduce 6 (layers.7) is not done after") == NULL ||
            strstr(page->message[r], "rank 1 is stuck, the last it started is all_reduce 5 (layers.7)") == NULL)
            fail_msg("rank %d: %s", r, page->message[r]);
}

static void a_rank_at_long_work(void **state) {
    (void)state;
    const fw_comm_options options = {.timeout_s = 60, .connect_timeout_s = 60};
    assert_int_equal(fw_test_world_run(3, with_trouble, "work", &options, 60, NULL), 0);
    for (int r = 0; r < 3; r++) assert_string_equal(page->message[r], "fine");
}

/* Rank 1 is in a sum of its group, to which rank 0 does not come. Rank 2 waits for both at a barrier of all, for longer,
 * and so is the first to give up: it says what rank 1 is in. */
static int stuck_in_group(fw_comm *c, void *context) {
    fw_device *d;
    float *x, got;
    fw_comm *group;
    (void)context;
    const int me = fw_comm_rank(c);
    fw_comm_request request = {.label = "layers.7"};
    FW_RANK_CHECK(fw_fake_gpu_create(&d, me) == FW_OK && fw_comm_use_device(c, d) == FW_OK);
    FW_RANK_CHECK(fw_comm_alloc(c, (void **)&x, N * sizeof *x, "x") == FW_OK);
    FW_RANK_CHECK(fw_comm_group(&group, c, me / 2 * 2, 1, me / 2 == 0 ? 2 : 1) == FW_OK);
    fw_status status = FW_OK;
    if (me == 0) nap(13);
    if (me == 1) nap(4);
    if (me < 2) status = fw_comm_all_reduce(group, x, N, FW_F32, &request);
    if (me < 2 && status == FW_OK) status = fw_comm_wait(group, &request);
    if (me < 2 && status == FW_OK) status = fw_copy(d, &got, x, sizeof got);
    if (status == FW_OK) status = fw_comm_barrier(c);
    snprintf(page->message[me], sizeof page->message[me], "%s", status == FW_OK ? "fine" : fw_trail_message());
    return 0;
}

static void a_rank_stuck_in_its_group(void **state) {
    (void)state;
    const fw_comm_options options = {.timeout_s = 8, .connect_timeout_s = 60};
    fw_test_world_run(3, stuck_in_group, NULL, &options, 60, NULL);
    if (strstr(page->message[2], "rank 1 is alive but did not come to barrier") == NULL ||
        strstr(page->message[2], "it waits in all_reduce 1 (layers.7) [") == NULL)
        fail_msg("rank 2: %s", page->message[2]);
}

/* ---- what is said at the start */

/* Rank 0's lines; each rank is a process of its own. */
static void take_line(fw_log_level level, const char *line, void *context) {
    const size_t used = strlen(page->lines);
    (void)context;
    snprintf(page->lines + used, sizeof page->lines - used, "%d %s\n", (int)level, line);
}

/* Rank r takes GPU r, or all take GPU 0 when context is not NULL. */
static int say_start(fw_comm *c, void *context) {
    fw_device *d;
    if (fw_comm_rank(c) == 0) fw_log_set_sink(take_line, NULL, FW_LOG_INFO);
    FW_RANK_CHECK(fw_fake_gpu_create(&d, context == NULL ? fw_comm_rank(c) : 0) == FW_OK);
    FW_RANK_CHECK(fw_comm_use_device(c, d) == FW_OK);
    return 0;
}

static void start(int world, const char *library, const char *mode) {
    memset(page->lines, 0, sizeof page->lines);
    setenv("FINEWIRE_NVML", library, 1);
    setenv("STANDIN_NVML", mode, 1);
    assert_int_equal(fw_fake_nccl_reset(), 0);
    assert_int_equal(fw_test_world(world, say_start, NULL), 0);
    unsetenv("FINEWIRE_NVML");
}

static void says(const char *text) {
    if (strstr(page->lines, text) == NULL) fail_msg("\"%s\" is missing in:\n%s", text, page->lines);
}

static void paths_are_told(void **state) {
    (void)state;
    start(4, FW_STANDIN_NVML, "open");
    says("1 nccl      2.99.99, all_reduce of 16 MiB: ");
    says("1 paths     NVLink (NV18): 0-1 0-2 1-2; NVLink (NV17): 0-3 1-3 2-3\n");
    start(2, FW_STANDIN_NVML, "switch"); /* the driver does not let one GPU write into another */
    says("1 paths     shared memory: 0-1\n");
    start(2, "/nowhere", "open");
    says("1 paths     not known (no NVML); direct access between GPUs: all pairs\n");
    start(2, FW_STANDIN_NVML, "silent"); /* a driver that knows the GPUs and nothing of what joins them */
    says("1 paths     not known: 0-1; direct access between GPUs: all pairs\n");
    start(2, FW_STANDIN_NVML, "lies");
    says("1 paths     not known");
    assert_null(strstr(page->lines, "2 NCCL")); /* no warning */
}

/* Each by its name, with what it does and what was measured with it; it counts for the paths as well. */
static void variables_are_named(void **state) {
    (void)state;
    setenv("NCCL_P2P_DISABLE", "1", 1);
    setenv("NCCL_IB_DISABLE", "0", 1);
    setenv("NCCL_P2P_LEVEL", "SYS", 1);
    setenv("NCCL_DEBUG", "INFO", 1); /* tells, and does not slow */
    start(2, FW_STANDIN_NVML, "open");
    says("1 paths     shared memory: 0-1\n");
    says("2 NCCL_P2P_DISABLE=1 is set in the environment: GPUs do not read each other's memory: NVLink and PCIe peer "
         "access are not used; with it an all_reduce of 16 MiB moves ");
    says(" GB/s; unset it unless you mean it\n");
    assert_null(strstr(page->lines, "NCCL_IB_DISABLE"));
    assert_null(strstr(page->lines, "NCCL_P2P_LEVEL"));
    assert_null(strstr(page->lines, "NCCL_DEBUG"));
    setenv("NCCL_SHM_DISABLE", "1", 1);
    start(2, FW_STANDIN_NVML, "open");
    says("1 paths     network: 0-1\n");
    says("2 NCCL_SHM_DISABLE=1");
    unsetenv("NCCL_P2P_DISABLE");
    unsetenv("NCCL_SHM_DISABLE");
    setenv("NCCL_P2P_LEVEL", "LOC", 1);
    start(2, FW_STANDIN_NVML, "open");
    says("1 paths     shared memory: 0-1\n");
    says("2 NCCL_P2P_LEVEL=LOC");
    unsetenv("NCCL_IB_DISABLE");
    unsetenv("NCCL_P2P_LEVEL");
    unsetenv("NCCL_DEBUG");
}

/* Ranks that share a GPU are made ranks of different hosts by variables of our own: nobody is warned of those. */
static void own_variables_are_not_blamed(void **state) {
    (void)state;
    setenv("FINEWIRE_SHARE_GPU", "1", 1);
    assert_int_equal(fw_test_world(2, say_start, page), 0);
    says("several ranks share a GPU and talk through sockets\n");
    assert_null(strstr(page->lines, "NCCL_HOSTID"));
    unsetenv("FINEWIRE_SHARE_GPU");
}

/* ---- the first sums */

static int first_sum(fw_comm *c, void *context) {
    fw_device *d;
    (void)context;
    const int me = fw_comm_rank(c);
    FW_RANK_CHECK(fw_fake_gpu_create(&d, me) == FW_OK);
    FW_RANK_CHECK(fw_comm_use_device(c, d) == FW_ERR_RANK);
    snprintf(page->message[me], sizeof page->message[me], "%s", fw_trail_message());
    return 0;
}

/* GPUs that are said to reach each other and do not: found out before the model is read, and what to try is said. */
static void a_first_sum_that_is_wrong(void **state) {
    (void)state;
    fw_fake_nccl_break(FW_FAKE_NCCL_WRONG);
    assert_int_equal(fw_test_world(2, first_sum, NULL), 0);
    fw_fake_nccl_break(FW_FAKE_NCCL_GOOD);
    for (int r = 0; r < 2; r++)
        if (strstr(page->message[r], "the first sum between the GPUs is wrong") == NULL ||
            strstr(page->message[r], "try NCCL_P2P_DISABLE=1") == NULL)
            fail_msg("rank %d: %s", r, page->message[r]);
}

static void a_first_sum_that_does_not_end(void **state) {
    (void)state;
    const fw_comm_options options = {.timeout_s = 8, .connect_timeout_s = 60};
    fw_fake_nccl_break(FW_FAKE_NCCL_HANGS);
    assert_int_equal(fw_test_world_run(2, first_sum, NULL, &options, 60, NULL), 0);
    fw_fake_nccl_break(FW_FAKE_NCCL_GOOD);
    int told_n = 0;
    for (int r = 0; r < 2; r++)
        told_n += strstr(page->message[r], "their first sum was not done after 8 s: peer access between them may be "
                                           "broken; try NCCL_P2P_DISABLE=1") != NULL;
    if (told_n == 0) fail_msg("%s; %s", page->message[0], page->message[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(collectives_between_gpus, set_up),
        cmocka_unit_test_setup(groups_of_gpus, set_up),
        cmocka_unit_test_setup(two_ranks_on_one_gpu, set_up),
        cmocka_unit_test_setup(a_rank_that_dies, set_up),
        cmocka_unit_test_setup(a_rank_that_sticks, set_up),
        cmocka_unit_test_setup(a_rank_at_long_work, set_up),
        cmocka_unit_test_setup(a_rank_stuck_in_its_group, set_up),
        cmocka_unit_test_setup(a_first_sum_that_is_wrong, set_up),
        cmocka_unit_test_setup(a_first_sum_that_does_not_end, set_up),
        cmocka_unit_test_setup(paths_are_told, set_up),
        cmocka_unit_test_setup(variables_are_named, set_up),
        cmocka_unit_test_setup(own_variables_are_not_blamed, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
