/* Reading a machine from folders that stand for /sys and /proc. */
#include "base/cgroup.h"
#include "base/file.h"
#include "machine/machine.h"
#include "machine/pci_id.h"
#include "machine/pci_path.h"
#include "machine/sysfs.h"
#include "support/machine_lab.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static char root[FW_TEST_PATH_BYTES];

static int make_root(void **state) {
    (void)state;
    fw_test_scratch_make(root);
    return 0;
}
static int remove_root(void **state) {
    (void)state;
    fw_test_scratch_remove(root);
    return 0;
}

static fw_machine *read_root(void) {
    fw_machine *m;
    setenv("STANDIN_NVML", "pair", 1);
    assert_int_equal(fw_machine_read(&m, &(fw_machine_source){.root = root, .nvml = FW_STANDIN_NVML}), FW_OK);
    return m;
}

/* ---- PCI ---- */

/* The stand-in's GPUs are 17:00.0 and 65:00.0. */
static void test_gpus_below_one_switch(void **state) {
    (void)state;
    uint8_t config[4096] = {0};
    config[0x100] = 0x01; /* AER, then ACS at 0x148 */
    config[0x102] = 0x81;
    config[0x103] = 0x14;
    config[0x148] = 0x0d;
    config[0x14e] = FW_ACS_SOURCE_VALIDATION | FW_ACS_REQUEST_REDIRECT;
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0", "0x060400", "0x8086", 1);
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0/0000:16:00.0", "0x060400", "0x1000", 1);
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", "0x030200", "0x10de", 1);
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0/0000:16:01.0", "0x060400", "0x1000", 1);
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0/0000:16:01.0/0000:65:00.0", "0x030200", "0x10de", 1);
    fw_test_lay_bytes(root, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/config", config, sizeof config);
    fw_test_lay_bytes(root, "/sys/devices/pci0000:15/0000:15:01.0/config", config, 64);
    fw_test_lay_text(root, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/max_link_width", "8\n");
    fw_test_lay_text(root, "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/local_cpulist", "48-95\n");
    fw_test_lay_text(root, "/sys/kernel/iommu_groups/4/type", "DMA-FQ\n");
    fw_test_lay_link(root, "/sys/bus/pci/devices/0000:17:00.0/iommu_group", "/sys/kernel/iommu_groups/4");
    fw_machine *m = read_root();
    assert_int_equal(m->driver.pci_gpu_n, 2);
    assert_int_equal(m->gpu[0].numa, 1);
    assert_string_equal(m->gpu[0].cpus, "48-95");
    assert_string_equal(m->gpu[0].host_bridge, "pci0000:15");
    assert_true(m->gpu[0].slot_width_max == 8 && m->gpu[0].slot_gen_max == 4);
    assert_true(m->gpu[1].slot_width_max == 16);
    assert_int_equal(m->bridge_n, 3);
    assert_string_equal(m->bridge[0].pci_id, "0000:15:01.0");
    assert_int_equal(m->bridge[0].acs, FW_MACHINE_UNKNOWN); /* 64 bytes: not for us to read */
    assert_int_equal(m->bridge[1].acs, FW_ACS_SOURCE_VALIDATION | FW_ACS_REQUEST_REDIRECT);
    assert_int_equal(m->bridge[2].acs, FW_MACHINE_UNKNOWN);
    assert_int_equal(m->iommu, FW_IOMMU_TRANSLATING);
    assert_int_equal(fw_machine_pair_of(m, 0, 1)->level, FW_LEVEL_NODE); /* NVML's word counts where it gives one */
    fw_machine_destroy(m);
}

static void test_levels(void **state) {
    (void)state;
    fw_pci_path a, b;
#define LEVEL(x, numa_x, y, numa_y)                                                                                    \
    (fw_pci_path_parse(&a, "/sys/devices/" x), fw_pci_path_parse(&b, "/sys/devices/" y),                               \
     fw_pci_path_level(&a, numa_x, &b, numa_y))
    assert_int_equal(LEVEL("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", 0,
                           "pci0000:15/0000:15:01.0/0000:16:01.0/0000:18:00.0", 0),
                     FW_LEVEL_PIX);
    assert_int_equal(LEVEL("pci0000:15/0000:15:01.0/0000:17:00.0", 0, "pci0000:15/0000:15:01.0/0000:17:00.1", 0),
                     FW_LEVEL_PIX);
    assert_int_equal(LEVEL("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", 0,
                           "pci0000:15/0000:15:01.0/0000:16:01.0/0000:20:00.0", 0),
                     FW_LEVEL_PXB);
    assert_int_equal(LEVEL("pci0000:00/0000:00:01.0/0000:01:00.0", 0, "pci0000:00/0000:00:02.0/0000:02:00.0", 0),
                     FW_LEVEL_PHB);
    assert_int_equal(LEVEL("pci0000:00/0000:00:01.0/0000:01:00.0", 0, "pci0000:40/0000:40:02.0/0000:42:00.0", 0),
                     FW_LEVEL_NODE);
    assert_int_equal(LEVEL("pci0000:00/0000:00:01.0/0000:01:00.0", 0, "pci0000:40/0000:40:02.0/0000:42:00.0", 1),
                     FW_LEVEL_SYS);
    assert_int_equal(LEVEL("pci0000:00/0000:01:00.0", 0, "pci0000:00/0000:01:00.0", 0), FW_LEVEL_SELF);
    assert_int_equal(LEVEL("virtual/net/lo", 0, "pci0000:00/0000:01:00.0", 0), FW_LEVEL_UNKNOWN);
    /* a bridge that is the host of a domain of its own */
    fw_pci_path_parse(&a, "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0");
    assert_string_equal(a.host_bridge, "pci10000:e0");
    assert_int_equal(a.part_n, 2);
    assert_string_equal(a.part[1], "10000:e1:00.0");
}

static void test_pci_ids(void **state) {
    (void)state;
    char id[FW_MACHINE_PCI_BYTES];
    assert_true(fw_pci_id_parse(id, "00000000:CA:1F.7"));
    assert_string_equal(id, "0000:ca:1f.7");
    assert_true(fw_pci_id_parse(id, "ca:00.0"));
    assert_string_equal(id, "0000:ca:00.0");
    assert_true(fw_pci_id_parse(id, "10000:e1:00.0"));
    static const char *const wrong[] = {"",
                                        "0000",
                                        ":17:00.0",
                                        "0000:17:",
                                        "0000:17:00.8",
                                        "0000:17:20.0",
                                        "0000:117:00.0",
                                        "0000:17:00.0x",
                                        "000000000:17:00.0",
                                        "abc:17.0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(fw_pci_id_parse(id, wrong[i]));
        assert_string_equal(id, "");
    }
}

/* A chain of capabilities that turns in a circle, one that leads out, one that is not there. */
static void test_acs_hostile(void **state) {
    (void)state;
    uint8_t config[4096] = {0};
    config[0x100] = 1;
    config[0x103] = 0x10; /* next: 0x100 again */
    assert_int_equal(fw_pci_acs_control(config, sizeof config), FW_ACS_NONE);
    config[0x103] = 0xff;
    config[0x102] = 0xc0;
    assert_int_equal(fw_pci_acs_control(config, sizeof config), FW_ACS_NONE);
    memset(config, 0xff, sizeof config);
    assert_int_equal(fw_pci_acs_control(config, sizeof config), FW_MACHINE_UNKNOWN);
    assert_int_equal(fw_pci_acs_control(config, 64), FW_MACHINE_UNKNOWN);
    memset(config, 0, sizeof config);
    assert_int_equal(fw_pci_acs_control(config, sizeof config), FW_ACS_NONE);
}

/* GPUs that the driver does not show are counted by the PCI list; other cards are not. */
static void test_gpus_without_driver(void **state) {
    (void)state;
    fw_machine *m;
    fw_test_lay_pci(root, "pci0000:00/0000:01:00.0", "0x030000", "0x10de", -1);
    fw_test_lay_pci(root, "pci0000:00/0000:02:00.0", "0x030000", "0x1002", -1);
    fw_test_lay_pci(root, "pci0000:00/0000:03:00.0", "0x040300", "0x10de", -1);
    assert_int_equal(fw_machine_read(&m, &(fw_machine_source){.root = root, .nvml = "/nowhere"}), FW_OK);
    assert_true(m->driver.state == FW_DRIVER_MISSING && m->driver.pci_gpu_n == 1);
    fw_machine_destroy(m);
}

/* ---- network ---- */

static void test_nics(void **state) {
    (void)state;
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0", "0x060400", "0x8086", 0);
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0/0000:17:00.0", "0x030200", "0x10de", 0);
    fw_test_lay_pci(root, "pci0000:15/0000:15:01.0/0000:18:00.0", "0x020700", "0x15b3", 0);
    fw_test_lay_link(root, "/sys/class/infiniband/mlx5_0/device", "/sys/bus/pci/devices/0000:18:00.0");
    fw_test_lay_text(root, "/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    fw_test_lay_text(root, "/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    fw_test_lay_text(root, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    fw_test_lay_link(root, "/sys/class/net/eth0/device", "/sys/bus/pci/devices/0000:18:00.0");
    fw_test_lay_text(root, "/sys/class/net/eth0/operstate", "up\n");
    fw_test_lay_text(root, "/sys/class/net/eth0/speed", "25000\n");
    fw_test_lay_text(root, "/sys/class/net/lo/operstate", "unknown\n"); /* not a card */
    fw_test_lay_text(root, "/sys/class/net/a\033[2J/device/x", "");     /* not a name */
    fw_machine *m = read_root();
    assert_int_equal(m->nic_n, 2);
    const fw_machine_nic *ib = &m->nic[0], *eth = &m->nic[1];
    assert_true(ib->rdma && ib->gbit_per_s == 400 && ib->numa == 0);
    assert_string_equal(ib->name, "mlx5_0");
    assert_string_equal(ib->layer, "InfiniBand");
    assert_string_equal(ib->state, "ACTIVE");
    assert_string_equal(ib->pci_id, "0000:18:00.0");
    assert_int_equal(m->nic_level[0], FW_LEVEL_PIX);
    assert_int_equal(m->nic_level[1], FW_LEVEL_UNKNOWN); /* /sys does not know the second GPU */
    assert_true(!eth->rdma && eth->gbit_per_s == 25);
    assert_string_equal(eth->state, "up");
    fw_machine_destroy(m);
}

/* ---- CPU, memory, limits ---- */

static void lay_cpu(int cpu, int package, const char *siblings) {
    char path[128], text[16];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    fw_test_lay_text(root, path, siblings);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    snprintf(text, sizeof text, "%d\n", package);
    fw_test_lay_text(root, path, text);
}

static void test_cpu_and_memory(void **state) {
    (void)state;
    static const char cpuinfo[] = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: Two\033[0mCores\n"
                                  "flags\t\t: fma avx2 f16c avx512f avx512bw avx512dq hypervisor avx512vlx\n";
    fw_test_lay_text(root, "/proc/cpuinfo", cpuinfo);
    fw_test_lay_text(root, "/sys/devices/system/cpu/online", "0-3\n");
    lay_cpu(0, 0, "0,2\n");
    lay_cpu(1, 1, "1,3\n");
    lay_cpu(2, 0, "0,2\n");
    lay_cpu(3, 1, "1,3\n");
    fw_test_lay_text(root, "/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    fw_test_lay_text(root, "/sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    fw_test_lay_text(root, "/sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
    fw_test_lay_text(root, "/sys/devices/system/cpu/cpu0/cache/index1/level", "2\n");
    fw_test_lay_text(root, "/sys/devices/system/cpu/cpu0/cache/index1/type", "Unified\n");
    fw_test_lay_text(root, "/sys/devices/system/cpu/cpu0/cache/index1/size", "nonsense\n");
    fw_test_lay_text(root, "/sys/devices/system/node/node0/cpulist", "0,2\n");
    fw_test_lay_text(root, "/sys/devices/system/node/node0/meminfo",
                     "Node 0 MemTotal:  1024 kB\nNode 0 MemFree: 512 kB\n");
    fw_test_lay_text(root, "/sys/devices/system/node/node1/cpulist", "1,3\n");
    fw_test_lay_text(root, "/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n");
    fw_test_lay_text(root, "/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,3\n");
    fw_test_lay_text(root, "/proc/self/limits",
                     "Limit                     Soft Limit           Hard Limit           Units\n"
                     "Max open files            1024                 1048576              files\n"
                     "Max locked memory         65536                unlimited            bytes\n");
    fw_test_lay_text(root, "/proc/self/cgroup", "0::/job/7\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/job/7/cpu.max", "max 100000\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/job/7/memory.max", "2147483648\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/job/7/memory.current", "1073741824\n");
    fw_test_lay_text(root, "/.dockerenv", "");
    fw_test_lay_text(root, "/sys/class/dmi/id/sys_vendor", "QEMU\n");
    fw_machine *m = read_root();
    const fw_machine_cpu *cpu = &m->cpu;
    assert_string_equal(cpu->model, "Two?[0mCores");
    assert_string_equal(cpu->vendor, "AuthenticAMD");
    assert_int_equal(cpu->features, FW_CPU_AVX2); /* avx512vl is not there, though avx512vlx begins like it */
    assert_true(cpu->socket_n == 2 && cpu->core_n == 2 && cpu->thread_n == 4 && cpu->usable_n == 3);
    assert_true(cpu->quota_cpus == 1.5);
    assert_true(cpu->l1d_bytes == 48 * 1024 && cpu->l2_bytes == FW_MACHINE_UNKNOWN && cpu->l3_n == FW_MACHINE_UNKNOWN);
    assert_int_equal(m->numa_n, 2);
    assert_string_equal(m->numa[1].cpus, "1,3");
    assert_true(m->numa[0].memory_bytes == 1024 * 1024 && m->numa[1].memory_bytes == FW_MACHINE_UNKNOWN);
    assert_true(m->memory_bytes == (int64_t)8 << 30 && m->memory_limit_bytes == (int64_t)2 << 30);
    assert_true(m->memory_available_bytes == (int64_t)1 << 30); /* what the group leaves */
    assert_true(m->nofile_n == 1024 && m->nofile_hard_n == 1048576);
    assert_true(m->memlock_bytes == 65536 && m->memlock_hard_bytes == FW_MACHINE_UNLIMITED);
    assert_string_equal(m->container, "docker");
    assert_string_equal(m->virtual_machine, "QEMU");
    assert_true(m->shm_bytes == FW_MACHINE_UNKNOWN && m->clock_synchronised == FW_MACHINE_UNKNOWN);
    fw_machine_destroy(m);
}

/* cgroup v1, whose unlimited memory is a huge number. */
static void test_cgroup_v1(void **state) {
    (void)state;
    uint64_t limit, left;
    fw_test_lay_text(root, "/proc/self/cgroup", "5:memory:/slurm/job\n4:cpu,cpuacct:/slurm\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/cpu/slurm/cpu.cfs_quota_us", "250000\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/cpu/slurm/cpu.cfs_period_us", "100000\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "1000\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/memory/slurm/job/memory.usage_in_bytes", "2000\n");
    fw_test_lay_text(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(fw_cgroup_cpus(root) == 2.5);
    assert_true(fw_cgroup_memory(root, &limit, &left));
    assert_true(limit == 1000 && left == 0);
    assert_true(fw_cgroup_cpus("/nowhere") < 0);
    assert_false(fw_cgroup_memory("/nowhere", &limit, &left));
}

/* A process of a GPU, as /proc has it; its name holds brackets. */
static void test_processes(void **state) {
    (void)state;
    fw_test_lay_text(root, "/proc/4242/stat", "4242 (a (b) c) Z 1 4242 0\n");
    fw_machine *m = read_root();
    const fw_machine_process *p = m->gpu[0].process;
    assert_string_equal(p[0].name, "a (b) c");
    assert_true(p[0].state == 'Z' && p[0].orphan);
    assert_true(p[1].state == 0 && p[1].name[0] == 0 && !p[1].orphan); /* of another container, or gone */
    fw_machine_destroy(m);
}

/* NCCL's files below the environment; the user's before the system's. */
static void test_settings(void **state) {
    (void)state;
    setenv("NCCL_ALGO", "Ring", 1);
    setenv("HOME", "/a/user", 1);
    unsetenv("NCCL_CONF_FILE");
    fw_test_lay_text(root, "/a/user/.nccl.conf",
                     "# NCCL_NET=Socket\nNCCL_P2P_DISABLE=1 # slow\n  NCCL_PROTO=LL\nNCCL_DEBUG#=INFO\nPATH=/x\n");
    fw_test_lay_text(root, "/etc/nccl.conf", "NCCL_PROTO=Simple\nNCCL_ALGO=Tree\nNCCL_IB_DISABLE=1\n");
    fw_machine *m = read_root();
    assert_string_equal(fw_machine_setting_of(m, "NCCL_ALGO"), "Ring");
    assert_null(fw_machine_find_setting(m, "NCCL_ALGO")->file);
    assert_string_equal(fw_machine_setting_of(m, "NCCL_P2P_DISABLE"), "1");
    assert_string_equal(fw_machine_find_setting(m, "NCCL_P2P_DISABLE")->file, "/a/user/.nccl.conf");
    assert_string_equal(fw_machine_setting_of(m, "NCCL_PROTO"), "LL");
    assert_string_equal(fw_machine_find_setting(m, "NCCL_IB_DISABLE")->file, "/etc/nccl.conf");
    assert_null(fw_machine_setting_of(m, "NCCL_NET"));
    assert_null(fw_machine_setting_of(m, "PATH"));
    fw_machine_destroy(m);
    setenv("NCCL_CONF_FILE", "/job.conf", 1); /* instead of the user's */
    fw_test_lay_text(root, "/job.conf", "NCCL_NTHREADS=64\n");
    m = read_root();
    assert_string_equal(fw_machine_setting_of(m, "NCCL_NTHREADS"), "64");
    assert_null(fw_machine_setting_of(m, "NCCL_P2P_DISABLE"));
    fw_machine_destroy(m);
    unsetenv("NCCL_CONF_FILE");
    unsetenv("NCCL_ALGO");
}

static void test_cpu_lists(void **state) {
    (void)state;
    assert_int_equal(fw_cpu_list_count("0-47,96-143"), 96);
    assert_int_equal(fw_cpu_list_count("3"), 1);
    assert_int_equal(fw_cpu_list_first("3-4,1"), 3);
    assert_true(fw_cpu_list_has("0-3,8", 8) && !fw_cpu_list_has("0-3,8", 7));
    static const char *const wrong[] = {"", "x", "1-", "4-3", "1,x", "0-99999999999999999999", "-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(fw_cpu_list_count(wrong[i]), -1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        TEST(test_gpus_below_one_switch),
        TEST(test_levels),
        TEST(test_pci_ids),
        TEST(test_acs_hostile),
        TEST(test_gpus_without_driver),
        TEST(test_nics),
        TEST(test_cpu_and_memory),
        TEST(test_cgroup_v1),
        TEST(test_processes),
        TEST(test_settings),
        TEST(test_cpu_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
