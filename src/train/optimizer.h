/* The optimizers, over what this rank owns: fp32 master weights and the arrays of shard/optimizer_state.h. One call updates all
 * units and clears the gradients. Equations: device/device.h (adamw, optimizer_step, step_8bit); docs/optimizers.md.
 *
 * Which one it is, is in the shard's layout. Whatever needs a sum over a tensor (lamb, adafactor) makes it from the parts of
 * all ranks, so that it does not matter where the tensor is cut. */
#ifndef FW_TRAIN_OPTIMIZER_H
#define FW_TRAIN_OPTIMIZER_H

#include "config/options_optim.h"
#include "device/device.h"
#include "shard/shard.h"

/* options->weight_decay applies to parameters that decay, 0 to the others; options->grad_scale is the clipping factor. */
fw_status fw_optimizer_update(fw_shard *shard, const fw_param_table *table, fw_device *device,
                              const fw_adamw_options *options, const fw_optim_settings *settings);

/* optimizer_tensors.c: those that go tensor by tensor. `own`: of this unit, not shared yet. */
typedef struct fw_optimizer_unit {
    fw_shard *shard;
    const fw_param_table *table;
    fw_device *device;
    const fw_adamw_options *options;
    const fw_optim_settings *settings;
    int32_t unit;
    fw_owned_range own;
} fw_optimizer_unit;
fw_status fw_optimizer_lamb(const fw_optimizer_unit *u);
fw_status fw_optimizer_adafactor(const fw_optimizer_unit *u);
fw_status fw_optimizer_8bit(const fw_optimizer_unit *u);

/* What of a parameter is in the owned range: elements of the parameter. */
static inline fw_state_range fw_optimizer_elements(const fw_optimizer_unit *u, const fw_param *p) {
    return fw_state_of_param(p, u->own.first_n, u->own.n);
}

/* The factor that brings a gradient of this norm down to max_norm (1 when it is not above, or max_norm is 0):
 * max_norm / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_. */
float fw_optimizer_clip_factor(double norm, double max_norm);

#endif
