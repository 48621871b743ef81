/* Parameters of an update by one of the optimizers other than AdamW (equations: device/device.h, optimizer_step and
 * step_8bit); also seen by kernels. */
#ifndef FW_DEVICE_STEP_OPTIONS_H
#define FW_DEVICE_STEP_OPTIONS_H

#include <stdint.h>

typedef enum fw_step_rule {
    FW_STEP_SGD,
    FW_STEP_LION,
    FW_STEP_LAMB,   /* the direction; FW_STEP_ALONG follows */
    FW_STEP_VECTOR, /* adafactor: the direction of a parameter without rows and columns; FW_STEP_ALONG follows */
    FW_STEP_ALONG,  /* a step in the direction that g holds */
    FW_STEP_ADAMW   /* step_8bit only */
} fw_step_rule;

typedef struct fw_step_options {
    fw_step_rule rule;
    float learning_rate, weight_decay;
    double beta1,
        beta2; /* in fp64: 1 - beta is rounded once. FW_STEP_VECTOR: beta2 and epsilon are adafactor's of this step */
    float epsilon;
    float momentum, dampening; /* SGD */
    int nesterov;
    float grad_scale; /* the clipping factor; 1 when not clipped */
    float along;      /* FW_STEP_ALONG: factor of the direction, beside the learning rate */
    int64_t step;     /* 1 for the first update */
} fw_step_options;

#endif
