/* The table of cards: memory, speed and links as their makers give them (gpu_card.def). And the links themselves. */
#ifndef FW_MACHINE_GPU_CARD_H
#define FW_MACHINE_GPU_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fw_gpu_card {
    const char *name, *title;
    uint64_t memory_bytes;   /* as nvidia-smi reports it */
    double memory_rate;      /* bytes a second */
    double bf16_rate;        /* operations a second, dense, sums in fp32 */
    double fp32_rate;        /* the same in fp32, without tensor cores */
    int sm;                  /* architecture: 90 is 9.0 */
    int sm_n;                /* multiprocessors */
    double nvlink_both_rate; /* bytes a second, both directions together; 0: none */
    int nvlink_peers;        /* cards that NVLink joins at most; 1: none */
    int pcie_generation;     /* 16 lanes */
    bool consumer;
} fw_gpu_card;

/* The i-th card; NULL after the last. */
const fw_gpu_card *fw_gpu_card_at(int i);
/* The i-th name or other spelling; NULL after the last. */
const char *fw_gpu_card_spelling_at(int i);
/* By any spelling: case, spaces, dashes, underscores, and a leading "NVIDIA", "GeForce" or "RTX" do not count. NULL when
 * unknown. */
const fw_gpu_card *fw_gpu_card_find(const char *name);

/* What is printed on the box, bytes a second: both directions, no coding taken off. 16 lanes of generation 5: 128e9; 0 for a
 * generation (3 to 6) or width that slots do not have. In one direction, coding off: fw_machine_pcie_bytes_per_s. */
double fw_pcie_headline_both_rate(int generation, int lanes);

#endif
