/* The launchers of the CUDA kernels, as the C side sees them: one for every operation of device/ops.def, with the same
 * parameters, but for products (cuBLASLt), copy and zero (the runtime), and sum_squares (see below).
 *
 * A launcher checks nothing and waits for nothing: cuda_ops.c has checked, and the stream keeps the order. It returns
 * the cudaError_t of its launch, 0 for none. N = 0 launches nothing. The same files are compiled for GPUs by nvcc and for
 * the CPU by the host compiler (device/simt). */
#ifndef FW_DEVICE_CUDA_CUDA_KERNELS_H
#define FW_DEVICE_CUDA_CUDA_KERNELS_H

#include "base/dtype.h"
#include "device/adamw_options.h"
#include "device/step_options.h"
#include "quant/quant_scales.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fw_cuda_launch {
    void *stream;  /* cudaStream_t */
    int sm_n;      /* multiprocessors: kernels that walk over rows take a multiple of it as their grid */
    void *scratch; /* device memory for partial results, 256-byte aligned */
    size_t scratch_bytes;
} fw_cuda_launch;

/* Scratch that the operations need for these limits; each file knows its own. */
typedef struct fw_cuda_limits {
    int64_t N, dim, H, K, D; /* as in fw_device_limits; dim: largest C, F, V, I or O */
    int sm_n;
} fw_cuda_limits;
size_t fw_cuda_scratch_rmsnorm_backward(const fw_cuda_limits *limits);
size_t fw_cuda_scratch_bias_backward(const fw_cuda_limits *limits);
size_t fw_cuda_scratch_dora_backward_m(const fw_cuda_limits *limits);
size_t fw_cuda_scratch_embedding_backward(const fw_cuda_limits *limits);
size_t fw_cuda_scratch_attention(const fw_cuda_limits *limits);

int fw_cuda_embedding_forward(const fw_cuda_launch *l, void *y_NC, const void *w_VC, const int32_t *id_N, int64_t N,
                              int64_t C, int64_t V, fw_dtype t);
int fw_cuda_embedding_backward(const fw_cuda_launch *l, float *dw_VC, const void *dy_NC, const int32_t *id_N, int64_t N,
                               int64_t C, int64_t V, fw_dtype t);
int fw_cuda_rmsnorm_forward(const fw_cuda_launch *l, void *y, int64_t y_stride, float *rstd_NG, const void *x,
                            int64_t x_stride, const void *w_C, float eps, int64_t N, int64_t G, int64_t C, fw_dtype t);
int fw_cuda_rmsnorm_backward(const fw_cuda_launch *l, void *dx, int64_t dx_stride, float *dw_C, const void *dy,
                             int64_t dy_stride, const void *dx_add, const void *x, int64_t x_stride, const void *w_C,
                             const float *rstd_NG, int64_t N, int64_t G, int64_t C, fw_dtype t);
int fw_cuda_rope(const fw_cuda_launch *l, void *x, int64_t x_stride, const float *cos_PE, const float *sin_PE,
                 const int32_t *position_N, int64_t N, int64_t G, int64_t D, int direction, fw_dtype t);
int fw_cuda_bias_forward(const fw_cuda_launch *l, void *y_NO, const void *b_O, int64_t N, int64_t O, fw_dtype t_b,
                         fw_dtype t_y); /* y += b: for products without an epilogue */
int fw_cuda_bias_backward(const fw_cuda_launch *l, float *db_O, const void *dy_NO, int64_t N, int64_t O, fw_dtype t);
int fw_cuda_swiglu_forward(const fw_cuda_launch *l, void *h_NF, const void *gu_N2F, int64_t N, int64_t F, fw_dtype t);
int fw_cuda_swiglu_backward(const fw_cuda_launch *l, void *dgu_N2F, const void *dh_NF, const void *gu_N2F, int64_t N,
                            int64_t F, fw_dtype t);
int fw_cuda_add(const fw_cuda_launch *l, void *y, const void *a, const void *b, int64_t n, fw_dtype t);
int fw_cuda_attention_forward(const fw_cuda_launch *l, void *o_NHD, float *lse_NH, const void *q, int64_t q_stride,
                              const void *k, int64_t k_stride, const void *v, int64_t v_stride, const int32_t *first_N,
                              int64_t N, int64_t q_offset, int64_t H, int64_t K, int64_t D, float scale, fw_dtype t);
int fw_cuda_attention_backward(const fw_cuda_launch *l, void *dq, int64_t dq_stride, void *dk, void *dv,
                               int64_t dkv_stride, const void *do_NHD, const void *o_NHD, const float *lse_NH,
                               const void *q, int64_t q_stride, const void *k, int64_t k_stride, const void *v,
                               int64_t v_stride, const int32_t *first_N, int64_t N, int64_t H, int64_t K, int64_t D,
                               float scale, fw_dtype t);
