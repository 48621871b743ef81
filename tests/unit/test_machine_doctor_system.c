/* What finewire doctor says of limits, settings, network, disk and CPU; and of the recorded machines as a whole. */
#include "base/alloc.h"
#include "support/machine_lab.h"

#include "machine/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const fw_finding_level NOTE = FW_FINDING_NOTE, WARNING = FW_FINDING_WARNING, BROKEN = FW_FINDING_BROKEN;
#define GIB ((int64_t)1 << 30)

static fw_machine *m;
static const fw_doctor_context several = {.other_hosts = true};

static int take_h100(void **state) {
    (void)state;
    m = fw_test_machine("h100_nvswitch_8");
    return 0;
}
/* A machine without GPUs, of which nothing is wrong. */
static int take_cpu(void **state) {
    take_h100(state);
    m->gpu_n = 0;
    m->driver.state = FW_DRIVER_MISSING;
    m->driver.pci_gpu_n = 0;
    return 0;
}
static int drop(void **state) {
    (void)state;
    fw_machine_destroy(m);
    return 0;
}
static void set(char *field, const char *text) { strcpy(field, text); }

static void set_variable(const char *name, const char *value) { fw_test_set_variable(m, name, value); }

static void test_shm(void **state) {
    (void)state;
    fw_test_finds_nothing("shm", m, NULL);
    m->shm_bytes = m->shm_free_bytes = 64 << 20;
    fw_test_finds("shm", WARNING, "/dev/shm has 64 MiB", m, NULL);
    fw_test_finds("shm", WARNING, "mount -o remount,size=8G", m, NULL);
    set(m->container, "docker");
    fw_test_finds("shm", WARNING, "--shm-size=8g or --ipc=host", m, NULL);
    set(m->container, "kubernetes");
    fw_test_finds("shm", WARNING, "medium: Memory", m, NULL);
    m->shm_bytes = 8 * GIB;
    fw_test_finds("shm", WARNING, "/dev/shm is full: 64 of 8192 MiB are free", m, NULL);
    m->gpu_n = 1; /* one rank shares nothing */
    fw_test_finds_nothing("shm", m, NULL);
    m->gpu_n = 8;
}

static void test_memlock(void **state) {
    (void)state;
    fw_test_finds_nothing("memlock", m, NULL);
    m->memlock_bytes = 65536;
    fw_test_finds("memlock", WARNING, "only 0.0625 MiB of memory may be locked", m, NULL);
    fw_test_finds("memlock", WARNING, "ulimit -l unlimited", m, NULL);
    m->memlock_hard_bytes = 65536;
    fw_test_finds("memlock", WARNING, "/etc/security/limits.conf", m, NULL);
    set(m->container, "docker");
    fw_test_finds("memlock", WARNING, "--ulimit memlock=-1", m, NULL);
    m->nic_n = 0;
    fw_test_finds("memlock", NOTE, "there is no such card here", m, NULL);
}

static void test_files(void **state) {
    (void)state;
    fw_test_finds_nothing("files", m, NULL);
    m->nofile_n = 1024;
    fw_test_finds("files", WARNING, "may open only 1024 files", m, NULL);
    fw_test_finds("files", WARNING, "ulimit -n 65536", m, NULL);
    m->nofile_hard_n = 1024;
    fw_test_finds("files", WARNING, "/etc/security/limits.conf", m, NULL);
    m->gpu_n = 2;
    fw_test_finds_nothing("files", m, NULL);
    fw_test_finds("files", WARNING, "may open only 1024 files", m, &several);
    m->nofile_n = 256;
    fw_test_finds("files", WARNING, "may open only 256 files", m, NULL);
    m->gpu_n = 8;
}

