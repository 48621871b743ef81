#include "store/peft_config.h"

#include "base/alloc.h"
#include "base/file.h"

#include <string.h>

enum { CONFIG_LIMIT_BYTES = 16 << 20, RANK_MAX = 65536 };
#define ALPHA_MAX 1e9

/* ---- which keys there are */

/* Read below. */
static const char *const known[] = {"peft_type",
                                    "task_type",
                                    "base_model_name_or_path",
                                    "r",
                                    "lora_alpha",
                                    "lora_dropout",
                                    "bias",
                                    "use_rslora",
                                    "use_dora",
                                    "rank_pattern",
                                    "alpha_pattern",
                                    "target_modules",
                                    "exclude_modules",
                                    "modules_to_save",
                                    "layers_to_transform",
                                    "layers_pattern",
                                    "init_lora_weights",
                                    NULL};

/* Which file this is of, who wrote it, and what acts only where other keys are switched on (those are refused). For layers
 * that store [outputs, inputs] peft sets fan_in_fan_out to false itself. */
static const char *const passed_over[] = {"peft_version",
                                          "auto_mapping",
                                          "inference_mode",
                                          "revision",
                                          "megatron_core",
                                          "qalora_group_size",
                                          "runtime_config",
                                          "fan_in_fan_out",
                                          "eva_config",
                                          "corda_config",
                                          "loftq_config",
                                          "lora_ga_config",
                                          NULL};

