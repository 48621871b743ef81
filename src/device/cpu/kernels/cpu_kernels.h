/* The kernels of the cpu device: single-threaded loops over a range of rows, compiled once per CPU variant.
 *
 * A variant is a table of them; cpu_variant.c picks the best that the CPU runs. The range and the scratch
 * memory come from the caller, so these functions know no threads and allocate nothing. Meaning and
 * shapes are those of device/device.h. */
#ifndef FW_DEVICE_CPU_KERNELS_KERNELS_H
#define FW_DEVICE_CPU_KERNELS_KERNELS_H

#include "device/device.h"

/* C[m][n] (+)= factor * sum over k of A(m, k) B(k, n) + bias[n], rounded once.
 * A(m, k) is element m * a_row + k * a_k of a, B(k, n) element k * b_k + n * b_col of b; one of each pair is 1. */
typedef struct fw_cpu_gemm_args {
    const void *a, *b, *bias; /* type t; bias may be NULL */
    int64_t a_row, a_k, b_k, b_col;
    void *c; /* type t_c, rows c_row apart */
    int64_t c_row;
    int64_t M, N, K;
    fw_dtype t, t_c;
    int add; /* c is added to */
    float factor;
} fw_cpu_gemm_args;

typedef struct fw_cpu_rmsnorm_args {
    void *y; /* backward: dx */
    int64_t y_stride;
    float *rstd, *dw_partial; /* backward: [blocks][C] */
    const void *x, *w, *dy, *dx_add;
    int64_t x_stride, dy_stride;
    float eps;
    int64_t N, G, C;
    fw_dtype t;
} fw_cpu_rmsnorm_args;

typedef struct fw_cpu_rope_args {
    void *x;
    int64_t x_stride;
    const float *cos_PE, *sin_PE;
    const int32_t *position;
    int64_t G, D;
    int direction;
    fw_dtype t;
} fw_cpu_rope_args;

typedef struct fw_cpu_attention_args {
    void *o, *dq, *dk, *dv;
    int64_t dq_stride, dkv_stride;
    float *lse;
    const void *q, *k, *v, *d_o;
    int64_t q_stride, k_stride, v_stride;
    const int32_t *first;
    int64_t N, q_offset, H, K, D;
    float scale;
    fw_dtype t;
} fw_cpu_attention_args;

typedef struct fw_cpu_cross_entropy_args {
    float *loss;
    void *dlogits;
    const float *logits;
    const int32_t *label;
    int64_t V;
    float scale;
    fw_dtype t;
} fw_cpu_cross_entropy_args;

typedef struct fw_cpu_adamw_args {
    float *w, *m, *v, *g;
    void *w_compute;
    float beta1, beta2, epsilon, grad_scale;
    float step_size;   /* learning_rate / (1 - beta1^step) */
    float root_factor; /* 1 / sqrt(1 - beta2^step) */
    float decay;       /* learning_rate * weight_decay */
    int first_step;    /* m and v are zero and are not read */
    fw_dtype t;
} fw_cpu_adamw_args;

typedef struct fw_cpu_dropout_args {
    void *y;
    const void *x;
    const uint64_t *key;
    uint64_t salt;
    int64_t C;
    float p;
    int add;
    fw_dtype t;
} fw_cpu_dropout_args;

typedef struct fw_cpu_unpack_args {
    void *y;
    const uint8_t *code;
    const float *map_16;
    const fw_quant_scales *scales;
    int64_t n;
    fw_dtype t;
} fw_cpu_unpack_args;

/* The letters of dora_scale, dora_backward_m (x is z) and dora_norm in device/device.h. */
typedef struct fw_cpu_dora_args {
    void *y;
    const void *x, *dy, *w, *a, *b, *m;
    float *dm, *norm;
    int64_t y_stride, x_stride, dy_stride;
    int64_t N, O, I, R;
    float keep, factor, scale;
    fw_dtype t;
} fw_cpu_dora_args;

typedef struct fw_cpu_step_args {
    float *w, *m, *v, *g; /* NULL: the rule does not use it */
    const fw_step_options *options;
} fw_cpu_step_args;
struct fw_blocks8; /* device/step_8bit.h */

