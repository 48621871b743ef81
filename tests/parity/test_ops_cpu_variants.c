/* The cpu device picks its kernels by the CPU it runs on; here every variant that this CPU can run, and oneDNN's
 * bf16 products, compute the whole table of cases, and products large enough to need every loop of the blocking. */
#include "base/alloc.h"
#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "support/op_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

typedef struct variant {
    const char *name;
    fw_cpu_products products;
} variant;

static fw_threads *pool;

static void must(fw_status status) {
    if (status != FW_OK) {
        print_error("%s\n", fw_trail_message());
        fail();
    }
}

/* NULL when this CPU does not run it. */
static fw_device *open_device(const variant *v) {
    fw_device *d;
    if (fw_cpu_variant(v->name) == NULL) {
        print_message("this CPU does not run the variant %s: not tested here\n", v->name);
        return NULL;
    }
    fw_status status = fw_device_create_cpu_as(&d, pool, v->name, v->products);
    if (status == FW_ERR_OPTION) {
        print_message("%s: not tested here\n", fw_trail_message());
        return NULL;
    }
    must(status);
    print_message("%s\n", d->description);
    return d;
}

static void test_all_operations(void **state) {
    fw_device *ref, *d = open_device(*state);
    if (d == NULL) return;
    must(fw_device_create(&ref, "ref", NULL));
    fw_device_limits limits;
    fw_op_cases_limits(&limits);
    must(fw_device_reserve(d, &limits));
    const size_t scratch = ((fw_cpu *)d)->scratch_n;
    for (int i = 0; i < fw_op_kind_n; i++) {
        const fw_op_kind *kind = &fw_op_kinds[i];
        for (const fw_op_shape *s = kind->shapes; s->name != NULL; s++) {
            for (int type = 0; type < 2; type++) {
                fw_op_case *c;
                fw_op_result judged, tried;
                double share;
                must(fw_op_case_create(&c, kind, s, type == 0 ? FW_F32 : FW_BF16, ref));
                must(fw_op_case_run(&judged, ref, c, 1, 0));
                fw_op_case_set_bounds(c, &judged);
                must(fw_op_case_run(&tried, d, c, 0, type));
                must(fw_op_case_compare(&share, c, &tried, &judged));
                fw_op_result_fini(&tried);
                fw_op_result_fini(&judged);
                fw_op_case_destroy(c);
            }
        }
    }
    assert_int_equal(((fw_cpu *)d)->scratch_n, scratch); /* reserve told the truth */
    fw_device_destroy(d);
    fw_device_destroy(ref);
}

/* ---- products of several blocks ---- */

enum { N = 251, O = 803, I = 1219 };

static fw_bf16 *x, *w, *dy;
static float *result, *start;

static void fill(fw_bf16 *to, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++) to[i] = fw_bf16_from_f32((float)fw_rng_uniform(7, key, (uint64_t)i) - 0.5f);
}

static double at(const fw_bf16 *a, int64_t i) { return (double)fw_bf16_to_f32(a[i]); }

/* Every few elements of a result against an fp64 sum; `size` bounds the sum of absolute products. */
static void check(const char *what, int64_t row_n, int64_t column_n, int64_t sum_n, const fw_bf16 *a, int64_t a_row,
                  int64_t a_k, const fw_bf16 *b, int64_t b_k, int64_t b_col, int rounded, const float *before) {
    for (int64_t r = 0; r < row_n; r += r < row_n - 20 ? 13 : 1) {
        for (int64_t c = 0; c < column_n; c += c < column_n - 40 ? 17 : 1) {
            double sum = before != NULL ? (double)before[r * column_n + c] : 0, size = fabs(sum);
            for (int64_t k = 0; k < sum_n; k++) {
                double product = at(a, r * a_row + k * a_k) * at(b, k * b_k + c * b_col);
                sum += product, size += fabs(product);
            }
            double bound = fw_op_sum_error(sum_n, size);
            double got = (double)result[r * column_n + c];
            if (rounded) {
                got = at((const fw_bf16 *)result, r * column_n + c);
                bound += fw_op_half_ulp(FW_BF16, fabs(sum) + bound);
            }
            if (!(fabs(got - sum) <= bound))
                fail_msg("%s: row %d, column %d is %g, not %g +- %g", what, (int)r, (int)c, got, sum, bound);
        }
    }
}

static void test_large_products(void **state) {
    fw_device *d = open_device(*state);
    if (d == NULL) return;
    must(fw_matmul_forward(d, result, x, w, NULL, N, O, I, FW_BF16, FW_F32));
    check("forward, fp32", N, O, I, x, I, 1, w, 1, I, 0, NULL);
    must(fw_matmul_forward(d, result, x, w, NULL, N, O, I, FW_BF16, FW_BF16));
    check("forward", N, O, I, x, I, 1, w, 1, I, 1, NULL);
    must(fw_matmul_forward(d, result, x, w, NULL, 3, O, I, FW_BF16, FW_F32));
    check("forward, three rows", 3, O, I, x, I, 1, w, 1, I, 0, NULL);
    must(fw_matmul_backward_input(d, result, dy, w, N, O, I, FW_BF16));
    check("backward, input", N, I, O, dy, O, 1, w, I, 1, 1, NULL);
    for (int64_t i = 0; i < O * I; i++) result[i] = start[i] = (float)(i % 7);
    must(fw_matmul_backward_weight(d, result, dy, x, N, O, I, FW_BF16));
    check("backward, weight", O, I, N, dy, 1, O, x, I, 1, 0, start);
    fw_device_destroy(d);
}

static void test_unknown_variant(void **state) {
    (void)state;
    fw_device *d;
    assert_int_equal(fw_device_create_cpu_as(&d, NULL, "avx9", FW_CPU_PRODUCTS_OWN), FW_ERR_OPTION);
    assert_null(d);
}

static int open_all(void **state) {
    (void)state;
    if (fw_threads_create(&pool, 2, NULL) != FW_OK) return 1;
    if (FW_NEW_ARRAY(x, N * I) != FW_OK || FW_NEW_ARRAY(w, O * I) != FW_OK || FW_NEW_ARRAY(dy, N * O) != FW_OK)
        return 1;
    if (FW_NEW_ARRAY(result, O * I) != FW_OK || FW_NEW_ARRAY(start, O * I) != FW_OK) return 1;
    fill(x, N * I, 1), fill(w, O * I, 2), fill(dy, N * O, 3);
    return 0;
}
static int close_all(void **state) {
    (void)state;
    fw_free(x), fw_free(w), fw_free(dy), fw_free(result), fw_free(start);
    fw_threads_destroy(pool);
    return 0;
}

int main(void) {
    static variant base = {"base", FW_CPU_PRODUCTS_OWN}, avx2 = {"avx2", FW_CPU_PRODUCTS_OWN},
                   avx512 = {"avx512", FW_CPU_PRODUCTS_OWN}, onednn = {NULL, FW_CPU_PRODUCTS_ONEDNN};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_all_operations, &base),
        cmocka_unit_test_prestate(test_large_products, &base),
        cmocka_unit_test_prestate(test_all_operations, &avx2),
        cmocka_unit_test_prestate(test_large_products, &avx2),
        cmocka_unit_test_prestate(test_all_operations, &avx512),
        cmocka_unit_test_prestate(test_large_products, &avx512),
        cmocka_unit_test_prestate(test_all_operations, &onednn),
        cmocka_unit_test_prestate(test_large_products, &onednn),
        cmocka_unit_test(test_unknown_variant),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