static bool is_among(const char *const *names, const char *name) {
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

static bool is_switched_off(const json_t *value) {
    return json_is_null(value) || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static fw_status refuse_value(const fw_peft_config *c, const char *key, const json_t *value, const char *why) {
    fw_strbuf text = {0};
    fw_status status = fw_json_dump(&text, value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (status == FW_OK)
        status = fw_fail(FW_ERR_INPUT, "%s: \"%.100s\" is %.100s: %s", c->where, key, fw_strbuf_text(&text), why);
    fw_strbuf_fini(&text);
    return status;
}

static fw_status check_keys(const fw_peft_config *c) {
    const char *key;
    json_t *value;
    json_object_foreach(c->object, key, value) {
        if (is_among(known, key) || is_among(passed_over, key) || is_switched_off(value)) continue;
        return refuse_value(c, key, value,
                            "finewire does not have that, and the adapter would be another one without it; merge it "
                            "with peft (merge_and_unload) and use the merged model");
    }
    return FW_OK;
}

/* ---- values */

static fw_status check_word(const fw_peft_config *c, const char *key, const char *want, const char *why) {
    const json_t *value = json_object_get(c->object, key);
    const char *word = json_string_value(value);
    if (word != NULL && strcmp(word, want) == 0) return FW_OK;
    if (value != NULL) return refuse_value(c, key, value, why);
    return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is missing: %s", c->where, key, why);
}

/* How training began. Some ways take out of the base what they put into the adapter. */
static fw_status read_init(fw_peft_config *c) {
    const json_t *value = json_object_get(c->object, "init_lora_weights");
    const char *word = json_string_value(value);
    c->request.init = json_is_false(value) ? FW_ADAPTER_INIT_RANDOM : FW_ADAPTER_INIT_DEFAULT;
    if (value == NULL || json_is_null(value) || json_is_boolean(value)) return FW_OK;
    if (word != NULL && strcmp(word, "gaussian") == 0) {
        c->request.init = FW_ADAPTER_INIT_GAUSSIAN;
        return FW_OK;
    }
    static const char *const harmless[] = {"eva", "orthogonal", NULL}; /* other beginnings, the same afterwards */
    if (word != NULL && is_among(harmless, word)) return FW_OK;
    return refuse_value(c, "init_lora_weights", value,
                        "such an adapter belongs to a base whose weights were changed when training began, not to the "
                        "base that it names; save it with peft as a plain one: save_pretrained(DIR, "
                        "path_initial_model_for_weight_conversion=...)");
}

static fw_status read_bias(fw_peft_config *c) {
    static const char *const words[] = {
        [FW_ADAPTER_BIAS_NONE] = "none", [FW_ADAPTER_BIAS_ALL] = "all", [FW_ADAPTER_BIAS_LORA_ONLY] = "lora_only"};
    const char *word;
    FW_TRY(fw_json_get_string(&word, c->object, "bias", "none", c->where));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        c->request.bias = (fw_adapter_bias)i;
        if (strcmp(words[i], word) == 0) return FW_OK;
    }
    return refuse_value(c, "bias", json_object_get(c->object, "bias"), "it must be none, all or lora_only");
}

static fw_status check_task(const fw_peft_config *c) {
    const json_t *task = json_object_get(c->object, "task_type");
    if (task == NULL || json_is_null(task)) return FW_OK;
    return check_word(c, "task_type", "CAUSAL_LM", "finewire has language models only (CAUSAL_LM)");
}

/* ---- texts of the request: a word as it is, lists and objects as JSON */

static fw_status read_text(const char **out, fw_peft_config *c, int slot, const char *key) {
    const json_t *value = json_object_get(c->object, key);
    *out = NULL;
    if (value == NULL || is_switched_off(value)) return FW_OK;
    if (json_is_string(value)) {
        FW_TRY(fw_json_get_string(out, c->object, key, NULL, c->where));
        return FW_OK;
    }
    fw_strbuf text = {0};
    fw_status status = fw_json_dump(&text, value, JSON_ENCODE_ANY | JSON_COMPACT);
    *out = c->text[slot] = text.data; /* freed with the configuration, whatever the status */
    return status;
}

/* One number is a list of one. */
static fw_status read_layers(fw_peft_config *c) {
    FW_TRY(read_text(&c->request.layers_to_transform, c, 2, "layers_to_transform"));
    const json_t *pattern = json_object_get(c->object, "layers_pattern");
    const json_t *word = json_array_size(pattern) == 1 ? json_array_get(pattern, 0) : pattern;
    if (pattern == NULL || is_switched_off(pattern)) return FW_OK;
    if (json_is_string(word) && strcmp(json_string_value(word), "layers") == 0) return FW_OK;
    return refuse_value(c, "layers_pattern", pattern, "the blocks of finewire's models are called layers");
}

/* A list of names as JSON; a text is always an expression here, and in brackets, as it may itself begin like a list. */
static fw_status read_excluded(fw_peft_config *c) {
    const json_t *value = json_object_get(c->object, "exclude_modules");
    if (value == NULL || is_switched_off(value) || (json_is_string(value) && json_string_length(value) == 0))
        return FW_OK;
    if (!json_is_string(value)) {
        if (!json_is_array(value))
            return refuse_value(c, "exclude_modules", value, "a list of names or one expression is needed");
        return read_text(&c->request.exclude_modules, c, 5, "exclude_modules");
    }
    const char *word;
    FW_TRY(fw_json_get_string(&word, c->object, "exclude_modules", NULL, c->where));
    fw_strbuf text = {0};
    const fw_status status = fw_strbuf_printf(&text, "(?:%s)", word);
    c->request.exclude_modules = c->text[5] = text.data; /* freed with the configuration, whatever the status */
    return status;
}

static fw_status read_texts(fw_peft_config *c) {
    fw_adapter_request *r = &c->request;
    r->passes_unknown = true;
    FW_TRY(read_excluded(c));
    FW_TRY(read_text(&r->target_modules, c, 0, "target_modules"));
    FW_TRY(read_text(&r->modules_to_save, c, 1, "modules_to_save"));
    FW_TRY(read_layers(c));
    FW_TRY(read_text(&r->rank_pattern, c, 3, "rank_pattern"));
    FW_TRY(read_text(&r->alpha_pattern, c, 4, "alpha_pattern"));
    if (r->target_modules != NULL) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s: \"target_modules\" is missing: it says which modules have an adapter", c->where);
}

static fw_status read_values(fw_peft_config *c) {
    fw_adapter_request *r = &c->request;
    FW_TRY(check_word(c, "peft_type", "LORA", "finewire reads LORA adapters"));
    FW_TRY(check_task(c));
    FW_TRY(check_keys(c));
    FW_TRY(read_init(c));
    FW_TRY(read_bias(c));
    FW_TRY(fw_json_get_string(&c->base, c->object, "base_model_name_or_path", NULL, c->where));
    FW_TRY(fw_json_need_int(&r->r, c->object, "r", 1, RANK_MAX, c->where));
    if (json_is_null(
            json_object_get(c->object, "lora_alpha"))) /* not there: 8, as in peft; there, it has to say a number */
        return refuse_value(c, "lora_alpha", json_null(), "a number is needed, for peft too");
    FW_TRY(fw_json_get_double(&r->alpha, c->object, "lora_alpha", 8, -ALPHA_MAX, ALPHA_MAX, c->where));
    FW_TRY(fw_json_get_double(&r->dropout, c->object, "lora_dropout", 0, 0, 1, c->where));
    FW_TRY(fw_json_get_bool(&r->rslora, c->object, "use_rslora", false, c->where));
    FW_TRY(fw_json_get_bool(&r->dora, c->object, "use_dora", false, c->where));
    return read_texts(c);
}

fw_status fw_peft_config_parse(fw_peft_config *out, json_t *object, const char *where) {
    *out = (fw_peft_config){.object = json_incref(object)};
    fw_status status;
    FW_TRY_OR(fw_strdup(&out->where, where), done);
    status = json_is_object(object) ? read_values(out) : fw_fail(FW_ERR_INPUT, "%s is not an object", where);
done:
    if (status != FW_OK) fw_peft_config_fini(out);
    return status;
}

/* No adapter_config.json: say what the folder is instead. */
static fw_status refuse_folder(const char *dir) {
    static const struct {
        const char *file, *what;
    } others[] = {{"manifest.json", "a checkpoint; finewire ckpt export makes an adapter's folder of one"},
                  {"config.json", "a model's folder, to be given as --model"}};
    if (!fw_dir_exists(dir)) return fw_fail(FW_ERR_INPUT, "the adapter's folder %s does not exist", dir);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool there = false;
        FW_TRY(fw_dir_has_file(&there, dir, others[i].file));
        if (there) return fw_fail(FW_ERR_INPUT, "%s has no adapter_config.json: it is %s", dir, others[i].what);
    }
    return fw_fail(FW_ERR_INPUT, "%s has no adapter_config.json: it is not a folder that peft wrote", dir);
}

fw_status fw_peft_config_load(fw_peft_config *out, const char *dir) {
    char *path;
    json_t *object = NULL;
    *out = (fw_peft_config){0};
    FW_TRY(fw_path_join(&path, dir, "adapter_config.json"));
    fw_status status = fw_file_exists(path) ? fw_json_load(&object, path, CONFIG_LIMIT_BYTES) : refuse_folder(dir);
    if (status == FW_OK) status = fw_peft_config_parse(out, object, path);
    json_decref(object);
    fw_free(path);
    return status;
}

void fw_peft_config_fini(fw_peft_config *c) {
    json_decref(c->object);
    fw_free(c->where);
    for (int i = 0; i < FW_PEFT_TEXT_N; i++) fw_free(c->text[i]);
    *c = (fw_peft_config){0};
}

fw_status fw_peft_config_blame(fw_status status, const fw_peft_config *c) {
    return status == FW_ERR_OPTION ? fw_fail_context(FW_ERR_INPUT, "%s: ", c->where) : status;
}
