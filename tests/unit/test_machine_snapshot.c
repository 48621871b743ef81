/* Snapshots of machines as files: the recorded ones come back byte for byte, and wrong ones are refused by name. */
#include "base/alloc.h"
#include "base/file.h"
#include "machine/machine.h"
#include "support/machine_lab.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static char folder[FW_TEST_PATH_BYTES];
static const char *const names[] = {"h100_nvswitch_8", "l40s_pcie_8", "rtx4090_x8_2", "a100_vm_acs_4"};

static void test_round_trip(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        fw_strbuf recorded = {0}, written = {0};
        fw_machine *m = fw_test_machine(names[i]);
        const char *copy = fw_test_path(folder, names[i]);
        assert_int_equal(fw_machine_save(m, copy), FW_OK);
        snprintf(path, sizeof path, "%s/machine/%s.json", FW_TEST_DATA, names[i]);
        assert_int_equal(fw_file_read(&recorded, path, 1 << 20), FW_OK);
        assert_int_equal(fw_file_read(&written, copy, 1 << 20), FW_OK);
        assert_string_equal(fw_strbuf_text(&recorded), fw_strbuf_text(&written));
        fw_strbuf_fini(&recorded);
        fw_strbuf_fini(&written);
        fw_machine_destroy(m);
    }
}

static void test_recorded(void **state) {
    (void)state;
    char text[12];
    fw_machine *h100 = fw_test_machine("h100_nvswitch_8"), *l40s = fw_test_machine("l40s_pcie_8");
    assert_true(h100->gpu_n == 8 && h100->nic_n == 9 && h100->memlock_bytes == FW_MACHINE_UNLIMITED);
    assert_string_equal(fw_machine_pair_text(text, h100, 0, 7), "NV18");
    assert_true(fw_machine_pair_of(h100, 0, 7)->nvswitch && !fw_machine_pair_of(h100, 3, 3)->nvswitch);
    assert_int_equal(h100->nic_level[2 * 8 + 2], FW_LEVEL_PIX);
    assert_string_equal(fw_machine_setting_of(h100, "CUDA_HOME"), "/usr/local/cuda");
    assert_null(fw_machine_setting_of(h100, "NCCL_DEBUG"));
    assert_string_equal(fw_machine_pair_text(text, l40s, 2, 3), "PHB");
    assert_string_equal(fw_machine_pair_text(text, l40s, 3, 4), "SYS");
    fw_machine_destroy(h100);
    fw_machine_destroy(l40s);
}

static void test_pcie_rates(void **state) {
    (void)state;
    assert_true(fw_machine_pcie_bytes_per_s(4, 16) > 31.5e9 && fw_machine_pcie_bytes_per_s(4, 16) < 31.52e9);
    assert_true(fw_machine_pcie_bytes_per_s(1, 1) == 250e6);
    assert_true(fw_machine_pcie_bytes_per_s(0, 16) == 0 && fw_machine_pcie_bytes_per_s(7, 16) == 0);
    assert_true(fw_machine_pcie_bytes_per_s(4, FW_MACHINE_UNKNOWN) == 0);
}

/* ---- wrong files ---- */

static void refuse(const char *text, const char *expected) {
    fw_machine *m;
    const char *path = fw_test_path(folder, "wrong.json");
    fw_test_write(path, text, strlen(text));
    assert_int_equal(fw_machine_load(&m, path), FW_ERR_INPUT);
    assert_null(m);
    if (strstr(fw_trail_message(), expected) == NULL) fail_msg("\"%s\" lacks \"%s\"", fw_trail_message(), expected);
    assert_non_null(strstr(fw_trail_message(), "wrong.json"));
}

#define HEAD "{\"format\": \"finewire machine 1\", "

