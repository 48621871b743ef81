/* The list of parameters below is written from the model definitions of Hugging Face transformers, not from
 * model/param_table.h, so that a mistake there shows up as a missing tensor. */
#include "support/tiny_model.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *const fw_test_model_variants[] = {
    "llama_tied",   "llama_rope_llama3", "llama_rope_linear", "llama_bias", "qwen2_tied",
    "qwen2_untied", "qwen3_tied",        "qwen3_untied",      "mistral",    NULL};

/* FNV-1a of the name starts a stream, splitmix64 gives the 64 bits of each index. */
float fw_test_weight(const char *name, int64_t i) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++) hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    uint64_t z = hash + ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;

    if (strstr(name, "norm")) return 1.0f + (float)((int64_t)(z >> 48) - (1 << 15)) * 0x1p-18f;
    float value = (float)((int64_t)(z >> 40) - (1 << 23)); /* 24 bits: exact, and so is a power of two times it */
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".bias") == 0) return value * 0x1p-27f;
    if (strstr(name, "embed_tokens") || strstr(name, "lm_head")) return value * 0x1p-25f;
    return value * 0x1p-26f;
}

enum { TENSOR_CAP = 128 };

typedef struct tensor {
    char name[96];
    int64_t rows, cols; /* cols 0: a vector */
} tensor;

typedef struct tensor_list {
    tensor tensor[TENSOR_CAP];
    int n;
} tensor_list;

static void add_tensor(tensor_list *list, int64_t layer, const char *name, int64_t rows, int64_t cols) {
    FW_ASSERT(list->n < TENSOR_CAP);
    tensor *t = &list->tensor[list->n++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "model.layers.%d.%s", (int)layer, name);
    t->rows = rows;
    t->cols = cols;
}

/* A projection "NAME.weight" [rows, cols], and "NAME.bias" when it has one. */
static void add_linear(tensor_list *list, int64_t layer, const char *name, int64_t rows, int64_t cols, bool bias) {
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    add_tensor(list, layer, full, rows, cols);
    if (!bias) return;
    snprintf(full, sizeof full, "%s.bias", name);
    add_tensor(list, layer, full, rows, 0);
}

static fw_status list_tensors(tensor_list *list, const json_t *config, const char *where) {
    int64_t C, H, K, D, F, L, V;
    bool tied, attention_bias, mlp_bias;
    const char *type;
    FW_TRY(fw_json_need_int(&C, config, "hidden_size", 1, 1 << 20, where));
    FW_TRY(fw_json_need_int(&H, config, "num_attention_heads", 1, 1 << 20, where));
    FW_TRY(fw_json_need_int(&K, config, "num_key_value_heads", 1, 1 << 20, where));
    FW_TRY(fw_json_need_int(&F, config, "intermediate_size", 1, 1 << 20, where));
    FW_TRY(fw_json_need_int(&L, config, "num_hidden_layers", 1, 9, where));
    FW_TRY(fw_json_need_int(&V, config, "vocab_size", 1, 1 << 20, where));
    FW_TRY(fw_json_get_int(&D, config, "head_dim", C / H, 1, 1 << 20, where));
    FW_TRY(fw_json_get_bool(&tied, config, "tie_word_embeddings", false, where));
    FW_TRY(fw_json_get_bool(&attention_bias, config, "attention_bias", false, where));
    FW_TRY(fw_json_get_bool(&mlp_bias, config, "mlp_bias", false, where));
    FW_TRY(fw_json_get_string(&type, config, "model_type", "", where));
    bool qkv_bias = attention_bias || strcmp(type, "qwen2") == 0, qk_norm = strcmp(type, "qwen3") == 0;

    add_tensor(list, -1, "model.embed_tokens.weight", V, C);
    for (int64_t l = 0; l < L; l++) {
        add_linear(list, l, "self_attn.q_proj", H * D, C, qkv_bias);
        add_linear(list, l, "self_attn.k_proj", K * D, C, qkv_bias);
        add_linear(list, l, "self_attn.v_proj", K * D, C, qkv_bias);
        add_linear(list, l, "self_attn.o_proj", C, H * D, attention_bias);
        if (qk_norm) {
            add_tensor(list, l, "self_attn.q_norm.weight", D, 0);
            add_tensor(list, l, "self_attn.k_norm.weight", D, 0);
        }
        add_linear(list, l, "mlp.gate_proj", F, C, mlp_bias);
        add_linear(list, l, "mlp.up_proj", F, C, mlp_bias);
        add_linear(list, l, "mlp.down_proj", C, F, mlp_bias);
        add_tensor(list, l, "input_layernorm.weight", C, 0);
        add_tensor(list, l, "post_attention_layernorm.weight", C, 0);
    }
    add_tensor(list, -1, "model.norm.weight", C, 0);
    if (!tied) add_tensor(list, -1, "lm_head.weight", V, C);
    return FW_OK;
}

static int64_t tensor_elements(const tensor *t) { return t->cols ? t->rows * t->cols : t->rows; }

