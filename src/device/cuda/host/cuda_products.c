/* Matrix products by cuBLASLt. Row-major tensors are read as their column-major transposes:
 *
 *   y  = x w^T    D[O, N] = w^T  x      A = w op T (ld I)   B = x  op N (ld I)   m, n, k = O, N, I
 *   dx = dy w     D[I, N] = w    dy     A = w op N (ld I)   B = dy op N (ld O)   m, n, k = I, N, O
 *   dw += dy^T x  D[I, O] = x    dy^T   A = x op N (ld I)   B = dy op T (ld O)   m, n, k = I, O, N
 *   y  += s u b^T   D[O, N] = b^T u     A = b op T (ld R)   B = u  op N (ld R)   m, n, k = O, N, R   ld D = stride of y
 *   du  = s dy b    D[R, N] = b   dy    A = b op N (ld R)   B = dy op N (ld: stride)   m, n, k = R, N, O
 *   db += s dy^T u  D[R, O] = u   dy^T  A = u op N (ld R)   B = dy op T (ld: stride)   m, n, k = R, O, N
 *   dx += du a      D[I, N] = a   du    A = a op N (ld I)   B = du op N (ld R)   m, n, k = I, N, R
 *
 * Sums are carried in fp32 (fp32 inputs too: no TF32). Split sums may be added up in fp32 in the workspace only: in place
 * they would be rounded to the type of the result. The workspace belongs to the compute stream. */
#include "base/alloc.h"
#include "device/cuda/host/cuda_host.h"

#include <stdio.h>
#include <string.h>

static const char *status_text(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialised";
    case CUBLAS_STATUS_ALLOC_FAILED: return "no memory";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "not for this GPU";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "execution failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    default: return "an internal error";
    }
}

static fw_status failed(const char *what, const fw_cuda_product *p, cublasStatus_t status) {
    return fw_fail(status == CUBLAS_STATUS_EXECUTION_FAILED ? FW_ERR_RANK : FW_ERR_INTERNAL,
                   "cuda: %s of a product (m %llu, n %llu, k %llu, alignment %u, %u, %u): cuBLASLt says %s (%d)", what,
                   (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k, p->align_a, p->align_b,
                   p->align_d, status_text(status), (int)status);
}

fw_status fw_cuda_products_init(fw_cuda_host *d) {
    cublasStatus_t status = cublasLtCreate(&d->cublas);
    if (status != CUBLAS_STATUS_SUCCESS)
        return fw_fail(FW_ERR_RANK, "cuda: cuBLASLt does not start: %s (%d)", status_text(status), (int)status);
    FW_TRY(fw_cuda_status(&d->base, "workspace of products", (int)cudaMalloc(&d->workspace, FW_CUDA_WORKSPACE_BYTES)));
    return FW_NEW_ARRAY(d->choice, FW_CUDA_CHOICE_N);
}

void fw_cuda_products_fini(fw_cuda_host *d) {
    if (d->cublas != NULL) cublasLtDestroy(d->cublas);
    if (d->workspace != NULL) cudaFree(d->workspace);
    fw_free(d->choice);
}

/* ---- the table of choices: open addressing, FNV-1a of the product's bytes */

static fw_cuda_choice *find_choice(fw_cuda_host *d, const fw_cuda_product *p) {
    if (d->choice_n > FW_CUDA_CHOICE_N / 4 * 3) { /* a new choice is the same choice: the heuristic is a function */
        memset(d->choice, 0, FW_CUDA_CHOICE_N * sizeof *d->choice);
        d->choice_n = 0;
    }
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *bytes = (const unsigned char *)p;
    for (size_t i = 0; i < sizeof *p; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    for (size_t i = hash % FW_CUDA_CHOICE_N;; i = (i + 1) % FW_CUDA_CHOICE_N)
        if (!d->choice[i].used || memcmp(&d->choice[i].product, p, sizeof *p) == 0) return &d->choice[i];
}

/* ---- one product */

typedef struct layouts {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, d;
} layouts;

static void destroy_layouts(layouts *l) {
    if (l->product != NULL) cublasLtMatmulDescDestroy(l->product);
    if (l->a != NULL) cublasLtMatrixLayoutDestroy(l->a);
    if (l->b != NULL) cublasLtMatrixLayoutDestroy(l->b);
    if (l->d != NULL) cublasLtMatrixLayoutDestroy(l->d);
}

#define TRY_LT(call)                                                                                                   \
    do {                                                                                                               \
        cublasStatus_t try_status_ = (call);                                                                           \
        if (try_status_ != CUBLAS_STATUS_SUCCESS) return try_status_;                                                  \
    } while (0)

static cublasStatus_t make_layouts(layouts *l, const fw_cuda_product *p, const void *bias) {
    const cudaDataType_t ab = (cudaDataType_t)p->type_ab, d = (cudaDataType_t)p->type_d;
    const cublasOperation_t op_a = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_b = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY_LT(cublasLtMatmulDescCreate(&l->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY_LT(cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    TRY_LT(cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    if (p->with_bias) {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        TRY_LT(cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
        TRY_LT(cublasLtMatmulDescSetAttribute(l->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
    const uint64_t a_rows = p->transpose_a ? p->k : p->m, a_columns = p->transpose_a ? p->m : p->k;
    const uint64_t b_rows = p->transpose_b ? p->n : p->k, b_columns = p->transpose_b ? p->k : p->n;
    TRY_LT(cublasLtMatrixLayoutCreate(&l->a, ab, a_rows, a_columns, (int64_t)(p->ld_a > 0 ? p->ld_a : a_rows)));
    TRY_LT(cublasLtMatrixLayoutCreate(&l->b, ab, b_rows, b_columns, (int64_t)(p->ld_b > 0 ? p->ld_b : b_rows)));
    return cublasLtMatrixLayoutCreate(&l->d, d, p->m, p->n, (int64_t)(p->ld_d > 0 ? p->ld_d : p->m));
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, const fw_cuda_product *p) {
    const uint64_t workspace = FW_CUDA_WORKSPACE_BYTES;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                sizeof workspace));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                                                sizeof reduction));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->align_a,
                                                sizeof p->align_a));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->align_b,
                                                sizeof p->align_b));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->align_d,
                                                sizeof p->align_d));
    return cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->align_d,
                                                sizeof p->align_d);
}

