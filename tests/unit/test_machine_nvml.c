/* Reading GPUs through a stand-in for the driver's library: what it says arrives, what it lacks is unknown, what it lies
 * about is not believed. */
#include "base/alloc.h"
#include "machine/machine.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static char folder[FW_TEST_PATH_BYTES];

/* In the empty folder there is no /sys: what is known comes from the library. */
static fw_machine *read_mode(const char *library, const char *mode) {
    fw_machine *m;
    assert_int_equal(setenv("STANDIN_NVML", mode, 1), 0);
    assert_int_equal(fw_machine_read(&m, &(fw_machine_source){.root = folder, .nvml = library}), FW_OK);
    return m;
}

static void test_pair(void **state) {
    (void)state;
    char text[12];
    fw_machine *m = read_mode(FW_STANDIN_NVML, "pair");
    assert_int_equal(m->driver.state, FW_DRIVER_OK);
    assert_string_equal(m->driver.version, "580.65.06");
    assert_int_equal(m->driver.cuda_version, 13000);
    assert_int_equal(m->gpu_n, 2);
    const fw_machine_gpu *g = &m->gpu[0];
    assert_string_equal(g->name, "NVIDIA Stand-in");
    assert_string_equal(g->uuid, "GPU-00000000");
    assert_string_equal(g->pci_id, "0000:17:00.0");
    assert_true(g->memory_bytes == (int64_t)24 << 30 && g->memory_used_bytes == (int64_t)1 << 30);
    assert_true(g->compute_major == 8 && g->compute_minor == 6);
    assert_true(g->pcie_gen == 1 && g->pcie_gen_max == 4 && g->card_gen_max == 5);
    assert_true(g->pcie_width == 8 && g->pcie_width_max == 16);
    assert_true(g->utilization_percent == 37 && g->performance_state == 8 && g->mig == 1 && g->persistence == 1);
    assert_true(g->compute_mode == FW_COMPUTE_EXCLUSIVE_PROCESS && g->ecc_uncorrected_n == 3);
    assert_int_equal(g->throttle_reasons, FW_THROTTLE_IDLE | FW_THROTTLE_HW_THERMAL);
    assert_true(g->fabric_state == 0 && g->nvlink_n == 4 && g->nvlink_down_n == 0);
    assert_int_equal(g->process_n, 2);
    assert_true(g->process[0].pid == 4242 && g->process[0].memory_bytes == (int64_t)5 << 30);
    assert_true(g->process[1].pid == 4243 && g->process[1].memory_bytes == FW_MACHINE_UNKNOWN);
    assert_int_equal(m->gpu[1].process_n, 300); /* counted, though there was no room for them */
    assert_string_equal(fw_machine_pair_text(text, m, 0, 1), "NV4");
    assert_string_equal(fw_machine_pair_text(text, m, 1, 1), "X");
    const fw_machine_pair *pair = fw_machine_pair_of(m, 1, 0);
    assert_true(pair->level == FW_LEVEL_NODE && !pair->nvswitch);
    assert_true(pair->read == FW_P2P_OK && pair->write == FW_P2P_DISABLED);
    assert_int_equal(fw_machine_find_gpu(m, "00000000:65:00.0"), 1);
    assert_int_equal(fw_machine_find_gpu(m, "0000:65:00"), 1);
    assert_int_equal(fw_machine_find_gpu(m, "0000:66:00.0"), -1);
    assert_int_equal(fw_machine_find_gpu(m, "nonsense"), -1);
    fw_machine_destroy(m);
}

static void test_switch(void **state) {
    (void)state;
    char text[12];
    fw_machine *m = read_mode(FW_STANDIN_NVML, "switch");
    assert_int_equal(m->gpu_n, 4);
    assert_string_equal(fw_machine_pair_text(text, m, 0, 2), "NV18");
    assert_string_equal(fw_machine_pair_text(text, m, 3, 0), "NV17"); /* the least of the two ends */
    assert_true(fw_machine_pair_of(m, 0, 2)->nvswitch);
    assert_int_equal(fw_machine_pair_of(m, 0, 2)->level, FW_LEVEL_SYS);
    assert_true(m->gpu[3].nvlink_n == 17 && m->gpu[3].nvlink_down_n == 1 && m->gpu[0].fabric_state == 3);
    fw_machine_destroy(m);
}

/* What an old driver lacks is unknown; its own way of listing processes works. */
static void test_old_driver(void **state) {
    (void)state;
    char text[12];
    fw_machine *m = read_mode(FW_STANDIN_NVML_OLD, "pair");
    assert_int_equal(m->driver.state, FW_DRIVER_OK);
    assert_int_equal(m->driver.cuda_version, FW_MACHINE_UNKNOWN);
    const fw_machine_gpu *g = &m->gpu[1];
    assert_true(g->mig == FW_MACHINE_UNKNOWN && g->fabric_state == FW_MACHINE_UNKNOWN);
    assert_true(g->throttle_reasons == FW_MACHINE_UNKNOWN && g->card_gen_max == FW_MACHINE_UNKNOWN);
    assert_string_equal(g->uuid, "");
    assert_int_equal(g->process_n, 2);
    assert_true(g->process[1].pid == 4243 && g->process[1].memory_bytes == (int64_t)6 << 30);
    assert_string_equal(fw_machine_pair_text(text, m, 0, 1), "NV4");
    fw_machine_destroy(m);
    m = read_mode(FW_STANDIN_NVML_OLD, "switch"); /* a link that leads to no GPU leads to a switch */
    assert_string_equal(fw_machine_pair_text(text, m, 0, 1), "NV18");
    assert_true(fw_machine_pair_of(m, 0, 1)->nvswitch);
    fw_machine_destroy(m);
}

