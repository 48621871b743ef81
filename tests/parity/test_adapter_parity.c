/* Adapters against peft: what it computes for the same base, adapter and documents in fp32 (adapters/NAME, made by
 * make_adapter_reference.py). Bounds are those of the project's goals, not fitted to what is measured. */
#include "store/peft_folder.h"
#include "support/model_lab.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOGITS_BOUND 1e-4
#define GRADIENT_BOUND 5e-5 /* relative L2 of each tensor */
#define LOSS_BOUND 1e-4     /* relative, losses and gradient norms */

/* start_zero: lora_B begins with 0, as a training does; else with numbers, so that A has a gradient from the first step. */
static const struct {
    const char *name;
    bool start_zero;
} cases[] = {{"lora_qwen3", false},         {"lora_llama", true},          {"rslora_qwen3", false},
             {"rslora_llama", false},       {"dora_qwen3", false},         {"dora_llama", true},
             {"pattern_llama", false},      {"saved_qwen3", false},        {"embed_llama", false},
             {"head_qwen3", false},         {"bias_all_llama", false},     {"bias_own_llama", false},
             {"dropped_lora_qwen3", false}, {"dropped_dora_llama", false}, {"dropped_dora_qwen3", true}};
enum { CASE_N = sizeof cases / sizeof cases[0] };

/* Or the one that is named on the command line (cuda, where there is a GPU). */
static const char *devices[2] = {"ref", "cpu"};
static size_t device_n = 2;

typedef struct bench {
    int case_i;
    fw_peft_config config;
    fw_safetensors reference;
    fw_test_lab lab;
} bench;

static const float *expected(const bench *b, const char *name, int64_t *n) {
    const fw_stored_tensor *t = fw_safetensors_find(&b->reference, name);
    if (t == NULL) return NULL;
    if (n != NULL) *n = t->n;
    return (const float *)(const void *)(b->reference.mapping.data + t->offset_bytes);
}

static float start_value(const bench *b, const fw_param *p, int64_t i) {
    char name[FW_PARAM_NAME_BYTES + 16];
    switch (p->kind) {
    case FW_PARAM_LORA_A: return fw_test_weight(p->name, i);
    case FW_PARAM_LORA_B: return cases[b->case_i].start_zero ? 0 : fw_test_weight(p->name, i);
    case FW_PARAM_MAGNITUDE: snprintf(name, sizeof name, "magnitude.%s", p->name); return expected(b, name, NULL)[i];
    case FW_PARAM_BASE:
    case FW_PARAM_TIED_HEAD: break;
    }
    return fw_test_weight(b->lab.model.table.param[p->base].name, i);
}

static fw_status read_start(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const bench *b = context;
    const fw_param_table *table = &b->lab.model.trained;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int32_t k = table->unit_first[unit]; k < table->unit_first[unit + 1]; k++) {
        const fw_param *p = &table->param[k];
        for (int64_t i = 0; i < p->n; i++) {
            const int64_t at = p->offset_n + i - first_n;
            if (at >= 0 && at < n) out[at] = start_value(b, p, i);
        }
    }
    return FW_OK;
}

/* In place: parts of a lab point to each other. */
static void open_bench(bench *b, int case_i, const char *device) {
    char dir[512], path[600];
    *b = (bench){.case_i = case_i};
    snprintf(dir, sizeof dir, "%s/tests/parity/adapters/%s", FW_SOURCE_DIR, cases[case_i].name);
    snprintf(path, sizeof path, "%s/reference.safetensors", dir);
    assert_int_equal(fw_peft_config_load(&b->config, dir), FW_OK);
    assert_int_equal(fw_safetensors_open(&b->reference, path), FW_OK);
    const fw_test_lab_options options = {.variant = strrchr(b->config.base, '/') + 1,
                                         .adapter = &b->config.request,
                                         .device = device,
                                         .t = FW_F32,
                                         .mode = FW_ACTIVATIONS_RECOMPUTE,
                                         .micro = 4,
                                         .accumulation = 2,
                                         .chunk_n = 7};
    assert_int_equal(fw_test_lab_open(&b->lab, &options), FW_OK);
    assert_int_equal(fw_shard_load(b->lab.shard, FW_SHARD_WEIGHT, read_start, b), FW_OK);
}