static fw_status choose(fw_cuda_host *d, fw_cuda_choice *choice, const fw_cuda_product *p, const layouts *l) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = prefer(preference, p);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmulAlgoGetHeuristic(d->cublas, l->product, l->a, l->b, l->d, l->d, preference, 1,
                                                    &result, &found);
        cublasLtMatmulPreferenceDestroy(preference);
    }
    if (status == CUBLAS_STATUS_SUCCESS && found == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status != CUBLAS_STATUS_SUCCESS) return failed("choosing the algorithm", p, status);
    *choice =
        (fw_cuda_choice){.product = *p, .used = 1, .algorithm = result.algo, .workspace_bytes = result.workspaceSize};
    d->choice_n++;
    return FW_OK;
}

static uint32_t alignment_of(const void *p) {
    const uint32_t lowest = (uint32_t)((uintptr_t)p & (~(uintptr_t)p + 1));
    return lowest == 0 || lowest > 256 ? 256 : lowest;
}

/* p: all but the alignments is set. */
static fw_status multiply_by(fw_cuda *base, fw_cuda_product p, float alpha, void *to, const void *a, const void *b,
                             const void *bias) {
    fw_cuda_host *d = fw_cuda_host_of(base);
    const float beta = p.accumulate ? 1 : 0;
    p.align_a = alignment_of(a);
    p.align_b = alignment_of(b);
    p.align_d = alignment_of(to);
    layouts l = {0};
    cublasStatus_t answer = make_layouts(&l, &p, bias);
    fw_status status = answer == CUBLAS_STATUS_SUCCESS ? FW_OK : failed("the description", &p, answer);
    fw_cuda_choice *choice = find_choice(d, &p);
    if (status == FW_OK && !choice->used) status = choose(d, choice, &p, &l);
    if (status == FW_OK) {
        answer = cublasLtMatmul(d->cublas, l.product, &alpha, a, l.a, b, l.b, &beta, to, l.d, to, l.d,
                                &choice->algorithm, d->workspace, choice->workspace_bytes, d->compute);
        if (answer != CUBLAS_STATUS_SUCCESS) status = failed("the launch", &p, answer);
    }
    destroy_layouts(&l);
    return status;
}

static fw_status multiply(fw_cuda *d, fw_cuda_product p, void *to, const void *a, const void *b, const void *bias) {
    return multiply_by(d, p, 1, to, a, b, bias);
}

