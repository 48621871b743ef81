/* config.json: both generations say the same, and whatever would make the numbers wrong is refused by its key.
 * The parameter table that follows from it. */
#include "base/alloc.h"
#include "model/param_table.h"
#include "model/wrap_class.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define SIZES                                                                                                          \
    "\"hidden_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"num_key_value_heads\": 2, "          \
    "\"intermediate_size\": 64, \"vocab_size\": 100, \"max_position_embeddings\": 512"

static fw_status parse(fw_model_config *out, const char *text) {
    json_t *object;
    FW_TRY(fw_json_parse(&object, text, strlen(text), "config.json", 1));
    fw_status status = fw_model_config_parse(out, object, "config.json");
    json_decref(object);
    return status;
}

/* The config of `model_type` with the usual sizes and `more`: refused, and the message has file, key and value. */
static void expect_refused(const char *model_type, const char *more, const char *key, const char *value) {
    char text[2048];
    fw_model_config c;
    snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s%s%s}", model_type, SIZES, more[0] ? ", " : "", more);
    fw_status status = parse(&c, text);
    if (status != FW_ERR_INPUT || !strstr(fw_trail_message(), "config.json") || !strstr(fw_trail_message(), key) ||
        !strstr(fw_trail_message(), value))
        print_error("%s with %s: status %d, \"%s\"\n", model_type, more, (int)status, fw_trail_message());
    assert_int_equal(status, FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "config.json"));
    assert_non_null(strstr(fw_trail_message(), key));
    assert_non_null(strstr(fw_trail_message(), value));
}

