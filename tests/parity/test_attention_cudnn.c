/* Attention by cuDNN against the judge: packed documents, groups of heads, rows apart, equal bits for equal calls.
 *
 *   test_attention_cudnn        on the emulated GPU, with a stand-in for cuDNN that computes from nothing but the graph: all
 *                               of finewire's part
 *   test_attention_cudnn cuda   on a GPU, with cuDNN */
#include "support/fake_cudnn.h"
#include "support/model_lab.h"
#include "support/op_cases.h"
#ifdef FW_HAS_SIMT
#include "device/simt/simt_device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(FW_HAS_CUDNN) && defined(FW_HAS_SIMT)

/* cuDNN's rows are 16 bytes apart, or a multiple of it. */
static const fw_op_shape shapes[] = {
    {.name = "one token", .N = 1, .H = 1, .K = 1, .D = 64, .gap = 8},
    {.name = "one document", .N = 70, .H = 2, .K = 2, .D = 64, .gap = 8},
    {.name = "3 heads a group, 64", .N = 37, .H = 9, .K = 3, .D = 64, .gap = 64},
    {.name = "documents, a head each, 96", .N = 65, .H = 2, .K = 2, .D = 96, .gap = 8, .packed = 1},
    {.name = "documents, 4 heads a group, 128", .N = 150, .H = 4, .K = 1, .D = 128, .gap = 32, .packed = 40},
    {.name = "large scores", .N = 17, .H = 2, .K = 1, .D = 64, .gap = 16, .magnitude = 12},
};
enum { SHAPE_N = sizeof shapes / sizeof *shapes };

/* What finds an engine for backward too, in both of the ways that dq is summed up; and one that does not. */
typedef struct gpu {
    int sm;
    size_t version;
} gpu;
static const gpu gpus[] = {{100, 91900}, {90, 92600}, {90, 91900}};

static const char *device_name = "simt";
static fw_device *ref;

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static fw_device *open_device(const gpu *g) {
    fw_device *d;
    if (strcmp(device_name, "simt") != 0) {
        must(fw_device_create(&d, device_name, NULL));
        return d;
    }
    fw_fake_cudnn_state = (fw_fake_cudnn){.version = g->version};
    must(fw_device_create_simt(&d));
    must(fw_cudnn_library_create((fw_cuda *)(void *)d, 0, g->sm, fw_fake_cudnn_open));
    return d;
}

static fw_device_limits limits_of(const fw_op_shape *s) {
    const int64_t longest_n = s->packed == 0 ? s->N : s->packed == 1 ? 7 : s->packed;
    return (fw_device_limits){.N = s->N,
                              .matmul_dim = s->H * s->D,
                              .H = s->H,
                              .K = s->K,
                              .D = s->D,
                              .attention = {.choice = FW_ATTENTION_CUDNN,
                                            .t = FW_BF16,
                                            .document_n = (s->N + longest_n - 1) / longest_n + 2,
                                            .longest_n = longest_n,
                                            .q_stride = s->H * s->D + s->gap,
                                            .k_stride = s->K * s->D + s->gap,
                                            .v_stride = s->K * s->D + 2 * s->gap,
                                            .dq_stride = fw_op_dq_row(s),
                                            .backward = 1}};
}

static const fw_op_kind *kind_of(const char *op) {
    for (int i = 0; i < fw_op_kind_n; i++)
        if (strcmp(fw_op_kinds[i].op, op) == 0) return &fw_op_kinds[i];
    fail_msg("no operation %s", op);
    return NULL;
}

static void run_case(fw_device *d, const char *op, const fw_op_shape *shape, double *worst) {
    fw_op_case *c;
    fw_op_result judged, first, again;
    double share;
    must(fw_op_case_create(&c, kind_of(op), shape, FW_BF16, ref));
    must(fw_op_case_run(&judged, ref, c, 1, 0));
    fw_op_case_set_bounds(c, &judged);
    must(fw_op_case_run(&first, d, c, 0, 0));
    must(fw_op_case_compare(&share, c, &first, &judged));
    *worst = fmax(*worst, share);
    must(fw_op_case_run(&again, d, c, 0, 0));
    if (memcmp(first.bytes, again.bytes, first.bytes_n) != 0)
        fail_msg("%s, %s: other bits the second time", op, shape->name);
    fw_op_result_fini(&judged);
    fw_op_result_fini(&first);
    fw_op_result_fini(&again);
    fw_op_case_destroy(c);
}

