/* Folders of adapters as peft writes them: what is read, and what is refused by name. */
#include "store/peft_folder.h"

#include "base/alloc.h"
#include "support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static void expect(fw_status status, const char *part) {
    if (status != FW_ERR_INPUT || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), part);
}

static fw_status parse(fw_peft_config *out, const char *text) {
    json_t *object;
    *out = (fw_peft_config){0};
    FW_TRY(fw_json_parse(&object, text, strlen(text), "adapter_config.json", 1));
    fw_status status = fw_peft_config_parse(out, object, "adapter_config.json");
    json_decref(object);
    return status;
}

/* {"peft_type": "LORA", "r": 4, MORE} */
static fw_status parse_with(fw_peft_config *out, const char *more) {
    char text[1024];
    const char *targets = strstr(more, "target_modules") != NULL ? "" : ", \"target_modules\": [\"q_proj\"]";
    snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", \"r\": 4%s%s%s}", targets, more[0] == 0 ? "" : ", ", more);
    return parse(out, text);
}

static void test_defaults(void **state) {
    (void)state;
    fw_peft_config c;
    assert_int_equal(parse_with(&c, ""), FW_OK);
    const fw_adapter_request *r = &c.request;
    assert_true(r->r == 4 && r->alpha == 8 && r->dropout == 0 && !r->dora && !r->rslora);
    assert_true(r->bias == FW_ADAPTER_BIAS_NONE && r->init == FW_ADAPTER_INIT_DEFAULT);
    assert_null(c.base);
    fw_peft_config_fini(&c);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *more, *part;
    } cases[] = {
        {"\"layer_replication\": [[0, 2], [1, 3]]", "\"layer_replication\" is [[0,2],[1,3]]"},
        {"\"trainable_token_indices\": [5]", "\"trainable_token_indices\" is [5]"},
        {"\"target_parameters\": [\"mlp.experts.gate_up_proj\"]", "\"target_parameters\""},
        {"\"lora_bias\": true", "\"lora_bias\" is true"},
        {"\"use_qalora\": true", "\"use_qalora\" is true"},
        {"\"alora_invocation_tokens\": [1, 2]", "\"alora_invocation_tokens\""},
        {"\"of_a_later_peft\": {\"k\": 1}", "\"of_a_later_peft\" is {\"k\":1}: finewire does not have that"},
        {"\"init_lora_weights\": \"pissa_niter_4\"", "path_initial_model_for_weight_conversion"},
        {"\"init_lora_weights\": \"olora\"", "\"init_lora_weights\" is \"olora\""},
        {"\"init_lora_weights\": \"loftq\"", "\"init_lora_weights\" is \"loftq\""},
        {"\"task_type\": \"SEQ_CLS\"", "\"task_type\" is \"SEQ_CLS\""},
        {"\"bias\": \"some\"", "none, all or lora_only"},
        {"\"bias\": 3", "\"bias\""},
        {"\"lora_dropout\": 1.5", "lora_dropout"},
        {"\"lora_alpha\": \"16\"", "lora_alpha"},
        {"\"lora_alpha\": null", "\"lora_alpha\" is null"},
        {"\"ensure_weight_tying\": true", "\"ensure_weight_tying\" is true"},
        {"\"exclude_modules\": {\"q_proj\": 1}", "\"exclude_modules\""},
        {"\"use_dora\": 1", "use_dora"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fw_peft_config c;
        expect(parse_with(&c, cases[i].more), cases[i].part);
        assert_null(c.object);
    }
    fw_peft_config c;
    expect(parse(&c, "{\"peft_type\": \"IA3\"}"), "\"peft_type\" is \"IA3\"");
    expect(parse(&c, "{\"r\": 4}"), "\"peft_type\" is missing");
    expect(parse(&c, "{\"peft_type\": \"LORA\"}"), "r");
    expect(parse(&c, "{\"peft_type\": \"LORA\", \"r\": 0}"), "r");
    expect(parse(&c, "[]"), "not an object");
}