static void test_refused(void **state) {
    (void)state;
    static const char *const cases[][4] = {
        /* architectures */
        {"gemma3", "", "model_type", "gemma3"},
        {"mixtral", "", "model_type", "mixtral"},
        {"gpt2", "", "model_type", "gpt2"},
        {"llama", "\"architectures\": [\"LlamaForSequenceClassification\"]", "architectures",
         "LlamaForSequenceClassification"},
        {"qwen2", "\"architectures\": [\"Qwen2ForRewardModel\"]", "architectures", "Qwen2ForRewardModel"},
        {"llama", "\"architectures\": \"LlamaForCausalLM\"", "architectures", "LlamaForCausalLM"},
        /* mathematics that is not here */
        {"llama", "\"hidden_act\": \"gelu\"", "hidden_act", "gelu"},
        {"llama", "\"hidden_act\": \"relu2\"", "hidden_act", "relu2"},
        {"mistral", "\"sliding_window\": 4096", "sliding_window", "not supported"},
        {"mistral", "", "sliding_window", "4096"},
        {"qwen2", "\"use_sliding_window\": true, \"sliding_window\": 4096", "use_sliding_window", "true"},
        {"qwen3", "\"use_sliding_window\": true", "use_sliding_window", "true"},
        {"qwen3", "\"layer_types\": [\"full_attention\", \"sliding_attention\"]", "layer_types", "sliding_attention"},
        {"llama", "\"num_local_experts\": 8", "num_local_experts", "mixture-of-experts"},
        {"qwen2", "\"num_experts\": 60, \"num_experts_per_tok\": 4", "num_experts", "mixture-of-experts"},
        {"llama", "\"attention_dropout\": 0.1", "attention_dropout", "0.1"},
        {"llama", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor", "0.5"},
        {"llama", "\"final_logit_softcapping\": 30.0", "final_logit_softcapping", "30"},
        {"llama", "\"quantization_config\": {\"quant_method\": \"gptq\"}", "quantization_config", "quantised"},
        {"mistral", "\"sliding_window\": null, \"attention_bias\": true", "attention_bias", "supported"},
        {"qwen2", "\"mlp_bias\": true", "mlp_bias", "llama"},
        /* rotary positions, both generations */
        {"llama", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}", "rope_scaling", "dynamic"},
        {"llama", "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0}", "rope_scaling", "yarn"},
        {"qwen3", "\"rope_parameters\": {\"rope_type\": \"longrope\"}", "rope_parameters", "longrope"},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\"}", "factor", "missing"},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": -2}", "factor", "-2"},
        {"llama",
         "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
         "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}",
         "high_freq_factor", "4"},
        {"llama",
         "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"high_freq_factor\": 4, "
         "\"original_max_position_embeddings\": 8192}",
         "low_freq_factor", "missing"},
        {"llama",
         "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4}",
         "original_max_position_embeddings", "missing"},
        {"llama", "\"rope_scaling\": \"linear\"", "rope_scaling", "object"},
        {"llama", "\"rope_theta\": 0", "rope_theta", "0"},
        {"llama", "\"rope_theta\": \"10000\"", "rope_theta", "string"},
        /* sizes */
        {"llama", "\"head_dim\": 7", "head", "7"},
        {"llama", "\"head_dim\": 0", "head_dim", "0"},
        {"llama", "\"rms_norm_eps\": -1e-5", "rms_norm_eps", "-1e-05"},
        {"llama", "\"tie_word_embeddings\": \"yes\"", "tie_word_embeddings", "string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
}

/* Each size missing, zero, negative, huge, or of another type. */
static void test_refused_sizes(void **state) {
    (void)state;
    static const char *const keys[] = {"hidden_size",       "num_hidden_layers", "num_attention_heads",
                                       "intermediate_size", "vocab_size",        "num_key_value_heads"};
    static const char *const values[] = {"0", "-3", "9007199254740993", "1e3", "\"48\"", "[48]"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        for (size_t v = 0; v <= sizeof values / sizeof values[0]; v++) {
            json_t *object;
            fw_model_config c;
            const char *text = "{\"model_type\": \"qwen2\", " SIZES "}";
            assert_int_equal(fw_json_parse(&object, text, strlen(text), "config.json", 1), FW_OK);
            json_object_del(object, keys[k]);
            if (v < sizeof values / sizeof values[0])
                json_object_set_new(object, keys[k], json_loads(values[v], JSON_DECODE_ANY, NULL));
            assert_int_equal(fw_model_config_parse(&c, object, "config.json"), FW_ERR_INPUT);
            assert_non_null(strstr(fw_trail_message(), keys[k]));
            json_decref(object);
        }
    }
    fw_model_config c;
    assert_int_equal(parse(&c, "{\"model_type\": \"llama\", \"num_key_value_heads\": 4, \"hidden_size\": 48, "
                               "\"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"intermediate_size\": 64, "
                               "\"vocab_size\": 100}"),
                     FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "num_attention_heads"));
    assert_int_equal(parse(&c, "{" SIZES "}"), FW_ERR_INPUT);
    assert_non_null(strstr(fw_trail_message(), "model_type"));
    assert_int_equal(parse(&c, "[]"), FW_ERR_INPUT);
}

/* Keys that change nothing, as published models have them. */
static void test_accepted(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"llama", "\"architectures\": [\"LlamaForCausalLM\"], \"pretraining_tp\": 1, \"sliding_window\": null"},
        {"llama", "\"rope_scaling\": null, \"rope_theta\": 500000"},
        {"llama", "\"hidden_act\": \"silu\", \"attention_dropout\": 0.0, \"num_local_experts\": null"},
        {"mistral", "\"sliding_window\": null, \"head_dim\": null"},
        {"qwen2", "\"use_sliding_window\": false, \"sliding_window\": 32768, \"max_window_layers\": 21"},
        {"qwen3", "\"layer_types\": [\"full_attention\", \"full_attention\"], \"use_mrope\": false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2048];
        fw_model_config c;
        snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s, %s}", cases[i][0], SIZES, cases[i][1]);
        assert_int_equal(parse(&c, text), FW_OK);
        assert_int_equal(c.D, strcmp(cases[i][0], "qwen3") == 0 ? 128 : 8);
        assert_int_equal(c.K, 2);
        assert_false(c.tied);
    }
    fw_model_config c; /* Llama 1: no key/value heads are as many as query heads */
    assert_int_equal(parse(&c, "{\"model_type\": \"llama\", \"hidden_size\": 48, \"num_hidden_layers\": 2, "
                               "\"num_attention_heads\": 6, \"intermediate_size\": 64, \"vocab_size\": 100}"),
                     FW_OK);
    assert_int_equal(c.K, 6);
}