/* ---- the products */

static int32_t type_of(fw_dtype t) { return t == FW_F32 ? CUDA_R_32F : CUDA_R_16BF; }

fw_status fw_cuda_matmul_forward(fw_cuda *d, void *y, const void *x, const void *w, const void *b, int64_t N, int64_t O,
                                 int64_t I, fw_dtype t, fw_dtype t_y) {
    /* The epilogue takes a bias of the result's type. */
    const int in_epilogue = b != NULL && t == t_y;
    const fw_cuda_product p = {.m = (uint64_t)O,
                               .n = (uint64_t)N,
                               .k = (uint64_t)I,
                               .transpose_a = 1,
                               .type_ab = type_of(t),
                               .type_d = type_of(t_y),
                               .with_bias = in_epilogue};
    FW_TRY(multiply(d, p, y, w, x, b));
    if (b == NULL || in_epilogue) return FW_OK;
    return fw_cuda_status(d, "bias", fw_cuda_bias_forward(&d->launch, y, b, N, O, t, t_y));
}

fw_status fw_cuda_matmul_backward_input(fw_cuda *d, void *dx, const void *dy, const void *w, int64_t N, int64_t O,
                                        int64_t I, fw_dtype t) {
    const fw_cuda_product p = {
        .m = (uint64_t)I, .n = (uint64_t)N, .k = (uint64_t)O, .type_ab = type_of(t), .type_d = type_of(t)};
    return multiply(d, p, dx, w, dy, NULL);
}

fw_status fw_cuda_matmul_backward_weight(fw_cuda *d, float *dw, const void *dy, const void *x, int64_t N, int64_t O,
                                         int64_t I, fw_dtype t) {
    const fw_cuda_product p = {.m = (uint64_t)I,
                               .n = (uint64_t)O,
                               .k = (uint64_t)N,
                               .transpose_b = 1,
                               .type_ab = type_of(t),
                               .type_d = CUDA_R_32F,
                               .accumulate = 1};
    return multiply(d, p, dw, x, dy, NULL);
}

fw_status fw_cuda_lora_expand(fw_cuda *d, void *y, int64_t y_stride, const void *u, const void *b, float scale,
                              int64_t N, int64_t O, int64_t R, fw_dtype t) {
    const fw_cuda_product p = {.m = (uint64_t)O,
                               .n = (uint64_t)N,
                               .k = (uint64_t)R,
                               .ld_d = (uint64_t)y_stride,
                               .transpose_a = 1,
                               .type_ab = type_of(t),
                               .type_d = type_of(t),
                               .accumulate = 1};
    return multiply_by(d, p, scale, y, b, u, NULL);
}

fw_status fw_cuda_lora_reduce(fw_cuda *d, void *du, const void *dy, int64_t dy_stride, const void *b, float scale,
                              int64_t N, int64_t O, int64_t R, fw_dtype t) {
    const fw_cuda_product p = {.m = (uint64_t)R,
                               .n = (uint64_t)N,
                               .k = (uint64_t)O,
                               .ld_b = (uint64_t)dy_stride,
                               .type_ab = type_of(t),
                               .type_d = type_of(t)};
    return multiply_by(d, p, scale, du, b, dy, NULL);
}

fw_status fw_cuda_lora_backward_b(fw_cuda *d, float *db, const void *dy, int64_t dy_stride, const void *u, float scale,
                                  int64_t N, int64_t O, int64_t R, fw_dtype t) {
    const fw_cuda_product p = {.m = (uint64_t)R,
                               .n = (uint64_t)O,
                               .k = (uint64_t)N,
                               .ld_b = (uint64_t)dy_stride,
                               .transpose_b = 1,
                               .type_ab = type_of(t),
                               .type_d = CUDA_R_32F,
                               .accumulate = 1};
    return multiply_by(d, p, scale, db, u, dy, NULL);
}

fw_status fw_cuda_lora_backward_input(fw_cuda *d, void *dx, const void *du, const void *a, int64_t N, int64_t I,
                                      int64_t R, fw_dtype t) {
    const fw_cuda_product p = {.m = (uint64_t)I,
                               .n = (uint64_t)N,
                               .k = (uint64_t)R,
                               .type_ab = type_of(t),
                               .type_d = type_of(t),
                               .accumulate = 1};
    return multiply(d, p, dx, a, du, NULL);
}