/* Every variable of the table is found by its name, with what it does, and not when its value changes nothing. */
static void test_environment(void **state) {
    (void)state;
    for (size_t i = 0; fw_setting_rule_at(i) != NULL; i++) {
        const fw_setting_rule *rule = fw_setting_rule_at(i);
        if (strcmp(rule->variable, "CUDA_VISIBLE_DEVICES") == 0 || strcmp(rule->variable, "NCCL_SOCKET_IFNAME") == 0)
            continue;
        set_variable(rule->variable, "7");
        fw_test_finds("environment", rule->harm == FW_SETTING_TELLS ? NOTE : WARNING, rule->effect, m, NULL);
        fw_test_finds("environment", rule->harm == FW_SETTING_TELLS ? NOTE : WARNING, rule->variable, m, NULL);
        if (rule->harmless == NULL) continue;
        char value[32];
        snprintf(value, sizeof value, "%.*s", (int)strcspn(rule->harmless + 1, ","), rule->harmless + 1);
        set_variable(rule->variable, value);
        fw_test_finds_nothing("environment", m, NULL);
    }
    set_variable("NCCL_UNHEARD_OF", "1");
    fw_test_finds_nothing("environment", m, NULL);
    set_variable("NCCL_P2P_LEVEL", "SY"); /* a part of a harmless value is another value */
    fw_test_finds("environment", WARNING, "NCCL_P2P_LEVEL=SY: ", m, NULL);
}

static void test_interfaces(void **state) {
    (void)state;
    set_variable("NCCL_SOCKET_IFNAME", "eno");
    fw_test_finds("environment", NOTE, "NCCL_SOCKET_IFNAME=eno: hosts meet", m, NULL);
    set_variable("NCCL_SOCKET_IFNAME", "=ib0,eno3:1");
    fw_test_finds("environment", NOTE, "hosts meet", m, NULL);
    set_variable("NCCL_SOCKET_IFNAME", "^docker");
    fw_test_finds("environment", NOTE, "hosts meet", m, NULL);
    set_variable("NCCL_SOCKET_IFNAME", "bond0,eth1");
    fw_test_finds("environment", WARNING, "names no card of this machine", m, NULL);
    fw_test_finds("environment", BROKEN, "names no card of this machine", m, &several);
}

static void test_visible_devices(void **state) {
    (void)state;
    set_variable("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7");
    fw_test_finds_nothing("environment", m, NULL);
    set_variable("CUDA_VISIBLE_DEVICES", "2,3");
    fw_test_finds("environment", NOTE, "CUDA_VISIBLE_DEVICES=2,3: programs see 2 of 8 GPUs", m, NULL);
    set_variable("CUDA_VISIBLE_DEVICES", "");
    fw_test_finds("environment", BROKEN, "hides every GPU", m, NULL);
    set_variable("CUDA_VISIBLE_DEVICES", "-1");
    fw_test_finds("environment", BROKEN, "hides every GPU", m, NULL);
}

static void test_network(void **state) {
    (void)state;
    fw_test_finds("network", NOTE, "8 RDMA cards of up to 400 Gbit/s", m, NULL);
    set(m->nic[3].state, "DOWN");
    fw_test_finds("network", NOTE, "mlx5_5 is DOWN", m, NULL);
    fw_test_finds("network", WARNING, "mlx5_5 is DOWN", m, &several);
    for (int i = 0; i < 8; i++) m->nic[i].rdma = false, m->nic[i].gbit_per_s = FW_MACHINE_UNKNOWN;
    fw_test_finds("network", NOTE, "no InfiniBand or RoCE: hosts talk through sockets over eno3", m, NULL);
    fw_test_finds("network", WARNING, "no InfiniBand or RoCE", m, &several);
}

static void test_network_of_a_cpu(void **state) {
    (void)state;
    m->nic_n = 0;
    fw_test_finds_nothing("network", m, NULL);
}

static void test_hosts(void **state) {
    (void)state;
    fw_test_finds_nothing("hosts", m, &several);
    m->host[0].only_loopback = true;
    set(m->host[0].addresses, "127.0.1.1");
    fw_test_finds("hosts", NOTE, "the name dgx-07 leads to 127.0.1.1, which is this host alone", m, NULL);
    fw_test_finds("hosts", WARNING, "/etc/hosts", m, &several);
    set(m->host[0].error, "Name or service not known");
    fw_test_finds("hosts", NOTE, "the name dgx-07 of this host is not known: Name or service not known", m, NULL);
    fw_test_finds("hosts", WARNING, "enter it in DNS", m, &several);
}

