/* The vtable that GPUs and their emulation share (cuda/cuda_ops.c), on the emulated device: memory, scratch and its plan,
 * shapes refused, errors of the runtime turned into a status. What operations compute is in tests/parity. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef FW_HAS_SIMT

#include "base/alloc.h"
#include "device/cuda/cuda_ops.h"
#include "device/simt/simt_device.h"

static fw_device *device(void) {
    fw_device *d;
    assert_int_equal(fw_device_create_simt(&d), FW_OK);
    return d;
}

static void test_memory(void **state) {
    (void)state;
    fw_device *d = device();
    unsigned char *block, back[100], ones[100];
    memset(ones, 1, sizeof ones);
    assert_string_equal(d->name, "simt");
    assert_int_equal(d->on_host, 0); /* callers copy, as they must with a GPU */
    assert_int_equal(fw_device_check_complete(d), FW_OK);
    assert_int_equal(fw_device_alloc(d, (void **)&block, sizeof back, "block"), FW_OK);
    assert_int_equal((uintptr_t)block % 256, 0);
    assert_int_equal(d->allocated_bytes, sizeof back);
    assert_int_equal(fw_copy(d, back, block, sizeof back), FW_OK);
    for (size_t i = 0; i < sizeof back; i++) assert_int_equal(back[i], 0);
    assert_int_equal(fw_copy(d, block, ones, sizeof ones), FW_OK);
    assert_int_equal(fw_zero(d, block + 1, sizeof back - 2), FW_OK);
    assert_int_equal(fw_copy(d, back, block, sizeof back), FW_OK);
    assert_true(back[0] == 1 && back[1] == 0 && back[98] == 0 && back[99] == 1);
    fw_device_free(d, block, sizeof back);
    fw_device_destroy(d);
}

/* What reserve says, dry or not, is what operations within the limits need; without it they take it themselves. */
static void test_scratch(void **state) {
    (void)state;
    const fw_device_limits limits = {.N = 300, .matmul_dim = 96, .H = 4, .K = 2, .D = 64};
    fw_device *d = device();
    fw_cuda *c = (fw_cuda *)d;
    size_t bytes, again;
    void *x, *db;
    assert_int_equal(fw_device_scratch_bytes(d, &limits, &bytes), FW_OK);
    assert_true(bytes > 0 && d->allocated_bytes == 0 && c->launch.scratch == NULL);
    assert_int_equal(fw_device_reserve(d, &limits), FW_OK);
    assert_int_equal(d->allocated_bytes, bytes);
    assert_int_equal(c->launch.scratch_bytes, bytes);
    assert_int_equal(fw_device_scratch_bytes(d, &limits, &again), FW_OK);
    assert_int_equal(again, 0);
    assert_int_equal(fw_device_alloc(d, &x, 300 * 96 * sizeof(float), "x"), FW_OK);
    assert_int_equal(fw_device_alloc(d, &db, 96 * sizeof(float), "db"), FW_OK);
    fw_device_freeze(d, FW_FROZEN_STRICT);
    assert_int_equal(fw_bias_backward(d, db, x, 300, 96, FW_F32), FW_OK);
    double sum = 1;
    assert_int_equal(fw_sum_squares(d, &sum, x, 300 * 96), FW_OK);
    assert_true(sum == 0);
    fw_device_free(d, x, 300 * 96 * sizeof(float));
    fw_device_free(d, db, 96 * sizeof(float));
    assert_int_equal(d->allocated_bytes, bytes);
    fw_device_destroy(d);

    d = device();
    c = (fw_cuda *)d;
    assert_int_equal(fw_device_alloc(d, &x, 4 * sizeof(float), "x"), FW_OK);
    fw_device_freeze(d, FW_FROZEN_STRICT);
    assert_int_equal(fw_sum_squares(d, &sum, x, 4), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "sum_squares"));
    fw_device_freeze(d, FW_NOT_FROZEN);
    assert_int_equal(fw_sum_squares(d, &sum, x, 4), FW_OK);
    assert_int_equal(d->allocated_bytes, 4 * sizeof(float) + c->launch.scratch_bytes);
    fw_device_free(d, x, 4 * sizeof(float));
    fw_device_destroy(d);
}

static void refused(fw_status status, const char *message) {
    assert_int_equal(status, FW_ERR_INTERNAL);
    if (strstr(fw_trail_message(), message) == NULL) fail_msg("%s", fw_trail_message());
}

