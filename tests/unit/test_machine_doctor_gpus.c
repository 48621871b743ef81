/* What finewire doctor says of GPUs, their driver and their links: each check finds what it is for, and nothing where
 * nothing is wrong. */
#include "support/machine_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const fw_finding_level NOTE = FW_FINDING_NOTE, WARNING = FW_FINDING_WARNING, BROKEN = FW_FINDING_BROKEN;

static fw_machine *m;

static int take_h100(void **state) {
    (void)state;
    m = fw_test_machine("h100_nvswitch_8");
    return 0;
}
static int take_l40s(void **state) {
    (void)state;
    m = fw_test_machine("l40s_pcie_8");
    return 0;
}
static int drop(void **state) {
    (void)state;
    fw_machine_destroy(m);
    return 0;
}
static void set(char *field, const char *text) { strcpy(field, text); }

static void test_driver(void **state) {
    (void)state;
    fw_test_finds_nothing("driver", m, NULL);
    set(m->driver.module, "570.00.00");
    fw_test_finds("driver", WARNING, "the driver's library is 580.65.06 and its kernel module 570.00.00", m, NULL);
    set(m->driver.module, m->driver.version);
    m->driver.pci_gpu_n = 9;
    fw_test_finds("driver", WARNING, "the PCI list has 9 NVIDIA GPUs, the driver shows 8", m, NULL);
    set(m->container, "docker"); /* a container may have been given some of them */
    fw_test_finds_nothing("driver", m, NULL);
    m->driver.lost_gpu_n = 1;
    fw_test_finds("driver", BROKEN, "1 GPU has fallen off the bus", m, NULL);
    m->driver.state = FW_DRIVER_MISMATCH;
    fw_test_finds("driver", BROKEN, "updated under the running kernel", m, NULL);
    m->driver.state = FW_DRIVER_FAILED;
    fw_test_finds("driver", BROKEN, "does not work", m, NULL);
    m->driver.state = FW_DRIVER_MISSING;
    fw_test_finds("driver", BROKEN, "docker run --gpus all", m, NULL);
    m->container[0] = 0;
    fw_test_finds("driver", BROKEN, "install the NVIDIA driver", m, NULL);
    m->driver.pci_gpu_n = 0;
    fw_test_finds_nothing("driver", m, NULL);
}

static void test_cuda(void **state) {
    (void)state;
    fw_test_finds_nothing("cuda", m, NULL);
    fw_test_finds_nothing("cuda", m, &(fw_doctor_context){.plugin_cuda_version = 13020}); /* any driver for CUDA 13 */
    fw_test_finds("cuda", WARNING, "runs take the CPU: it is missing", m,
                  &(fw_doctor_context){.plugin_error = "it is missing"});
    m->driver.cuda_version = 12080;
    fw_test_finds("cuda", BROKEN, "is for CUDA 12.8 at most, and the plugin was built with CUDA 13.0", m,
                  &(fw_doctor_context){.plugin_cuda_version = 13000});
    m->driver.cuda_version = 11040;
    fw_test_finds("cuda", WARNING, "is for CUDA 11.4 at most", m, NULL);
    m->gpu[2].compute_major = 7;
    fw_test_finds("cuda", BROKEN, "GPU 2: compute capability below 8.0", m, NULL);
}

static void test_busy(void **state) {
    (void)state;
    fw_test_finds_nothing("busy", m, NULL);
    m->gpu[1].process_n = 1;
    m->gpu[1].process[0] =
        (fw_machine_process){.pid = 77, .memory_bytes = (int64_t)3 << 30, .name = "python3", .state = 'S'};
    fw_test_finds("busy", WARNING, "GPU 1 is busy with process 77 (python3) with 3.0 GiB", m, NULL);
    m->gpu[1].process[0].orphan = true;
    fw_test_finds("busy", WARNING, "GPU 1 holds a leftover: process 77 (python3) with 3.0 GiB, whose parent has ended",
                  m, NULL);
    fw_test_finds("busy", WARNING, "kill 77, if it is yours", m, NULL);
    m->gpu[1].process[0].state = 'Z';
    fw_test_finds("busy", WARNING, "a zombie", m, NULL);
    m->gpu[1].process[0].state = 'D';
    fw_test_finds("busy", WARNING, "stuck in the kernel", m, NULL);
    m->gpu[1].process[0].state = 0;
    fw_test_finds("busy", WARNING, "cannot be seen from here", m, NULL);
    m->gpu[1].process_n = 40;
    fw_test_finds("busy", WARNING, "40 processes in all", m, NULL);
    m->gpu[1].process_n = 0;
    m->gpu[1].memory_used_bytes = (int64_t)20 << 30;
    fw_test_finds("busy", WARNING, "GPU 1 has 20.0 GiB taken and no process that can be seen", m, NULL);
    m->gpu[1].memory_used_bytes = (int64_t)600 << 20; /* a display, and the driver's own */
    fw_test_finds_nothing("busy", m, NULL);
}