static void test_other_hosts(void **state) {
    (void)state;
    fw_machine_host both[2] = {m->host[0], {.name = "dgx-08", .error = "Name or service not known"}};
    fw_machine_host *own = m->host;
    m->host = both;
    m->host_n = 2;
    fw_test_finds("hosts", BROKEN, "the name dgx-08 of another host is not known", m, &several);
    both[1] = (fw_machine_host){.name = "dgx-08", .addresses = "127.0.0.1", .only_loopback = true};
    fw_test_finds("hosts", BROKEN, "the name dgx-08 leads to 127.0.0.1", m, &several);
    both[1] = (fw_machine_host){.name = "dgx-08", .addresses = "10.21.0.18"};
    fw_test_finds_nothing("hosts", m, &several);
    m->host = own;
    m->host_n = 1;
}

static void test_clock(void **state) {
    (void)state;
    fw_test_finds_nothing("clock", m, &several);
    m->clock_synchronised = FW_MACHINE_UNKNOWN;
    fw_test_finds_nothing("clock", m, &several);
    m->clock_synchronised = 0;
    fw_test_finds("clock", NOTE, "timedatectl set-ntp true", m, NULL);
    fw_test_finds("clock", WARNING, "chrony", m, &several);
}

static void test_disk(void **state) {
    (void)state;
    fw_doctor_context c = {.output_dir = "out",
                           .disk_free_bytes = 100 * GIB,
                           .checkpoint_bytes = 10 * GIB,
                           .model_bytes = 2 * GIB,
                           .checkpoint_keep_n = 2};
    fw_test_finds_nothing("disk", m, NULL);
    fw_test_finds_nothing("disk", m, &c);
    c.disk_free_bytes = 30 * GIB; /* two stay, a third is written before the oldest goes */
    fw_test_finds("disk", WARNING,
                  "out: 30.00 GiB free, room for 2 checkpoints of 10.00 GiB; save_total_limit 2 needs 3", m, &c);
    c.disk_free_bytes = 11 * GIB;
    fw_test_finds("disk", BROKEN, "out: 11.00 GiB free; one checkpoint takes 10.00 and the trained model 2.00 GiB", m,
                  &c);
    c.checkpoint_keep_n = 0;
    c.disk_free_bytes = 62 * GIB;
    fw_test_finds("disk", NOTE, "room for 6 checkpoints", m, &c);
    c.disk_free_bytes = 22 * GIB;
    fw_test_finds("disk", WARNING, "room for 2 checkpoints", m, &c);
    c.disk_free_bytes = 1000 * GIB;
    fw_test_finds_nothing("disk", m, &c);
    c.checkpoint_bytes = 0;
    fw_test_finds_nothing("disk", m, &c);
    c.disk_free_bytes = 5 * GIB;
    fw_test_finds("disk", WARNING, "out: 5.0 GiB free", m, &c);
}

static void test_cpu(void **state) {
    (void)state;
    m->cpu.thread_n = m->cpu.core_n;
    fw_test_finds_nothing("cpu", m, NULL);
    m->cpu.thread_n = 224;
    fw_test_finds("cpu", NOTE, "224 threads on 112 cores", m, NULL);
    set(m->cpu.governor, "powersave");
    fw_test_finds("cpu", NOTE, "governed by \"powersave\"", m, NULL);
    m->cpu.features = FW_CPU_AVX2 | FW_CPU_AVX512;
    fw_test_finds("cpu", NOTE, "no instructions for bf16", m, NULL);
    m->cpu.features = 0;
    fw_test_finds("cpu", WARNING, "no AVX2, FMA and F16C", m, NULL);
    set(m->virtual_machine, "KVM");
    fw_test_finds("cpu", WARNING, "cpu type host", m, NULL);
    set(m->cpu.arch, "aarch64");
    fw_test_finds("cpu", NOTE, "no instructions for bf16", m, NULL);
    m->cpu.features = FW_CPU_NEON | FW_CPU_ARM_BF16;
    m->cpu.thread_n = 112;
    m->cpu.governor[0] = 0;
    fw_test_finds_nothing("cpu", m, NULL);
}

static void test_cpu_of_gpus(void **state) {
    (void)state;
    fw_test_finds_nothing("cpu", m, NULL);
    m->cpu.usable_n = 4;
    fw_test_finds("cpu", WARNING, "4 threads of the CPU for 8 GPUs", m, NULL);
}

