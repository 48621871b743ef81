/* Where rounding decides whether a model learns: sums and weights in bf16 would stand still, and a norm's
 * product has a defined order. Exact numbers, on every device. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static const char *const device_names[] = {"ref", "cpu"};
enum { DEVICE_N = sizeof device_names / sizeof *device_names };

static fw_device *d;

static int open_device(void **state) {
    const fw_device_limits limits = {.N = 512, .matmul_dim = 512, .H = 1, .K = 1, .D = 16};
    if (fw_device_create(&d, *state, NULL) != FW_OK) return 1;
    return fw_device_reserve(d, &limits) == FW_OK ? 0 : 1;
}
static int close_device(void **state) {
    (void)state;
    fw_device_destroy(d);
    return 0;
}

/* Arrays of one number, in device memory. */
enum { CAP = 512 };
static void *filled_bf16(size_t n, float value) {
    fw_bf16 host[CAP];
    void *x;
    for (size_t i = 0; i < n; i++) host[i] = fw_bf16_from_f32(value);
    assert_int_equal(fw_device_alloc(d, &x, sizeof host, "numbers"), FW_OK);
    assert_int_equal(fw_copy(d, x, host, n * sizeof *host), FW_OK);
    return x;
}
static void *filled_f32(size_t n, float value) {
    float host[CAP];
    void *x;
    for (size_t i = 0; i < n; i++) host[i] = value;
    assert_int_equal(fw_device_alloc(d, &x, sizeof host, "numbers"), FW_OK);
    assert_int_equal(fw_copy(d, x, host, n * sizeof *host), FW_OK);
    return x;
}
static double read_f32(const void *x) {
    float value;
    assert_int_equal(fw_copy(d, &value, x, sizeof value), FW_OK);
    return (double)value;
}
static fw_bf16 read_bf16(const void *x) {
    fw_bf16 value;
    assert_int_equal(fw_copy(d, &value, x, sizeof value), FW_OK);
    return value;
}
static void release(void *x, size_t element_bytes) { fw_device_free(d, x, CAP * element_bytes); }

/* 1 and 256 times 2^-9 is 1.5; in bf16 each addition to 1 would be lost. */
enum { ROW_N = 256 };

static void test_weight_gradients_add_up(void **state) {
    (void)state;
    int32_t id[ROW_N] = {0};
    void *small = filled_bf16(ROW_N, 0x1p-9f), *one = filled_bf16(ROW_N, 1), *rstd = filled_f32(ROW_N, 1), *id_d;
    assert_int_equal(fw_device_alloc(d, &id_d, sizeof id, "ids"), FW_OK);
    assert_int_equal(fw_copy(d, id_d, id, sizeof id), FW_OK);
    for (int64_t calls = 1; calls <= ROW_N; calls *= 16) { /* all rows in one call, then fewer rows in more calls */
        int64_t N = ROW_N / calls;
        void *dw = filled_f32(1, 1), *db = filled_f32(1, 1), *de = filled_f32(1, 1), *dn = filled_f32(1, 1);
        void *dx = filled_bf16(ROW_N, 0);
        for (int64_t i = 0; i < calls; i++) {
            assert_int_equal(fw_matmul_backward_weight(d, dw, small, one, N, 1, 1, FW_BF16), FW_OK);
            assert_int_equal(fw_bias_backward(d, db, small, N, 1, FW_BF16), FW_OK);
            assert_int_equal(fw_embedding_backward(d, de, small, id_d, N, 1, 1, FW_BF16), FW_OK);
            assert_int_equal(fw_rmsnorm_backward(d, dx, 1, dn, small, 1, NULL, one, 1, one, rstd, N, 1, 1, FW_BF16),
                             FW_OK);
        }
        assert_true(read_f32(dw) == 1.5);
        assert_true(read_f32(db) == 1.5);
        assert_true(read_f32(de) == 1.5);
        assert_true(read_f32(dn) == 1.5);
        release(dw, 4), release(db, 4), release(de, 4), release(dn, 4), release(dx, 2);
    }
    fw_device_free(d, id_d, sizeof id);
    release(small, 2), release(one, 2), release(rstd, 4);
}