static void test_generations_agree(void **state) {
    (void)state;
    fw_model_config old, new;
    assert_int_equal(parse(&old, "{\"model_type\": \"llama\", " SIZES ", \"torch_dtype\": \"bfloat16\", "
                                 "\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", "
                                 "\"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                                 "\"original_max_position_embeddings\": 8192}}"),
                     FW_OK);
    assert_int_equal(parse(&new, "{\"model_type\": \"llama\", " SIZES ", \"dtype\": \"bfloat16\", "
                                 "\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"llama3\", "
                                 "\"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                                 "\"original_max_position_embeddings\": 8192}}"),
                     FW_OK);
    assert_int_equal(old.rope.kind, FW_ROPE_LLAMA3);
    assert_true(old.rope.theta == 500000.0 && old.rope.factor == 32.0 && old.rope.low_freq_factor == 1.0 &&
                old.rope.high_freq_factor == 4.0 && old.rope.original_max_position == 8192);
    assert_true(old.rope.kind == new.rope.kind &&old.rope.theta == new.rope.theta &&old.rope.factor ==
                new.rope.factor &&old.rope.low_freq_factor == new.rope.low_freq_factor &&old.rope.high_freq_factor ==
                new.rope.high_freq_factor &&old.rope.original_max_position == new.rope.original_max_position);
}

static fw_model_config config_of(const char *variant) {
    char path[1024];
    json_t *object;
    fw_model_config c;
    snprintf(path, sizeof path, "%s/tests/parity/models/%s.json", FW_SOURCE_DIR, variant);
    assert_int_equal(fw_json_load(&object, path, 1 << 16), FW_OK);
    assert_int_equal(fw_model_config_parse(&c, object, path), FW_OK);
    json_decref(object);
    return c;
}

/* Units tile the whole, parameters lie in their unit without overlap, in order, aligned but where rows are fused. */
static void test_table(void **state) {
    (void)state;
    for (int v = 0; fw_test_model_variants[v]; v++) {
        fw_model_config c = config_of(fw_test_model_variants[v]);
        fw_param_table table;
        assert_int_equal(fw_param_table_init(&table, &c), FW_OK);
        assert_int_equal(table.unit_n, 1 + c.L);
        int64_t unit_start = 0, parameter_n = 0;
        for (int32_t u = 0; u < table.unit_n; u++) {
            assert_int_equal(table.unit_offset_n[u], unit_start);
            assert_int_equal(table.unit_size_n[u] % FW_UNIT_ALIGN, 0);
            int64_t end = 0;
            for (int32_t p = table.unit_first[u]; p < table.unit_first[u + 1]; p++) {
                const fw_param *param = &table.param[p];
                assert_int_equal(param->unit, u);
                assert_true(param->offset_n >= end);
                assert_int_equal(param->n, param->cols ? param->rows * param->cols : param->rows);
                bool fused =
                    strstr(param->name, "k_proj") || strstr(param->name, "v_proj") || strstr(param->name, "up_proj");
                if (fused)
                    assert_int_equal(param->offset_n, end);
                else
                    assert_int_equal(param->offset_n % 16, 0);
                assert_int_equal(param->decay, param->cols > 0);
                assert_true(param->trainable);
                assert_ptr_equal(fw_param_table_find(&table, param->name), param);
                end = param->offset_n + param->n;
                parameter_n += param->n;
            }
            assert_true(end <= table.unit_size_n[u]);
            unit_start += table.unit_size_n[u];
        }
        assert_int_equal(table.total_n, unit_start);
        assert_int_equal(table.parameter_n, parameter_n);
        assert_int_equal(fw_param_table_find(&table, "lm_head.weight") == NULL, c.tied);
        assert_null(fw_param_table_find(&table, "model.layers.9.mlp.up_proj.weight"));
        fw_param_table_fini(&table);
    }
}

