/* device: names, memory and its counting, freezing, and allocations that fail. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const char *const device_names[] = {"ref", "cpu", "auto"};
enum { DEVICE_N = sizeof device_names / sizeof *device_names };

static void test_names(void **state) {
    (void)state;
    fw_device *d;
    for (int i = 0; i < DEVICE_N; i++) {
        assert_int_equal(fw_device_create(&d, device_names[i], NULL), FW_OK);
        assert_true(strlen(d->name) > 0 && strlen(d->description) > 0);
        fw_device_destroy(d);
    }
    assert_int_equal(fw_device_create(&d, "gpu", NULL), FW_ERR_OPTION);
    assert_null(d);
    assert_non_null(strstr(fw_trail_message(), "gpu"));
    fw_device_destroy(NULL);
}

static char warnings[512];
static void collect(fw_log_level level, const char *line, void *context) {
    (void)level;
    (void)context;
    snprintf(warnings, sizeof warnings, "%s", line);
}

static void test_memory(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < DEVICE_N; i++) {
        fw_device *d;
        unsigned char *block[N];
        size_t total = 0;
        assert_int_equal(fw_device_create(&d, device_names[i], NULL), FW_OK);
        for (int j = 0; j < N; j++) {
            assert_int_equal(fw_device_alloc(d, (void **)&block[j], sizes[j], "a block"), FW_OK);
            assert_int_equal((uintptr_t)block[j] % 64, 0);
            for (size_t k = 0; k < sizes[j]; k++) assert_int_equal(block[j][k], 0);
            memset(block[j], 0xff, sizes[j]);
            total += sizes[j];
        }
        assert_int_equal(d->allocated_bytes, total);
        fw_device_freeze(d, FW_FROZEN_STRICT);
        void *more = d;
        assert_int_equal(fw_device_alloc(d, &more, 8, "the late one"), FW_ERR_FIT);
        assert_null(more);
        assert_non_null(strstr(fw_trail_message(), "the late one"));
        fw_device_freeze(d, FW_FROZEN_WARN);
        warnings[0] = 0;
        fw_log_set_sink(collect, NULL, FW_LOG_WARNING);
        assert_int_equal(fw_device_alloc(d, &more, 8, "the later one"), FW_OK);
        fw_log_set_sink(NULL, NULL, FW_LOG_ERROR);
        assert_non_null(strstr(warnings, "the later one takes 8 bytes"));
        fw_device_free(d, more, 8);
        total += 8;
        for (int j = 0; j < N; j++) fw_device_free(d, block[j], sizes[j]);
        fw_device_free(d, NULL, 5);
        assert_int_equal(d->allocated_bytes, 0);
        assert_int_equal(d->peak_bytes, total);
        fw_device_destroy(d);
    }
}

/* Counted in pages: which memory is resident after an allocation, and that nothing is lost by asking for pages. */
static void test_pages(void **state) {
    (void)state;
    enum { BYTES = 32 << 20, SLACK = 4 << 20, PAGE = 4096 };
    fw_threads *threads;
    fw_device *d;
    unsigned char *block;
    assert_int_equal(fw_threads_create(&threads, 3, NULL), FW_OK);
    assert_int_equal(fw_device_create(&d, "cpu", threads), FW_OK);

    uint64_t before = fw_host_resident_bytes();
    if (before == 0) skip(); /* a system that does not tell */
    assert_int_equal(fw_device_alloc(d, (void **)&block, BYTES, "at once"), FW_OK);
    assert_true(fw_host_resident_bytes() >= before + BYTES - SLACK);
    fw_device_free(d, block, BYTES);

    before = fw_host_resident_bytes();
    assert_int_equal(fw_device_alloc_lazy(d, (void **)&block, BYTES, "when written"), FW_OK);
    assert_int_equal(d->allocated_bytes, BYTES);
    assert_true(fw_host_resident_bytes() < before + SLACK);
    block[PAGE] = 1;
    block[BYTES - 1] = 2;
    fw_device_take_pages(d, block + 1, BYTES - 1); /* not at the start of a page */
    assert_true(fw_host_resident_bytes() >= before + BYTES - SLACK);
    for (int i = 0; i < BYTES; i += i == BYTES - PAGE ? PAGE - 1 : PAGE)
        assert_int_equal(block[i], i == PAGE ? 1 : i == BYTES - 1 ? 2 : 0);
    fw_device_take_pages(d, block, 0);
    fw_device_free(d, block, BYTES);
    fw_device_destroy(d);
    fw_threads_destroy(threads);
}

