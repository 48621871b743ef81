/* finewire plan counts a GPU's scratch without the GPU: the same bytes as its device reserves, with and without cuDNN. */
#include "plan/site.h"
#include "support/fake_cudnn.h"
#ifdef FW_HAS_SIMT
#include "device/simt/simt_device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>

#if defined(FW_HAS_CUDNN) && defined(FW_HAS_SIMT)

static size_t reserved(const fw_device_limits *limits, int sm, size_t version) {
    fw_device *d;
    size_t bytes;
    fw_fake_cudnn_state =
        (fw_fake_cudnn){.version = version, .workspace_bytes = 1 << 20}; /* what the plan allows for */
    assert_int_equal(fw_device_create_simt(&d), FW_OK);
    if (version > 0) assert_int_equal(fw_cudnn_library_create((fw_cuda *)(void *)d, 0, sm, fw_fake_cudnn_open), FW_OK);
    assert_int_equal(fw_device_scratch_bytes(d, limits, &bytes), FW_OK);
    fw_device_destroy(d);
    return bytes;
}

static void check(const fw_device_limits *limits, int sm, size_t version) {
    const fw_gpu_card card = {.name = "emulated", .sm = sm, .sm_n = 3};
    const size_t planned = fw_plan_gpu_scratch_bytes(limits, &card), real = reserved(limits, sm, version);
    if (planned != real)
        fail_msg("%lld rows, %lld heads of %lld, sm_%d, cuDNN %zu: %zu planned, %zu reserved", (long long)limits->N,
                 (long long)limits->H, (long long)limits->D, sm, version, planned, real);
}

static void test_scratch(void **state) {
    (void)state;
    static const struct {
        int64_t N, document_n, H, K, D;
    } shapes[] = {
        {1, 1, 1, 1, 16}, {300, 4, 4, 2, 64}, {4096, 4, 14, 2, 64}, {8192, 2, 28, 4, 128}, {8192, 8, 8, 8, 96}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < 2; backward++) {
            const int64_t row = (shapes[i].H + 2 * shapes[i].K) * shapes[i].D;
            fw_device_limits limits = {.N = shapes[i].N,
                                       .matmul_dim = 4 * row,
                                       .H = shapes[i].H,
                                       .K = shapes[i].K,
                                       .D = shapes[i].D,
                                       .attention = {.t = FW_BF16,
                                                     .document_n = shapes[i].document_n,
                                                     .longest_n = shapes[i].N / shapes[i].document_n,
                                                     .q_stride = row,
                                                     .k_stride = row,
                                                     .v_stride = row,
                                                     .dq_stride = row,
                                                     .backward = backward}};
            check(&limits, 90, 92600);
            check(&limits, 100, 91900);
            check(&limits, 80, 92600);
            limits.attention.t = FW_F32;
            check(&limits, 90, 92600);
            limits.attention = (fw_attention_limits){0};
            check(&limits, 90, 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without cuDNN's headers, or without the C++ compiler that the kernels of GPUs need\n");
    return 77;
}

#endif
