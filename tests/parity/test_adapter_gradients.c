/* Gradients of adapters against differences of the loss, in fp32: with dropout, with magnitudes, and with parts of fused
 * matrices (test_adapter_parity.c compares with PEFT). And what dropout is: another mask each
 * step, none in evaluation. */
#include "base/alloc.h"
#include "support/model_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void open_lab(fw_test_lab *lab, const char *variant, const fw_adapter_request *adapter) {
    const fw_test_lab_options options = {.variant = variant,
                                         .device = "cpu",
                                         .t = FW_F32,
                                         .mode = FW_ACTIVATIONS_RECOMPUTE,
                                         .micro = 4,
                                         .accumulation = 2,
                                         .adapter = adapter};
    must(fw_test_lab_open(lab, &options));
}

static fw_status read_flat(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    void *const *c = context; /* table, values */
    const fw_param_table *t = c[0];
    memcpy(out, (const float *)c[1] + t->unit_offset_n[unit] + first_n, (size_t)n * sizeof *out);
    return FW_OK;
}

static double loss_at(fw_test_lab *lab, float *weights) {
    const void *context[2] = {fw_model_trained(&lab->model), weights};
    fw_step_result result;
    must(fw_shard_load(lab->shard, FW_SHARD_WEIGHT, read_flat, (void *)(uintptr_t)context));
    must(fw_test_lab_gradient(lab, 0, &result));
    return result.loss;
}

/* Along the gradient of the parameters of one kind the loss changes by its length. */
static void check_kind(fw_test_lab *lab, const float *w, const float *g, fw_param_kind kind) {
    const fw_param_table *t = fw_model_trained(&lab->model);
    float *moved;
    double squares = 0, loss[2];
    must(FW_NEW_ARRAY(moved, (size_t)t->total_n));
    for (int32_t i = 0; i < t->param_n; i++)
        for (int64_t k = 0; t->param[i].kind == kind && k < t->param[i].n; k++) {
            const double value = (double)g[t->unit_offset_n[t->param[i].unit] + t->param[i].offset_n + k];
            squares += value * value;
        }
    const double length = sqrt(squares), h = 0.02 / length;
    assert_true(length > 1e-4);
    for (int side = 0; side < 2; side++) {
        memcpy(moved, w, (size_t)t->total_n * sizeof *moved);
        for (int32_t i = 0; i < t->param_n; i++)
            for (int64_t k = 0; t->param[i].kind == kind && k < t->param[i].n; k++) {
                const int64_t at = t->unit_offset_n[t->param[i].unit] + t->param[i].offset_n + k;
                moved[at] += (float)((side == 0 ? h : -h) * (double)g[at] / length);
            }
        loss[side] = loss_at(lab, moved);
    }
    const double slope = (loss[0] - loss[1]) / (2 * h);
    if (!(fabs(slope - length) <= 2e-3 * length))
        fail_msg("parameters of kind %d: the loss has slope %.6g, the gradient %.6g", (int)kind, slope, length);
    fw_free(moved);
}

static void check(const char *variant, fw_adapter_request adapter, unsigned kinds) {
    fw_test_lab lab;
    fw_step_result result;
    float *w, *g;
    const float *flat;
    adapter.init = FW_ADAPTER_INIT_RANDOM;
    open_lab(&lab, variant, &adapter);
    const size_t bytes = (size_t)fw_model_trained(&lab.model)->total_n * sizeof(float);
    must(FW_NEW_ARRAY(w, bytes / sizeof *w));
    must(FW_NEW_ARRAY(g, bytes / sizeof *g));
    must(fw_test_lab_gradient(&lab, 0, &result));
    must(fw_test_lab_state(&lab, FW_SHARD_WEIGHT, &flat));
    memcpy(w, flat, bytes);
    must(fw_test_lab_state(&lab, FW_SHARD_EXP_AVG, &flat));
    memcpy(g, flat, bytes);
    for (int kind = 0; kind <= FW_PARAM_MAGNITUDE; kind++)
        if (kinds & 1u << kind) check_kind(&lab, w, g, (fw_param_kind)kind);
    fw_free(w);
    fw_free(g);
    fw_test_lab_close(&lab);
}

enum {
    A = 1u << FW_PARAM_LORA_A,
    B = 1u << FW_PARAM_LORA_B,
    M = 1u << FW_PARAM_MAGNITUDE,
    WHOLE = 1u << FW_PARAM_BASE
};

static void test_plain(void **state) {
    (void)state;
    check("qwen3_untied", (fw_adapter_request){.r = 3, .alpha = 3, .target_modules = "all-linear"}, A | B);
    check("llama_bias",
          (fw_adapter_request){.r = 2,
                               .alpha = 2,
                               .target_modules = "k_proj,down_proj",
                               .modules_to_save = "v_proj,gate_proj,input_layernorm,embed_tokens",
                               .bias = FW_ADAPTER_BIAS_ALL},
          A | B | WHOLE);
}

static void test_dropout(void **state) {
    (void)state;
    check("qwen3_untied", (fw_adapter_request){.r = 3, .alpha = 3, .dropout = 0.4, .target_modules = "all-linear"},
          A | B);
    /* the norm is a constant for A and B, as PEFT has it, so their gradient is not the loss's: see test_adapter_parity.c */
    check("llama_bias",
          (fw_adapter_request){.r = 2, .alpha = 2, .dropout = 0.3, .dora = true, .target_modules = "all-linear"}, M);
    check("qwen2_tied",
          (fw_adapter_request){.r = 2, .alpha = 2, .dora = true, .target_modules = "q_proj,o_proj,up_proj"}, M);
}

static void test_masks(void **state) {
    (void)state;
    enum { CAP = 512 };
    const fw_adapter_request plain = {
        .r = 3, .alpha = 6, .target_modules = "all-linear", .init = FW_ADAPTER_INIT_RANDOM};
    fw_adapter_request dropped = plain;
    dropped.dropout = 0.5;
    fw_test_lab labs[2];
    float evaluated[2][CAP];
    double trained[2][2];
    int64_t n = 0;
    for (int i = 0; i < 2; i++) {
        open_lab(&labs[i], "qwen3_untied", i == 0 ? &plain : &dropped);
        must(fw_test_lab_losses(&labs[i], 0, 0, evaluated[i], CAP, &n));
        for (int step = 0; step < 2; step++) {
            fw_step_result result;
            must(fw_step_run(&labs[i].step, step + 1, 0, 0, 0.0, &result)); /* learns nothing */
            trained[i][step] = result.loss;
        }
        fw_test_lab_close(&labs[i]);
    }
    assert_memory_equal(evaluated[0], evaluated[1], (size_t)n * sizeof(float));
    assert_true(trained[0][0] == trained[0][1]);
    assert_true(trained[1][0] != trained[1][1] && trained[1][0] != trained[0][0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_dropout),
                                       cmocka_unit_test(test_masks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