/* What is switched off, and what only says who wrote the file, is no reason to refuse it. */
static void test_passed_over(void **state) {
    (void)state;
    fw_peft_config c;
    assert_int_equal(parse_with(&c, "\"peft_version\": \"0.21.2\", \"megatron_core\": \"megatron.core\", "
                                    "\"loftq_config\": {}, \"eva_config\": null, \"inference_mode\": true, "
                                    "\"of_a_later_peft\": null, \"another\": [], \"third\": false, "
                                    "\"init_lora_weights\": \"gaussian\", \"task_type\": \"CAUSAL_LM\""),
                     FW_OK);
    fw_peft_config_fini(&c);
}

/* Lists and objects reach the model as they are; single values too. */
static void test_request(void **state) {
    (void)state;
    fw_peft_config c;
    assert_int_equal(parse_with(&c, "\"target_modules\": [\"q_proj\", \"v_proj\"], \"modules_to_save\": [\"lm_head\"], "
                                    "\"layers_to_transform\": 3, \"layers_pattern\": \"layers\", \"use_dora\": true, "
                                    "\"rank_pattern\": {\"q_proj\": 2}, \"alpha_pattern\": {\"k_proj\": 2.5}, "
                                    "\"lora_alpha\": 16, \"lora_dropout\": 0.25, \"use_rslora\": true, "
                                    "\"bias\": \"lora_only\", \"init_lora_weights\": false"),
                     FW_OK);
    const fw_adapter_request *r = &c.request;
    assert_string_equal(r->target_modules, "[\"q_proj\",\"v_proj\"]");
    assert_string_equal(r->modules_to_save, "[\"lm_head\"]");
    assert_string_equal(r->layers_to_transform, "3");
    assert_string_equal(r->rank_pattern, "{\"q_proj\":2}");
    assert_string_equal(r->alpha_pattern, "{\"k_proj\":2.5}");
    assert_true(r->r == 4 && r->alpha == 16 && r->dropout == 0.25 && r->rslora && r->dora);
    assert_int_equal(r->bias, FW_ADAPTER_BIAS_LORA_ONLY);
    assert_int_equal(r->init, FW_ADAPTER_INIT_RANDOM);
    fw_peft_config_fini(&c);

    assert_int_equal(parse_with(&c, "\"target_modules\": \"all-linear\", \"modules_to_save\": []"), FW_OK);
    assert_string_equal(c.request.target_modules, "all-linear");
    assert_null(c.request.modules_to_save);
    fw_peft_config_fini(&c);
    expect(parse(&c, "{\"peft_type\": \"LORA\", \"r\": 4}"), "\"target_modules\" is missing");
}

/* What is written is what is read. */
static void make_and_read(const fw_adapter_request *r, fw_peft_config *c) {
    json_t *made;
    assert_int_equal(fw_peft_config_make(&made, r, "a/base"), FW_OK);
    assert_int_equal(fw_peft_config_parse(c, made, "made"), FW_OK);
    assert_string_equal(c->base, "a/base");
    json_decref(made);
}

static void test_make(void **state) {
    (void)state;
    fw_peft_config c;
    const fw_adapter_request r = {.r = 6,
                                  .alpha = 12.5,
                                  .dropout = 0.1,
                                  .target_modules = "q_proj, mlp.up_proj",
                                  .modules_to_save = "embed_tokens,lm_head",
                                  .layers_to_transform = "0,12",
                                  .rank_pattern = "q_proj=2",
                                  .alpha_pattern = "{\"q_proj\": 3}",
                                  .dora = true,
                                  .rslora = true,
                                  .bias = FW_ADAPTER_BIAS_ALL,
                                  .init = FW_ADAPTER_INIT_GAUSSIAN};
    make_and_read(&r, &c);
    assert_string_equal(c.request.target_modules, "[\"q_proj\",\"mlp.up_proj\"]");
    assert_string_equal(c.request.modules_to_save, "[\"embed_tokens\",\"lm_head\"]");
    assert_string_equal(c.request.layers_to_transform, "[0,12]");
    assert_string_equal(c.request.rank_pattern, "{\"q_proj\":2}");
    assert_string_equal(c.request.alpha_pattern, "{\"q_proj\":3}");
    assert_true(c.request.r == 6 && c.request.alpha == 12.5 && c.request.dropout == 0.1 && c.request.dora &&
                c.request.rslora && c.request.bias == r.bias && c.request.init == r.init);
    fw_peft_config_fini(&c);

    make_and_read(&(fw_adapter_request){.r = 8, .alpha = 16, .target_modules = "all-linear"}, &c);
    assert_string_equal(c.request.target_modules,
                        "[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\",\"up_proj\",\"down_proj\"]");
    assert_null(c.request.rank_pattern);
    assert_true(json_is_integer(json_object_get(c.object, "lora_alpha")));
    fw_peft_config_fini(&c);

    static const char expression[] = "model\\.layers\\.[0-3]\\..*proj";
    make_and_read(&(fw_adapter_request){.r = 8, .alpha = 16, .target_modules = expression}, &c);
    assert_string_equal(c.request.target_modules, expression);
    fw_peft_config_fini(&c);

    json_t *made;
    const fw_adapter_request bad = {.r = 8, .target_modules = "q_proj", .rank_pattern = "{\"q_proj\": 2"};
    assert_int_equal(fw_peft_config_make(&made, &bad, NULL), FW_ERR_OPTION);
    assert_null(made);
}

