#include "plan/adapter_arithmetic.h"

static const double nf4_bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

static double matrices_n(const fw_model_config *c) {
    double n = 0;
    for (int i = 0; i < FW_LINEAR_N; i++) {
        int64_t rows, cols;
        fw_linear_shape(c, (fw_linear)i, &rows, &cols);
        n += (double)rows * (double)cols;
    }
    return n;
}

double fw_adapter_frozen_block_bytes(const fw_model_config *c) {
    double vectors = 2.0 * (double)c->C;
    if (c->qkv_bias) vectors += (double)((c->H + 2 * c->K) * c->D);
    if (c->output_bias) vectors += (double)c->C;
    if (c->mlp_bias) vectors += (double)(2 * c->F + c->C);
    if (c->qk_norm) vectors += (double)(2 * c->D);
    return matrices_n(c) * nf4_bytes + 2 * vectors;
}

double fw_adapter_frozen_edge_bytes(const fw_model_config *c) {
    return 2 * ((double)c->V * (double)c->C * (c->tied ? 1 : 2) + (double)c->C);
}

int64_t fw_adapter_largest_matrix(const fw_model_config *c) {
    int64_t most = 0;
    for (int i = 0; i < FW_LINEAR_N; i++) {
        int64_t rows, cols;
        fw_linear_shape(c, (fw_linear)i, &rows, &cols);
        if (rows * cols > most) most = rows * cols;
    }
    return most;
}
