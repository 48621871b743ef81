/* Scratch of a GPU, worked out without one, against what the device of the kernels' emulation reserves,
 * for shapes up to the largest there are. (With cuDNN: test_cudnn_plan_scratch.c.) */
#include "device/simt/simt_device.h"
#include "plan/site.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_scratch(void **state) {
    (void)state;
    static const fw_device_limits limits[] = {
        {.N = 1, .matmul_dim = 64, .H = 1, .K = 1, .D = 64},
        {.N = 17, .matmul_dim = 1000, .H = 4, .K = 2, .D = 32},
        {.N = 24, .matmul_dim = 30000, .H = 4, .K = 4, .D = 16},
        {.N = 300, .matmul_dim = 512, .H = 8, .K = 1, .D = 96},
        {.N = 1024, .matmul_dim = 151936, .H = 14, .K = 2, .D = 64},
        {.N = 4096, .matmul_dim = 152064, .H = 28, .K = 4, .D = 128},
        {.N = 8192, .matmul_dim = 128256, .H = 64, .K = 8, .D = 128},
        {.N = 65536, .matmul_dim = 49152, .H = 9, .K = 3, .D = 64},
        {.N = 100000, .matmul_dim = 2048, .H = 16, .K = 16, .D = 256},
        {.N = 1 << 20, .matmul_dim = 1 << 22, .H = 128, .K = 8, .D = 128},
    };
    const fw_gpu_card card = {.name = "emulated", .sm = 80, .sm_n = 3}; /* as many as the emulation says it has */
    fw_device *d;
    assert_int_equal(fw_device_create_simt(&d), FW_OK);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const fw_device_limits *l = &limits[i];
        size_t bytes;
        assert_int_equal(fw_device_scratch_bytes(d, l, &bytes), FW_OK);
        const size_t planned = fw_plan_gpu_scratch_bytes(l, &card);
        if (planned != bytes) fail_msg("limits %zu: %zu bytes planned, %zu reserved", i, planned, bytes);
    }
    fw_device_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
