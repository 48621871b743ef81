/* Every operation on numbers that can be worked out by hand, on every device: this is what pins the judge itself. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static const char *const device_names[] = {"ref", "cpu"};

static fw_device *d;

/* Numbers in device memory; all are freed together after a test. */
enum { BLOCK_CAP = 16, BLOCK_BYTES = 256 };
static void *block[BLOCK_CAP];
static int block_n;

static void *on_device(const void *host, size_t bytes) {
    assert_true(block_n < BLOCK_CAP && bytes <= BLOCK_BYTES);
    assert_int_equal(fw_device_alloc(d, &block[block_n], BLOCK_BYTES, "numbers"), FW_OK);
    assert_int_equal(fw_copy(d, block[block_n], host, bytes), FW_OK);
    return block[block_n++];
}
#define FLOATS(...) on_device((const float[]){__VA_ARGS__}, sizeof(float[]){__VA_ARGS__})
#define IDS(...) on_device((const int32_t[]){__VA_ARGS__}, sizeof(int32_t[]){__VA_ARGS__})

static void expect(const void *x, const double *right, size_t n) {
    float host[BLOCK_BYTES / sizeof(float)];
    assert_int_equal(fw_copy(d, host, x, n * sizeof *host), FW_OK);
    for (size_t i = 0; i < n; i++) {
        if (fabs((double)host[i] - right[i]) <= 1e-6 * (1 + fabs(right[i]))) continue;
        fail_msg("number %zu is %.9g, not %.9g", i, (double)host[i], right[i]);
    }
}
#define EXPECT(x, ...) expect((x), (const double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double))
#define DO(call) assert_int_equal((call), FW_OK)

static int open_device(void **state) {
    const fw_device_limits limits = {.N = 8, .matmul_dim = 16, .H = 2, .K = 2, .D = 16};
    block_n = 0;
    if (fw_device_create(&d, *state, NULL) != FW_OK) return 1;
    return fw_device_reserve(d, &limits) == FW_OK ? 0 : 1;
}
static int close_device(void **state) {
    (void)state;
    for (int i = 0; i < block_n; i++) fw_device_free(d, block[i], BLOCK_BYTES);
    fw_device_destroy(d);
    return 0;
}

static void test_rows(void **state) {
    (void)state;
    void *w = FLOATS(1, 2, 3, 4, 5, 6), *id = IDS(2, 0, 2), *y = FLOATS(0), *dw = FLOATS(10, 10, 10, 10, 10, 10);
    DO(fw_embedding_forward(d, y, w, id, 3, 2, 3, FW_F32));
    EXPECT(y, 5, 6, 1, 2, 5, 6);
    DO(fw_embedding_backward(d, dw, y, id, 3, 2, 3, FW_F32));
    EXPECT(dw, 11, 12, 10, 10, 20, 22);
    DO(fw_gather_rows(d, y, w, id, 2, 2, FW_F32));
    EXPECT(y, 5, 6, 1, 2);
    DO(fw_scatter_rows(d, dw, y, id, 2, 3, 2, FW_F32));
    EXPECT(dw, 1, 2, 0, 0, 5, 6);
}

/* mean of squares of (1, 7) is 25: rstd = 0.2, xhat = (0.2, 1.4). */
static void test_rmsnorm(void **state) {
    (void)state;
    void *x = FLOATS(1, 7), *w = FLOATS(10, 20), *y = FLOATS(0, 0), *rstd = FLOATS(0), *dy = FLOATS(1, 1);
    void *dw = FLOATS(1, 1), *dx = FLOATS(0, 0), *add = FLOATS(100, 200);
    DO(fw_rmsnorm_forward(d, y, 2, rstd, x, 2, w, 0, 1, 1, 2, FW_F32));
    EXPECT(rstd, 0.2);
    EXPECT(y, 2, 28);
    /* w dy = (10, 20); mean of w dy xhat = (2 + 28) / 2 = 15; 0.2 (10 - 0.2 15), 0.2 (20 - 1.4 15) */
    DO(fw_rmsnorm_backward(d, dx, 2, dw, dy, 2, add, x, 2, w, rstd, 1, 1, 2, FW_F32));
    EXPECT(dx, 101.4, 199.8);
    EXPECT(dw, 1.2, 2.4);
    /* eps counts inside the root: 25 + 75 gives rstd 0.1 */
    DO(fw_rmsnorm_forward(d, y, 2, rstd, x, 2, w, 75, 1, 1, 2, FW_F32));
    EXPECT(rstd, 0.1);
}