static void test_modes(void **state) {
    (void)state;
    fw_test_finds_nothing("modes", m, NULL);
    m->gpu[0].compute_mode = FW_COMPUTE_PROHIBITED;
    m->gpu[1].compute_mode = FW_COMPUTE_PROHIBITED;
    m->gpu[5].compute_mode = FW_COMPUTE_PROHIBITED;
    fw_test_finds("modes", BROKEN, "GPUs 0-1,5: compute mode \"prohibited\"", m, NULL);
    for (int i = 0; i < 8; i++) m->gpu[i].compute_mode = FW_COMPUTE_EXCLUSIVE_PROCESS;
    fw_test_finds_nothing("modes", m, NULL);
    m->gpu[3].process_n = 1;
    fw_test_finds("modes", BROKEN, "GPU 3: compute mode \"exclusive\", and a process has it", m, NULL);
    m->gpu[7].mig = 1;
    fw_test_finds("modes", WARNING, "GPU 7: cut into instances", m, NULL);
    set(m->gpu[6].name, "NVIDIA H200");
    fw_test_finds("modes", WARNING, "GPU 6: of another kind or memory than GPU 0 (NVIDIA H100 80GB HBM3)", m, NULL);
}

static void test_health(void **state) {
    (void)state;
    fw_test_finds_nothing("health", m, NULL);
    m->gpu[0].ecc_uncorrected_n = 2;
    fw_test_finds("health", WARNING, "GPU 0: errors of memory", m, NULL);
    m->gpu[1].throttle_reasons = FW_THROTTLE_HW_THERMAL;
    fw_test_finds("health", WARNING, "GPU 1: slowed down by heat", m, NULL);
    m->gpu[2].throttle_reasons = FW_THROTTLE_POWER_BRAKE;
    fw_test_finds("health", WARNING, "GPU 2: slowed down by the power supply", m, NULL);
    m->gpu[3].nvlink_n = 17;
    fw_test_finds("health", WARNING, "GPU 3: fewer NVLinks", m, NULL);
    for (int i = 0; i < 8; i++) m->gpu[i].fabric_state = 2;
    fw_test_finds("health", BROKEN, "GPUs 0-7: the NVSwitch fabric is not set up", m, NULL);
}

/* A power cap is how these cards work, and idle is no reason to worry. */
static void test_health_is_calm(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) m->gpu[i].throttle_reasons = FW_THROTTLE_POWER_CAP | FW_THROTTLE_IDLE;
    fw_test_finds_nothing("health", m, NULL);
}

static void test_peer(void **state) {
    (void)state;
    fw_test_finds_nothing("peer", m, NULL);
    m->pair[0 * 8 + 1].write = FW_P2P_DISABLED; /* one direction is enough */
    fw_test_finds("peer", WARNING, "GPUs 0-1 do not reach each other's memory: a setting of the driver", m, NULL);
    m->pair[2 * 8 + 3].read = FW_P2P_DISABLED;
    fw_test_finds("peer", WARNING, "2 pairs of GPUs (GPU 0 and GPU 1 first)", m, NULL);
    for (int i = 0; i < 64; i++)
        if (i % 9 != 0) m->pair[i].read = FW_P2P_GPU;
    fw_test_finds("peer", WARNING, "GPUs 0-7 do not reach each other's memory: the GPU or its driver", m, NULL);
    m->pair[1].read = FW_P2P_CHIPSET;
    fw_test_finds("peer", WARNING, "the chipset does not allow it", m, NULL);
    m->pair[1].read = FW_P2P_TOPOLOGY;
    fw_test_finds("peer", WARNING, "too far apart", m, NULL);
    m->pair[1].read = FW_P2P_NONE;
    fw_test_finds("peer", WARNING, "not supported", m, NULL);
}

