/* Plans for this machine: GPUs as a snapshot has them, and rates as they were measured. */
#include "base/alloc.h"
#include "machine/machine.h"
#include "plan/step_time.h"
#include "support/plan_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static fw_machine *snapshot(const char *name) {
    char path[512];
    fw_machine *m;
    snprintf(path, sizeof path, FW_TEST_DATA "/machine/%s.json", name);
    assert_int_equal(fw_machine_load(&m, path), FW_OK);
    return m;
}

static fw_plan_site site_on(const fw_machine *m) {
    fw_plan_site s;
    const fw_plan_site_wish w = {.machine = m};
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_int_equal(s.world, m->gpu_n);
    assert_int_equal(s.node_n, m->gpu_n);
    assert_true(s.memory_bytes > 0 && s.memory_bytes <= (uint64_t)m->gpu[0].memory_bytes);
    return s;
}

static void test_snapshots(void **state) {
    (void)state;
    static const struct {
        const char *name, *card, *link;
    } known[] = {{"h100_nvswitch_8", "h100-sxm", "NVLink 900 GB/s both ways"},
                 {"l40s_pcie_8", "l40s", "PCIe 4 x16"},
                 {"a100_vm_acs_4", "a100-40gb-pcie", "PCIe 4 x16, through host memory"},
                 {"rtx4090_x8_2", "rtx4090", "PCIe 4 x8, through host memory"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fw_machine *m = snapshot(known[i].name);
        fw_plan_site s = site_on(m);
        assert_string_equal(s.card->name, known[i].card);
        assert_string_equal(s.inside.name, known[i].link);
        fw_plan_site_fini(&s);
        /* what is said counts more */
        const fw_plan_site_wish w = {.machine = m, .gpu = "a100", .world = 4};
        assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
        assert_string_equal(s.card->name, "a100-80gb");
        fw_plan_site_fini(&s);
        const fw_plan_site_wish cpu = {.machine = m, .cpu = true, .thread_n = 1};
        assert_int_equal(fw_plan_site_make(&s, &cpu), FW_OK);
        assert_null(s.card);
        fw_plan_site_fini(&s);
        fw_machine_destroy(m);
    }
}

static void test_unknown_card(void **state) {
    (void)state;
    fw_machine *m = snapshot("l40s_pcie_8");
    fw_plan_site s;
    snprintf(m->gpu[0].name, sizeof m->gpu[0].name, "Quadro K2000");
    const fw_plan_site_wish w = {.machine = m};
    assert_int_equal(fw_plan_site_make(&s, &w), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "this machine has Quadro K2000"));
    fw_machine_destroy(m);
}

/* A memory of another process is not there for a plan. */
static void test_memory_in_use(void **state) {
    (void)state;
    fw_machine *m = snapshot("h100_nvswitch_8");
    fw_plan_site s = site_on(m);
    const uint64_t before = s.memory_bytes;
    fw_plan_site_fini(&s);
    m->gpu[3].memory_used_bytes = (int64_t)30 << 30;
    s = site_on(m);
    assert_int_equal(s.memory_bytes, (uint64_t)m->gpu[3].memory_bytes - ((uint64_t)30 << 30));
    assert_true(s.memory_bytes < before);
    fw_plan_site_fini(&s);
    fw_machine_destroy(m);
}

/* None left, or more in use than there is: nothing is free, and nothing fits. */
static void test_memory_all_in_use(void **state) {
    (void)state;
    for (int64_t left = -1; left <= 1; left++) {
        fw_machine *m = snapshot("h100_nvswitch_8");
        fw_test_plan p;
        fw_test_plan_init(&p, "SmolLM2-135M", "h100-sxm", 8);
        fw_plan_site_fini(&p.s.site);
        m->gpu[3].memory_used_bytes = m->gpu[3].memory_bytes - left;
        const fw_plan_site_wish w = {.machine = m, .t = FW_BF16};
        assert_int_equal(fw_plan_site_make(&p.s.site, &w), FW_OK);
        assert_int_equal(p.s.site.memory_bytes, left > 0 ? left : 0);
        assert_int_equal(fw_plan_scenario_budget(&p.s).gpu_bytes, 0);
        assert_false(fw_test_plan_case(&p, FW_SHARD_ZERO3).fits);
        fw_test_plan_fini(&p);
        fw_machine_destroy(m);
    }
}

/* ---- what was measured */

static void put(fw_measured *all, fw_measured_what what, int world, int thread_n, fw_dtype dtype, double amount,
                double seconds) {
    fw_measured_record r = {.key = {.what = what, .world = world, .thread_n = thread_n, .dtype = dtype},
                            .point_n = 2,
                            .point = {{amount / 1024, seconds / 512}, {amount, seconds}}};
    fw_measured_host(r.key.host);
    snprintf(r.key.device, sizeof r.key.device, "cpu");
    if (what < FW_MEASURED_GEMM) snprintf(r.key.transport, sizeof r.key.transport, "shm");
    assert_int_equal(fw_measured_put(all, &r), FW_OK);
}