/* Position 1 turns by a right angle in pair 0 and not at all in pair 1; pairs are (x0, x2) and (x1, x3). */
static void test_rope(void **state) {
    (void)state;
    void *cosine = FLOATS(1, 1, 0, 1), *sine = FLOATS(0, 0, 1, 0), *position = IDS(1, 0);
    void *x = FLOATS(1, 2, 3, 4, 5, 6, 7, 8);
    DO(fw_rope(d, x, 4, cosine, sine, position, 2, 1, 4, 1, FW_F32));
    EXPECT(x, -3, 2, 1, 4, 5, 6, 7, 8);
    DO(fw_rope(d, x, 4, cosine, sine, position, 2, 1, 4, -1, FW_F32));
    EXPECT(x, 1, 2, 3, 4, 5, 6, 7, 8);
}

static void test_matmul(void **state) {
    (void)state;
    void *x = FLOATS(1, 2, 3, 4), *w = FLOATS(1, 0, 0, 1, 5, 6), *b = FLOATS(10, 20, 30), *y = FLOATS(0),
         *dx = FLOATS(0);
    void *dy = FLOATS(1, 2, 3, 0, 1, 0), *dw = FLOATS(1, 1, 1, 1, 1, 1), *db = FLOATS(1, 1, 1);
    DO(fw_matmul_forward(d, y, x, w, b, 2, 3, 2, FW_F32, FW_F32));
    EXPECT(y, 11, 22, 47, 13, 24, 69);
    DO(fw_matmul_forward(d, y, x, w, NULL, 2, 3, 2, FW_F32, FW_F32));
    EXPECT(y, 1, 2, 17, 3, 4, 39);
    DO(fw_matmul_backward_input(d, dx, dy, w, 2, 3, 2, FW_F32));
    EXPECT(dx, 16, 20, 0, 1);
    DO(fw_matmul_backward_weight(d, dw, dy, x, 2, 3, 2, FW_F32));
    EXPECT(dw, 2, 3, 6, 9, 4, 7);
    DO(fw_bias_backward(d, db, dy, 2, 3, FW_F32));
    EXPECT(db, 2, 4, 4);
}

/* gate = log 3: s = 3/4, silu = 3/4 log 3, silu' = 3/4 (1 + log 3 / 4). */
static void test_swiglu(void **state) {
    (void)state;
    void *gu = FLOATS(logf(3), 0, 8, 5), *h = FLOATS(0, 0), *dh = FLOATS(2, 2), *dgu = FLOATS(0, 0, 0, 0);
    double silu = 0.75 * log(3);
    DO(fw_swiglu_forward(d, h, gu, 1, 2, FW_F32));
    EXPECT(h, 8 * silu, 0);
    DO(fw_swiglu_backward(d, dgu, dh, gu, 1, 2, FW_F32));
    EXPECT(dgu, 16 * 0.75 * (1 + log(3) / 4), 10 * 0.5, 2 * silu, 0);
}

/* One head of 2: keys (log 3, 0) and (0, 0), values (4, 0) and (0, 8), scale 1. Query (1, 0) gives scores log 3 and 0.
 */
static void test_attention(void **state) {
    (void)state;
    void *k = FLOATS(logf(3), 0, 0, 0), *v = FLOATS(4, 0, 0, 8), *q = FLOATS(1, 0, 1, 0), *o = FLOATS(0),
         *lse = FLOATS(0);
    void *first = IDS(0, 1), *d_o = FLOATS(0, 0, 1, 0), *dq = FLOATS(0), *dk = FLOATS(0), *dv = FLOATS(0);
    DO(fw_attention_forward(d, o, lse, q, 2, k, 2, v, 2, NULL, 2, 0, 1, 1, 2, 1, FW_F32));
    EXPECT(o, 4, 0, 3, 2);
    EXPECT(lse, log(3), log(4));
    /* only query 1 counts: p = (3/4, 1/4), do.v = (4, 0), do.o = 3, ds = (3/4, -3/4) */
    DO(fw_attention_backward(d, dq, 2, dk, dv, 2, d_o, o, lse, q, 2, k, 2, v, 2, NULL, 2, 1, 1, 2, 1, FW_F32));
    EXPECT(dq, 0, 0, 0.75 * log(3), 0);
    EXPECT(dk, 0.75, 0, -0.75, 0);
    EXPECT(dv, 0.75, 0, 0.25, 0);
    /* a document of its own for the second token; the same query alone, decoded after one cached token */
    DO(fw_attention_forward(d, o, lse, q, 2, k, 2, v, 2, first, 2, 0, 1, 1, 2, 1, FW_F32));
    EXPECT(o, 4, 0, 0, 8);
    EXPECT(lse, log(3), 0);
    DO(fw_attention_forward(d, o, NULL, q, 2, k, 2, v, 2, NULL, 1, 1, 1, 1, 2, 1, FW_F32));
    EXPECT(o, 3, 2);
}