/* Across NUMA nodes over PCIe: said, not blamed. Over NVLink nothing crosses. */
static void test_peer_far(void **state) {
    (void)state;
    fw_test_finds("peer", NOTE, "16 pairs of GPUs talk across the link between NUMA nodes", m, NULL);
}

static void test_pcie(void **state) {
    (void)state;
    fw_test_finds_nothing("pcie", m, NULL);
    m->gpu[4].pcie_width = 8;
    fw_test_finds("pcie", WARNING, "GPU 4: 8 of 16 PCIe lanes are up", m, NULL);
    fw_test_finds("pcie", WARNING, "reseat", m, NULL);
    m->gpu[4].slot_width_max = 8;
    fw_test_finds("pcie", WARNING, "GPU 4: 8 of 16 PCIe lanes, for the slot has no more", m, NULL);
    m->gpu[5].pcie_gen_max = 4;
    m->gpu[5].pcie_gen = 4;
    fw_test_finds("pcie", WARNING, "GPU 5: PCIe generation 4, and the card can do 5", m, NULL);
}

static void test_pcie_idle(void **state) {
    (void)state; /* the recorded machine is idle: generation 1 of 4 is no fault */
    fw_test_finds("pcie", NOTE, "GPUs 0-7: idle at PCIe generation 1 of 4", m, NULL);
    for (int i = 0; i < 8; i++) m->gpu[i].pcie_gen = 4;
    fw_test_finds_nothing("pcie", m, NULL);
    m->gpu[6].pcie_gen = 2;
    m->gpu[6].throttle_reasons = 0;
    m->gpu[6].utilization_percent = 95;
    fw_test_finds("pcie", WARNING, "GPU 6: PCIe generation 2 under load, and 4 is possible", m, NULL);
    m->gpu[6].throttle_reasons = m->gpu[6].utilization_percent = FW_MACHINE_UNKNOWN; /* an old driver: by its state */
    m->gpu[6].performance_state = 8;
    fw_test_finds("pcie", NOTE, "GPU 6: idle", m, NULL);
    m->gpu[6].performance_state = 0;
    fw_test_finds("pcie", WARNING, "GPU 6: PCIe generation 2 under load", m, NULL);
}

static void test_acs(void **state) {
    (void)state;
    fw_test_finds_nothing("acs", m, NULL);
    m->bridge[1].acs = FW_ACS_SOURCE_VALIDATION; /* redirects nothing */
    fw_test_finds_nothing("acs", m, NULL);
    m->bridge[2].acs = FW_MACHINE_UNKNOWN;
    fw_test_finds("acs", NOTE, "cannot be read in 1 of 8 bridges", m, NULL);
    m->bridge[1].acs = FW_ACS_REQUEST_REDIRECT;
    fw_test_finds("acs", WARNING, "ACS is on in 1 bridge above the GPUs (0000:00:03.1 first)", m, NULL);
    fw_test_finds("acs", WARNING, "setpci", m, NULL);
    set(m->virtual_machine, "KVM");
    fw_test_finds("acs", WARNING, "cannot switch it off for this one; ask whoever runs it for ATS", m, NULL);
    m->virtual_machine[0] = 0;
    m->iommu = FW_IOMMU_TRANSLATING;
    fw_test_finds("acs", WARNING, "iommu=pt", m, NULL);
    for (int i = 0; i < 64; i++) m->pair[i].read = FW_P2P_GPU; /* no peers: nothing to slow down */
    fw_test_finds_nothing("acs", m, NULL);
}

static void test_acs_does_not_touch_nvlink(void **state) {
    (void)state;
    for (int i = 0; i < m->bridge_n; i++) m->bridge[i].acs = FW_ACS_REQUEST_REDIRECT;
    m->iommu = FW_IOMMU_TRANSLATING;
    fw_test_finds_nothing("acs", m, NULL);
}

int main(void) {
#define ON(machine, test) cmocka_unit_test_setup_teardown(test, machine, drop)
    const struct CMUnitTest tests[] = {
        ON(take_h100, test_driver),    ON(take_h100, test_cuda),     ON(take_h100, test_busy),
        ON(take_h100, test_modes),     ON(take_h100, test_health),   ON(take_h100, test_health_is_calm),
        ON(take_h100, test_peer),      ON(take_l40s, test_peer_far), ON(take_h100, test_pcie),
        ON(take_l40s, test_pcie_idle), ON(take_l40s, test_acs),      ON(take_h100, test_acs_does_not_touch_nvlink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
