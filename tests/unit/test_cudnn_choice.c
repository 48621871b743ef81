/* Who computes attention: what is chosen for which GPU, version and batch, what is said about it, and what is refused. */
#include "support/fake_cudnn.h"
#ifdef FW_HAS_SIMT
#include "device/simt/simt_device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#if defined(FW_HAS_CUDNN) && defined(FW_HAS_SIMT)

enum { N = 64, H = 4, K = 2, D = 64, ROW = (H + 2 * K) * D };

static const fw_device_limits usual = {.N = N,
                                       .matmul_dim = ROW,
                                       .H = H,
                                       .K = K,
                                       .D = D,
                                       .attention = {.t = FW_BF16,
                                                     .document_n = 2,
                                                     .longest_n = 32,
                                                     .q_stride = ROW,
                                                     .k_stride = ROW,
                                                     .v_stride = ROW,
                                                     .dq_stride = ROW,
                                                     .backward = 1}};

static fw_device *device_of(int sm, size_t version) {
    fw_device *d;
    fw_fake_cudnn_state = (fw_fake_cudnn){.version = version};
    assert_int_equal(fw_device_create_simt(&d), FW_OK);
    assert_int_equal(fw_cudnn_library_create((fw_cuda *)(void *)d, 0, sm, fw_fake_cudnn_open), FW_OK);
    return d;
}

static void chosen(int sm, size_t version, const fw_device_limits *limits, const char *expected) {
    fw_device *d = device_of(sm, version);
    if (fw_device_reserve(d, limits) != FW_OK) fail_msg("%s", fw_trail_message());
    if (strcmp(d->attention, expected) != 0) fail_msg("sm_%d, cuDNN %zu: %s", sm, version, d->attention);
    fw_device_destroy(d);
    assert_int_equal(fw_fake_cudnn_state.descriptor_n, 0);
}

static void refused(fw_device *d, const fw_device_limits *limits, const char *reason) {
    size_t bytes;
    assert_int_equal(fw_device_scratch_bytes(d, limits, &bytes), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "--attn_implementation cudnn"));
    if (strstr(fw_trail_message(), reason) == NULL) fail_msg("%s", fw_trail_message());
    assert_int_equal(fw_device_reserve(d, limits), FW_ERR_OPTION);
    fw_device_destroy(d);
}

static void test_auto(void **state) {
    (void)state;
    chosen(90, 92600, &usual, "cuDNN 9.26, engines 2 and 6");
    chosen(90, 91900, &usual,
           "forward cuDNN 9.19, engine 2; backward own kernels (equal bits on sm_90 need cuDNN 9.25)");
    chosen(100, 91900, &usual, "cuDNN 9.19, engines 2 and 5");
    chosen(103, 92600, &usual, "cuDNN 9.26, engines 2 and 5");
    chosen(80, 92600, &usual, "own kernels (the default on sm_80)");
    chosen(89, 92600, &usual, "own kernels (the default on sm_89)");
    chosen(120, 92600, &usual, "own kernels (the default on sm_120)");
}

static void test_forward_alone(void **state) {
    (void)state;
    fw_device_limits limits = usual;
    limits.attention.backward = 0;
    chosen(90, 91900, &limits, "cuDNN 9.19, engine 2");
}

static void test_what_cudnn_does_not_take(void **state) {
    (void)state;
    fw_device_limits limits = usual;
    limits.attention.t = FW_F32;
    chosen(90, 91900, &limits, "own kernels (it computes in bf16 only)");
    limits = usual;
    limits.D = 60;
    chosen(90, 91900, &limits, "own kernels (the head size 60 is no multiple of 8)");
    limits = usual;
    limits.N = 1 << 22;
    limits.attention.longest_n = 1 << 22;
    chosen(90, 91900, &limits, "own kernels (a micro-batch has more than 2^31 elements (4194304 rows of 512))");
    limits = usual;
    limits.attention.document_n = 60;
    limits.attention.longest_n = 33;
    chosen(90, 91900, &limits, "own kernels (up to 60 documents of up to 33 tokens are packed into 64 rows)");
    memset(&limits.attention, 0, sizeof limits.attention); /* generation */
    chosen(90, 91900, &limits, "own kernels");
}

static void test_forced(void **state) {
    (void)state;
    fw_device_limits limits = usual;
    limits.attention.choice = FW_ATTENTION_OWN;
    chosen(100, 91900, &limits, "own kernels");
    limits.attention.choice = FW_ATTENTION_CUDNN;
    limits.attention.document_n = 60; /* slow, but wanted */
    chosen(100, 91900, &limits, "cuDNN 9.19, engines 2 and 5");
    chosen(
        80, 91900, &limits,
        "forward cuDNN 9.19, engine 2; backward own kernels (cuDNN has no engine with equal bits for packed documents "
        "on sm_80)");
}

static void test_refused(void **state) {
    (void)state;
    fw_device_limits limits = usual;
    fw_device *d;
    limits.attention.choice = FW_ATTENTION_CUDNN;
    d = device_of(80, 91900);
    fw_fake_cudnn_state.refuses = 1;
    refused(d, &limits, "cuDNN 9.19 has no engine for this on sm_80");
    d = device_of(90, 91900);
    fw_fake_cudnn_state.workspace_bytes = (size_t)1 << 30; /* scores of all rows and columns, say */
    refused(d, &limits, "asks for 1073741824 bytes of workspace");
    assert_int_equal(fw_device_create_simt(&d), FW_OK);
    refused(d, &limits, "this device has no cuDNN");
    assert_int_equal(fw_device_create(&d, "cpu", NULL), FW_OK);
    refused(d, &limits, "the device is cpu");
    limits.attention.t = FW_F32;
    refused(device_of(90, 91900), &limits, "bf16 only");
}

/* The plan of memory asks first, perhaps for several batches; the last word counts. */
static void test_another_choice(void **state) {
    (void)state;
    fw_device *d = device_of(100, 91900);
    fw_device_limits more = usual;
    size_t small_bytes, bytes;
    assert_int_equal(fw_device_scratch_bytes(d, &usual, &small_bytes), FW_OK);
    more.N = 1 << 16;
    assert_int_equal(fw_device_scratch_bytes(d, &more, &bytes), FW_OK);
    assert_true(bytes > 10 * small_bytes);
    more.attention.choice = FW_ATTENTION_OWN;
    assert_int_equal(fw_device_scratch_bytes(d, &more, &bytes), FW_OK);
    assert_string_equal(d->attention, "own kernels");
    assert_int_equal(fw_device_reserve(d, &usual), FW_OK);
    assert_int_equal(d->allocated_bytes, small_bytes);
    assert_string_equal(d->attention, "cuDNN 9.19, engines 2 and 5");
    fw_device_destroy(d);

    /* What was wanted on an older GPU is not kept where it is only left to auto. */
    d = device_of(80, 91900);
    fw_device_limits limits = usual;
    limits.attention.choice = FW_ATTENTION_CUDNN;
    assert_int_equal(fw_device_scratch_bytes(d, &limits, &bytes), FW_OK);
    assert_int_equal(fw_device_scratch_bytes(d, &usual, &bytes), FW_OK);
    assert_string_equal(d->attention, "own kernels (the default on sm_80)");
    fw_device_destroy(d);
    assert_int_equal(fw_fake_cudnn_state.descriptor_n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_auto),
                                       cmocka_unit_test(test_forward_alone),
                                       cmocka_unit_test(test_what_cudnn_does_not_take),
                                       cmocka_unit_test(test_forced),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_another_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without cuDNN's headers, or without the C++ compiler that the kernels of GPUs need\n");
    return 77;
}

#endif