/* Heads of a group share a key head: of 4 heads, 0 and 1 use the first, 2 and 3 the second. */
static void test_attention_groups(void **state) {
    (void)state;
    void *kv = FLOATS(1, 2), *q = FLOATS(1, 1, 1, 1), *o = FLOATS(0), *lse = FLOATS(0);
    DO(fw_attention_forward(d, o, lse, q, 4, kv, 2, kv, 2, NULL, 1, 0, 4, 2, 1, 0.5f, FW_F32));
    EXPECT(o, 1, 1, 2, 2);
    EXPECT(lse, 0.5, 0.5, 1, 1);
}

static void test_cross_entropy(void **state) {
    (void)state;
    void *logits = FLOATS(0, logf(3), 0, logf(3)), *label = IDS(0, 1), *loss = FLOATS(0, 0), *dlogits = FLOATS(0);
    DO(fw_cross_entropy(d, loss, dlogits, logits, label, 2, 2, 8, FW_F32));
    EXPECT(loss, log(4), log(4) - log(3));
    EXPECT(dlogits, -6, 6, 2, -2);
}

/* In the first step m / (1 - b1) is g' and v / (1 - b2) is g'^2, so the step is the sign of g. What m and v held before
 * must not matter then. */
static void test_adamw(void **state) {
    (void)state;
    const fw_adamw_options o = {.learning_rate = 0.5f,
                                .beta1 = 0.9f,
                                .beta2 = 0.99f,
                                .epsilon = 0,
                                .weight_decay = 0.1f,
                                .grad_scale = 2,
                                .step = 1};
    void *w = FLOATS(10, 10), *m = FLOATS(NAN, 7), *v = FLOATS(INFINITY, -1), *g = FLOATS(3, -4), *copy = FLOATS(0, 0);
    DO(fw_adamw(d, w, m, v, g, copy, 2, &o, FW_F32));
    EXPECT(m, 0.6, -0.8);
    EXPECT(v, 0.36, 0.64);
    EXPECT(w, 10 - 0.5 * (1 + 1), 10 - 0.5 * (1 - 1));
    EXPECT(copy, 9, 10);
    EXPECT(g, 0, 0);
}

static void test_vectors(void **state) {
    (void)state;
    void *a = FLOATS(1, 2, -3), *b = FLOATS(10, 20, 30), *y = FLOATS(9, 9, 9);
    double sum = -1;
    DO(fw_add(d, y, a, b, 3, FW_F32));
    EXPECT(y, 11, 22, 27);
    DO(fw_sum_squares(d, &sum, a, 3));
    assert_true(sum == 14);
    DO(fw_scale(d, y, 2, 0.5f));
    EXPECT(y, 5.5, 11, 27);
    DO(fw_cast(d, b, FW_BF16, a, FW_F32, 3)); /* to bf16 and back */
    DO(fw_cast(d, y, FW_F32, b, FW_BF16, 3));
    EXPECT(y, 1, 2, -3);
    DO(fw_copy(d, y, a, 2 * sizeof(float)));
    DO(fw_zero(d, a, 2 * sizeof(float)));
    EXPECT(y, 1, 2, -3);
    EXPECT(a, 0, 0, -3);
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof device_names / sizeof *device_names; i++) {
        void *name = (void *)device_names[i];
#define ON_DEVICE(test)                                                                                                \
    { #test, test, open_device, close_device, name }
        const struct CMUnitTest tests[] = {
            ON_DEVICE(test_rows),
            ON_DEVICE(test_rmsnorm),
            ON_DEVICE(test_rope),
            ON_DEVICE(test_matmul),
            ON_DEVICE(test_swiglu),
            ON_DEVICE(test_attention),
            ON_DEVICE(test_attention_groups),
            ON_DEVICE(test_cross_entropy),
            ON_DEVICE(test_adamw),
            ON_DEVICE(test_vectors),
        };
        failed += cmocka_run_group_tests_name(device_names[i], tests, NULL, NULL);
    }
    return failed != 0;
}
