/* Which way NCCL's data goes between GPUs: on the recorded machines, and under its variables. The rules are NCCL's; that
 * they are followed can be seen on a machine with GPUs only, in NCCL's log (NCCL_DEBUG=INFO). */
#include "machine/nccl_ways.h"
#include "machine/settings.h"
#include "support/machine_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void expect_of(fw_machine *m, const int *gpu, int rank_n, const char *expected) {
    fw_strbuf text = {0};
    assert_int_equal(fw_nccl_ways_text(&text, m, gpu, rank_n), FW_OK);
    assert_string_equal(fw_strbuf_text(&text), expected);
    fw_strbuf_fini(&text);
}

static void expect(fw_machine *m, const char *expected) {
    int gpu[FW_MACHINE_GPU_CAP];
    for (int i = 0; i < m->gpu_n; i++) gpu[i] = i;
    expect_of(m, gpu, m->gpu_n, expected);
}

static void test_nvlink(void **state) {
    (void)state;
    fw_machine *m = fw_test_machine("h100_nvswitch_8");
    expect(m, "NVLink (NV18): all pairs");
    fw_test_set_variable(m, "NCCL_P2P_LEVEL", "PIX");
    expect(m, "NVLink (NV18): all pairs");
    fw_test_set_variable(m, "NCCL_P2P_DISABLE", "1");
    expect(m, "shared memory: all pairs");
    fw_test_set_variable(m, "NCCL_P2P_LEVEL", "0");
    expect(m, "shared memory: all pairs");
    fw_machine_destroy(m);
}

/* On AMD's CPUs peers talk over any distance of PCIe, on Intel's not through the CPU. */
static void test_pcie(void **state) {
    (void)state;
    static const char near[] = "PCIe (PHB): 0-1 2-3 4-5 6-7; ";
    fw_machine *m = fw_test_machine("l40s_pcie_8");
    fw_strbuf text = {0};
    const int four[] = {0, 1, 4, 5};
    expect_of(m, four, 4, "PCIe (PHB): 0-1 2-3; PCIe (SYS): 0-2 0-3 1-2 1-3");
    fw_test_set_variable(m, "NCCL_P2P_LEVEL", "PHB");
    expect_of(m, four, 4, "PCIe (PHB): 0-1 2-3; shared memory: 0-2 0-3 1-2 1-3");
    fw_test_set_variable(m, "NCCL_P2P_LEVEL", "5");
    expect_of(m, four, 4, "PCIe (PHB): 0-1 2-3; PCIe (SYS): 0-2 0-3 1-2 1-3");
    fw_test_set_variable(m, "NCCL_P2P_LEVEL", "FAR"); /* no word of NCCL's: as if it were not set */
    expect_of(m, four, 4, "PCIe (PHB): 0-1 2-3; PCIe (SYS): 0-2 0-3 1-2 1-3");
    strcpy(m->cpu.vendor, "GenuineIntel");
    expect_of(m, four, 4, "shared memory: all pairs");
    fw_test_set_variable(m, "NCCL_SHM_DISABLE", "1");
    expect_of(m, four, 4, "network: all pairs");
    m->pair[0 * 8 + 1].level = m->pair[1 * 8 + 0].level = FW_LEVEL_PIX;
    expect_of(m, four, 4, "PCIe (PIX): 0-1; network: 0-2 0-3 1-2 1-3 2-3");
    fw_machine_destroy(m);
    m = fw_test_machine("l40s_pcie_8");
    const int gpu[] = {0, 1, 2, 3, 4, 5, 6, 7};
    assert_int_equal(fw_nccl_ways_text(&text, m, gpu, 8), FW_OK);
    assert_int_equal(strncmp(fw_strbuf_text(&text), near, sizeof near - 1), 0);
    assert_non_null(strstr(fw_strbuf_text(&text), "; PCIe (NODE): 0-2 0-3 1-2 1-3 4-6 4-7 5-6 5-7; PCIe (SYS): 0-4 "));
    fw_strbuf_fini(&text);
    fw_machine_destroy(m);
}

static void test_no_peers(void **state) {
    (void)state;
    fw_machine *m = fw_test_machine("rtx4090_x8_2");
    expect(m, "shared memory: 0-1");
    m->pair[1].read = FW_P2P_UNKNOWN;
    expect(m, "not known: 0-1");
    fw_machine_destroy(m);
    m = fw_test_machine("rtx4090_x8_2");
    m->pair[1].read = m->pair[1].write = FW_P2P_OK; /* one direction only */
    expect(m, "shared memory: 0-1");
    m->pair[2].read = m->pair[2].write = FW_P2P_OK;
    expect(m, "PCIe (PHB): 0-1");
    fw_machine_destroy(m);
}

static void test_ranks(void **state) {
    (void)state;
    fw_machine *m = fw_test_machine("h100_nvswitch_8");
    const int shared[] = {3, 3}, hidden[] = {0, -1, 2};
    expect_of(m, shared, 2, "network: 0-1");
    expect_of(m, hidden, 3, "not known: 0-1 1-2; NVLink (NV18): 0-2");
    expect_of(m, shared, 1, "");
    fw_machine_destroy(m);
}

/* The paths and the warnings read a value as NCCL does: a number of any base, and a word is 0. */
static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *value;
        int is_set;
    } cases[] = {{"1", 1},  {"0x1", 1}, {"-1", 1},       {"1 ", 1},  {"0", 0},
                 {"00", 0}, {"0x0", 0}, {"nonsense", 0}, {"true", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fw_machine *m = fw_test_machine("h100_nvswitch_8");
        fw_test_set_variable(m, "NCCL_P2P_DISABLE", cases[i].value);
        expect(m, cases[i].is_set ? "shared memory: all pairs" : "NVLink (NV18): all pairs");
        assert_int_equal(fw_setting_rule_of("NCCL_P2P_DISABLE", cases[i].value) != NULL, cases[i].is_set);
        fw_machine_destroy(m);
    }
    /* a switch that is on by default is turned off by a word, too */
    assert_non_null(fw_setting_rule_of("NCCL_DMABUF_ENABLE", "yes"));
    assert_null(fw_setting_rule_of("NCCL_DMABUF_ENABLE", "1"));
    assert_null(fw_setting_rule_of("NCCL_P2P_LEVEL", "SYS"));
    assert_non_null(fw_setting_rule_of("NCCL_P2P_LEVEL", "nonsense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvlink), cmocka_unit_test(test_pcie),    cmocka_unit_test(test_no_peers),
        cmocka_unit_test(test_ranks),  cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
