/* GGUF keys -> config.json. Key names: the GGUF specification; llama.cpp's converter for rope_freqs. */
#include "store/import_parts.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128, SIZE_MAX_N = 1 << 26 };

/* "llama.KEY" for this file's architecture. */
typedef struct key_maker {
    const fw_gguf *file;
    char architecture[32];
    char key[KEY_BYTES];
} key_maker;

static const char *key_of(key_maker *k, const char *suffix) {
    snprintf(k->key, sizeof k->key, "%s.%s", k->architecture, suffix);
    return k->key;
}

fw_status fw_import_set(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0) return FW_OK;
    return fw_fail(FW_ERR_NOMEM, "out of memory while making the JSON files of a model folder");
}

static fw_status read_architecture(key_maker *k, fw_architecture *architecture) {
    fw_gguf_string s;
    FW_TRY(fw_gguf_get_string(&s, k->file, "general.architecture"));
    static const struct {
        const char *name;
        fw_architecture architecture;
    } known[] = {{"llama", FW_ARCH_LLAMA}, {"qwen2", FW_ARCH_QWEN2}, {"qwen3", FW_ARCH_QWEN3}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (s.bytes == strlen(known[i].name) && memcmp(s.text, known[i].name, s.bytes) == 0) {
            snprintf(k->architecture, sizeof k->architecture, "%s", known[i].name);
            *architecture = known[i].architecture;
            return FW_OK;
        }
    return fw_fail(FW_ERR_INPUT,
                   "%s: general.architecture \"%.*s\" is not supported; supported are llama (Llama 2/3, "
                   "SmolLM2, Mistral), qwen2 and qwen3",
                   k->file->path, s.bytes < 64 ? (int)s.bytes : 64, s.text);
}

/* Keys that would make another computation than the one config.json can describe. */
static fw_status refuse_features(key_maker *k) {
    static const char *const must_be_zero[] = {"expert_count", "attention.sliding_window"};
    for (size_t i = 0; i < sizeof must_be_zero / sizeof *must_be_zero; i++) {
        const char *key = key_of(k, must_be_zero[i]);
        if (fw_gguf_find(k->file, key) == NULL) continue;
        int64_t value;
        FW_TRY(fw_gguf_get_int(&value, k->file, key, 0, INT64_MAX));
        if (value != 0) return fw_fail(FW_ERR_INPUT, "%s: %s is %" PRId64 ": not supported", k->file->path, key, value);
    }
    if (fw_gguf_find(k->file, "split.count") != NULL) {
        int64_t parts;
        FW_TRY(fw_gguf_get_int(&parts, k->file, "split.count", 0, INT64_MAX));
        if (parts > 1)
            return fw_fail(FW_ERR_INPUT, "%s is one of %" PRId64 " parts; join them first (llama-gguf-split --merge)",
                           k->file->path, parts);
    }
    return FW_OK;
}

/* The decimal with the fewest digits that is this value in fp32: 1e-05, not 9.99999975e-06. */
static double shortest(double value) {
    char text[40];
    for (int digits = 1; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) return strtod(text, NULL);
    }
    return value;
}

static fw_status set_int(json_t *config, const char *name, key_maker *k, const char *suffix, int64_t *out) {
    FW_TRY(fw_gguf_get_int(out, k->file, key_of(k, suffix), 1, SIZE_MAX_N));
    return fw_import_set(config, name, json_integer(*out));
}

/* An optional size that must equal what the others say. */
static fw_status expect_int(key_maker *k, const char *suffix, int64_t expected, const char *why) {
    const char *key = key_of(k, suffix);
    if (fw_gguf_find(k->file, key) == NULL) return FW_OK;
    int64_t value;
    FW_TRY(fw_gguf_get_int(&value, k->file, key, 1, SIZE_MAX_N));
    if (value == expected) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s: %s is %" PRId64 ", not %" PRId64 ": %s is not supported", k->file->path, key,
                   value, expected, why);
}

/* Llama 3.x: the converter stores the divisors of the rotary frequencies instead of the parameters they come from.
 * The family has used one set of parameters, with two factors; whatever does not reproduce the divisors is refused. */
static fw_status llama3_scaling(json_t **out, key_maker *k, const fw_gguf_tensor *t, double theta, int64_t head) {
    const double low = 1, high = 4, original = 8192, pi = 3.14159265358979323846;
    int64_t n = head / 2;
    *out = NULL;
    if (t->type != FW_GGML_F32 || t->n != n)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %s must have %" PRId64 " value%s of F32", k->file->path, t->name, n,
                       fw_plural(n));
    float *divisor, factor = 1;
    FW_TRY(FW_NEW_ARRAY(divisor, (size_t)n));
    fw_gguf_dequantize(divisor, t->type, t->data, n);
    for (int64_t i = 0; i < n; i++)
        if (divisor[i] > factor) factor = divisor[i];
    bool same = true;
    for (int64_t i = 0; i < n; i++) {
        double wave = 2 * pi * pow(theta, 2 * (double)i / (double)head), expected = 1;
        if (wave > original / low)
            expected = factor;
        else if (wave >= original / high) {
            double smooth = (original / wave - low) / (high - low);
            expected = 1 / ((1 - smooth) / factor + smooth);
        }
        same = same && fabs((double)divisor[i] - expected) <= 1e-4 * expected;
    }
    fw_free(divisor);
    if (!same)
        return fw_fail(FW_ERR_INPUT,
                       "%s: tensor %s: the frequencies are not those of Llama 3 scaling; no other is supported",
                       k->file->path, t->name);
    if (factor == 1) return FW_OK; /* no scaling at all */
    *out =
        json_pack("{s:f, s:f, s:f, s:i, s:s}", "factor", shortest((double)factor), "low_freq_factor", low,
                  "high_freq_factor", high, "original_max_position_embeddings", (int)original, "rope_type", "llama3");
    return *out != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while making config.json");
}

