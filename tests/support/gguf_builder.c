#include "support/gguf_builder.h"

#include "base/alloc.h"
#include "support/scratch.h"
#include "support/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(fw_strbuf *s, const void *bytes, size_t n) {
    if (fw_strbuf_append(s, bytes, n) != FW_OK) abort();
}

static void put_int(fw_strbuf *s, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(value >> (8 * i));
        put(s, &byte, 1);
    }
}

static void put_string(fw_strbuf *s, const char *text) {
    put_int(s, strlen(text), 8);
    put(s, text, strlen(text));
}

static void put_key(fw_test_gguf *g, const char *key, uint32_t type) {
    put_string(&g->values, key);
    put_int(&g->values, type, 4);
    g->value_n++;
}

void fw_test_gguf_u32(fw_test_gguf *g, const char *key, uint32_t value) {
    put_key(g, key, 4);
    put_int(&g->values, value, 4);
}

void fw_test_gguf_f32(fw_test_gguf *g, const char *key, float value) {
    put_key(g, key, 6);
    put(&g->values, &value, 4);
}

void fw_test_gguf_bool(fw_test_gguf *g, const char *key, bool value) {
    put_key(g, key, 7);
    put_int(&g->values, value, 1);
}

void fw_test_gguf_string(fw_test_gguf *g, const char *key, const char *value) {
    put_key(g, key, 8);
    put_string(&g->values, value);
}

void fw_test_gguf_strings(fw_test_gguf *g, const char *key, const char *const *values, uint64_t n) {
    put_key(g, key, 9);
    put_int(&g->values, 8, 4);
    put_int(&g->values, n, 8);
    for (uint64_t i = 0; i < n; i++) put_string(&g->values, values[i]);
}

void fw_test_gguf_f32s(fw_test_gguf *g, const char *key, const float *values, uint64_t n) {
    put_key(g, key, 9);
    put_int(&g->values, 6, 4);
    put_int(&g->values, n, 8);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        put_int(&g->values, bits, 4);
    }
}

void fw_test_gguf_i32s(fw_test_gguf *g, const char *key, const int32_t *values, uint64_t n) {
    put_key(g, key, 9);
    put_int(&g->values, 5, 4);
    put_int(&g->values, n, 8);
    for (uint64_t i = 0; i < n; i++) put_int(&g->values, (uint32_t)values[i], 4);
}

void fw_test_gguf_tensor(fw_test_gguf *g, const char *name, uint32_t type, const int64_t *shape, int rank,
                         const void *data, size_t bytes) {
    put_string(&g->tensors, name);
    put_int(&g->tensors, (uint64_t)rank, 4);
    for (int i = rank - 1; i >= 0; i--) put_int(&g->tensors, (uint64_t)shape[i], 8);
    put_int(&g->tensors, type, 4);
    put_int(&g->tensors, g->data.len_bytes, 8);
    put(&g->data, data, bytes);
    while (g->data.len_bytes % 32 != 0) put_int(&g->data, 0, 1);
    g->tensor_n++;
}

void fw_test_gguf_bytes(const fw_test_gguf *g, fw_strbuf *out) {
    put(out, "GGUF", 4);
    put_int(out, 3, 4);
    put_int(out, g->tensor_n, 8);
    put_int(out, g->value_n, 8);
    if (g->value_n > 0) put(out, g->values.data, g->values.len_bytes);
    if (g->tensor_n > 0) put(out, g->tensors.data, g->tensors.len_bytes);
    while (out->len_bytes % 32 != 0) put_int(out, 0, 1);
    if (g->tensor_n > 0) put(out, g->data.data, g->data.len_bytes);
}

void fw_test_gguf_write(const fw_test_gguf *g, const char *path) {
    fw_strbuf all = {0};
    fw_test_gguf_bytes(g, &all);
    fw_test_write(path, all.data, all.len_bytes);
    fw_strbuf_fini(&all);
}

void fw_test_gguf_fini(fw_test_gguf *g) {
    fw_strbuf_fini(&g->values);
    fw_strbuf_fini(&g->tensors);
    fw_strbuf_fini(&g->data);
    *g = (fw_test_gguf){0};
}

/* Names by the tables of the gguf package, spelt out here so that a mistake in the importer shows. */
static const char *const renamed[][2] = {
    {"embed_tokens", "token_embd"}, {"lm_head", "output"},         {"input_layernorm", "attn_norm"},
    {"q_proj", "attn_q"},           {"k_proj", "attn_k"},          {"v_proj", "attn_v"},
    {"o_proj", "attn_output"},      {"q_norm", "attn_q_norm"},     {"k_norm", "attn_k_norm"},
    {"post_attention", "ffn_norm"}, {"gate_proj", "ffn_gate"},     {"up_proj", "ffn_up"},
    {"down_proj", "ffn_down"},      {"model.norm", "output_norm"},
};