static void test_cgroup(void **state) {
    (void)state;
    fw_test_finds_nothing("cgroup", m, NULL);
    m->cpu.quota_cpus = 16;
    fw_test_finds("cgroup", NOTE, "allows 16 of 224 CPUs", m, NULL);
    m->cpu.quota_cpus = 1.5;
    fw_test_finds("cgroup", WARNING, "allows 1.5 of 224 CPUs", m, NULL);
    m->cpu.quota_cpus = 224;
    fw_test_finds_nothing("cgroup", m, NULL);
    m->memory_limit_bytes = 1000 * GIB;
    fw_test_finds("cgroup", NOTE, "allows 1000.0 of 1968.3 GiB of memory", m, NULL);
    m->memory_limit_bytes = 64 * GIB;
    fw_test_finds("cgroup", WARNING, "less than half of what the GPUs have", m, NULL);
}

/* ---- whole machines ---- */

static int worst_of(const char *name, const fw_doctor_context *c) {
    fw_machine *machine = fw_test_machine(name);
    fw_findings found;
    assert_int_equal(fw_doctor_run(&found, machine, c), FW_OK);
    const int worst = fw_findings_worst(&found);
    fw_findings_fini(&found);
    fw_machine_destroy(machine);
    return worst;
}

static void test_recorded(void **state) {
    (void)state;
    const fw_doctor_context plugin = {.plugin_cuda_version = 13000};
    assert_int_equal(worst_of("h100_nvswitch_8", &plugin), NOTE);
    assert_int_equal(worst_of("l40s_pcie_8", &plugin), NOTE);
    assert_int_equal(worst_of("rtx4090_x8_2", &plugin), WARNING);
    assert_int_equal(worst_of("a100_vm_acs_4", &plugin), BROKEN);
    assert_int_equal(worst_of("a100_vm_acs_4", &(fw_doctor_context){.plugin_cuda_version = 12040}), WARNING);
    fw_findings none = {0};
    assert_int_equal(fw_findings_worst(&none), -1);
}

/* Nothing is known of the machine: nothing is found, nothing breaks. */
static void test_unknown(void **state) {
    (void)state;
    json_t *empty = json_pack("{s:s, s:[{}, {}]}", "format", "finewire machine 1", "gpus");
    fw_machine *unknown;
    fw_findings found;
    assert_int_equal(fw_machine_from_json(&unknown, empty, "empty"), FW_OK);
    assert_int_equal(fw_doctor_run(&found, unknown, &(fw_doctor_context){0}), FW_OK);
    for (int i = 0; i < found.n; i++)
        if (found.item[i].level != NOTE) fail_msg("%s: %s", found.item[i].check, found.item[i].text);
    fw_findings_fini(&found);
    fw_machine_destroy(unknown);
    json_decref(empty);
}

static void test_no_memory(void **state) {
    (void)state;
    fw_machine *machine = fw_test_machine("a100_vm_acs_4");
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_findings found;
        fw_alloc_fail_at(n);
        status = fw_doctor_run(&found, machine, &(fw_doctor_context){.plugin_cuda_version = 13000});
        fw_alloc_fail_at(0);
        assert_true(status == FW_OK || status == FW_ERR_NOMEM);
        fw_findings_fini(&found);
    }
    fw_machine_destroy(machine);
}

int main(void) {
#define ON(machine, test) cmocka_unit_test_setup_teardown(test, machine, drop)
    const struct CMUnitTest tests[] = {
        ON(take_h100, test_shm),         ON(take_h100, test_memlock),         ON(take_h100, test_files),
        ON(take_h100, test_environment), ON(take_h100, test_interfaces),      ON(take_h100, test_visible_devices),
        ON(take_h100, test_network),     ON(take_cpu, test_network_of_a_cpu), ON(take_h100, test_hosts),
        ON(take_h100, test_other_hosts), ON(take_h100, test_clock),           ON(take_h100, test_disk),
        ON(take_cpu, test_cpu),          ON(take_h100, test_cpu_of_gpus),     ON(take_h100, test_cgroup),
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_unknown),      cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