static void close_bench(bench *b) {
    fw_test_lab_close(&b->lab);
    fw_safetensors_close(&b->reference);
    fw_peft_config_fini(&b->config);
}

static double relative(double value, double want) { return fabs(value - want) / fabs(want); }

static void check_logits(bench *b, const char *device) {
    static float logits[64 * 128];
    int64_t n;
    const float *want = expected(b, "logits", &n);
    assert_int_equal(fw_test_lab_logits(&b->lab, 0, logits, 64 * 128), FW_OK);
    assert_int_equal(n, b->lab.dataset->sample[0].n * b->lab.model.config.V);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true(isfinite(logits[i]));
        worst = fmax(worst, fabs((double)logits[i] - (double)want[i]));
    }
    printf("  %-15s %s: logits differ by %.1e\n", cases[b->case_i].name, device, worst);
    assert_true(worst <= LOGITS_BOUND);
}

/* Where lora_B is 0, lora_A has a gradient of 0 in both. */
static double gradient_error(const float *got, const float *want, int64_t n) {
    double size = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        size += fabs((double)want[i]);
        error += fabs((double)got[i]);
    }
    return size > 0 ? fw_test_relative_l2(got, want, n) : error;
}

static void check_gradients(bench *b, const char *device) {
    fw_step_result result;
    assert_int_equal(fw_test_lab_gradient(&b->lab, 0, &result), FW_OK);
    assert_true(relative(result.loss, (double)*expected(b, "loss", NULL)) <= LOSS_BOUND);
    double worst = 0;
    const char *worst_name = "";
    int32_t compared_n = 0;
    for (size_t i = 0; i < b->reference.tensor_n; i++) {
        const char *name = b->reference.tensor[i].name;
        int64_t n, want_n;
        if (strncmp(name, "grad.", 5) != 0) continue;
        const float *want = expected(b, name, &want_n), *got = fw_test_lab_gradient_of(&b->lab, name + 5, &n);
        if (got == NULL) fail_msg("%s: %s is not trained", cases[b->case_i].name, name + 5);
        assert_int_equal(n, want_n);
        const double error = gradient_error(got, want, n);
        if (!(error <= worst)) worst = error, worst_name = name; /* a NaN is the worst of all */
        compared_n++;
    }
    assert_int_equal(compared_n, b->lab.model.trained.param_n); /* and nothing else is trained */
    printf("  %-15s %s: %d gradients differ by %.1e (%s)\n", cases[b->case_i].name, device, (int)compared_n, worst,
           worst_name);
    assert_true(worst <= GRADIENT_BOUND);
}

static void check_training(bench *b, const char *device) {
    int64_t step_n;
    const float *losses = expected(b, "losses", &step_n), *norms = expected(b, "grad_norms", NULL);
    const float *rates = expected(b, "learning_rate", NULL);
    double worst = 0, worst_norm = 0;
    b->lab.step.max_grad_norm = 1.0;
    assert_int_equal(step_n, 20);
    for (int64_t step = 0; step < step_n; step++) {
        fw_step_result result;
        assert_int_equal(fw_step_run(&b->lab.step, step + 1, step / 2, step % 2, (double)rates[step], &result), FW_OK);
        worst = fmax(worst, relative(result.loss, (double)losses[step]));
        worst_norm = fmax(worst_norm, relative(result.grad_norm, (double)norms[step]));
        assert_true(isfinite(result.loss) && isfinite(result.grad_norm));
    }
    printf("  %-15s %s: losses of 20 steps differ by %.1e, gradient norms by %.1e\n", cases[b->case_i].name, device,
           worst, worst_norm);
    assert_true(worst <= LOSS_BOUND && worst_norm <= LOSS_BOUND);
}

static void for_all(void (*check)(bench *b, const char *device)) {
    for (size_t d = 0; d < device_n; d++)
        for (int i = 0; i < CASE_N; i++) {
            bench b;
            open_bench(&b, i, devices[d]);
            check(&b, devices[d]);
            close_bench(&b);
        }
}

static void test_logits(void **state) {
    (void)state;
    for_all(check_logits);
}

static void test_gradients(void **state) {
    (void)state;
    for_all(check_gradients);
}

static void test_training(void **state) {
    (void)state;
    for_all(check_training);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        devices[0] = argv[1];
        device_n = 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits), cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
