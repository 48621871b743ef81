#include "config/options_adapter.h"

#include "base/log.h"

/* What describes an adapter. */
static const fw_option_id own[] = {FW_OPTION_lora_r,
                                   FW_OPTION_lora_alpha,
                                   FW_OPTION_lora_dropout,
                                   FW_OPTION_lora_target_modules,
                                   FW_OPTION_lora_exclude_modules,
                                   FW_OPTION_lora_modules_to_save,
                                   FW_OPTION_lora_layers_to_transform,
                                   FW_OPTION_lora_rank_pattern,
                                   FW_OPTION_lora_alpha_pattern,
                                   FW_OPTION_use_rslora,
                                   FW_OPTION_use_dora,
                                   FW_OPTION_lora_bias,
                                   FW_OPTION_lora_init,
                                   FW_OPTION_lora_task_type};

fw_status fw_options_check_packing(const fw_options *o) {
    if (o->load_in_4bit && o->adapter == NULL)
        return fw_fail(FW_ERR_OPTION, "load_in_4bit needs adapter: weights in 4 bits are those beside an adapter");
    return FW_OK;
}

fw_status fw_options_check_adapter(fw_options *o) {
    if (o->adapter_name_or_path == NULL) return FW_OK;
    if (!o->use_peft && fw_options_given(o, FW_OPTION_use_peft)) {
        char origin[128];
        return fw_fail(FW_ERR_OPTION,
                       "use_peft is false (%s), but adapter_name_or_path is %s, an adapter to train on; leave out one "
                       "of them",
                       fw_options_origin(o, FW_OPTION_use_peft, origin, sizeof origin), o->adapter_name_or_path);
    }
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        char origin[128];
        if (fw_options_given(o, own[i]))
            return fw_fail(FW_ERR_OPTION,
                           "%s is given (%s), but training goes on from the adapter %s, whose adapter_config.json says "
                           "what it is; leave out one of them",
                           fw_option_get(own[i])->name, fw_options_origin(o, own[i], origin, sizeof origin),
                           o->adapter_name_or_path);
    }
    o->use_peft = true;
    return FW_OK;
}

void fw_options_warn_adapter(const fw_options *o) {
    if (o->use_peft) return;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (fw_options_given(o, own[i]))
            fw_log_warning("%s has no effect without --use_peft", fw_option_get(own[i])->name);
}