/* Each shape as the one of a run: chosen, planned, frozen, computed. */
static void run_shapes(const gpu *g) {
    double worst = 0;
    for (int i = 0; i < SHAPE_N; i++) {
        fw_device *d = open_device(g);
        const fw_device_limits limits = limits_of(&shapes[i]);
        size_t planned = 0;
        must(fw_device_scratch_bytes(d, &limits, &planned));
        must(fw_device_reserve(d, &limits));
        assert_int_equal(d->allocated_bytes, planned);
        assert_non_null(strstr(d->attention, "cuDNN"));
        if (i == 0) print_message("%s\n", d->attention);
        run_case(d, "attention_forward", &shapes[i], &worst);
        run_case(d, "attention_backward", &shapes[i], &worst);
        assert_int_equal(d->allocated_bytes, planned); /* the plan was all */
        fw_device_destroy(d);
    }
    print_message("largest difference is %.0f %% of its bound\n", 100 * worst);
}

static void test_shapes(void **state) {
    (void)state;
    if (strcmp(device_name, "simt") != 0) {
        run_shapes(NULL);
        return;
    }
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        run_shapes(&gpus[i]);
        /* two calls each of forward and, where it is cuDNN's, of backward */
        assert_int_equal(fw_fake_cudnn_state.run_n, i == 2 ? 2 : 4);
        assert_int_equal(fw_fake_cudnn_state.descriptor_n, 0);
    }
}

/* ---- a whole training run: strides, documents and memory as a model has them */

enum { STEP_N = 6 };

static void train(double *loss, const char *variant, int64_t pack_length, fw_device *d, fw_attention_choice choice) {
    fw_test_lab lab;
    const fw_test_lab_options options = {.variant = variant,
                                         .made_device = d,
                                         .t = FW_BF16,
                                         .mode = FW_ACTIVATIONS_RECOMPUTE,
                                         .micro = pack_length > 0 ? 1 : 4,
                                         .accumulation = 2,
                                         .pack_length = pack_length,
                                         .attention = choice};
    must(fw_test_lab_open(&lab, &options));
    lab.step.max_grad_norm = 1.0;
    for (int64_t step = 0; step < STEP_N; step++) {
        fw_step_result result;
        must(fw_step_run(&lab.step, step + 1, 0, step % fw_batcher_steps_per_epoch(lab.batcher), 1e-2, &result));
        loss[step] = result.loss;
    }
    fw_test_lab_close(&lab);
}

static void test_training(void **state) {
    (void)state;
    if (strcmp(device_name, "simt") != 0) skip();
    static const char *const variants[] = {"llama_tied", "qwen3_tied"}; /* without and with normed q and k */
    for (int i = 0; i < 4; i++) {
        double own[STEP_N], library[STEP_N], worst = 0;
        fw_device *d;
        must(fw_device_create_simt(&d));
        train(own, variants[i / 2], i % 2 * 64, d, FW_ATTENTION_OWN);
        train(library, variants[i / 2], i % 2 * 64, open_device(&gpus[1]), FW_ATTENTION_CUDNN);
        for (int step = 0; step < STEP_N; step++) worst = fmax(worst, fabs(library[step] - own[step]) / own[step]);
        print_message("%s%s: %d calls, losses differ by %.1e\n", variants[i / 2], i % 2 ? ", packed" : "",
                      fw_fake_cudnn_state.run_n, worst);
        assert_true(own[STEP_N - 1] < own[0]);
        assert_true(worst < 1e-2); /* the project's bound for bf16 */
        assert_true(fw_fake_cudnn_state.run_n > STEP_N);
        assert_int_equal(fw_fake_cudnn_state.descriptor_n, 0);
    }
}

static int open_judge(void **state) {
    (void)state;
    return fw_device_create(&ref, "ref", NULL) != FW_OK;
}
static int close_judge(void **state) {
    (void)state;
    fw_device_destroy(ref);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_training)};
    if (argc > 1) device_name = argv[1];
    return cmocka_run_group_tests(tests, open_judge, close_judge);
}

#else

int main(void) {
    printf("skipped: built without cuDNN's headers, or without the C++ compiler that the kernels of GPUs need\n");
    return 77;
}

#endif