static void test_measured(void **state) {
    (void)state;
    fw_measured all = {0};
    put(&all, FW_MEASURED_GEMM, 2, 1, FW_BF16, 1e9, 1e-2);         /* 100 GFLOP/s */
    put(&all, FW_MEASURED_UPDATE, 2, 1, FW_DTYPE_N, 1e9, 0.2);     /* 5 GB/s */
    put(&all, FW_MEASURED_ALL_REDUCE, 2, 0, FW_F32, 64e6, 64e-4);  /* 10 GB/s of the buffer and, for two, of the link */
    put(&all, FW_MEASURED_ALL_GATHER, 2, 0, FW_BF16, 64e6, 32e-4); /* 20 GB/s of the buffer */
    put(&all, FW_MEASURED_GEMM, 4, 1, FW_BF16, 1e9, 1);            /* of other ranks */
    fw_plan_site s;
    fw_plan_site_wish w = {.cpu = true, .world = 2, .thread_n = 1, .t = FW_BF16, .measurements = &all};
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_non_null(strstr(s.compute_source, "measured here"));
    assert_non_null(strstr(s.link_source, "measured here"));
    fw_test_near(s.compute_rate, 100e9, 1);
    fw_test_near(s.memory_rate, 5e9, 1);
    fw_test_near(s.inside.real_rate, 10e9, 1);
    /* ten sums of 64 MB: each rank sends 64 MB a call */
    fw_plan_ring ring = {2, 1, 640000000, 10, FW_MEASURED_ALL_REDUCE, FW_F32};
    fw_test_near(fw_plan_ring_seconds(&s, &ring, false), 0.064, 1e-9);
    ring.what = FW_MEASURED_REDUCE_SCATTER; /* not measured: half of a sum of the whole buffer */
    ring.bytes = 320000000;
    fw_test_near(fw_plan_ring_seconds(&s, &ring, false), 0.032, 1e-9);
    ring.what = FW_MEASURED_ALL_GATHER;
    ring.dtype = FW_BF16;
    fw_test_near(fw_plan_ring_seconds(&s, &ring, false), 0.032, 1e-9);
    fw_plan_site_fini(&s);
    /* another number of ranks or threads: not these */
    w.world = 3;
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_non_null(strstr(s.compute_source, "guess"));
    fw_plan_site_fini(&s);
    w.world = 2;
    w.thread_n = 2;
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_non_null(strstr(s.compute_source, "guess"));
    fw_plan_site_fini(&s);
    w.gpu = "l40s"; /* a card somewhere else */
    w.cpu = false;
    assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
    assert_null(s.measured);
    fw_plan_site_fini(&s);
    fw_measured_fini(&all);
}

/* What was measured over MPI says nothing of shared memory, however new it is. */
static void test_transport(void **state) {
    (void)state;
    fw_measured all = {0};
    put(&all, FW_MEASURED_ALL_REDUCE, 2, 0, FW_F32, 64e6, 64e-4); /* shm: 10 GB/s */
    fw_measured_record r = all.record[0];
    snprintf(r.key.transport, sizeof r.key.transport, "mpi");
    for (int i = 0; i < r.point_n; i++) r.point[i].seconds *= 100;
    assert_int_equal(fw_measured_put(&all, &r), FW_OK);
    for (int mpi = 0; mpi < 2; mpi++) {
        fw_plan_site s;
        const fw_plan_site_wish w = {
            .cpu = true, .world = 2, .thread_n = 1, .t = FW_BF16, .measurements = &all, .mpi = mpi};
        assert_int_equal(fw_plan_site_make(&s, &w), FW_OK);
        fw_test_near(s.inside.real_rate, mpi ? 1e8 : 1e10, 1);
        fw_plan_site_fini(&s);
    }
    fw_measured_fini(&all);
}

/* Twice the speed, half the time. */
static void test_measured_step(void **state) {
    (void)state;
    double step_ms[2];
    for (int fast = 0; fast < 2; fast++) {
        fw_measured all = {0};
        fw_test_plan p;
        put(&all, FW_MEASURED_GEMM, 1, 1, FW_BF16, 1e9, fast ? 1e-2 : 2e-2);
        put(&all, FW_MEASURED_UPDATE, 1, 1, FW_DTYPE_N, 1e9, fast ? 0.1 : 0.2);
        fw_test_plan_init(&p, "SmolLM2-135M", NULL, 1);
        fw_plan_site_fini(&p.s.site);
        const fw_plan_site_wish w = {.cpu = true, .world = 1, .thread_n = 1, .t = FW_BF16, .measurements = &all};
        assert_int_equal(fw_plan_site_make(&p.s.site, &w), FW_OK);
        step_ms[fast] = fw_test_plan_case(&p, FW_SHARD_DDP).times.step_ms;
        fw_test_plan_fini(&p);
        fw_measured_fini(&all);
    }
    fw_test_near(step_ms[0] / step_ms[1], 2, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_snapshots),     cmocka_unit_test(test_unknown_card),
                                       cmocka_unit_test(test_memory_in_use), cmocka_unit_test(test_memory_all_in_use),
                                       cmocka_unit_test(test_transport),     cmocka_unit_test(test_measured),
                                       cmocka_unit_test(test_measured_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
