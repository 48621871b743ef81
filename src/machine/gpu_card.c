#include "machine/gpu_card.h"

#include <ctype.h>
#include <string.h>

enum { SERVER, CONSUMER, NAME_BYTES = 96 };

#define FW_CARD(name, title, memory_mib, memory_gbps, bf16_tflops, fp32_tflops, sm, sm_n, nvlink_gbps, nvlink_peers,   \
                pcie_generation, kind)                                                                                 \
    {name,                                                                                                             \
     title,                                                                                                            \
     (uint64_t)(memory_mib) << 20,                                                                                     \
     (memory_gbps)*1e9,                                                                                                \
     (bf16_tflops)*1e12,                                                                                               \
     (fp32_tflops)*1e12,                                                                                               \
     sm,                                                                                                               \
     sm_n,                                                                                                             \
     (nvlink_gbps)*1e9,                                                                                                \
     nvlink_peers,                                                                                                     \
     pcie_generation,                                                                                                  \
     (kind) == CONSUMER},
#define FW_CARD_ALSO(name, spelling)
static const fw_gpu_card cards[] = {
#include "machine/gpu_card.def"
};
#undef FW_CARD
#undef FW_CARD_ALSO
enum { CARD_N = sizeof cards / sizeof cards[0] };

static const struct {
    const char *spelling, *name;
} spellings[] = {
#define FW_CARD(name, title, ...) {name, name}, {title, name},
#define FW_CARD_ALSO(name, spelling) {spelling, name},
#include "machine/gpu_card.def"
#undef FW_CARD
#undef FW_CARD_ALSO
};
enum { SPELLING_N = sizeof spellings / sizeof spellings[0] };

const fw_gpu_card *fw_gpu_card_at(int i) { return i >= 0 && i < CARD_N ? &cards[i] : NULL; }

const char *fw_gpu_card_spelling_at(int i) { return i >= 0 && i < SPELLING_N ? spellings[i].spelling : NULL; }

/* "NVIDIA GeForce RTX 4090" and "rtx-4090" are "4090"; false for what is too long to be a name. */
static bool fold(char out[NAME_BYTES], const char *name) {
    size_t n = 0;
    for (; *name != 0; name++) {
        if (*name == ' ' || *name == '-' || *name == '_') continue;
        if (n == NAME_BYTES - 1) return false;
        out[n++] = (char)tolower((unsigned char)*name);
    }
    out[n] = 0;
    static const char *const makers[] = {"nvidia", "geforce", "rtx"};
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        const size_t maker_n = strlen(makers[i]);
        if (strncmp(out, makers[i], maker_n) == 0) memmove(out, out + maker_n, strlen(out) - maker_n + 1);
    }
    return out[0] != 0;
}

const fw_gpu_card *fw_gpu_card_find(const char *name) {
    char wanted[NAME_BYTES], known[NAME_BYTES];
    if (!fold(wanted, name)) return NULL;
    for (int i = 0; i < SPELLING_N; i++) {
        if (!fold(known, spellings[i].spelling) || strcmp(wanted, known) != 0) continue;
        for (int c = 0; c < CARD_N; c++)
            if (strcmp(cards[c].name, spellings[i].name) == 0) return &cards[c];
    }
    return NULL;
}

double fw_pcie_headline_both_rate(int generation, int lanes) {
    const bool known = generation >= 3 && generation <= 6;
    const bool wide = lanes == 1 || lanes == 2 || lanes == 4 || lanes == 8 || lanes == 16;
    return known && wide ? 2e9 * (double)(1 << (generation - 3)) * lanes : 0;
}
