#include "model/model_config.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/plural.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_LIMIT_BYTES = 4 << 20 };

static const struct {
    const char *model_type, *causal_class, *layer_class;
} architecture_names[FW_ARCH_N] = {
    [FW_ARCH_LLAMA] = {"llama", "LlamaForCausalLM", "LlamaDecoderLayer"},
    [FW_ARCH_QWEN2] = {"qwen2", "Qwen2ForCausalLM", "Qwen2DecoderLayer"},
    [FW_ARCH_QWEN3] = {"qwen3", "Qwen3ForCausalLM", "Qwen3DecoderLayer"},
    [FW_ARCH_MISTRAL] = {"mistral", "MistralForCausalLM", "MistralDecoderLayer"},
};

const char *fw_architecture_class(fw_architecture a) { return architecture_names[a].causal_class; }
const char *fw_architecture_layer_class(fw_architecture a) { return architecture_names[a].layer_class; }
const char *fw_architecture_model_type(fw_architecture a) { return architecture_names[a].model_type; }

static fw_status parse_architecture(fw_architecture *out, const json_t *object, const char *where) {
    const char *type;
    FW_TRY(fw_json_get_string(&type, object, "model_type", NULL, where));
    if (type == NULL)
        return fw_fail(FW_ERR_INPUT, "%s: \"model_type\" is missing; is this a model's config.json?", where);
    for (int i = 0; i < FW_ARCH_N; i++) {
        if (strcmp(type, architecture_names[i].model_type) != 0) continue;
        *out = (fw_architecture)i;
        const json_t *list = json_object_get(object, "architectures");
        if (list == NULL || json_is_null(list)) return FW_OK;
        const char *first = json_is_array(list) ? json_string_value(json_array_get(list, 0)) : NULL;
        if (first != NULL && strcmp(first, architecture_names[i].causal_class) == 0) return FW_OK;
        return fw_fail(FW_ERR_INPUT, "%s: \"architectures\" is %s; for model_type %s only %s is supported", where,
                       first ? first : "not a list of names", type, architecture_names[i].causal_class);
    }
    return fw_fail(FW_ERR_INPUT, "%s: \"model_type\" %s is not supported; supported are llama, qwen2, qwen3, mistral",
                   where, type);
}

/* Matrices in 4 bits as bitsandbytes has them are read (store/stored_quant.h); every other form is not. */
static fw_status read_quantisation(fw_model_config *out, const json_t *quantised, const char *where) {
    if (quantised == NULL || json_is_null(quantised)) return FW_OK;
    const char *method = json_string_value(json_object_get(quantised, "quant_method"));
    const json_t *four = json_object_get(quantised, "load_in_4bit");
    if (four == NULL) four = json_object_get(quantised, "_load_in_4bit");
    if (method != NULL && strcmp(method, "bitsandbytes") == 0 && json_is_true(four)) {
        const char *kind = json_string_value(json_object_get(quantised, "bnb_4bit_quant_type"));
        out->is_packed = true;
        out->packed_kind =
            kind != NULL && strcmp(kind, "nf4") == 0 ? FW_QUANT_NF4 : FW_QUANT_FP4; /* bitsandbytes' default */
        out->packed_nested = json_is_true(json_object_get(quantised, "bnb_4bit_use_double_quant"));
        return FW_OK;
    }
    const bool eight = method != NULL && strcmp(method, "bitsandbytes") == 0;
    return fw_fail(
        FW_ERR_INPUT,
        "%s: \"quantization_config\": of quantised folders only those of bitsandbytes in 4 bits are read, not "
        "%s%.40s; use the 16-bit original",
        where, eight ? "in 8 bits" : "\"quant_method\" ",
        eight            ? ""
        : method == NULL ? "(none)"
                         : method);
}

