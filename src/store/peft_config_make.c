/* adapter_config.json of a run: the keys that peft writes for LoRA, in its order. */
#include "store/peft_config.h"

#include "base/alloc.h"
#include "model/module_names.h"

#include <stdlib.h>
#include <string.h>

static fw_status out_of_memory(void) { return fw_fail(FW_ERR_NOMEM, "out of memory while describing an adapter"); }

/* Gives the value away; NULL: memory ran out. */
static fw_status set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0 ? FW_OK : out_of_memory();
}

/* A number that stands alone is written as one. */
static json_t *word_or_number(const char *text) {
    const size_t n = strlen(text);
    return n > 0 && n < 10 && strspn(text, "0123456789") == n ? json_integer(atoll(text)) : json_string(text);
}

static fw_status read_list(json_t **out, const char *text, const char *option) {
    fw_module_names names;
    fw_status status;
    *out = NULL;
    FW_TRY_OR(fw_module_names_read_list(&names, text, option), done);
    if (names.n > 0) *out = json_array();
    for (int i = 0; i < names.n && status == FW_OK; i++)
        if (json_array_append_new(*out, word_or_number(names.name[i])) != 0) status = out_of_memory();
done:
    fw_module_names_fini(&names);
    if (status != FW_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

/* 16, not 16.0: ranks and nearly all alphas are whole numbers. */
static json_t *number(double value) {
    return value == (double)(json_int_t)value ? json_integer((json_int_t)value) : fw_json_number(value);
}

static fw_status read_map(json_t **out, const char *text, const char *option) {
    fw_module_names names;
    fw_status status;
    *out = json_object();
    FW_TRY_OR(fw_module_names_read_map(&names, text, option), done);
    for (int i = 0; i < names.n && status == FW_OK; i++) status = set(*out, names.name[i], number(names.value[i]));
done:
    fw_module_names_fini(&names);
    if (status != FW_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

/* all-linear, as peft expands it: every matrix of the blocks. */
static fw_status list_linear(json_t **out) {
    *out = json_array();
    for (int i = 0; i < FW_LINEAR_N; i++) {
        const char *name = strrchr(fw_linear_name((fw_linear)i), '.') + 1;
        if (json_array_append_new(*out, json_string(name)) != 0) return out_of_memory();
    }
    return FW_OK;
}

/* Names and ends of names are a list; an expression stays a text. */
static fw_status read_modules(json_t **out, const char *text, const char *option) {
    if (!fw_module_is_pattern(text)) return read_list(out, text, option);
    *out = json_string(text);
    return *out == NULL ? out_of_memory() : FW_OK;
}

static fw_status read_targets(json_t **out, const char *text) {
    return strcmp(text, "all-linear") == 0 ? list_linear(out) : read_modules(out, text, "lora_target_modules");
}

static json_t *or_null(json_t *value) { return value != NULL ? value : json_null(); }

static json_t *init_value(fw_adapter_init init) {
    return init == FW_ADAPTER_INIT_GAUSSIAN ? json_string("gaussian") : json_boolean(init == FW_ADAPTER_INIT_DEFAULT);
}

fw_status fw_peft_config_make(json_t **out, const fw_adapter_request *r, const char *base) {
    static const char *const bias[] = {
        [FW_ADAPTER_BIAS_NONE] = "none", [FW_ADAPTER_BIAS_ALL] = "all", [FW_ADAPTER_BIAS_LORA_ONLY] = "lora_only"};
    json_t *o = *out = json_object(), *value = NULL;
    fw_status status;
    FW_TRY_OR(read_map(&value, r->alpha_pattern, "lora_alpha_pattern"), done);
    FW_TRY_OR(set(o, "alpha_pattern", value), done);
    FW_TRY_OR(set(o, "auto_mapping", json_null()), done);
    FW_TRY_OR(set(o, "base_model_name_or_path", base == NULL ? json_null() : json_string(base)), done);
    FW_TRY_OR(set(o, "bias", json_string(bias[r->bias])), done);
    if (r->exclude_modules != NULL) {
        FW_TRY_OR(read_modules(&value, r->exclude_modules, "lora_exclude_modules"), done);
        FW_TRY_OR(set(o, "exclude_modules", or_null(value)), done);
    }
    FW_TRY_OR(set(o, "fan_in_fan_out", json_false()), done);
    FW_TRY_OR(set(o, "inference_mode", json_true()), done);
    FW_TRY_OR(set(o, "init_lora_weights", init_value(r->init)), done);
    FW_TRY_OR(set(o, "layers_pattern", json_null()), done);
    FW_TRY_OR(read_list(&value, r->layers_to_transform, "lora_layers_to_transform"), done);
    FW_TRY_OR(set(o, "layers_to_transform", or_null(value)), done);
    FW_TRY_OR(set(o, "lora_alpha", number(r->alpha)), done);
    FW_TRY_OR(set(o, "lora_dropout", fw_json_number(r->dropout)), done);
    FW_TRY_OR(read_list(&value, r->modules_to_save, "lora_modules_to_save"), done);
    FW_TRY_OR(set(o, "modules_to_save", or_null(value)), done);
    FW_TRY_OR(set(o, "peft_type", json_string("LORA")), done);
    FW_TRY_OR(set(o, "r", json_integer((json_int_t)r->r)), done);
    FW_TRY_OR(read_map(&value, r->rank_pattern, "lora_rank_pattern"), done);
    FW_TRY_OR(set(o, "rank_pattern", value), done);
    FW_TRY_OR(set(o, "revision", json_null()), done);
    FW_TRY_OR(read_targets(&value, r->target_modules), done);
    FW_TRY_OR(set(o, "target_modules", value), done);
    FW_TRY_OR(set(o, "task_type", json_string("CAUSAL_LM")), done);
    FW_TRY_OR(set(o, "use_dora", json_boolean(r->dora)), done);
    FW_TRY_OR(set(o, "use_rslora", json_boolean(r->rslora)), done);
done:
    if (status != FW_OK) {
        json_decref(o);
        *out = NULL;
    }
    return status;
}
