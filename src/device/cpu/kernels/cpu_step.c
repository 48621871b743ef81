/* Updates by the optimizers other than AdamW: loops that the compiler makes vectors of, a rule at a time. */
#include "device/cpu/kernels/cpu_kernel_names.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_vec.h"
#include "device/step_8bit.h"
#include "device/step_rule.h"

/* sqrtf as an instruction: nothing here is below zero. */
FW_INLINE float root(float x) {
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
#else
    return sqrtf(x);
#endif
}
FW_STEP_DEFINE(step, float, root)

#define FW_RULE(RULE, HAS_M, FIRST)                                                                                    \
    for (int64_t i = first; i < last; i++) {                                                                           \
        float w_i = w == NULL ? 0 : w[i], m_i = !(HAS_M) || (FIRST) ? 0 : m[i];                                        \
        float v_i = v == NULL || (FIRST) ? 0 : v[i], g_i = g[i];                                                       \
        step(&c, RULE, HAS_M, FIRST, &w_i, &m_i, &v_i, &g_i);                                                          \
        if (w != NULL && (RULE) != FW_STEP_LAMB && (RULE) != FW_STEP_VECTOR) w[i] = w_i;                               \
        if (HAS_M) m[i] = m_i;                                                                                         \
        if (v != NULL) v[i] = v_i;                                                                                     \
        g[i] = g_i;                                                                                                    \
    }                                                                                                                  \
    return

void FW_CPU_FN(optimizer_step)(const fw_cpu_step_args *s, int64_t first, int64_t last) {
    const step_constants c = step_constants_of(s->options);
    float *restrict w = s->w, *restrict m = s->m, *restrict v = s->v, *restrict g = s->g;
    const int is_first = s->options->step == 1;
    switch (s->options->rule) {
    case FW_STEP_SGD:
        if (m == NULL) {
            FW_RULE(FW_STEP_SGD, 0, 0);
        }
        if (is_first) {
            FW_RULE(FW_STEP_SGD, 1, 1);
        }
        FW_RULE(FW_STEP_SGD, 1, 0);
    case FW_STEP_LION:
        if (is_first) {
            FW_RULE(FW_STEP_LION, 1, 1);
        }
        FW_RULE(FW_STEP_LION, 1, 0);
    case FW_STEP_LAMB:
        if (is_first) {
            FW_RULE(FW_STEP_LAMB, 1, 1);
        }
        FW_RULE(FW_STEP_LAMB, 1, 0);
    case FW_STEP_VECTOR:
        if (is_first) {
            FW_RULE(FW_STEP_VECTOR, 0, 1);
        }
        FW_RULE(FW_STEP_VECTOR, 0, 0);
    case FW_STEP_ALONG: FW_RULE(FW_STEP_ALONG, 0, 0);
    case FW_STEP_ADAMW: break;
    }
}

void FW_CPU_FN(step_8bit)(const fw_blocks8 *s, int64_t n, int64_t first, int64_t last) {
    for (int64_t block = first; block < last; block++) fw_blocks8_step(s, block, n);
}
