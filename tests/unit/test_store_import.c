/* GGUF import: the weights that went in come out under their names, whatever the family; the rest by name. */
#include "base/alloc.h"
#include "store/import.h"
#include "store/model_folder.h"
#include "support/gguf_builder.h"
#include "support/scratch.h"
#include "support/store_model.h"
#include "support/tiny_model.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static char root[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(root);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(root);
    return 0;
}

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void expect_message(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

static void load_config(fw_model_config *config, const char *variant) {
    const char *dir = fw_test_path(root, variant);
    must(fw_test_write_model(dir, variant, 0));
    must(fw_model_config_load(config, dir));
}

/* The divisors that llama.cpp's converter stores for Llama 3 scaling. */
static void add_rope_freqs(fw_test_gguf *g, const fw_rope_config *r, int64_t head, float disturb) {
    float divisor[128];
    for (int64_t i = 0; i < head / 2; i++) {
        double wave = 2 * 3.14159265358979323846 * pow(r->theta, (double)(2 * i) / (double)head);
        double smooth = (8192 / wave - 1) / (4 - 1);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        divisor[i] = (float)(1 / ((1 - smooth) / r->factor + smooth)) * (i == 1 ? disturb : 1);
    }
    fw_test_gguf_tensor(g, "rope_freqs.weight", 0, &(int64_t){head / 2}, 1, divisor, (size_t)(head / 2) * 4);
}

static void test_every_family(void **state) {
    (void)state;
    static const struct {
        const char *variant, *architecture, *pre;
    } families[] = {
        {"llama_tied", "llama", "smollm"}, {"llama_bias", "llama", "llama-bpe"},
        {"qwen2_tied", "qwen2", "qwen2"},  {"qwen2_untied", "qwen2", "qwen2"},
        {"qwen3_tied", "qwen3", "qwen2"},  {"qwen3_untied", "qwen3", "gpt-2"},
        {"llama_tied", "llama", "tekken"}, {"llama_tied", "llama", "sentencepiece"},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        fw_model_config config;
        load_config(&config, families[f].variant);
        fw_test_gguf g = {0};
        fw_test_gguf_model(&g, &config, families[f].architecture, families[f].pre);
        char key[32]; /* said once more, and the same */
        snprintf(key, sizeof key, "%s.vocab_size", families[f].architecture);
        if (f % 2) fw_test_gguf_u32(&g, key, (uint32_t)config.V);
        const char *path = fw_test_path(root, "m.gguf"), *out = fw_test_path(root, "imported");
        fw_test_gguf_write(&g, path);
        fw_test_gguf_fini(&g);
        fw_import_report report;
        must(fw_import_gguf(path, out, false, f % 2 ? 20000 : 0, &report));
        assert_int_equal(report.dtype, FW_F32);
        assert_true(report.chat_template);
        /* the configuration says the same as the one it was made from */
        fw_model_config back;
        must(fw_model_config_load(&back, out));
        assert_true(back.C == config.C && back.L == config.L && back.H == config.H && back.K == config.K &&
                    back.D == config.D && back.F == config.F && back.V == config.V);
        assert_true(back.architecture == config.architecture && back.tied == config.tied &&
                    back.qkv_bias == config.qkv_bias && back.output_bias == config.output_bias &&
                    back.mlp_bias == config.mlp_bias && back.qk_norm == config.qk_norm);
        assert_true(back.rms_eps == config.rms_eps && back.rope.theta == config.rope.theta &&
                    back.rope.kind == FW_ROPE_DEFAULT && back.max_position == config.max_position);
        fw_test_memory_model m;
        must(fw_test_memory_model_init(&m, out)); /* the test weights, by name */
        fw_model_folder folder;
        must(fw_model_folder_open(&folder, out));
        must(fw_model_folder_check(&folder, &m.table, &m.config));
        for (int32_t u = 0; u < m.table.unit_n; u++) {
            float *got;
            must(FW_NEW_ARRAY(got, (size_t)m.table.unit_size_n[u]));
            must(fw_model_folder_read(&folder, &m.table, u, 0, m.table.unit_size_n[u], got));
            assert_memory_equal(got, m.flat + m.table.unit_offset_n[u], (size_t)m.table.unit_size_n[u] * sizeof *got);
            fw_free(got);
        }
        fw_model_folder_close(&folder);
        fw_test_memory_model_fini(&m);
        must(fw_dir_remove(out));
    }
}

static json_t *load(const char *dir, const char *name) {
    json_t *value;
    must(fw_json_load(&value, fw_test_path(dir, name), 1 << 20));
    return value;
}

static void expect_encoding(const fw_tokenizer *t, const char *text, const int32_t *expected, size_t n) {
    fw_encoder *encoder;
    fw_ids ids = {0};
    fw_strbuf back = {0};
    must(fw_encoder_create(&encoder, t));
    must(fw_tokenizer_encode(encoder, &ids, text, strlen(text), FW_ENCODE_ADD_SPECIAL | FW_ENCODE_SPECIAL));
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.id, expected, n * sizeof *expected);
    must(fw_tokenizer_decode(t, &back, ids.id, ids.n, true));
    assert_string_equal(fw_strbuf_text(&back), text);
    fw_strbuf_fini(&back);
    fw_ids_fini(&ids);
    fw_encoder_destroy(encoder);
}

