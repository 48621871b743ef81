/* Backward goes down only as far as something is trained: how many products it makes, and that what is trained has the
 * same gradients as when it goes to the bottom. */
#include "base/alloc.h"
#include "support/model_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

/* ---- the cpu device, counting */

static const fw_device_ops *inner;
static fw_device_ops counting;
static int inputs_n, attention_n;

static fw_status count_input(fw_device *d, void *dx, const void *dy, const void *w, int64_t N, int64_t O, int64_t I,
                             fw_dtype t) {
    inputs_n++;
    return inner->matmul_backward_input(d, dx, dy, w, N, O, I, t);
}

static fw_status count_attention(fw_device *d, void *dq, int64_t dq_stride, void *dk, void *dv, int64_t dkv_stride,
                                 const void *dout, const void *out, const float *lse, const void *q, int64_t q_stride,
                                 const void *k, int64_t k_stride, const void *v, int64_t v_stride, const int32_t *first,
                                 int64_t N, int64_t H, int64_t K, int64_t D, float scale, fw_dtype t) {
    attention_n++;
    return inner->attention_backward(d, dq, dq_stride, dk, dv, dkv_stride, dout, out, lse, q, q_stride, k, k_stride, v,
                                     v_stride, first, N, H, K, D, scale, t);
}

static void open_lab(fw_test_lab *lab, const fw_adapter_request *adapter, fw_activation_mode mode) {
    fw_test_lab_options options = {
        .variant = "llama_bias", .t = FW_F32, .mode = mode, .micro = 4, .accumulation = 2, .adapter = adapter};
    must(fw_device_create(&options.made_device, "cpu", NULL));
    inner = options.made_device->ops;
    counting = *inner;
    counting.matmul_backward_input = count_input;
    counting.attention_backward = count_attention;
    options.made_device->ops = &counting;
    must(fw_test_lab_open(lab, &options));
}

/* ---- */

static void expect(const fw_adapter_request *adapter, fw_activation_mode mode, int want_inputs, int want_attention) {
    fw_test_lab ends, goes_on;
    fw_step_result result;
    fw_adapter_request deep = *adapter;
    char saved[64];
    snprintf(saved, sizeof saved, "%s,embed_tokens", adapter->modules_to_save == NULL ? "" : adapter->modules_to_save);
    deep.modules_to_save = saved[0] == ',' ? saved + 1 : saved;

    open_lab(&ends, adapter, mode);
    inputs_n = attention_n = 0;
    must(fw_test_lab_gradient(&ends, 0, &result));
    if (inputs_n != want_inputs || attention_n != want_attention)
        fail_msg("%s, saved %s, layers %s: %d products with weights and %d attentions backward; %d and %d expected",
                 adapter->target_modules, saved, adapter->layers_to_transform, inputs_n, attention_n, want_inputs,
                 want_attention);
    open_lab(&goes_on, &deep, mode);
    must(fw_test_lab_gradient(&goes_on, 0, &result));
    for (int32_t i = 0; i < ends.model.trained.param_n; i++) {
        const char *name = ends.model.trained.param[i].name;
        int64_t n, n_deep;
        float *copy;
        const float *g = fw_test_lab_gradient_of(&ends, name, &n);
        must(FW_NEW_ARRAY(copy, (size_t)n));
        memcpy(copy, g, (size_t)n * sizeof *copy);
        g = fw_test_lab_gradient_of(&goes_on, name, &n_deep);
        assert_int_equal(n, n_deep);
        if (memcmp(copy, g, (size_t)n * sizeof *copy) != 0) fail_msg("%s has another gradient", name);
        fw_free(copy);
    }
    fw_test_lab_close(&ends);
    fw_test_lab_close(&goes_on);
}

static void test_reach(void **state) {
    (void)state;
    /* Of each of the 2 micro-batches: the head's product; in block 1, above, and in block 0 the four of the block's. What
     * adapters add to the gradient of inputs is not counted. */
    static const struct {
        const char *targets, *saved, *layers;
        int inputs, attention;
    } cases[] = {{"down_proj", NULL, "1", 1, 0},
                 {"gate_proj", NULL, "1", 2, 0},
                 {"down_proj", "layers.1.post_attention_layernorm", "1", 3, 0},
                 {"o_proj", NULL, "1", 3, 0},
                 {"o_proj,k_proj", NULL, "1", 4, 1},
                 {"down_proj", "layers.1.input_layernorm", "1", 5, 1},
                 {"up_proj", NULL, "0", 6, 1},
                 {"all-linear", NULL, NULL, 8, 2},
                 {"all-linear", "layers.0.input_layernorm", NULL, 9, 2},
                 {"v_proj", "lm_head,model.norm", "1", 4, 1}};
    static const fw_activation_mode modes[] = {FW_ACTIVATIONS_RECOMPUTE, FW_ACTIVATIONS_SELECTIVE, FW_ACTIVATIONS_KEEP};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const fw_adapter_request adapter = {.r = 3,
                                                .alpha = 6,
                                                .target_modules = cases[i].targets,
                                                .modules_to_save = cases[i].saved,
                                                .layers_to_transform = cases[i].layers,
                                                .init = FW_ADAPTER_INIT_RANDOM};
            expect(&adapter, modes[m], 2 * cases[i].inputs, 2 * cases[i].attention);
        }
}

/* DoRA and dropout take other ways through a product. */
static void test_other_ways(void **state) {
    (void)state;
    fw_adapter_request adapter = {
        .r = 2, .alpha = 2, .dora = true, .target_modules = "q_proj,v_proj,down_proj", .init = FW_ADAPTER_INIT_RANDOM};
    /* q, k and v are apart: in block 1 three products instead of one, in block 0 none */
    expect(&adapter, FW_ACTIVATIONS_RECOMPUTE, 2 * (1 + 3 + 3 + 3), 4);
    adapter.dropout =
        0.3; /* beside the base's product, one of each module with an adapter, but for q and v of block 0 */
    expect(&adapter, FW_ACTIVATIONS_RECOMPUTE, 2 * (1 + 4 + 3 + 3 + 1), 4);
    adapter.dora = false;
    expect(&adapter, FW_ACTIVATIONS_RECOMPUTE, 2 * (1 + 4 + 3 + 3 + 1), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reach), cmocka_unit_test(test_other_ways)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