static void test_table_of_published_model(void **state) {
    (void)state;
    fw_model_config c = {
        .architecture = FW_ARCH_LLAMA, .C = 576, .L = 30, .H = 9, .K = 3, .D = 64, .F = 1536, .V = 49152, .tied = true};
    fw_param_table table;
    assert_int_equal(fw_param_table_init(&table, &c), FW_OK);
    assert_int_equal(table.parameter_n, 134515008); /* SmolLM2-135M */
    assert_int_equal(table.param_n, 2 + 30 * 9);
    fw_param_table_fini(&table);
}

static void test_table_overflow_and_memory(void **state) {
    (void)state;
    fw_model_config c = config_of("llama_bias");
    fw_param_table table;
    fw_model_config huge = c;
    huge.C = huge.F = 1 << 22;
    huge.L = 4096;
    huge.H = 1 << 16;
    huge.D = 1 << 16;
    huge.V = 1 << 26;
    fw_status status = fw_param_table_init(&table, &huge);
    if (status == FW_OK) { /* it may fit into 63 bits: then the sum must be right, not wrapped */
        assert_true(table.total_n > huge.L * huge.C * huge.F);
        fw_param_table_fini(&table);
    } else {
        assert_int_equal(status, FW_ERR_INPUT);
    }
    for (uint64_t n = 1; n < 100; n++) {
        fw_alloc_fail_at(n);
        status = fw_param_table_init(&table, &c);
        fw_alloc_fail_at(0);
        if (status == FW_OK) {
            fw_param_table_fini(&table);
            assert_true(n > 1); /* the first one did fail */
            return;
        }
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    fail();
}

static void test_wrap_class(void **state) {
    (void)state;
    static const struct {
        const char *name;
        fw_architecture architecture;
        const char *message; /* NULL: right */
    } cases[] = {
        {NULL, FW_ARCH_LLAMA, NULL},
        {"LlamaDecoderLayer", FW_ARCH_LLAMA, NULL},
        {"Qwen2DecoderLayer", FW_ARCH_QWEN2, NULL},
        {"Qwen3DecoderLayer", FW_ARCH_QWEN3, NULL},
        {"MistralDecoderLayer", FW_ARCH_MISTRAL, NULL},
        {" Qwen2DecoderLayer , Qwen2DecoderLayer", FW_ARCH_QWEN2, NULL},
        {"LlamaDecoderLayer", FW_ARCH_QWEN2,
         "fsdp_transformer_layer_cls_to_wrap: the model has no class LlamaDecoderLayer; its blocks are "
         "Qwen2DecoderLayer"},
        {"Qwen2DecoderLayer,Qwen2MLP", FW_ARCH_QWEN2,
         "fsdp_transformer_layer_cls_to_wrap: the model has no class Qwen2MLP; its blocks are Qwen2DecoderLayer"},
        {"qwen3decoderlayer", FW_ARCH_QWEN3,
         "fsdp_transformer_layer_cls_to_wrap: the model has no class qwen3decoderlayer; its blocks are "
         "Qwen3DecoderLayer"},
        {"LlamaDecoder", FW_ARCH_LLAMA,
         "fsdp_transformer_layer_cls_to_wrap: the model has no class LlamaDecoder; its blocks are LlamaDecoderLayer"},
        {" ,", FW_ARCH_MISTRAL,
         "fsdp_transformer_layer_cls_to_wrap is empty; write MistralDecoderLayer or leave it out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_status status = fw_wrap_check_class(cases[i].name, cases[i].architecture);
        assert_int_equal(status, cases[i].message == NULL ? FW_OK : FW_ERR_OPTION);
        if (cases[i].message != NULL) assert_string_equal(fw_trail_message(), cases[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_sizes),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_generations_agree),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_of_published_model),
        cmocka_unit_test(test_table_overflow_and_memory),
        cmocka_unit_test(test_wrap_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