static void test_shapes(void **state) {
    (void)state;
    fw_device *d = device();
    const fw_adamw_options first = {.step = 0};
    float x[8] = {0};
    int32_t id[8] = {0};
    refused(fw_embedding_forward(d, x, x, id, 2, 4, 1, FW_F16), "embedding_forward cannot take the type");
    refused(fw_embedding_backward(d, x, x, id, -1, 4, 1, FW_F32), "embedding_backward cannot take rows, columns -1, 4");
    refused(fw_rmsnorm_forward(d, x, 3, x, x, 4, x, 1e-5f, 2, 2, 2, FW_F32),
            "rmsnorm_forward cannot take stride, row 3");
    refused(fw_rmsnorm_backward(d, x, 4, x, x, 4, NULL, x, 1, x, x, 2, 2, 2, FW_F32), "cannot take stride, row 1, 4");
    refused(fw_rope(d, x, 4, x, x, id, 1, 1, 3, 1, FW_F32), "rope cannot take the head size");
    refused(fw_rope(d, x, 4, x, x, id, 1, 1, 4, 0, FW_F32), "rope cannot take the direction 0");
    refused(fw_matmul_forward(d, x, x, x, NULL, 1, 0, 2, FW_F32, FW_F32), "matmul_forward cannot take rows, columns");
    refused(fw_matmul_forward(d, x, x, x, NULL, 1, 1, 2, FW_F32, FW_BF16), "types of the input and the result");
    refused(fw_matmul_backward_input(d, x, x, x, 1, 1, 0, FW_F32), "matmul_backward_input cannot take");
    refused(fw_matmul_backward_weight(d, x, x, x, -2, 1, 1, FW_F32), "matmul_backward_weight cannot take");
    refused(fw_bias_backward(d, x, x, 1, 0, FW_F32), "bias_backward cannot take rows, columns 1, 0");
    refused(fw_swiglu_forward(d, x, x, 1, 0, FW_F32), "swiglu_forward cannot take");
    refused(fw_swiglu_backward(d, x, x, x, 1, -4, FW_F32), "swiglu_backward cannot take");
    refused(fw_add(d, x, x, x, -1, FW_F32), "add cannot take");
    refused(fw_attention_forward(d, x, x, x, 4, x, 4, x, 4, NULL, 1, 0, 3, 2, 2, 1, FW_F32), "heads 3, 2");
    refused(fw_attention_forward(d, x, x, x, 4, x, 4, x, 4, NULL, 1, -1, 2, 2, 2, 1, FW_F32), "first query -1");
    refused(fw_attention_backward(d, x, 1, x, x, 4, x, x, x, x, 4, x, 4, x, 4, NULL, 1, 2, 2, 2, 1, FW_F32),
            "attention_backward cannot take stride, row 1, 4");
    refused(fw_attention_forward(d, x, x, x, 999, x, 999, x, 999, NULL, 1, 0, 1, 1, 512, 1, FW_F32),
            "at most 256, 512");
    refused(fw_cross_entropy(d, x, x, x, id, 1, 4, 1, FW_BF16), "cross_entropy cannot take shared memory");
    refused(fw_gather_rows(d, x, x, id, 1, 0, FW_F32), "gather_rows cannot take");
    refused(fw_scatter_rows(d, x, x, id, 3, 2, 1, FW_F32), "scatter_rows cannot take rows, room for rows 3, 2");
    refused(fw_adamw(d, x, x, x, x, NULL, 1, &first, FW_F32), "adamw cannot take the step 0");
    refused(fw_scale(d, x, -1, 1), "scale cannot take");
    refused(fw_cast(d, x, FW_F64, x, FW_F32, 1), "cast cannot take types");
    fw_device_destroy(d);
}

static void test_statuses(void **state) {
    (void)state;
    fw_device *d = device();
    const fw_cuda *c = (const fw_cuda *)d;
    assert_int_equal(fw_cuda_status(c, "rope", 0), FW_OK);
    assert_int_equal(fw_cuda_status(c, "rope", 2), FW_ERR_FIT); /* cudaErrorMemoryAllocation */
    assert_string_equal(fw_trail_message(), "simt: rope: out of memory (error 2)");
    assert_int_equal(fw_cuda_status(c, "rope", 1), FW_ERR_INTERNAL); /* cudaErrorInvalidValue */
    assert_int_equal(fw_cuda_status(c, "rope", 9), FW_ERR_INTERNAL); /* cudaErrorInvalidConfiguration */
    assert_int_equal(fw_cuda_status(c, "rope", 700), FW_ERR_RANK);   /* cudaErrorIllegalAddress */
    fw_device_destroy(d);
}

/* Every allocation fails once: nothing is lost, and the message says whose memory it was. */
static void test_faults(void **state) {
    (void)state;
    const fw_device_limits limits = {.N = 300, .matmul_dim = 96, .H = 4, .K = 2, .D = 64};
    int failed_n = 0;
    for (uint64_t n = 1;; n++) {
        fw_device *d = NULL;
        void *block = NULL;
        fw_alloc_fail_at(n);
        fw_status status = fw_device_create_simt(&d);
        if (status == FW_OK) status = fw_device_reserve(d, &limits);
        if (status == FW_OK) status = fw_device_alloc(d, &block, 1000, "a block");
        fw_alloc_fail_at(0);
        if (d != NULL) fw_device_free(d, block, 1000);
        fw_device_destroy(d);
        if (status == FW_OK) break;
        assert_true(status == FW_ERR_NOMEM || status == FW_ERR_FIT);
        failed_n++;
    }
    assert_true(failed_n >= 4);
}

static void test_too_much(void **state) {
    (void)state;
    fw_device *d = device();
    void *block;
    assert_int_equal(fw_device_alloc(d, &block, SIZE_MAX - 8, "all there is"), FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "all there is"));
    assert_null(block);
    assert_int_equal(d->allocated_bytes, 0);
    fw_device_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_scratch),
                                       cmocka_unit_test(test_shapes), cmocka_unit_test(test_statuses),
                                       cmocka_unit_test(test_faults), cmocka_unit_test(test_too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