/* {"NAME": {"dtype", "shape", "data_offsets"}, ...} */
static fw_status make_header(char **text, const tensor_list *list, bool bf16) {
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    json_int_t offset = 0;
    for (int i = 0; i < list->n && header; i++) {
        const tensor *t = &list->tensor[i];
        json_int_t end = offset + (bf16 ? 2 : 4) * tensor_elements(t);
        json_t *shape = t->cols ? json_pack("[I,I]", (json_int_t)t->rows, (json_int_t)t->cols)
                                : json_pack("[I]", (json_int_t)t->rows);
        json_t *entry =
            json_pack("{s:s,s:o,s:[I,I]}", "dtype", bf16 ? "BF16" : "F32", "shape", shape, "data_offsets", offset, end);
        if (json_object_set_new(header, t->name, entry) != 0) {
            json_decref(header);
            header = NULL;
        }
        offset = end;
    }
    *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return *text ? FW_OK : fw_fail(FW_ERR_NOMEM, "no memory for a header of %d tensors", list->n);
}

enum { CHUNK_N = 1024 };

/* The named weights in fp32. */
static fw_status write_tensor(fw_file_writer *file, const tensor *t) {
    float chunk[CHUNK_N];
    int64_t n = tensor_elements(t);
    for (int64_t at = 0; at < n; at += CHUNK_N) {
        int64_t here = n - at < CHUNK_N ? n - at : CHUNK_N;
        for (int64_t j = 0; j < here; j++) chunk[j] = fw_test_weight(t->name, at + j);
        FW_TRY(fw_file_writer_write(file, chunk, (size_t)here * sizeof *chunk));
    }
    return FW_OK;
}

/* In bf16: 1 for norms, else of either sign and from 2^-7 to 2^-6. */
static fw_status write_big_tensor(fw_file_writer *file, const tensor *t) {
    uint16_t chunk[CHUNK_N];
    int64_t n = tensor_elements(t);
    uint64_t state = (uint64_t)n * 0x9e3779b97f4a7c15u + 1;
    for (int64_t at = 0; at < n; at += CHUNK_N) {
        int64_t here = n - at < CHUNK_N ? n - at : CHUNK_N;
        for (int64_t j = 0; j < here; j++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk[j] = t->cols == 0 ? 0x3f80 : (uint16_t)((state >> 20 & 0x807f) | 0x3c00);
        }
        FW_TRY(fw_file_writer_write(file, chunk, (size_t)here * sizeof *chunk));
    }
    return FW_OK;
}

static fw_status write_weights(const char *path, const tensor_list *list, bool big) {
    char *header = NULL;
    fw_file_writer file = {0};
    fw_status status;
    FW_TRY_OR(make_header(&header, list, big), done);
    FW_TRY_OR(fw_file_writer_open(&file, path), done);
    uint64_t header_bytes = strlen(header);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(header_bytes >> (8 * i));
    FW_TRY_OR(fw_file_writer_write(&file, length, sizeof length), done);
    FW_TRY_OR(fw_file_writer_write(&file, header, header_bytes), done);
    for (int i = 0; i < list->n; i++)
        FW_TRY_OR(big ? write_big_tensor(&file, &list->tensor[i]) : write_tensor(&file, &list->tensor[i]), done);
    FW_TRY_OR(fw_file_writer_commit(&file), done);
done:
    fw_file_writer_close(&file);
    fw_free(header);
    return status;
}

/* The folder of a variant, with these integers of its config.json replaced. */
typedef struct change {
    const char *key;
    int64_t value;
} change;

static fw_status write_folder(const char *dir, const char *variant, const change *changes, int change_n, bool big) {
    char source[1024];
    char *config_path = NULL, *weights_path = NULL;
    json_t *config = NULL;
    tensor_list *list = NULL;
    fw_status status;
    snprintf(source, sizeof source, "%s/tests/parity/models/%s.json", FW_SOURCE_DIR, variant);
    FW_TRY_OR(fw_json_load(&config, source, 1 << 16), done);
    for (int i = 0; i < change_n; i++) {
        if (json_object_set_new(config, changes[i].key, json_integer(changes[i].value)) == 0) continue;
        status = fw_fail(FW_ERR_NOMEM, "no memory for %s", changes[i].key);
        goto done;
    }
    FW_TRY_OR(FW_NEW(list), done);
    FW_TRY_OR(list_tensors(list, config, source), done);
    FW_TRY_OR(fw_dir_make(dir), done);
    FW_TRY_OR(fw_path_join(&config_path, dir, "config.json"), done);
    FW_TRY_OR(fw_path_join(&weights_path, dir, "model.safetensors"), done);
    FW_TRY_OR(fw_json_save(config, config_path), done);
    FW_TRY_OR(write_weights(weights_path, list, big), done);
done:
    fw_free(config_path);
    fw_free(weights_path);
    fw_free(list);
    json_decref(config);
    return status;
}

fw_status fw_test_write_model(const char *dir, const char *variant, int64_t vocab_n) {
    const change vocabulary = {"vocab_size", vocab_n};
    return write_folder(dir, variant, &vocabulary, vocab_n > 0, false);
}

fw_status fw_test_write_big_model(const char *dir) {
    static const change sizes[] = {{"hidden_size", 384},       {"intermediate_size", 1536},
                                   {"num_attention_heads", 6}, {"num_key_value_heads", 2},
                                   {"num_hidden_layers", 8},   {"vocab_size", FW_TEST_BIG_VOCAB_N}};
    return write_folder(dir, "llama_tied", sizes, sizeof sizes / sizeof *sizes, true);
}
