/* What the cuda device reserves for these shapes, without having the device: the same arithmetic as in the kernels'
 * fw_cuda_scratch_* functions. tests/unit/test_plan_simt_scratch.c compares the two. */
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
    SUM_BLOCKS = 2048
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t blocks_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

size_t fw_plan_gpu_scratch_bytes(int64_t N, int64_t dim, int64_t H, int64_t K, int64_t D, int sm_n) {
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
    return (size_t)larger(most, larger(N * TOKEN_BYTES, SUM_BLOCKS * 8));
}