/* Keys whose presence (other than null, false, 0) means mathematics that is not here. */
static fw_status refuse_foreign_keys(const json_t *object, const char *where) {
    static const char *const mixture[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                          "moe_intermediate_size", "num_experts_per_tok"};
    for (size_t i = 0; i < sizeof mixture / sizeof mixture[0]; i++) {
        const json_t *value = json_object_get(object, mixture[i]);
        if (value != NULL && !json_is_null(value) && !(json_is_integer(value) && json_integer_value(value) == 0))
            return fw_fail(FW_ERR_INPUT, "%s: \"%s\": mixture-of-experts models are not supported", where, mixture[i]);
    }
    static const char *const must_be[][2] = {{"attention_dropout", "0"},
                                             {"partial_rotary_factor", "1"},
                                             {"final_logit_softcapping", "0"},
                                             {"attn_logit_softcapping", "0"}};
    for (size_t i = 0; i < sizeof must_be / sizeof must_be[0]; i++) {
        double expected = must_be[i][1][0] == '1' ? 1.0 : 0.0, value;
        FW_TRY(fw_json_get_double(&value, object, must_be[i][0], expected, -1e30, 1e30, where));
        if (value != expected)
            return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %g; only %s is supported", where, must_be[i][0], value,
                           must_be[i][1]);
    }
    return FW_OK;
}

static fw_status parse_activation(const json_t *object, const char *where) {
    const char *activation;
    FW_TRY(fw_json_get_string(&activation, object, "hidden_act", "silu", where));
    if (strcmp(activation, "silu") != 0 && strcmp(activation, "swish") != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"hidden_act\" %s is not supported; only silu is", where, activation);
    return FW_OK;
}

/* Mistral means a window of 4096 when the key is absent; Qwen has a window only with use_sliding_window. */
static fw_status refuse_sliding_window(fw_architecture architecture, const json_t *object, const char *where) {
    const json_t *window = json_object_get(object, "sliding_window");
    bool in_use = window != NULL && !json_is_null(window);
    if (architecture == FW_ARCH_QWEN2 || architecture == FW_ARCH_QWEN3) {
        FW_TRY(fw_json_get_bool(&in_use, object, "use_sliding_window", false, where));
        if (in_use)
            return fw_fail(FW_ERR_INPUT, "%s: \"use_sliding_window\" is true; sliding windows are not supported",
                           where);
    } else if (architecture == FW_ARCH_MISTRAL && window == NULL) {
        return fw_fail(FW_ERR_INPUT,
                       "%s: \"sliding_window\" is missing, which means 4096 for Mistral; sliding windows are not "
                       "supported (a model without one says \"sliding_window\": null)",
                       where);
    } else if (in_use) {
        return fw_fail(FW_ERR_INPUT, "%s: \"sliding_window\" is set; sliding windows are not supported", where);
    }
    const json_t *types = json_object_get(object, "layer_types"), *type;
    size_t i;
    json_array_foreach(types, i, type) {
        const char *name = json_string_value(type);
        if (name == NULL || strcmp(name, "full_attention") != 0)
            return fw_fail(FW_ERR_INPUT, "%s: \"layer_types\" has %s; only full_attention is supported", where,
                           name ? name : "a non-string");
    }
    return FW_OK;
}