/* *out: the object rope_scaling, or NULL for none. */
static fw_status read_rope(json_t **out, double *theta, key_maker *k, int64_t head) {
    *out = NULL;
    *theta = 10000;
    if (fw_gguf_find(k->file, key_of(k, "rope.freq_base")) != NULL)
        FW_TRY(fw_gguf_get_float(theta, k->file, key_of(k, "rope.freq_base")));
    *theta = shortest(*theta);
    if (!(*theta >= 1 && *theta <= 1e12))
        return fw_fail(FW_ERR_INPUT, "%s: %s is %g; 1 to 1e12 are allowed", k->file->path, key_of(k, "rope.freq_base"),
                       *theta);
    const fw_gguf_tensor *frequencies = fw_gguf_find_tensor(k->file, "rope_freqs.weight");
    if (frequencies != NULL) return llama3_scaling(out, k, frequencies, *theta, head);
    double factor = 1;
    if (fw_gguf_find(k->file, key_of(k, "rope.scaling.type")) != NULL) {
        fw_gguf_string type;
        FW_TRY(fw_gguf_get_string(&type, k->file, key_of(k, "rope.scaling.type")));
        bool linear = type.bytes == 6 && memcmp(type.text, "linear", 6) == 0;
        if (!linear && !(type.bytes == 4 && memcmp(type.text, "none", 4) == 0))
            return fw_fail(FW_ERR_INPUT, "%s: %s \"%.*s\" is not supported; linear and none are", k->file->path,
                           key_of(k, "rope.scaling.type"), type.bytes < 64 ? (int)type.bytes : 64, type.text);
        if (linear) FW_TRY(fw_gguf_get_float(&factor, k->file, key_of(k, "rope.scaling.factor")));
    } else if (fw_gguf_find(k->file, key_of(k, "rope.scale_linear")) != NULL) {
        FW_TRY(fw_gguf_get_float(&factor, k->file, key_of(k, "rope.scale_linear")));
    }
    if (!(factor >= 1 && factor <= 1e6))
        return fw_fail(FW_ERR_INPUT, "%s: the rope scaling factor %g is out of bounds: 1 to 1e6", k->file->path,
                       factor);
    if (factor == 1) return FW_OK;
    *out = json_pack("{s:f, s:s}", "factor", shortest(factor), "rope_type", "linear");
    return *out != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while making config.json");
}

/* One row of the embedding for each token: the size of the vocabulary that counts. The file may say it once more. */
static fw_status read_vocabulary(int64_t *vocab_n, key_maker *k, int64_t hidden) {
    const fw_gguf *file = k->file;
    const fw_gguf_tensor *t = fw_gguf_find_tensor(file, "token_embd.weight");
    if (t == NULL) return fw_fail(FW_ERR_INPUT, "%s: tensor token_embd.weight is missing", file->path);
    if (t->rank != 2 || t->shape[1] != hidden)
        return fw_fail(FW_ERR_INPUT, "%s: tensor token_embd.weight does not have rows of embedding_length %" PRId64,
                       file->path, hidden);
    *vocab_n = t->shape[0];
    const char *key = key_of(k, "vocab_size");
    if (fw_gguf_find(file, key) == NULL) return FW_OK;
    int64_t said_n;
    FW_TRY(fw_gguf_get_int(&said_n, file, key, 1, SIZE_MAX_N));
    const fw_gguf_value *tokens = fw_gguf_find(file, "tokenizer.ggml.tokens");
    if (tokens != NULL && tokens->element_n > (uint64_t)said_n)
        return fw_fail(FW_ERR_INPUT,
                       "%s: %s is %" PRId64 ", and tokenizer.ggml.tokens has %" PRIu64
                       ": the file contradicts itself; convert the model again",
                       file->path, key, said_n, tokens->element_n);
    if (said_n != *vocab_n)
        return fw_fail(FW_ERR_INPUT,
                       "%s: %s is %" PRId64 ", and tensor token_embd.weight has %" PRId64
                       " row%s: the file contradicts itself; convert the model again",
                       file->path, key, said_n, *vocab_n, fw_plural(*vocab_n));
    return FW_OK;
}

