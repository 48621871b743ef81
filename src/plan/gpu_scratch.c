/* What the cuda device reserves for these shapes, without having the device: the same arithmetic as in the kernels'
 * fw_cuda_scratch_* functions and in cuda/cudnn/cudnn_library.c. tests/unit/test_cudnn_plan_scratch.c compares. */
#include "plan/site.h"

enum {
    BIAS_BLOCKS = 1024,
    BIAS_WIDTH = 32 * 8,
    BIAS_SLICE_ROWS = 32,
    NORM_ROW_BLOCKS = 432,
    NORM_PARTIAL_N = 1 << 21,
    TOKEN_BYTES = 8,
    FEW_ROWS = 64,
    SPLIT_KEYS = 256,
    SPLIT_CAP = 32,
    KEY_ROWS = 64,
    BLOCKS_PER_SM = 4,
    SUM_BLOCKS = 2048,
    ALIGNMENT = 256,
    DOCUMENT_ROWS = 9,
    CUDNN_WORKSPACE = 1 << 20 /* less, for the batches that test_cudnn_profiles.c looks at */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t blocks_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

static int64_t own_kernels(const fw_device_limits *l, int sm_n) {
    const int64_t N = l->N, dim = l->matmul_dim, H = l->H, K = l->K, D = l->D;
    const int64_t by_blocks = (int64_t)BIAS_BLOCKS * BIAS_WIDTH,
                  by_rows = blocks_of(larger(N, 1), BIAS_SLICE_ROWS) * dim;
    const int64_t bias = 4 * larger(smaller(by_blocks, by_rows), dim);
    const int64_t C = larger(dim, D), norm = 4 * smaller(NORM_ROW_BLOCKS * C, larger(C, NORM_PARTIAL_N));
    const int64_t heads = larger(H, K), rows = smaller(FEW_ROWS * K, N * heads);
    const int64_t splits = smaller(blocks_of(N, SPLIT_KEYS), SPLIT_CAP);
    const int64_t split = splits > 1 ? 4 * splits * rows * (D + 1) : 0;
    const int64_t part_rows = smaller(N * heads, (int64_t)BLOCKS_PER_SM * sm_n * KEY_ROWS);
    const int64_t backward = 4 * N * heads + 256 + 4 * part_rows * 2 * smaller(D, 128);
    int64_t most = larger(bias, norm);
    most = larger(most, larger(split, backward));
    return larger(most, larger(N * TOKEN_BYTES, SUM_BLOCKS * 8));
}

static int64_t place(int64_t bytes) { return blocks_of(bytes, ALIGNMENT) * ALIGNMENT; }

/* Attention by cuDNN, backward, which takes more than forward: the table of documents; delta; dq in fp32 where it is added
 * up in order; compact dk and dv; both for every query head where heads share them; cuDNN's workspace. */
static int64_t cudnn(const fw_device_limits *l, int sm) {
    const fw_attention_limits *a = &l->attention;
    const bool taken = a->choice != FW_ATTENTION_OWN && a->q_stride > 0 && a->t == FW_BF16 && l->D % 8 == 0;
    if (!taken || (sm / 10 != 9 && sm / 10 != 10)) return 0;
    const int64_t N = l->N, pitch = blocks_of(a->document_n + 1, 4) * 4;
    const int64_t table = place(DOCUMENT_ROWS * pitch * 4), row_numbers = place(4 * N * l->H);
    if (!a->backward) return table + row_numbers + CUDNN_WORKSPACE;
    const int64_t sum = sm / 10 == 9 ? place(4 * N * a->dq_stride) : 0;
    const int64_t heads = l->H > l->K ? 2 * place(4 * N * l->H * l->D) : 0;
    return table + row_numbers + sum + 2 * place(2 * N * l->K * l->D) + heads + CUDNN_WORKSPACE;
}

size_t fw_plan_gpu_scratch_bytes(const fw_device_limits *limits, const fw_gpu_card *card) {
    return (size_t)larger(own_kernels(limits, card->sm_n), cudnn(limits, card->sm));
}
