/* AdamW over what this rank owns: fp32 master weights and moments, decoupled weight decay on matrices only.
 *
 * One call updates all units and clears the gradients (equation: device/device.h, adamw). */
#ifndef FW_TRAIN_OPTIMIZER_H
#define FW_TRAIN_OPTIMIZER_H

#include "device/device.h"
#include "shard/shard.h"

/* options->weight_decay applies to parameters that decay, 0 to the others; options->grad_scale is the clipping factor.
 */
fw_status fw_optimizer_update(fw_shard *shard, const fw_param_table *table, fw_device *device,
                              const fw_adamw_options *options);

/* The factor that brings a gradient of this norm down to max_norm (1 when it is not above, or max_norm is 0):
 * max_norm / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_. */
float fw_optimizer_clip_factor(double norm, double max_norm);

#endif
