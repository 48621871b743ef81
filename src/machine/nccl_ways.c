#include "machine/nccl_ways.h"

#include "machine/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how far peer access is used ---- */

/* NCCL's distances; through the CPU it knows only one NUMA node (PHB) or several (SYS). */
typedef enum reach { REACH_NONE, REACH_NVLINK, REACH_PIX, REACH_PXB, REACH_PHB, REACH_SYS } reach;

static reach distance(const fw_machine_pair *pair) {
    if (pair->nvlink_n > 0) return REACH_NVLINK;
    switch (pair->level) {
    case FW_LEVEL_PIX: return REACH_PIX;
    case FW_LEVEL_PXB: return REACH_PXB;
    case FW_LEVEL_PHB:
    case FW_LEVEL_NODE: return REACH_PHB;
    default: return REACH_SYS;
    }
}

static bool is_on(const fw_machine *m, const char *variable) {
    const char *value = fw_machine_setting_of(m, variable);
    return value != NULL && fw_setting_number(value) != 0;
}

/* NCCL_P2P_LEVEL: a word, or a number of NCCL before 2.4. */
static bool read_level(reach *out, const char *value) {
    static const struct {
        const char *word;
        reach reach;
    } words[] = {{"LOC", REACH_NONE}, {"NVL", REACH_NVLINK}, {"NVB", REACH_NVLINK}, {"C2C", REACH_NVLINK},
                 {"PIX", REACH_PIX},  {"PXB", REACH_PXB},    {"P2C", REACH_PXB},    {"PXN", REACH_PXB},
                 {"PHB", REACH_PHB},  {"SYS", REACH_SYS}};
    static const reach numbers[] = {REACH_NONE, REACH_PIX, REACH_PXB, REACH_PHB, REACH_PHB, REACH_SYS};
    if (value == NULL) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(value, words[i].word) == 0) {
            *out = words[i].reach;
            return true;
        }
    if (value[0] < '0' || value[0] > '9') return false;
    const int number = atoi(value);
    *out = numbers[number < 5 ? number : 5];
    return true;
}

/* Through the CPU only on AMD's: on others NCCL takes shared memory, which is faster there. */
static reach reach_of(const fw_machine *m) {
    reach asked;
    if (is_on(m, "NCCL_P2P_DISABLE")) return REACH_NONE;
    if (read_level(&asked, fw_machine_setting_of(m, "NCCL_P2P_LEVEL"))) return asked;
    return strcmp(m->cpu.vendor, "AuthenticAMD") == 0 ? REACH_SYS : REACH_PXB;
}

/* ---- one pair ---- */

fw_nccl_way fw_nccl_way_between(const fw_machine *m, int a, int b) {
    if (a < 0 || b < 0) return FW_WAY_UNKNOWN;
    if (a == b) return FW_WAY_NETWORK;
    const fw_machine_pair *there = fw_machine_pair_of(m, a, b), *back = fw_machine_pair_of(m, b, a);
    const bool known = there->read != FW_P2P_UNKNOWN && there->write != FW_P2P_UNKNOWN;
    const bool open =
        there->read == FW_P2P_OK && there->write == FW_P2P_OK && back->read == FW_P2P_OK && back->write == FW_P2P_OK;
    if (!known || (there->level == FW_LEVEL_UNKNOWN && there->nvlink_n == 0)) return FW_WAY_UNKNOWN;
    if (distance(there) <= reach_of(m) && (open || is_on(m, "NCCL_IGNORE_DISABLED_P2P")))
        return there->nvlink_n > 0 ? FW_WAY_NVLINK : FW_WAY_PCIE;
    return is_on(m, "NCCL_SHM_DISABLE") ? FW_WAY_NETWORK : FW_WAY_SHM;
}

/* ---- all pairs ---- */

enum { LABEL_BYTES = 32, LISTED_PAIRS = 66 }; /* all of 12 ranks */

/* "NVLink (NV18)", "PCIe (PHB)", ... of ranks r and s. */
static void label(char out[LABEL_BYTES], const fw_machine *m, int a, int b) {
    static const char *const names[] = {"not known", "NVLink", "PCIe", "shared memory", "network"};
    const fw_nccl_way way = fw_nccl_way_between(m, a, b);
    char cell[12];
    if (way == FW_WAY_NVLINK || way == FW_WAY_PCIE)
        snprintf(out, LABEL_BYTES, "%s (%s)", names[way], fw_machine_pair_text(cell, m, a, b));
    else
        snprintf(out, LABEL_BYTES, "%s", names[way]);
}

/* The pairs that go like pair (r, s), which is the first of them. */
static fw_status add_group(fw_strbuf *out, const fw_machine *m, const int *gpu, int rank_n, int first) {
    char wanted[LABEL_BYTES], other[LABEL_BYTES];
    int pair_n = 0;
    label(wanted, m, gpu[first / rank_n], gpu[first % rank_n]);
    for (int i = first; i < rank_n * rank_n; i++) {
        if (i / rank_n >= i % rank_n) continue;
        label(other, m, gpu[i / rank_n], gpu[i % rank_n]);
        pair_n += strcmp(other, wanted) == 0;
    }
    FW_TRY(fw_strbuf_printf(out, "%s%s:", first > 1 ? "; " : "", wanted));
    if (pair_n == rank_n * (rank_n - 1) / 2 && pair_n > 1) return fw_strbuf_puts(out, " all pairs");
    int listed_n = 0;
    for (int i = first; i < rank_n * rank_n && listed_n < LISTED_PAIRS; i++) {
        if (i / rank_n >= i % rank_n) continue;
        label(other, m, gpu[i / rank_n], gpu[i % rank_n]);
        if (strcmp(other, wanted) != 0) continue;
        FW_TRY(fw_strbuf_printf(out, " %d-%d", i / rank_n, i % rank_n));
        listed_n++;
    }
    return listed_n < pair_n ? fw_strbuf_printf(out, " and %d more", pair_n - listed_n) : FW_OK;
}

static bool is_new(const fw_machine *m, const int *gpu, int rank_n, int at) {
    char here[LABEL_BYTES], before[LABEL_BYTES];
    label(here, m, gpu[at / rank_n], gpu[at % rank_n]);
    for (int i = 0; i < at; i++) {
        if (i / rank_n >= i % rank_n) continue;
        label(before, m, gpu[i / rank_n], gpu[i % rank_n]);
        if (strcmp(before, here) == 0) return false;
    }
    return true;
}

fw_status fw_nccl_ways_text(fw_strbuf *out, const fw_machine *m, const int *gpu, int rank_n) {
    for (int i = 0; i < rank_n * rank_n; i++)
        if (i / rank_n < i % rank_n && is_new(m, gpu, rank_n, i)) FW_TRY(add_group(out, m, gpu, rank_n, i));
    return FW_OK;
}