/* Pieces with scores become merges: the text comes out as SentencePiece cuts it, and back. */
static void test_pieces(void **state) {
    (void)state;
    fw_model_config config;
    load_config(&config, "llama_tied");
    const char *path = fw_test_path(root, "p.gguf"), *out = fw_test_path(root, "pieces");
    for (int prefix = 0; prefix < 2; prefix++) {
        fw_test_gguf g = {0};
        fw_test_gguf_model(&g, &config, "llama", "sentencepiece");
        if (!prefix) fw_test_gguf_bool(&g, "tokenizer.ggml.add_space_prefix", false);
        fw_test_gguf_write(&g, path);
        fw_test_gguf_fini(&g);
        must(fw_import_gguf(path, out, false, 0, NULL));
        fw_tokenizer *t;
        must(fw_tokenizer_load(&t, out));
        assert_true(fw_tokenizer_is_special(t, 1) && fw_tokenizer_eos_id(t) == 2);
        /* the best score goes first: bc before ab, ab before a space and a; A is a byte */
        if (prefix)
            expect_encoding(t, "abc b", (const int32_t[]){1, 4, 10, 4, 6}, 5);
        else
            expect_encoding(t, "abcA ab", (const int32_t[]){1, 10, 3, 4, 8}, 5);
        fw_tokenizer_destroy(t);
        must(fw_dir_remove(out));
    }
}

static void test_tokenizer_files(void **state) {
    (void)state;
    fw_model_config config;
    load_config(&config, "llama_rope_llama3");
    fw_test_gguf g = {0};
    fw_test_gguf_model(&g, &config, "llama", "llama-bpe");
    add_rope_freqs(&g, &config.rope, config.D, 1);
    fw_test_gguf_u32(&g, "tokenizer.ggml.eot_token_id", 6);
    const char *path = fw_test_path(root, "t.gguf"), *out = fw_test_path(root, "tokens");
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    must(fw_import_gguf(path, out, false, 0, NULL));
    fw_model_config back;
    must(fw_model_config_load(&back, out));
    assert_true(back.rope.kind == FW_ROPE_LLAMA3 && back.rope.factor == config.rope.factor &&
                back.rope.low_freq_factor == 1 && back.rope.high_freq_factor == 4 &&
                back.rope.original_max_position == 8192);
    json_t *t = load(out, "tokenizer.json");
    json_t *model = json_object_get(t, "model"), *added = json_object_get(t, "added_tokens");
    json_t *vocab = json_object_get(model, "vocab");
    assert_int_equal(json_integer_value(json_object_get(vocab, "ab")), 4);
    assert_null(json_object_get(vocab, "[PAD7]")); /* unused: no token */
    assert_int_equal(json_object_size(vocab), 8);
    assert_true(json_is_true(json_object_get(model, "ignore_merges")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(model, "merges"), 0)), "a b");
    assert_int_equal(json_array_size(added), 3);
    assert_true(json_is_true(json_object_get(json_array_get(added, 0), "special")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(added, 1), "content")), "<think>");
    assert_true(json_is_false(json_object_get(json_array_get(added, 1), "special")));
    assert_int_equal(json_integer_value(json_object_get(json_array_get(added, 2), "id")), 8);
    json_t *post = json_object_get(t, "post_processor"); /* Llama 3 adds its begin token */
    assert_string_equal(json_string_value(json_object_get(post, "type")), "TemplateProcessing");
    assert_true(json_is_object(json_object_get(json_object_get(post, "special_tokens"), "<|begin|>")));
    json_decref(t);
    json_t *c = load(out, "tokenizer_config.json");
    assert_string_equal(json_string_value(json_object_get(c, "eos_token")), "<|end|>");
    assert_string_equal(json_string_value(json_object_get(c, "chat_template")), "{{ messages[0].content }}");
    assert_true(json_is_null(json_object_get(c, "pad_token")));
    json_decref(c);
    c = load(out, "generation_config.json");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(c, "eos_token_id"), 1)), 6);
    json_decref(c);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_OPTION, "exists and is not empty; --overwrite");
    must(fw_import_gguf(path, out, true, 0, NULL));
    fw_test_write(fw_test_path(out, "mine"), "x", 1);
    expect_message(fw_import_gguf(path, out, true, 0, NULL), FW_ERR_OPTION, "which finewire did not write");
    expect_message(fw_import_gguf(fw_test_path(root, "none.gguf"), fw_test_path(root, "x"), false, 0, NULL),
                   FW_ERR_INPUT, "cannot open");
}

/* One change to a good file, and what is said about it. */
typedef void (*change)(fw_test_gguf *g, const fw_model_config *c);

