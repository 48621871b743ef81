#include "plan/adapter_arithmetic.h"

#include "base/nearest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const target_names[FW_ADAPT_N] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                     "gate_proj", "up_proj", "down_proj"};

static const double nf4_bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

fw_status fw_adapter_parse_targets(unsigned *out, const char *text) {
    *out = (1u << FW_ADAPT_N) - 1;
    if (strcasecmp(text, "all-linear") == 0 || strcasecmp(text, "all_linear") == 0) return FW_OK;
    *out = 0;
    for (const char *c = text + strspn(text, " ,"); *c != 0; c += strspn(c, " ,")) {
        char word[64];
        const size_t n = strcspn(c, " ,");
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, c);
        c += n;
        fw_nearest nearest;
        fw_nearest_start(&nearest, word);
        int found = -1;
        for (int t = 0; t < FW_ADAPT_N; t++) {
            if (strcmp(word, target_names[t]) == 0) found = t;
            fw_nearest_offer(&nearest, target_names[t]);
        }
        if (found < 0)
            return fw_fail(
                FW_ERR_OPTION, "--lora_target_modules names \"%s\", which blocks do not have; %s%s%s", word,
                nearest.best != NULL ? "did you mean " : "they have q_proj, k_proj, v_proj, o_proj, gate_proj,",
                nearest.best != NULL ? nearest.best : " up_proj and down_proj", nearest.best != NULL ? "?" : "");
        *out |= 1u << found;
    }
    if (*out == 0) return fw_fail(FW_ERR_OPTION, "--lora_target_modules is empty; write all-linear or q_proj,v_proj");
    return FW_OK;
}

static void sides(const fw_model_config *c, fw_adapter_target target, int64_t *in, int64_t *out) {
    const int64_t q = c->H * c->D, kv = c->K * c->D;
    *in = target == FW_ADAPT_O ? q : target == FW_ADAPT_DOWN ? c->F : c->C;
    *out = target == FW_ADAPT_Q                               ? q
           : target == FW_ADAPT_K || target == FW_ADAPT_V     ? kv
           : target == FW_ADAPT_GATE || target == FW_ADAPT_UP ? c->F
                                                              : c->C;
}

int64_t fw_adapter_parameters(const fw_model_config *c, int64_t r, unsigned targets) {
    int64_t n = 0;
    for (int t = 0; t < FW_ADAPT_N; t++) {
        int64_t in, out;
        if ((targets & (1u << t)) == 0) continue;
        sides(c, (fw_adapter_target)t, &in, &out);
        n += r * (in + out);
    }
    return n * c->L;
}

static double matrices_n(const fw_model_config *c) {
    double n = 0;
    for (int t = 0; t < FW_ADAPT_N; t++) {
        int64_t in, out;
        sides(c, (fw_adapter_target)t, &in, &out);
        n += (double)in * (double)out;
    }
    return n;
}

double fw_adapter_frozen_block_bytes(const fw_model_config *c, bool four_bit) {
    double vectors = 2.0 * (double)c->C;
    if (c->qkv_bias) vectors += (double)((c->H + 2 * c->K) * c->D);
    if (c->output_bias) vectors += (double)c->C;
    if (c->mlp_bias) vectors += (double)(2 * c->F + c->C);
    if (c->qk_norm) vectors += (double)(2 * c->D);
    return matrices_n(c) * (four_bit ? nf4_bytes : 2) + 2 * vectors;
}

double fw_adapter_frozen_edge_bytes(const fw_model_config *c) {
    return 2 * ((double)c->V * (double)c->C * (c->tied ? 1 : 2) + (double)c->C);
}

int64_t fw_adapter_largest_matrix(const fw_model_config *c) {
    int64_t most = 0;
    for (int t = 0; t < FW_ADAPT_N; t++) {
        int64_t in, out;
        sides(c, (fw_adapter_target)t, &in, &out);
        if (in * out > most) most = in * out;
    }
    return most;
}
