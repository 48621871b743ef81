/* The table of this variant. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_micro.h"

#define FW_CPU_TABLE_(variant) fw_cpu_kernels_##variant
#define FW_CPU_TABLE(variant) FW_CPU_TABLE_(variant)
#define FW_CPU_TEXT_(variant) #variant
#define FW_CPU_TEXT(variant) FW_CPU_TEXT_(variant)

const fw_cpu_kernels FW_CPU_TABLE(FW_CPU_VARIANT) = {
    .name = FW_CPU_TEXT(FW_CPU_VARIANT),
    .mr = FW_MR,
    .nr = FW_NR,
    .gemm = FW_CPU_FN(gemm),
    .gemm_scratch_n = FW_CPU_FN(gemm_scratch_n),
    .gemv = FW_CPU_FN(gemv),
    .rmsnorm_forward = FW_CPU_FN(rmsnorm_forward),
    .rmsnorm_backward = FW_CPU_FN(rmsnorm_backward),
    .rope = FW_CPU_FN(rope),
    .swiglu_forward = FW_CPU_FN(swiglu_forward),
    .swiglu_backward = FW_CPU_FN(swiglu_backward),
    .add = FW_CPU_FN(add),
    .add_columns = FW_CPU_FN(add_columns),
    .embedding_backward = FW_CPU_FN(embedding_backward),
    .cross_entropy = FW_CPU_FN(cross_entropy),
    .adamw = FW_CPU_FN(adamw),
    .optimizer_step = FW_CPU_FN(optimizer_step),
    .step_8bit = FW_CPU_FN(step_8bit),
    .sum_squares = FW_CPU_FN(sum_squares),
    .scale = FW_CPU_FN(scale),
    .cast = FW_CPU_FN(cast),
    .dropout = FW_CPU_FN(dropout),
    .dora_norm = FW_CPU_FN(dora_norm),
    .dora_scale = FW_CPU_FN(dora_scale),
    .dora_backward_m = FW_CPU_FN(dora_backward_m),
    .unpack_4bit = FW_CPU_FN(unpack_4bit),
    .attention_jobs = FW_CPU_FN(attention_jobs),
    .attention_forward = FW_CPU_FN(attention_forward),
    .attention_forward_scratch_n = FW_CPU_FN(attention_forward_scratch_n),
    .attention_backward = FW_CPU_FN(attention_backward),
    .attention_backward_kv_jobs = FW_CPU_FN(attention_backward_kv_jobs),
    .attention_backward_kv = FW_CPU_FN(attention_backward_kv),
    .attention_backward_q_jobs = FW_CPU_FN(attention_backward_q_jobs),
    .attention_backward_q = FW_CPU_FN(attention_backward_q),
    .attention_backward_scratch_n = FW_CPU_FN(attention_backward_scratch_n),
};