/* For attention by a library (cuda_ops.h). table: 9 rows of int32, fw_cuda_documents_pitch(document_n) apart: the starts
 * of the documents, their offsets in elements for each stride, and their lengths; cuda_documents.cu has the meaning. There
 * are at most document_n of them, none longer than longest_n rows; N * stride must fit 31 bits. */
enum { FW_CUDA_DOCUMENT_STRIDES = 7, FW_CUDA_DOCUMENT_ROWS = FW_CUDA_DOCUMENT_STRIDES + 2 };
int64_t fw_cuda_documents_pitch(int64_t document_n);
int fw_cuda_documents(const fw_cuda_launch *l, int32_t *table, const int32_t *first_N, int64_t N, int64_t document_n,
                      int64_t longest_n, const int64_t stride[FW_CUDA_DOCUMENT_STRIDES]);
/* y[i * y_stride + c] = x[i * C + c] */
int fw_cuda_spread_rows(const fw_cuda_launch *l, void *y, int64_t y_stride, const void *x_nC, int64_t n, int64_t C,
                        fw_dtype t);
int fw_cuda_cross_entropy(const fw_cuda_launch *l, float *loss_N, void *dlogits_NV, const float *logits_NV,
                          const int32_t *label_N, int64_t N, int64_t V, float scale, fw_dtype t);
int fw_cuda_gather_rows(const fw_cuda_launch *l, void *y_nC, const void *x_NC, const int32_t *row_n, int64_t n,
                        int64_t C, fw_dtype t);
int fw_cuda_scatter_rows(const fw_cuda_launch *l, void *y_NC, const void *x_nC, const int32_t *row_n, int64_t n,
                         int64_t N, int64_t C, fw_dtype t);
int fw_cuda_dropout(const fw_cuda_launch *l, void *y_NC, const void *x_NC, int add, const uint64_t *key_N,
                    uint64_t salt, float p, int64_t N, int64_t C, fw_dtype t);
int fw_cuda_dora_norm(const fw_cuda_launch *l, float *norm_O, const void *w_OI, const void *a_RI, const void *b_OR,
                      float scale, int64_t O, int64_t I, int64_t R, fw_dtype t);
int fw_cuda_dora_scale(const fw_cuda_launch *l, void *y, int64_t y_stride, float keep, const void *x, int64_t x_stride,
                       float factor, const void *m_O, const float *norm_O, const void *b_O, int64_t N, int64_t O,
                       fw_dtype t);
int fw_cuda_dora_backward_m(const fw_cuda_launch *l, float *dm_O, const void *dy, int64_t dy_stride, const void *z,
                            int64_t z_stride, const float *norm_O, int64_t N, int64_t O, fw_dtype t);
int fw_cuda_unpack_4bit(const fw_cuda_launch *l, void *y_n, const uint8_t *code, const float *map_16,
                        const fw_quant_scales *scales, int64_t n, fw_dtype t);
int fw_cuda_adamw(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, void *w_compute, int64_t n,
                  const fw_adamw_options *options, fw_dtype t);
int fw_cuda_optimizer_step(const fw_cuda_launch *l, float *w, float *m, float *v, float *g, int64_t n,
                           const fw_step_options *options);
int fw_cuda_step_8bit(const fw_cuda_launch *l, float *w, uint8_t *code1, float *scale1, uint8_t *code2, float *scale2,
                      float *g, int64_t n, const fw_step_options *options);
int fw_cuda_factored_sums(const fw_cuda_launch *l, float *row_R, float *col_C, const float *g, int64_t first, int64_t n,
                          int64_t R, int64_t C, float grad_scale, float epsilon);
int fw_cuda_factored_moments(const fw_cuda_launch *l, float *row_R, float *col_C, float *sum_RC, int64_t R, int64_t C,
                             float beta2);
int fw_cuda_factored_direction(const fw_cuda_launch *l, float *g, const float *factor_RC, int64_t first, int64_t n,
                               int64_t R, int64_t C, float grad_scale);
/* partial[0 .. return value): sums of squares of blocks of fixed size, fp64, in device memory; the caller adds them up in
 * order. fw_cuda_sum_squares_blocks(n) of them, 2048 at most. */
int64_t fw_cuda_sum_squares_blocks(int64_t n);
int fw_cuda_sum_squares(const fw_cuda_launch *l, double *partial, const float *x, int64_t n);
int fw_cuda_scale(const fw_cuda_launch *l, float *x, int64_t n, float factor);
int fw_cuda_cast(const fw_cuda_launch *l, void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