static void add_extra(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_tensor(g, "blk.0.ffn_gate_exps.weight", 0, &(int64_t){1}, 1, "\0\0\0\0", 4);
}
static void add_window(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_u32(g, "llama.attention.sliding_window", 4096);
}
static void add_experts(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_u32(g, "llama.expert_count", 8);
}
static void add_split(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_u32(g, "split.count", 3);
}
static void add_yarn(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_string(g, "llama.rope.scaling.type", "yarn");
}
static void add_odd_freqs(fw_test_gguf *g, const fw_model_config *c) { add_rope_freqs(g, &c->rope, c->D, 1.01f); }
static void add_pad(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_u32(g, "tokenizer.ggml.padding_token_id", 9);
}

static void add_small_vocabulary(fw_test_gguf *g, const fw_model_config *c) {
    (void)c;
    fw_test_gguf_u32(g, "llama.vocab_size", 8);
}
static void add_large_vocabulary(fw_test_gguf *g, const fw_model_config *c) {
    fw_test_gguf_u32(g, "llama.vocab_size", (uint32_t)c->V + 1);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        change change;
        const char *message;
    } changes[] = {
        {add_extra, "tensor blk.0.ffn_gate_exps.weight is not part of a model"},
        {add_window, "llama.attention.sliding_window is 4096: not supported"},
        {add_experts, "llama.expert_count is 8: not supported"},
        {add_split, "is one of 3 parts"},
        {add_yarn, "llama.rope.scaling.type \"yarn\" is not supported"},
        {add_odd_freqs, "the frequencies are not those of Llama 3 scaling"},
        {add_small_vocabulary, "llama.vocab_size is 8, and tokenizer.ggml.tokens has 9: the file contradicts itself"},
        {add_large_vocabulary, "llama.vocab_size is 114, and tensor token_embd.weight has 113 rows"},
        {add_pad, "tokenizer.ggml.padding_token_id is 9, and the vocabulary has 9 tokens"},
    };
    fw_model_config config;
    load_config(&config, "llama_tied");
    const char *path = fw_test_path(root, "r.gguf"), *out = fw_test_path(root, "refused");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        fw_test_gguf g = {0};
        fw_test_gguf_model(&g, &config, "llama", "smollm");
        changes[i].change(&g, &config);
        fw_test_gguf_write(&g, path);
        fw_test_gguf_fini(&g);
        expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, changes[i].message);
        assert_false(fw_dir_exists(out));
    }
    fw_test_gguf g = {0};
    fw_test_gguf_model(&g, &config, "gemma", "smollm");
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, "general.architecture \"gemma\" is not");
    fw_test_gguf_model(&g, &config, "llama", "bloom");
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, "tokenizer.ggml.pre \"bloom\" is not");
    config.V = 5;
    fw_test_gguf_model(&g, &config, "llama", "smollm");
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, "9 tokens, but the embedding has 5 rows");
    config.V = 30;
    config.qk_norm = true; /* tensors that Llama does not have */
    fw_test_gguf_model(&g, &config, "llama", "smollm");
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, "attn_k_norm.weight is not part");
    config.qk_norm = false;
    config.L = 1;
    fw_test_gguf_model(&g, &config, "qwen3", "qwen2"); /* tensors that Qwen3 must have */
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, "attn_q_norm.weight is missing");
    /* keys that a file may lack */
    fw_test_gguf_string(&g, "general.architecture", "llama");
    fw_test_gguf_write(&g, path);
    expect_message(fw_import_gguf(path, out, false, 0, NULL), FW_ERR_INPUT, "llama.embedding_length is missing");
    fw_test_gguf_fini(&g);
    assert_false(fw_dir_exists(out));
}

static void test_faults(void **state) {
    (void)state;
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    fw_model_config config;
    load_config(&config, "llama_tied");
    fw_test_gguf g = {0};
    fw_test_gguf_model(&g, &config, "llama", "sentencepiece");
    const char *path = fw_test_path(root, "f.gguf"), *out = fw_test_path(own, "out");
    fw_test_gguf_write(&g, path);
    fw_test_gguf_fini(&g);
    int failures[2] = {0, 0};
    for (int kind = 0; kind < 2; kind++) {
        for (uint64_t n = 1;; n++) {
            if (kind == 0)
                fw_file_fail_write_at(n);
            else
                fw_alloc_fail_at(n);
            fw_status status = fw_import_gguf(path, out, false, 0, NULL);
            fw_file_fail_write_at(0);
            fw_alloc_fail_at(0);
            if (status == FW_OK) break;
            failures[kind]++;
            if (status != (kind == 0 ? FW_ERR_IO : FW_ERR_NOMEM)) fail_msg("%d: %s", (int)n, fw_trail_message());
            assert_int_equal(fw_test_count_entries(own), 0);
            if (kind == 1 && n > 700) n += 20;
        }
        must(fw_dir_remove(out));
    }
    if (failures[0] < 5 || failures[1] < 200) fail_msg("%d writes, %d allocations", failures[0], failures[1]);
    fw_test_scratch_remove(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family), cmocka_unit_test(test_tokenizer_files), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