static void expect_split(const char *name, fw_peft_part part, const char *module) {
    fw_peft_part got;
    char text[FW_PEFT_MODULE_BYTES];
    assert_int_equal(fw_peft_name_split(&got, text, name, "a file"), FW_OK);
    assert_int_equal(got, part);
    assert_string_equal(text, module);
}

static void test_names(void **state) {
    (void)state;
    expect_split("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", FW_PEFT_A, "model.layers.0.mlp.up_proj");
    expect_split("base_model.model.model.layers.0.mlp.up_proj.lora_B.weight", FW_PEFT_B, "model.layers.0.mlp.up_proj");
    expect_split("base_model.model.model.layers.0.mlp.up_proj.lora_magnitude_vector", FW_PEFT_MAGNITUDE,
                 "model.layers.0.mlp.up_proj");
    expect_split("base_model.model.lm_head.weight", FW_PEFT_WHOLE, "lm_head.weight");
    expect_split("base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias", FW_PEFT_WHOLE,
                 "model.layers.0.self_attn.q_proj.bias");
    fw_peft_part part;
    char module[FW_PEFT_MODULE_BYTES], name[300];
    expect(fw_peft_name_split(&part, module, "model.layers.0.mlp.up_proj.lora_A.weight", "f"),
           "f: tensor model.layers.0");
    expect(fw_peft_name_split(&part, module, "base_model.model.model.embed_tokens.lora_embedding_A", "f"),
           "a kind of adapter that finewire does not have");
    expect(fw_peft_name_split(&part, module, "base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight", "f"),
           "a kind of adapter");
    memset(name, 'x', sizeof name);
    memcpy(name, "base_model.model.", 17);
    name[sizeof name - 1] = 0;
    expect(fw_peft_name_split(&part, module, name, "f"), "not one that peft writes");
    expect(fw_peft_name_split(&part, module, "", "f"), "not one that peft writes");
}

static void test_folders(void **state) {
    (void)state;
    char dir[FW_TEST_PATH_BYTES], path[FW_TEST_PATH_BYTES + 40];
    fw_test_scratch_make(dir);
    fw_peft_folder folder;
    snprintf(path, sizeof path, "%s/nowhere", dir);
    expect(fw_peft_folder_open(&folder, path), "does not exist");
    expect(fw_peft_folder_open(&folder, dir), "is not a folder that peft wrote");
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_int_equal(fw_file_write(path, "{}", 2), FW_OK);
    expect(fw_peft_folder_open(&folder, dir), "to be given as --model");
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    static const char config[] = "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": [\"q_proj\"]}";
    assert_int_equal(fw_file_write(path, config, sizeof config - 1), FW_OK);
    expect(fw_peft_folder_open(&folder, dir), "no adapter_model.safetensors: it is not complete");
    snprintf(path, sizeof path, "%s/adapter_model.bin", dir);
    assert_int_equal(fw_file_write(path, "PK", 2), FW_OK);
    expect(fw_peft_folder_open(&folder, dir), "save_pretrained(NEW_DIR)");
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    assert_int_equal(fw_file_write(path, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), FW_OK);
    expect(fw_peft_folder_open(&folder, dir), "adapter_model.safetensors");
    fw_test_scratch_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults),    cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_passed_over), cmocka_unit_test(test_request),
                                       cmocka_unit_test(test_make),        cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