static void test_impossible_size(void **state) {
    (void)state;
    for (int i = 0; i < DEVICE_N; i++) {
        fw_device *d;
        void *block;
        assert_int_equal(fw_device_create(&d, device_names[i], NULL), FW_OK);
        assert_int_equal(fw_device_alloc(d, &block, SIZE_MAX - 8, "everything"), FW_ERR_NOMEM);
        assert_null(block);
        assert_non_null(strstr(fw_trail_message(), "everything"));
        assert_int_equal(d->allocated_bytes, 0);
        fw_device_destroy(d);
    }
}

/* What a plan says a reserve takes is what it takes. */
static void test_scratch_is_told_before(void **state) {
    (void)state;
    const fw_device_limits limits = {.N = 300, .matmul_dim = 576, .H = 9, .K = 3, .D = 64};
    for (int i = 0; i < DEVICE_N; i++) {
        fw_device *d;
        size_t bytes = 1;
        assert_int_equal(fw_device_create(&d, device_names[i], NULL), FW_OK);
        assert_int_equal(fw_device_scratch_bytes(d, &limits, &bytes), FW_OK);
        assert_int_equal(d->allocated_bytes, 0);
        assert_int_equal(fw_device_reserve(d, &limits), FW_OK);
        assert_int_equal(d->allocated_bytes, bytes);
        fw_device_destroy(d);
    }
}

/* Everything that asks the host for memory, with the n-th request failing. */
static fw_status use_device(const char *name) {
    const fw_device_limits limits = {.N = 4, .matmul_dim = 16, .H = 1, .K = 1, .D = 16};
    fw_device *d;
    float *qkv = NULL, *out = NULL;
    enum { HEAD = 64, QKV_BYTES = 4 * HEAD, OUT_BYTES = 4 * (4 * HEAD + 4) }; /* 4 rows of one head of 16 numbers */
    FW_TRY(fw_device_create(&d, name, NULL));
    fw_status status;
    FW_TRY_OR(fw_device_reserve(d, &limits), done);
    FW_TRY_OR(fw_device_alloc(d, (void **)&qkv, QKV_BYTES, "queries"), done);
    FW_TRY_OR(fw_device_alloc(d, (void **)&out, OUT_BYTES, "results"), done);
    float *o = out, *dq = out + HEAD, *dk = out + 2 * HEAD, *dv = out + 3 * HEAD, *lse = out + 4 * HEAD;
    FW_TRY_OR(fw_attention_forward(d, o, lse, qkv, 16, qkv, 16, qkv, 16, NULL, 4, 0, 1, 1, 16, 1, FW_F32), done);
    FW_TRY_OR(fw_attention_backward(d, dq, 16, dk, dv, 16, qkv, o, lse, qkv, 16, qkv, 16, qkv, 16, NULL, 4, 1, 1, 16, 1,
                                    FW_F32),
              done);
done:
    fw_device_free(d, out, OUT_BYTES);
    fw_device_free(d, qkv, QKV_BYTES);
    fw_device_destroy(d);
    return status;
}

static void test_failing_allocations(void **state) {
    (void)state;
    for (int i = 0; i < DEVICE_N; i++) {
        fw_alloc_fail_at(0);
        assert_int_equal(use_device(device_names[i]), FW_OK);
        uint64_t request_n = fw_alloc_count();
        assert_true(request_n > 0);
        for (uint64_t n = 1; n <= request_n; n++) {
            fw_alloc_fail_at(n);
            assert_int_equal(use_device(device_names[i]), FW_ERR_NOMEM);
        }
        fw_alloc_fail_at(0);
    }
}

/* A device without some operation is refused, with that operation's name. */
static void test_missing_operation_is_named(void **state) {
    (void)state;
    fw_device *d;
    assert_int_equal(fw_device_create(&d, "ref", NULL), FW_OK);
    fw_device_ops ops = *d->ops;
    fw_device lame = {.ops = &ops, .name = "lame"};
    assert_int_equal(fw_device_check_complete(&lame), FW_OK);
    ops.swiglu_backward = NULL;
    assert_int_equal(fw_device_check_complete(&lame), FW_ERR_INTERNAL);
    assert_non_null(strstr(fw_trail_message(), "swiglu_backward"));
    fw_device_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_impossible_size),
        cmocka_unit_test(test_scratch_is_told_before),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_missing_operation_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
