/* Parameters of one AdamW update (equation: device/device.h); also seen by kernels. */
#ifndef FW_DEVICE_ADAMW_OPTIONS_H
#define FW_DEVICE_ADAMW_OPTIONS_H

#include <stdint.h>

typedef struct fw_adamw_options {
    float learning_rate, beta1, beta2, epsilon, weight_decay;
    float grad_scale; /* the clipping factor; 1 when not clipped */
    int64_t step;     /* 1 for the first update */
} fw_adamw_options;

#endif