static fw_status parse_rope(fw_rope_config *rope, const json_t *object, int64_t max_position, const char *where) {
    *rope = (fw_rope_config){.kind = FW_ROPE_DEFAULT, .factor = 1};
    /* transformers 5: one object; before: rope_theta at the top and rope_scaling beside it */
    const char *key = "rope_parameters";
    const json_t *scaling = json_object_get(object, key);
    if (scaling == NULL || json_is_null(scaling)) {
        key = "rope_scaling";
        scaling = json_object_get(object, key);
    }
    FW_TRY(fw_json_get_double(&rope->theta, object, "rope_theta", 10000.0, 1.0, 1e12, where));
    if (scaling == NULL || json_is_null(scaling)) return FW_OK;
    if (!json_is_object(scaling)) return fw_fail(FW_ERR_INPUT, "%s: \"%s\" must be an object or null", where, key);

    FW_TRY(fw_json_get_double(&rope->theta, scaling, "rope_theta", rope->theta, 1.0, 1e12, where));
    const char *type, *old_type;
    FW_TRY(fw_json_get_string(&old_type, scaling, "type", "default", where));
    FW_TRY(fw_json_get_string(&type, scaling, "rope_type", old_type, where));
    if (strcmp(type, "default") == 0) return FW_OK;
    if (strcmp(type, "linear") == 0) {
        rope->kind = FW_ROPE_LINEAR;
    } else if (strcmp(type, "llama3") == 0) {
        rope->kind = FW_ROPE_LLAMA3;
    } else {
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\": rope type %s is not supported; supported are default, linear, llama3",
                       where, key, type);
    }
    if (json_object_get(scaling, "factor") == NULL)
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\": \"factor\" is missing", where, key);
    static const char *const llama3_keys[] = {"low_freq_factor", "high_freq_factor",
                                              "original_max_position_embeddings"};
    for (size_t i = 0; rope->kind == FW_ROPE_LLAMA3 && i < sizeof llama3_keys / sizeof *llama3_keys; i++)
        if (json_object_get(scaling, llama3_keys[i]) == NULL)
            return fw_fail(FW_ERR_INPUT, "%s: \"%s\": \"%s\" is missing; rope type llama3 needs it", where, key,
                           llama3_keys[i]);
    FW_TRY(fw_json_get_double(&rope->factor, scaling, "factor", 1.0, 1.0, 1e6, where));
    FW_TRY(fw_json_get_double(&rope->low_freq_factor, scaling, "low_freq_factor", 1.0, 1e-3, 1e6, where));
    FW_TRY(fw_json_get_double(&rope->high_freq_factor, scaling, "high_freq_factor", 4.0, 1e-3, 1e6, where));
    FW_TRY(fw_json_get_double(&rope->original_max_position, scaling, "original_max_position_embeddings",
                              (double)max_position, 1.0, 1e9, where));
    if (rope->kind == FW_ROPE_LLAMA3 && rope->high_freq_factor <= rope->low_freq_factor)
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\": high_freq_factor %g must be above low_freq_factor %g", where, key,
                       rope->high_freq_factor, rope->low_freq_factor);
    return FW_OK;
}

static fw_status parse_sizes(fw_model_config *c, const json_t *object, const char *where) {
    enum { MOST = 1 << 22 };
    FW_TRY(fw_json_need_int(&c->C, object, "hidden_size", 1, MOST, where));
    FW_TRY(fw_json_need_int(&c->L, object, "num_hidden_layers", 1, 4096, where));
    FW_TRY(fw_json_need_int(&c->H, object, "num_attention_heads", 1, 65536, where));
    FW_TRY(fw_json_need_int(&c->F, object, "intermediate_size", 1, MOST, where));
    FW_TRY(fw_json_need_int(&c->V, object, "vocab_size", 1, 1 << 26, where));
    FW_TRY(fw_json_get_int(&c->max_position, object, "max_position_embeddings", 2048, 1, 1 << 30, where));
    /* Absent means "as many as query heads" for Llama; the other families always write it. */
    if (c->architecture == FW_ARCH_LLAMA)
        FW_TRY(fw_json_get_int(&c->K, object, "num_key_value_heads", c->H, 1, c->H, where));
    else
        FW_TRY(fw_json_need_int(&c->K, object, "num_key_value_heads", 1, c->H, where));
    int64_t usual_head = c->architecture == FW_ARCH_QWEN3 ? 128 : c->C / c->H;
    FW_TRY(fw_json_get_int(&c->D, object, "head_dim", usual_head, 2, 65536, where));
    if (c->H % c->K != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"num_attention_heads\" %lld is no multiple of \"num_key_value_heads\" %lld",
                       where, (long long)c->H, (long long)c->K);
    if (c->D % 2 != 0)
        return fw_fail(FW_ERR_INPUT, "%s: head size %lld is odd; rotary positions need pairs", where, (long long)c->D);
    if (c->H * c->D > MOST)
        return fw_fail(FW_ERR_INPUT, "%s: %lld head%s of size %lld: beyond any known model", where, (long long)c->H,
                       fw_plural(c->H), (long long)c->D);
    return FW_OK;
}

