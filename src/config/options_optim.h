/* What --optim, --optim_args and --lr_scale_rule say, beside the options of AdamW. */
#ifndef FW_CONFIG_OPTIONS_OPTIM_H
#define FW_CONFIG_OPTIONS_OPTIM_H

#include "config/options.h"

typedef struct fw_optim_settings {
    double beta1, beta2;       /* of all but AdamW, which has them in its own options */
    float momentum, dampening; /* sgd */
    bool nesterov;
    double min_coeff, max_coeff;                /* lamb: bounds of the trust ratio; 0: none */
    float epsilon1, clip_threshold, decay_rate; /* adafactor, as transformers' Trainer has it */
} fw_optim_settings;

/* Settings without optim_args. */
fw_optim_settings fw_optim_settings_default(void);
/* Errors: FW_ERR_OPTION (a key that the optimizer does not have, a value out of bounds). */
fw_status fw_options_optim_settings(fw_optim_settings *out, const fw_options *options);
/* optim, optim_args, lr_scale_rule: what does not fit together is FW_ERR_OPTION. */
fw_status fw_options_check_optim(const fw_options *options);

/* The learning rate of a step that computes batch_n sequences: scaled from lr_scale_base_batch by the rule. */
double fw_options_scaled_rate(const fw_options *options, int64_t batch_n);

#endif