/* A driver that answers none of the optional questions. */
static void test_silent(void **state) {
    (void)state;
    fw_machine *m = read_mode(FW_STANDIN_NVML, "silent");
    assert_int_equal(m->gpu_n, 2);
    const fw_machine_gpu *g = &m->gpu[0];
    assert_string_equal(g->pci_id, "0000:17:00.0");
    assert_true(g->pcie_gen == FW_MACHINE_UNKNOWN && g->pcie_width_max == FW_MACHINE_UNKNOWN);
    assert_true(g->compute_mode == FW_COMPUTE_UNKNOWN && g->process_n == FW_MACHINE_UNKNOWN && g->nvlink_n == 0);
    assert_int_equal(fw_machine_pair_of(m, 0, 1)->level, FW_LEVEL_UNKNOWN);
    assert_int_equal(fw_machine_pair_of(m, 0, 1)->read, FW_P2P_UNKNOWN);
    fw_machine_destroy(m);
}

static void test_lies(void **state) {
    (void)state;
    fw_machine *m = read_mode(FW_STANDIN_NVML, "lies");
    assert_int_equal(m->gpu_n, 2);
    assert_int_equal(m->driver.cuda_version, FW_MACHINE_UNKNOWN);
    assert_int_equal(strlen(m->driver.version), 80);
    for (int i = 0; i < 2; i++) {
        const fw_machine_gpu *g = &m->gpu[i];
        assert_int_equal(strspn(g->name, "?"), strlen(g->name)); /* no control characters */
        assert_true(strlen(g->name) < sizeof g->name && strlen(g->uuid) < sizeof g->uuid);
        assert_string_equal(g->pci_id, "");
        assert_true(g->memory_bytes == FW_MACHINE_UNKNOWN && g->memory_used_bytes == FW_MACHINE_UNKNOWN);
        assert_true(g->pcie_gen == FW_MACHINE_UNKNOWN && g->utilization_percent == FW_MACHINE_UNKNOWN);
        assert_true(g->compute_major == FW_MACHINE_UNKNOWN && g->compute_mode == FW_COMPUTE_UNKNOWN);
        assert_true(g->ecc_uncorrected_n == FW_MACHINE_UNKNOWN && g->throttle_reasons == FW_MACHINE_UNKNOWN);
        assert_true(g->mig == FW_MACHINE_UNKNOWN && g->fabric_state == FW_MACHINE_UNKNOWN);
        assert_int_equal(g->process_n, FW_MACHINE_UNKNOWN);
        assert_true(g->nvlink_n <= 64);
    }
    assert_int_equal(fw_machine_pair_of(m, 0, 1)->level, FW_LEVEL_UNKNOWN);
    assert_int_equal(fw_machine_pair_of(m, 0, 1)->read, FW_P2P_UNKNOWN);
    fw_machine_destroy(m);
}

static void expect_driver(const char *library, const char *mode, fw_machine_driver_state expected, const char *error) {
    fw_machine *m = read_mode(library, mode);
    assert_int_equal(m->driver.state, expected);
    assert_string_equal(m->driver.error, error);
    assert_int_equal(m->gpu_n, 0);
    fw_machine_destroy(m);
}

static void test_drivers_that_fail(void **state) {
    (void)state;
    expect_driver(FW_STANDIN_NVML, "mismatch", FW_DRIVER_MISMATCH, "Driver/library version mismatch");
    expect_driver(FW_STANDIN_NVML, "dead", FW_DRIVER_FAILED, "NVML error 999");
    expect_driver(FW_STANDIN_NVML, "count", FW_DRIVER_FAILED, "the driver counts 4000000000 GPUs");
    expect_driver(FW_STANDIN_NVML, "deaf", FW_DRIVER_FAILED, "?[31mred");
    expect_driver("/nowhere/libnvidia-ml.so.1", "pair", FW_DRIVER_MISSING, "");
    expect_driver("libm.so.6", "pair", FW_DRIVER_FAILED, "the driver is too old: it lacks nvmlInit_v2");
}

static void test_lost_gpu(void **state) {
    (void)state;
    fw_machine *m = read_mode(FW_STANDIN_NVML, "lost");
    assert_int_equal(m->gpu_n, 1);
    assert_int_equal(m->gpu[0].index, 1);
    assert_int_equal(m->driver.lost_gpu_n, 1);
    fw_machine_destroy(m);
}

/* The n-th allocation fails: an error, no leak, no crash. */
static void test_no_memory(void **state) {
    (void)state;
    fw_status status = FW_ERR_NOMEM;
    setenv("STANDIN_NVML", "switch", 1);
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_machine *m;
        fw_alloc_fail_at(n);
        status =
            fw_machine_read(&m, &(fw_machine_source){.root = folder, .nvml = FW_STANDIN_NVML, .hosts = "localhost"});
        fw_alloc_fail_at(0);
        assert_true(status == FW_OK || (status == FW_ERR_NOMEM && m == NULL));
        fw_machine_destroy(m);
    }
}

static int make_folder(void **state) {
    (void)state;
    fw_test_scratch_make(folder);
    return 0;
}
static int remove_folder(void **state) {
    (void)state;
    fw_test_scratch_remove(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair),     cmocka_unit_test(test_switch),    cmocka_unit_test(test_old_driver),
        cmocka_unit_test(test_silent),   cmocka_unit_test(test_lies),      cmocka_unit_test(test_drivers_that_fail),
        cmocka_unit_test(test_lost_gpu), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
