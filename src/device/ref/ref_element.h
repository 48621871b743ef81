/* How the reference device reads and writes numbers: every element is widened to double, every
 * operation computes in double, and a result is rounded once, when it is stored.
 *
 * bf16 and fp16 results are rounded to fp32 first and then to 16 bits, as every other device does.
 *
 * FW_F64 is a type only this device knows. With t == FW_F64 an operation's `void *` tensors, and also
 * its gradients, statistics, logits and losses (`float *` in the contract), are arrays of double. This is the same
 * source with nothing rounded, which is what finite differences need. RoPE tables, adamw, sum_squares
 * and scale stay fp32: nothing is differentiated there. */
#ifndef FW_DEVICE_REF_ELEMENT_H
#define FW_DEVICE_REF_ELEMENT_H

#include "base/dtype.h"
#include "base/status.h"

static inline double fw_ref_load(const void *x, int64_t i, fw_dtype t) {
    if (t == FW_F32) return (double)((const float *)x)[i];
    if (t == FW_BF16) return (double)fw_bf16_to_f32(((const fw_bf16 *)x)[i]);
    if (t == FW_F16) return (double)fw_f16_to_f32(((const fw_f16 *)x)[i]);
    FW_ASSERT(t == FW_F64);
    return ((const double *)x)[i];
}

static inline void fw_ref_store(void *x, int64_t i, fw_dtype t, double value) {
    if (t == FW_F32) {
        ((float *)x)[i] = (float)value;
    } else if (t == FW_BF16) {
        ((fw_bf16 *)x)[i] = fw_bf16_from_f32((float)value);
    } else if (t == FW_F16) {
        ((fw_f16 *)x)[i] = fw_f16_from_f32((float)value);
    } else {
        FW_ASSERT(t == FW_F64);
        ((double *)x)[i] = value;
    }
}

/* x[i] += value, rounded to t. */
static inline void fw_ref_add_to(void *x, int64_t i, fw_dtype t, double value) {
    fw_ref_store(x, i, t, fw_ref_load(x, i, t) + value);
}

/* `value` as it would read back after being stored. */
static inline double fw_ref_round(double value, fw_dtype t) {
    double stored;
    fw_ref_store(&stored, 0, t, value);
    return fw_ref_load(&stored, 0, t);
}

/* The type of gradients, statistics and losses when tensors have type t. */
static inline fw_dtype fw_ref_wide(fw_dtype t) { return t == FW_F64 ? FW_F64 : FW_F32; }

#endif
