/* Variables of the environment that change what NCCL and CUDA do, and what each does: one table for the start of a run on
 * GPUs (comm/nccl) and for finewire doctor. */
#ifndef FW_MACHINE_SETTINGS_H
#define FW_MACHINE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum fw_setting_harm {
    FW_SETTING_TELLS,  /* worth knowing: it chooses for NCCL or prints a lot */
    FW_SETTING_SLOWS,  /* it takes away something fast, or fixes what NCCL would choose */
    FW_SETTING_BREAKS, /* a run on several GPUs may hang or end */
} fw_setting_harm;

typedef struct fw_setting_rule {
    const char *variable;
    const char *harmless; /* values that change nothing, each between commas: ",0,"; NULL: every value counts */
    fw_setting_harm harm;
    const char *effect;
} fw_setting_rule;

/* As NCCL reads a number: of any base that C knows; what is none counts as 0. */
long long fw_setting_number(const char *value);
/* NULL after the last. */
const fw_setting_rule *fw_setting_rule_at(size_t i);
/* The rule for this variable when this value changes something; NULL: none. value NULL: not set. An empty value is none
 * for NCCL; CUDA_VISIBLE_DEVICES is the one where it says something. */
const fw_setting_rule *fw_setting_rule_of(const char *variable, const char *value);

#endif