static void test_refused(void **state) {
    (void)state;
    refuse("[]", "is not a JSON object");
    refuse("{}", "is no snapshot of a machine: its format must be \"finewire machine 1\"; finewire topo --snapshot "
                 "FILE writes one");
    refuse("{\"format\": \"finewire machine 2\"}", "is no snapshot");
    refuse(HEAD "\"shm_byte\": 1}", "\"shm_byte\" is not a key of a machine's snapshot");
    refuse(HEAD "\"shm_bytes\": -5}", "shm_bytes");
    refuse(HEAD "\"shm_bytes\": \"much\"}", "shm_bytes");
    refuse(HEAD "\"memlock_bytes\": \"much\"}", "memlock_bytes is \"much\"; it must be a number or \"unlimited\"");
    refuse(HEAD "\"iommu\": \"on\"}", "iommu is \"on\", which is not known");
    refuse(HEAD "\"driver\": []}", "driver is not a JSON object");
    refuse(HEAD "\"cpu\": {\"features\": \"avx2 avx9\"}}", "cpu: features: \"avx9\" is not known");
    refuse(HEAD "\"gpus\": {}}", "gpus must be a list of at most 64");
    refuse(HEAD "\"gpus\": [7]}", "gpus[0] is not a JSON object");
    refuse(HEAD "\"gpus\": [{\"pcie_gen\": 99}]}", "gpus[0]");
    refuse(HEAD "\"gpus\": [{\"cpus\": \"0-3\", \"cpu\": 1}]}", "\"cpu\" is not a key");
    refuse(HEAD "\"gpus\": [{}], \"pcie\": [\"X X\"]}", "row 1 of pcie must be 1 words");
    refuse(HEAD "\"gpus\": [{}, {}], \"pcie\": [\"X SYS\"]}", "pcie must be a list of 2 rows");
    refuse(HEAD "\"gpus\": [{}, {}], \"pcie\": [\"X SYS\", \"PIX PIX\"]}", "row 2 of pcie");
    refuse(HEAD "\"gpus\": [{}, {}], \"pcie\": [\"X SYS\", 7]}", "row 2 of pcie");
    refuse(HEAD "\"gpus\": [{}, {}], \"nvlinks\": [\"X 4\", \"-4 X\"]}", "row 2 of nvlinks");
    refuse(HEAD "\"gpus\": [{}, {}], \"p2p_read\": [\"X FINE\", \"OK X\"]}", "row 1 of p2p_read");
    refuse(HEAD "\"gpus\": [{}], \"nic_to_gpu\": [\"PIX\"]}", "nic_to_gpu must be a list of 0 rows");
    refuse(HEAD "\"pcie\": []}", "pcie must be a list of 0 rows");
    refuse(HEAD "\"environment\": {\"NCCL_DEBUG\": 1}}", "NCCL_DEBUG must be a text, or a value and a file");
    refuse(HEAD "\"environment\": {\"NCCL_DEBUG\": {\"value\": \"WARN\"}}}", "NCCL_DEBUG must be a text");
    refuse(HEAD "\"host_name\": 3}", "host_name");
    refuse(HEAD, "wrong.json:1");
}

/* Long lists of processes are counted in full and listed in part. */
static void test_processes(void **state) {
    (void)state;
    fw_machine *m;
    static const char text[] = HEAD "\"gpus\": [{\"process_n\": 40, \"processes\": [{\"pid\": 7, \"state\": \"S\"}]}]}";
    const char *path = fw_test_path(folder, "many.json");
    fw_test_write(path, text, strlen(text));
    assert_int_equal(fw_machine_load(&m, path), FW_OK);
    assert_int_equal(m->gpu[0].process_n, 40);
    assert_true(m->gpu[0].process[0].pid == 7 && m->gpu[0].process[0].state == 'S');
    assert_int_equal(m->gpu[0].process[15].pid, FW_MACHINE_UNKNOWN);
    fw_machine_destroy(m);
}

static void test_no_memory(void **state) {
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/machine/rtx4090_x8_2.json", FW_TEST_DATA);
    fw_status status = FW_ERR_NOMEM;
    for (uint64_t n = 1; status != FW_OK; n++) {
        fw_machine *m = NULL;
        fw_alloc_fail_at(n);
        status = fw_machine_load(&m, path);
        if (status == FW_OK) status = fw_machine_save(m, fw_test_path(folder, "saved.json"));
        fw_alloc_fail_at(0);
        if (status != FW_OK && status != FW_ERR_NOMEM) fail_msg("%s", fw_trail_message());
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
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_recorded),  cmocka_unit_test(test_pcie_rates),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_processes), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