static void test_products_add_up(void **state) {
    (void)state;
    fw_bf16 row[ROW_N + 1];
    for (int i = 0; i <= ROW_N; i++) row[i] = fw_bf16_from_f32(i == 0 ? 1 : 0x1p-9f);
    void *x = filled_bf16(CAP, 0), *ones = filled_bf16(CAP, 1), *y = filled_bf16(1, 0);
    assert_int_equal(fw_copy(d, x, row, sizeof row), FW_OK);
    assert_int_equal(fw_matmul_forward(d, y, x, ones, NULL, 1, 1, ROW_N + 1, FW_BF16, FW_BF16), FW_OK);
    assert_int_equal(read_bf16(y), fw_bf16_from_f32(1.5f));
    assert_int_equal(fw_matmul_backward_input(d, y, x, ones, 1, ROW_N + 1, 1, FW_BF16), FW_OK);
    assert_int_equal(read_bf16(y), fw_bf16_from_f32(1.5f));
    release(x, 2), release(ones, 2), release(y, 2);
}

/* 1000 steps of 1e-5 under a constant gradient take w from 1 to 0.990, for every step has size learning_rate; weights
 * kept in bf16 would not move at all. The copy in bf16 is w rounded after every step. */
static void test_adamw_moves_far_by_small_steps(void **state) {
    (void)state;
    enum { NUMBERS = 37 };
    fw_adamw_options o = {.learning_rate = 1e-5f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .grad_scale = 1};
    float gradient[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) gradient[i] = 0.25f;
    void *w = filled_f32(NUMBERS, 1), *m = filled_f32(NUMBERS, 0), *v = filled_f32(NUMBERS, 0),
         *g = filled_f32(NUMBERS, 0);
    void *copy = filled_bf16(NUMBERS, 1);
    for (o.step = 1; o.step <= 1000; o.step++) {
        assert_int_equal(fw_copy(d, g, gradient, sizeof gradient), FW_OK);
        assert_int_equal(fw_adamw(d, w, m, v, g, copy, NUMBERS, &o, FW_BF16), FW_OK);
        assert_int_equal(read_bf16(copy), fw_bf16_from_f32((float)read_f32(w)));
        assert_true(read_f32(g) == 0);
    }
    for (int i = 0; i < NUMBERS; i++) {
        double end = read_f32((float *)w + i);
        /* each step is off by at most half of fp32's spacing below 1, 2^-25, and a few 2^-24 of the step itself */
        assert_true(fabs(end - 0.990) < 1000 * (0x1p-25 + 1e-5 * 0x1p-20));
    }
    release(w, 4), release(m, 4), release(v, 4), release(g, 4), release(copy, 2);
}

/* x * rstd becomes bf16 before w is multiplied. For most weights both orders give the same bf16 number: the first
 * weight for which they do not is taken. */
static void test_norm_rounds_before_its_weight(void **state) {
    (void)state;
    enum { C = 2 };
    float rstd = 1 / sqrtf(2.5f), w = 1;
    fw_bf16 early = 0, late = 0;
    for (int i = 0; i < 128 && early == late; i++) {
        w = 1 + (float)i / 128; /* exact in bf16 */
        early = fw_bf16_from_f32(w * fw_bf16_to_f32(fw_bf16_from_f32(rstd)));
        late = fw_bf16_from_f32(w * rstd);
    }
    assert_int_not_equal(early, late);
    const fw_bf16 x[C] = {fw_bf16_from_f32(1), fw_bf16_from_f32(2)};
    void *x_d = filled_bf16(C, 0), *w_d = filled_bf16(C, w), *y = filled_bf16(C, 0), *rstd_d = filled_f32(1, 0);
    assert_int_equal(fw_copy(d, x_d, x, sizeof x), FW_OK);
    assert_int_equal(fw_rmsnorm_forward(d, y, C, rstd_d, x_d, C, w_d, 0, 1, 1, C, FW_BF16), FW_OK);
    assert_int_equal(read_bf16(y), early);
    release(x_d, 2), release(w_d, 2), release(y, 2), release(rstd_d, 4);
}

int main(void) {
    int failed = 0;
    for (int i = 0; i < DEVICE_N; i++) {
        void *name = (void *)device_names[i];
#define ON_DEVICE(test)                                                                                                \
    { #test, test, open_device, close_device, name }
        const struct CMUnitTest tests[] = {
            ON_DEVICE(test_weight_gradients_add_up),
            ON_DEVICE(test_products_add_up),
            ON_DEVICE(test_adamw_moves_far_by_small_steps),
            ON_DEVICE(test_norm_rounds_before_its_weight),
        };
        failed += cmocka_run_group_tests_name(device_names[i], tests, NULL, NULL);
    }
    return failed != 0;
}
