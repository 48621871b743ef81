/* The cpu device beyond what its operations compute: scratch memory, failing allocations, rounding, special values. */
#include "base/alloc.h"
#include "device/cpu/cpu.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

static const char *const variants[] = {"base", "avx2", "avx512"};
enum { VARIANT_N = 3 };

static void must(fw_status status) {
    if (status != FW_OK) {
        print_error("%s\n", fw_trail_message());
        fail();
    }
}

static void test_scratch_is_what_was_told(void **state) {
    (void)state;
    const fw_device_limits small = {.N = 64, .matmul_dim = 96, .H = 4, .K = 2, .D = 32};
    const fw_device_limits large = {.N = 4096, .matmul_dim = 8192, .H = 16, .K = 4, .D = 128};
    fw_device *d;
    size_t told_small, told_large, told_again;
    must(fw_device_create(&d, "cpu", NULL));
    assert_int_equal(d->allocated_bytes, 0);
    must(fw_device_scratch_bytes(d, &small, &told_small));
    must(fw_device_scratch_bytes(d, &large, &told_large));
    assert_true(told_small > 0 && told_large > told_small);
    must(fw_device_reserve(d, &small));
    assert_int_equal(d->allocated_bytes, told_small);
    must(fw_device_scratch_bytes(d, &small, &told_again));
    assert_int_equal(told_again, 0); /* it is there already */
    must(fw_device_reserve(d, &large));
    assert_int_equal(d->allocated_bytes, told_large);
    must(fw_device_reserve(d, &small));
    assert_int_equal(d->allocated_bytes, told_large);
    fw_device_destroy(d);
}

/* Attention over more keys than were planned for. */
static void test_frozen_scratch_does_not_grow(void **state) {
    (void)state;
    enum { KEYS = 200000, N = 5, D = 16 };
    const fw_device_limits limits = {.N = 8, .matmul_dim = 16, .H = 1, .K = 1, .D = D};
    fw_device *d;
    float *q, *kv, *o;
    must(fw_device_create(&d, "cpu", NULL));
    must(FW_NEW_ARRAY(q, N * D));
    must(FW_NEW_ARRAY(o, N * D));
    must(FW_NEW_ARRAY(kv, KEYS * D));
    must(fw_device_reserve(d, &limits));
    fw_device_freeze(d, FW_FROZEN_STRICT);
    assert_int_equal(fw_attention_forward(d, o, NULL, q, D, kv, D, kv, D, NULL, N, KEYS - N, 1, 1, D, 1, FW_F32),
                     FW_ERR_FIT);
    assert_non_null(strstr(fw_trail_message(), "scratch"));
    must(fw_attention_forward(d, o, NULL, q, D, kv, D, kv, D, NULL, N, 3, 1, 1, D, 1, FW_F32));
    fw_device_destroy(d);
    must(fw_device_create(&d, "cpu", NULL)); /* not frozen: it grows, and is counted */
    must(fw_attention_forward(d, o, NULL, q, D, kv, D, kv, D, NULL, N, KEYS - N, 1, 1, D, 1, FW_F32));
    assert_true(d->allocated_bytes > KEYS * D * sizeof(float));
    fw_device_destroy(d);
    fw_free(q), fw_free(kv), fw_free(o);
}

/* Creation, scratch and a product, with the n-th allocation failing until none does. */
static fw_status make_and_multiply(fw_cpu_products products, const fw_bf16 *x, float *y) {
    fw_device *d;
    FW_TRY(fw_device_create_cpu_as(&d, NULL, NULL, products));
    fw_status status = fw_matmul_forward(d, y, x, x, NULL, 8, 8, 8, FW_BF16, FW_F32);
    fw_device_destroy(d);
    return status;
}
static void test_failing_allocations(void **state) {
    (void)state;
    const fw_bf16 x[64] = {0x3f80};
    float y[64];
    for (int products = FW_CPU_PRODUCTS_OWN; products <= FW_CPU_PRODUCTS_ONEDNN; products++) {
        fw_status status = FW_ERR_NOMEM;
        for (uint64_t n = 1; status != FW_OK; n++) {
            assert_true(n < 20);
            fw_alloc_fail_at(n);
            status = make_and_multiply((fw_cpu_products)products, x, y);
            fw_alloc_fail_at(0);
            if (status == FW_ERR_OPTION) break; /* oneDNN cannot do it on this CPU */
            assert_true(status == FW_OK || (status == FW_ERR_NOMEM && n < 20));
        }
        if (status == FW_OK) assert_true(y[0] == 1 && y[1] == 0);
    }
}

/* Every upper half of an fp32, with lower halves around the tie. */
static void test_casts_round_as_the_definition(void **state) {
    (void)state;
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { N = 65536 * 6 };
    uint32_t *x;
    fw_bf16 *y;
    must(FW_NEW_ARRAY(x, N));
    must(FW_NEW_ARRAY(y, N));
    for (uint32_t i = 0; i < N; i++) x[i] = (i / 6) << 16 | lower[i % 6];
    for (int v = 0; v < VARIANT_N; v++) {
        fw_device *d;
        if (fw_cpu_variant(variants[v]) == NULL) continue;
        must(fw_device_create_cpu_as(&d, NULL, variants[v], FW_CPU_PRODUCTS_OWN));
        must(fw_cast(d, y, FW_BF16, x, FW_F32, N));
        for (int i = 0; i < N; i++) {
            float value;
            memcpy(&value, &x[i], sizeof value);
            if (y[i] != fw_bf16_from_f32(value)) fail_msg("%s: %08x becomes %04x", variants[v], x[i], y[i]);
        }
        fw_device_destroy(d);
    }
    fw_free(x), fw_free(y);
}

/* silu through swiglu with up = 1, over the range of exp and past both its ends. */
static void test_exponential(void **state) {
    (void)state;
    enum { N = 40001 };
    float *gu, *h;
    must(FW_NEW_ARRAY(gu, 2 * N));
    must(FW_NEW_ARRAY(h, N));
    for (int i = 0; i < N; i++) gu[i] = (float)(i - N / 2) * 0.0055f, gu[N + i] = 1;
    gu[0] = NAN, gu[1] = INFINITY;
    for (int v = 0; v < VARIANT_N; v++) {
        fw_device *d;
        if (fw_cpu_variant(variants[v]) == NULL) continue;
        must(fw_device_create_cpu_as(&d, NULL, variants[v], FW_CPU_PRODUCTS_OWN));
        must(fw_swiglu_forward(d, h, gu, 1, N, FW_F32));
        assert_true(isnan(h[0]) && isinf(h[1]));
        for (int i = 2; i < N; i++) {
            const double x = (double)gu[i], expected = x / (1 + exp(-x));
            if (!(fabs((double)h[i] - expected) <= 4e-7 * fabs(expected) + 1e-36))
                fail_msg("%s: silu(%.9g) is %.9g, not %.9g", variants[v], x, (double)h[i], expected);
        }
        fw_device_destroy(d);
    }
    fw_free(gu), fw_free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scratch_is_what_was_told),
        cmocka_unit_test(test_frozen_scratch_does_not_grow),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_casts_round_as_the_definition),
        cmocka_unit_test(test_exponential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