fw_status fw_model_config_parse(fw_model_config *c, const json_t *object, const char *where) {
    *c = (fw_model_config){0};
    if (!json_is_object(object)) return fw_fail(FW_ERR_INPUT, "%s: a JSON object is needed", where);
    FW_TRY(parse_architecture(&c->architecture, object, where));
    FW_TRY(refuse_foreign_keys(object, where));
    FW_TRY(read_quantisation(c, json_object_get(object, "quantization_config"), where));
    FW_TRY(parse_activation(object, where));
    FW_TRY(refuse_sliding_window(c->architecture, object, where));
    FW_TRY(parse_sizes(c, object, where));
    FW_TRY(parse_rope(&c->rope, object, c->max_position, where));

    double eps;
    FW_TRY(fw_json_get_double(&eps, object, "rms_norm_eps", 1e-6, 0.0, 1.0, where));
    c->rms_eps = (float)eps;
    FW_TRY(fw_json_get_bool(&c->tied, object, "tie_word_embeddings", false, where));
    bool attention_bias;
    FW_TRY(fw_json_get_bool(&attention_bias, object, "attention_bias", false, where));
    FW_TRY(fw_json_get_bool(&c->mlp_bias, object, "mlp_bias", false, where));
    bool is_llama = c->architecture == FW_ARCH_LLAMA;
    if (c->mlp_bias && !is_llama)
        return fw_fail(FW_ERR_INPUT, "%s: \"mlp_bias\" is supported for model_type llama only", where);
    if (attention_bias && !is_llama && c->architecture != FW_ARCH_QWEN3 && c->architecture != FW_ARCH_QWEN2)
        return fw_fail(FW_ERR_INPUT, "%s: \"attention_bias\" is supported for model_type llama and qwen3 only", where);
    c->qkv_bias = c->architecture == FW_ARCH_QWEN2 || attention_bias;
    c->output_bias = attention_bias && c->architecture != FW_ARCH_QWEN2;
    c->qk_norm = c->architecture == FW_ARCH_QWEN3;
    return FW_OK;
}

/* What people give first where a folder is needed: a name of the Hub, or a file. */
static fw_status check_is_folder(const char *dir) {
    struct stat info;
    if (stat(dir, &info) != 0)
        return errno == ENOENT ? fw_fail(FW_ERR_INPUT,
                                         "there is no model folder %s; finewire reads local folders and downloads "
                                         "nothing: check the path, or download the model first",
                                         dir)
                               : fw_fail(FW_ERR_INPUT, "cannot read the model folder %s: %s", dir, strerror(errno));
    if (S_ISDIR(info.st_mode)) return FW_OK;
    return fw_fail(FW_ERR_INPUT,
                   "%s is not a folder; a model is a Hugging Face folder. Of a GGUF file, finewire import FILE "
                   "--output DIR makes one",
                   dir);
}

/* What peft writes has no config.json: the base has it. */
static fw_status check_is_no_adapter(const char *dir) {
    bool model = false, adapter = false;
    FW_TRY(fw_dir_has_file(&model, dir, "config.json"));
    FW_TRY(fw_dir_has_file(&adapter, dir, "adapter_config.json"));
    if (model || !adapter) return FW_OK;
    return fw_fail(
        FW_ERR_INPUT,
        "%s is an adapter; give it as --adapter and its base as --model, or make one model of both: finewire "
        "merge %s --output DIR",
        dir, dir);
}

fw_status fw_model_config_load(fw_model_config *out, const char *dir) {
    char *path = NULL;
    json_t *object = NULL;
    fw_status status;
    FW_TRY_OR(check_is_folder(dir), done);
    FW_TRY_OR(fw_path_join(&path, dir, "config.json"), done);
    FW_TRY_OR(check_is_no_adapter(dir), done);
    FW_TRY_OR(fw_json_load(&object, path, CONFIG_LIMIT_BYTES), done);
    FW_TRY_OR(fw_model_config_parse(out, object, path), done);
done:
    json_decref(object);
    fw_free(path);
    return status;
}