static void add_param(fw_test_gguf *g, const fw_model_config *c, const fw_param *p, bool llama) {
    const char *kind = strrchr(p->name, '.'), *middle = NULL;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed && middle == NULL; i++)
        if (strstr(p->name, renamed[i][0]) != NULL) middle = renamed[i][1];
    char name[64];
    if (p->unit == 0)
        snprintf(name, sizeof name, "%s%s", middle, kind);
    else
        snprintf(name, sizeof name, "blk.%d.%s%s", p->unit - 1, middle, kind);
    float *values;
    if (FW_NEW_ARRAY(values, (size_t)p->n) != FW_OK) abort();
    for (int64_t k = 0; k < p->n; k++) values[k] = fw_test_weight(p->name, k);
    if (llama && (strstr(p->name, "q_proj") != NULL || strstr(p->name, "k_proj") != NULL)) {
        /* The converter: reshape(heads, 2, D/2, cols), swap the two middle axes. */
        int64_t cols = p->cols != 0 ? p->cols : 1, half = c->D / 2, to = 0;
        for (int64_t head = 0; head < p->rows / c->D; head++)
            for (int64_t j = 0; j < half; j++)
                for (int64_t side = 0; side < 2; side++)
                    for (int64_t k = 0; k < cols; k++)
                        values[to++] = fw_test_weight(p->name, ((head * 2 + side) * half + j) * cols + k);
    }
    int64_t shape[2] = {p->rows, p->cols};
    fw_test_gguf_tensor(g, name, 0, shape, p->cols != 0 ? 2 : 1, values, (size_t)p->n * sizeof *values);
    fw_free(values);
}

static void add_bytes(fw_test_gguf *g, const char *pre) {
    static const char *const tokens[] = {"a", "b", "c", "\xc4\xa0", "ab", "<|end|>", "<think>", "[PAD7]", "<|begin|>"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3, 4, 5, 3};
    static const char *const merges[] = {"a b"};
    fw_test_gguf_string(g, "tokenizer.ggml.model", "gpt2");
    fw_test_gguf_string(g, "tokenizer.ggml.pre", pre);
    fw_test_gguf_strings(g, "tokenizer.ggml.tokens", tokens, 9);
    fw_test_gguf_i32s(g, "tokenizer.ggml.token_type", types, 9);
    fw_test_gguf_strings(g, "tokenizer.ggml.merges", merges, 1);
    fw_test_gguf_u32(g, "tokenizer.ggml.bos_token_id", 8);
    fw_test_gguf_u32(g, "tokenizer.ggml.eos_token_id", 5);
}

/* "abc" is made of "ab" and "c" and of "a" and "bc"; "bc" has the higher score, and goes first. */
static void add_pieces(fw_test_gguf *g, const char *pre) {
    (void)pre;
    static const char *const tokens[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "<0x41>",
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "c",
                                         "ab",
                                         "bc",
                                         "abc",
                                         ("\xe2\x96\x81"
                                          "a"),
                                         "<|end|>"};
    static const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1, 4};
    static const float scores[] = {0, 0, 0, 0, -9, -6, -7, -8, -2, -1, -3, -4, 0};
    fw_test_gguf_string(g, "tokenizer.ggml.model", "llama");
    fw_test_gguf_string(g, "tokenizer.ggml.pre", "default");
    fw_test_gguf_strings(g, "tokenizer.ggml.tokens", tokens, 13);
    fw_test_gguf_i32s(g, "tokenizer.ggml.token_type", types, 13);
    fw_test_gguf_f32s(g, "tokenizer.ggml.scores", scores, 13);
    fw_test_gguf_u32(g, "tokenizer.ggml.bos_token_id", 1);
    fw_test_gguf_u32(g, "tokenizer.ggml.eos_token_id", 2);
    fw_test_gguf_u32(g, "tokenizer.ggml.unknown_token_id", 0);
}

void fw_test_gguf_model(fw_test_gguf *g, const fw_model_config *c, const char *architecture, const char *pre) {
    struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"embedding_length", c->C},        {"block_count", c->L},          {"attention.head_count", c->H},
        {"attention.head_count_kv", c->K}, {"attention.key_length", c->D}, {"attention.value_length", c->D},
        {"rope.dimension_count", c->D},    {"feed_forward_length", c->F},  {"context_length", c->max_position}};
    fw_test_gguf_string(g, "general.architecture", architecture);
    char key[96];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].name);
        fw_test_gguf_u32(g, key, (uint32_t)sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    fw_test_gguf_f32(g, key, c->rms_eps);
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    fw_test_gguf_f32(g, key, (float)c->rope.theta);
    (strcmp(pre, "sentencepiece") == 0 ? add_pieces : add_bytes)(g, pre);
    fw_test_gguf_string(g, "tokenizer.chat_template", "{{ messages[0].content }}");
    fw_param_table table;
    if (fw_param_table_init(&table, c) != FW_OK) abort();
    for (int32_t i = 0; i < table.param_n; i++) add_param(g, c, &table.param[i], strcmp(architecture, "llama") == 0);
    fw_param_table_fini(&table);
}
