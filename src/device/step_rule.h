/* The update of one element by each rule (equations: device/device.h, optimizer_step), once for every device: in fp64 for
 * the judge, in fp32 for the others. The arrays that a rule does not use are not touched.
 *
 * FW_STEP_DEFINE(NAME, REAL, ROOT) defines NAME_constants, NAME_constants_of and NAME. With FIRST, m and v count as zero. */
#ifndef FW_DEVICE_STEP_RULE_H
#define FW_DEVICE_STEP_RULE_H

#include "device/step_options.h"

#include <math.h>

#ifdef __CUDACC__
#define FW_STEP_FUNCTION static __host__ __device__ __forceinline__
#else
#define FW_STEP_FUNCTION static inline __attribute__((always_inline))
#endif

#define FW_STEP_DEFINE(NAME, REAL, ROOT)                                                                               \
    typedef struct NAME##_constants {                                                                                  \
        REAL rate, decay, coupled, b1, rest1, b2, rest2, epsilon, scale, momentum, rest, correct1, correct2, along;    \
        int nesterov;                                                                                                  \
    } NAME##_constants;                                                                                                \
    static inline NAME##_constants NAME##_constants_of(const fw_step_options *o) {                                     \
        const double b1 = o->beta1, b2 = o->beta2, rate = (double)o->learning_rate;                                    \
        NAME##_constants c;                                                                                            \
        c.rate = (REAL)rate;                                                                                           \
        c.coupled = (REAL)o->weight_decay;                                                                             \
        c.decay = (REAL)(rate * (double)o->weight_decay);                                                              \
        c.b1 = (REAL)b1;                                                                                               \
        c.rest1 = (REAL)(1 - b1);                                                                                      \
        c.b2 = (REAL)b2;                                                                                               \
        c.rest2 = (REAL)(1 - b2);                                                                                      \
        c.epsilon = (REAL)o->epsilon;                                                                                  \
        c.scale = (REAL)o->grad_scale;                                                                                 \
        c.momentum = (REAL)o->momentum;                                                                                \
        c.rest = (REAL)(1 - (double)o->dampening);                                                                     \
        c.correct1 = (REAL)(1 / (1 - pow(b1, (double)o->step)));                                                       \
        c.correct2 = (REAL)(1 / sqrt(1 - pow(b2, (double)o->step)));                                                   \
        c.along = (REAL)(rate * (double)o->along);                                                                     \
        c.nesterov = o->nesterov;                                                                                      \
        return c;                                                                                                      \
    }                                                                                                                  \
    /* m and v: what they were, 0 with FIRST */                                                                        \
    FW_STEP_FUNCTION void NAME(const NAME##_constants *c, const fw_step_rule rule, const int has_m, const int first,   \
                               REAL *w, REAL *m, REAL *v, REAL *g) {                                                   \
        const REAL gradient = *g * c->scale;                                                                           \
        if (rule == FW_STEP_SGD) {                                                                                     \
            REAL direction = gradient + c->coupled * *w;                                                               \
            if (has_m) {                                                                                               \
                *m = first ? direction : c->momentum * *m + c->rest * direction;                                       \
                direction = c->nesterov ? direction + c->momentum * *m : *m;                                           \
            }                                                                                                          \
            *w -= c->rate * direction;                                                                                 \
            *g = 0;                                                                                                    \
        } else if (rule == FW_STEP_LION) {                                                                             \
            const REAL mixed = c->b1 * *m + c->rest1 * gradient;                                                       \
            *w -= c->decay * *w + (mixed > 0 ? c->rate : mixed < 0 ? -c->rate : 0);                                    \
            *m = c->b2 * *m + c->rest2 * gradient;                                                                     \
            *g = 0;                                                                                                    \
        } else if (rule == FW_STEP_LAMB) {                                                                             \
            *m = c->b1 * *m + c->rest1 * gradient;                                                                     \
            *v = c->b2 * *v + c->rest2 * (gradient * gradient);                                                        \
            *g = *m * c->correct1 / (ROOT(*v) * c->correct2 + c->epsilon) + c->coupled * *w;                           \
        } else if (rule == FW_STEP_VECTOR) {                                                                           \
            *v = c->b2 * *v + c->rest2 * (gradient * gradient + c->epsilon);                                           \
            *g = gradient / ROOT(*v);                                                                                  \
        } else {                                                                                                       \
            *w -= c->decay * *w + c->along * *g;                                                                       \
            *g = 0;                                                                                                    \
        }                                                                                                              \
    }

#endif