static fw_status set_bias_keys(json_t *c, const fw_gguf *file, fw_architecture architecture) {
    if (architecture == FW_ARCH_QWEN2) return FW_OK; /* always has one on q, k and v, and no key for it */
    bool attention = fw_gguf_find_tensor(file, "blk.0.attn_q.bias") != NULL;
    FW_TRY(fw_import_set(c, "attention_bias", json_boolean(attention)));
    if (architecture != FW_ARCH_LLAMA) return FW_OK;
    return fw_import_set(c, "mlp_bias", json_boolean(fw_gguf_find_tensor(file, "blk.0.ffn_gate.bias") != NULL));
}

static fw_status set_token_ids(json_t *c, const fw_gguf *file) {
    static const char *const names[][2] = {
        {"bos_token_id", "bos_token_id"}, {"eos_token_id", "eos_token_id"}, {"pad_token_id", "padding_token_id"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id;
        FW_TRY(fw_import_token_id(&id, file, names[i][1]));
        if (id >= 0) FW_TRY(fw_import_set(c, names[i][0], json_integer(id)));
    }
    return FW_OK;
}

fw_status fw_import_make_config(json_t **out, const fw_gguf *file) {
    *out = NULL;
    key_maker k = {.file = file};
    fw_architecture architecture = FW_ARCH_LLAMA;
    FW_TRY(read_architecture(&k, &architecture));
    FW_TRY(refuse_features(&k));
    json_t *c = json_object(), *scaling = NULL;
    fw_status status;
    int64_t hidden = 0, heads = 0, kv_heads = 0, head = 0, n = 0;
    double theta, eps = 0;
    FW_TRY_OR(fw_import_set(c, "architectures", json_pack("[s]", fw_architecture_class(architecture))), done);
    FW_TRY_OR(fw_import_set(c, "model_type", json_string(fw_architecture_model_type(architecture))), done);
    FW_TRY_OR(set_int(c, "hidden_size", &k, "embedding_length", &hidden), done);
    FW_TRY_OR(set_int(c, "num_hidden_layers", &k, "block_count", &n), done);
    FW_TRY_OR(set_int(c, "num_attention_heads", &k, "attention.head_count", &heads), done);
    kv_heads = heads;
    if (fw_gguf_find(file, key_of(&k, "attention.head_count_kv")) != NULL)
        FW_TRY_OR(fw_gguf_get_int(&kv_heads, file, key_of(&k, "attention.head_count_kv"), 1, SIZE_MAX_N), done);
    FW_TRY_OR(fw_import_set(c, "num_key_value_heads", json_integer(kv_heads)), done);
    head = hidden / heads;
    if (fw_gguf_find(file, key_of(&k, "attention.key_length")) != NULL)
        FW_TRY_OR(fw_gguf_get_int(&head, file, key_of(&k, "attention.key_length"), 1, SIZE_MAX_N), done);
    FW_TRY_OR(expect_int(&k, "attention.value_length", head, "a value head of another size"), done);
    FW_TRY_OR(expect_int(&k, "rope.dimension_count", head, "a rotary part of the head"), done);
    FW_TRY_OR(fw_import_set(c, "head_dim", json_integer(head)), done);
    FW_TRY_OR(set_int(c, "intermediate_size", &k, "feed_forward_length", &n), done);
    FW_TRY_OR(set_int(c, "max_position_embeddings", &k, "context_length", &n), done);
    FW_TRY_OR(read_vocabulary(&n, &k, hidden), done);
    FW_TRY_OR(fw_import_set(c, "vocab_size", json_integer(n)), done);
    FW_TRY_OR(fw_gguf_get_float(&eps, file, key_of(&k, "attention.layer_norm_rms_epsilon")), done);
    FW_TRY_OR(fw_import_set(c, "rms_norm_eps", json_real(shortest(eps))), done);
    FW_TRY_OR(read_rope(&scaling, &theta, &k, head), done);
    FW_TRY_OR(fw_import_set(c, "rope_theta", json_real(theta)), done);
    FW_TRY_OR(fw_import_set(c, "rope_scaling", scaling != NULL ? json_incref(scaling) : json_null()), done);
    FW_TRY_OR(fw_import_set(c, "hidden_act", json_string("silu")), done);
    FW_TRY_OR(fw_import_set(c, "initializer_range", json_real(0.02)), done);
    FW_TRY_OR(fw_import_set(c, "attention_dropout", json_real(0)), done);
    FW_TRY_OR(set_bias_keys(c, file, architecture), done);
    if (architecture != FW_ARCH_LLAMA) FW_TRY_OR(fw_import_set(c, "use_sliding_window", json_false()), done);
    bool tied = fw_gguf_find_tensor(file, "output.weight") == NULL;
    FW_TRY_OR(fw_import_set(c, "tie_word_embeddings", json_boolean(tied)), done);
    FW_TRY_OR(fw_import_set(c, "use_cache", json_true()), done);
    FW_TRY_OR(set_token_ids(c, file), done);
    *out = c;
    c = NULL;
done:
    json_decref(c);
    json_decref(scaling);
    return status;
}
