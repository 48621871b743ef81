/* Prototypes of one variant's kernels; included by the kernel sources only. */
#ifndef FW_DEVICE_CPU_KERNELS_KERNEL_NAMES_H
#define FW_DEVICE_CPU_KERNELS_KERNEL_NAMES_H

#include "device/cpu/kernels/cpu_kernels.h"

void FW_CPU_FN(gemm)(const fw_cpu_gemm_args *g, int64_t m_first, int64_t m_last, int64_t n_first, int64_t n_last,
                     float *scratch);
size_t FW_CPU_FN(gemm_scratch_n)(int64_t K_max);
void FW_CPU_FN(gemv)(const fw_cpu_gemm_args *g, int64_t n_first, int64_t n_last, float *scratch);
void FW_CPU_FN(rmsnorm_forward)(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last);
void FW_CPU_FN(rmsnorm_backward)(const fw_cpu_rmsnorm_args *s, int64_t first, int64_t last, float *dw_partial);
void FW_CPU_FN(rope)(const fw_cpu_rope_args *s, int64_t first, int64_t last);
void FW_CPU_FN(swiglu_forward)(void *h, const void *gu, int64_t F, fw_dtype t, int64_t first, int64_t last);
void FW_CPU_FN(swiglu_backward)(void *dgu, const void *dh, const void *gu, int64_t F, fw_dtype t, int64_t first,
                                int64_t last);
void FW_CPU_FN(add)(void *y, const void *a, const void *b, fw_dtype t, int64_t first, int64_t last);
void FW_CPU_FN(add_columns)(float *db, const void *dy, int64_t N, int64_t stride, fw_dtype t, int64_t first,
                            int64_t last);
void FW_CPU_FN(embedding_backward)(float *dw, const void *dy, const int32_t *id, int64_t N, int64_t C, fw_dtype t,
                                   int64_t first, int64_t last);
void FW_CPU_FN(cross_entropy)(const fw_cpu_cross_entropy_args *s, int64_t first, int64_t last);
void FW_CPU_FN(adamw)(const fw_cpu_adamw_args *s, int64_t first, int64_t last);
void FW_CPU_FN(optimizer_step)(const fw_cpu_step_args *s, int64_t first, int64_t last);
void FW_CPU_FN(step_8bit)(const struct fw_blocks8 *s, int64_t n, int64_t first, int64_t last);
double FW_CPU_FN(sum_squares)(const float *x, int64_t n);
void FW_CPU_FN(scale)(float *x, float factor, int64_t first, int64_t last);
void FW_CPU_FN(cast)(void *y, fw_dtype t_y, const void *x, fw_dtype t_x, int64_t first, int64_t last);
void FW_CPU_FN(dropout)(const fw_cpu_dropout_args *s, int64_t first, int64_t last);
void FW_CPU_FN(dora_norm)(const fw_cpu_dora_args *s, int64_t first, int64_t last);
void FW_CPU_FN(dora_scale)(const fw_cpu_dora_args *s, int64_t first, int64_t last, float *scratch);
void FW_CPU_FN(dora_backward_m)(const fw_cpu_dora_args *s, int64_t first, int64_t last);
void FW_CPU_FN(unpack_4bit)(const fw_cpu_unpack_args *s, int64_t first, int64_t last);
int64_t FW_CPU_FN(attention_jobs)(const fw_cpu_attention_args *s);
void FW_CPU_FN(attention_forward)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
size_t FW_CPU_FN(attention_forward_scratch_n)(int64_t keys_n, int64_t H, int64_t D);
void FW_CPU_FN(attention_backward)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
int64_t FW_CPU_FN(attention_backward_kv_jobs)(const fw_cpu_attention_args *s);
void FW_CPU_FN(attention_backward_kv)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
int64_t FW_CPU_FN(attention_backward_q_jobs)(const fw_cpu_attention_args *s);
void FW_CPU_FN(attention_backward_q)(const fw_cpu_attention_args *s, int64_t first, int64_t last, float *scratch);
size_t FW_CPU_FN(attention_backward_scratch_n)(int64_t N, int64_t D);

#endif