/* first..last is the range of rows, elements or jobs to do. */
typedef struct fw_cpu_kernels {
    const char *name;
    int mr, nr; /* the register tile of products: ranges are best cut at its multiples */
    void (*gemm)(const fw_cpu_gemm_args *g, int64_t m_first, int64_t m_last, int64_t n_first, int64_t n_last,
                 float *scratch);
    size_t (*gemm_scratch_n)(int64_t K_max); /* floats of scratch that gemm needs up to this K */
    /* For few rows: reads b (b_k == 1) once and in place. scratch: M x K floats. */
    void (*gemv)(const fw_cpu_gemm_args *g, int64_t n_first, int64_t n_last, float *scratch);
    void (*rmsnorm_forward)(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last);
    /* One block of rows n; writes its row of dw_partial. scratch: nothing. */
    void (*rmsnorm_backward)(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last, float *dw_partial);
    void (*rope)(const fw_cpu_rope_args *s, int64_t first, int64_t last);
    void (*swiglu_forward)(void *h, const void *gu, int64_t F, fw_dtype t, int64_t first, int64_t last);
    void (*swiglu_backward)(void *dgu, const void *dh, const void *gu, int64_t F, fw_dtype t, int64_t first,
                            int64_t last);
    void (*add)(void *y, const void *a, const void *b, fw_dtype t, int64_t first, int64_t last);
    /* db[o] += sum over the N rows of dy, for columns first..last; rows `stride` apart. Also adds up partial sums. */
    void (*add_columns)(float *db, const void *dy, int64_t N, int64_t stride, fw_dtype t, int64_t first, int64_t last);
    /* dw[id[n]] += dy[n] in order of n, for columns first..last. */
    void (*embedding_backward)(float *dw, const void *dy, const int32_t *id, int64_t N, int64_t C, fw_dtype t,
                               int64_t first, int64_t last);
    void (*cross_entropy)(const fw_cpu_cross_entropy_args *s, int64_t first, int64_t last);
    void (*adamw)(const fw_cpu_adamw_args *s, int64_t first, int64_t last);
    void (*optimizer_step)(const fw_cpu_step_args *s, int64_t first, int64_t last);
    /* Blocks first..last of n elements. */
    void (*step_8bit)(const struct fw_blocks8 *s, int64_t n, int64_t first, int64_t last);
    double (*sum_squares)(const float *x, int64_t n);
    void (*scale)(float *x, float factor, int64_t first, int64_t last);
    void (*cast)(void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t first, int64_t last);
    void (*dropout)(const fw_cpu_dropout_args *s, int64_t first, int64_t last);
    /* Rows o of W. scratch: nothing. */
    void (*dora_norm)(const fw_cpu_dora_args *s, int64_t first, int64_t last);
    /* Rows n; scratch: O floats, rounded up to 16. */
    void (*dora_scale)(const fw_cpu_dora_args *s, int64_t first, int64_t last, float *scratch);
    /* Columns o. */
    void (*dora_backward_m)(const fw_cpu_dora_args *s, int64_t first, int64_t last);
    /* Whole blocks first..last; the last of all may be short. */
    void (*unpack_4bit)(const fw_cpu_unpack_args *s, int64_t first, int64_t last);
    /* Jobs of attention_forward: one key/value head and one block of query rows each. */
    int64_t (*attention_jobs)(const fw_cpu_attention_args *s);
    void (*attention_forward)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
    size_t (*attention_forward_scratch_n)(int64_t keys_n, int64_t H, int64_t D);
    /* In one pass, first..last being key/value heads; or in two, by tiles of keys and by blocks of queries. */
    void (*attention_backward)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
    int64_t (*attention_backward_kv_jobs)(const fw_cpu_attention_args *s);
    void (*attention_backward_kv)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
    int64_t (*attention_backward_q_jobs)(const fw_cpu_attention_args *s);
    void (*attention_backward_q)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
    size_t (*attention_backward_scratch_n)(int64_t N, int64_t D);
} fw_cpu_kernels;

#if defined(__x86_64__)
extern const fw_cpu_kernels fw_cpu_kernels_base, fw_cpu_kernels_avx2, fw_cpu_kernels_avx512;
#else
extern const fw_cpu_kernels fw_cpu_kernels_base;
#endif

/* Inside a variant, FW_CPU_FN(gemm) is fw_cpu_gemm_avx512 or so. */
#ifdef FW_CPU_VARIANT
#define FW_CPU_PASTE_(name, variant) fw_cpu_##name##_##variant
#define FW_CPU_PASTE(name, variant) FW_CPU_PASTE_(name, variant)
#define FW_CPU_FN(name) FW_CPU_PASTE(name, FW_CPU_VARIANT)
#endif

#endif
