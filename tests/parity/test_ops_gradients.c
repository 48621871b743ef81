/* Every backward of the reference device against central differences in fp64 (t = FW_F64: the same source as the
 * fp32 and bf16 forms, nothing rounded; gradients and statistics are double too).
 *
 * An operation y = f(x) becomes the scalar L = sum dy * f(x) with random dy, whose gradient is what the backward
 * returns for that dy. Inputs are of size 1, so with step h = 2^-14 the central difference is wrong by
 * h^2 / 6 * L''' (about 1e-9 times L''') and by 2^-53 * |L| / h (about 1e-10): 1e-7 leaves room for L''' of 100
 * and is far below what a wrong term would make. */
#include "base/rng.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double STEP = 0x1p-14, TOLERANCE = 1e-7;

static fw_device *ref;

static int open_ref(void **state) {
    (void)state;
    return fw_device_create(&ref, "ref", NULL) == FW_OK ? 0 : 1;
}
static int close_ref(void **state) {
    (void)state;
    fw_device_destroy(ref);
    return 0;
}

static void fill(double *x, size_t n, uint64_t stream) {
    for (size_t i = 0; i < n; i++) x[i] = fw_rng_normal(11, stream, i);
}
#define FILL(array, stream) fill((array), sizeof(array) / sizeof *(array), (stream))
#define COUNT(array) (sizeof(array) / sizeof *(array))

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* `gradient` of `loss`, for every x[i], against its central difference. */
static void check(const char *what, double (*loss)(void), double *x, size_t n, const double *gradient) {
    for (size_t i = 0; i < n; i++) {
        double at = x[i];
        x[i] = at + STEP;
        double above = loss();
        x[i] = at - STEP;
        double below = loss();
        x[i] = at;
        double difference = (above - below) / (2 * STEP);
        if (!(fabs(difference - gradient[i]) <= TOLERANCE * (1 + fabs(difference)))) {
            print_error("%s[%zu]: backward says %.12g, the central difference %.12g\n", what, i, gradient[i],
                        difference);
            fail();
        }
    }
}

/* --- embedding: a repeated id sums its rows; what was in dw stays --- */
enum { EMB_N = 4, EMB_C = 3, EMB_V = 5 };
static const int32_t emb_id[EMB_N] = {3, 0, 3, 4};
static double emb_w[EMB_V * EMB_C], emb_dy[EMB_N * EMB_C];
static double embedding_loss(void) {
    double y[EMB_N * EMB_C];
    assert_int_equal(fw_embedding_forward(ref, y, emb_w, emb_id, EMB_N, EMB_C, EMB_V, FW_F64), FW_OK);
    return dot(y, emb_dy, COUNT(y));
}
static void test_embedding_backward(void **state) {
    (void)state;
    double dw[EMB_V * EMB_C], before[EMB_V * EMB_C];
    FILL(emb_w, 1);
    FILL(emb_dy, 2);
    FILL(before, 3);
    memcpy(dw, before, sizeof dw);
    assert_int_equal(fw_embedding_backward(ref, (void *)dw, emb_dy, emb_id, EMB_N, EMB_C, EMB_V, FW_F64), FW_OK);
    for (size_t i = 0; i < COUNT(dw); i++) dw[i] -= before[i];
    check("embedding dw", embedding_loss, emb_w, COUNT(emb_w), dw);
}

/* --- rmsnorm: two groups a row, gaps between rows, dx_add --- */
enum { NORM_N = 3, NORM_G = 2, NORM_C = 5, NORM_XS = 13, NORM_YS = 11 };
static double norm_x[NORM_N * NORM_XS], norm_w[NORM_C], norm_dy[NORM_N * NORM_YS], norm_rstd[NORM_N * NORM_G];
static const float norm_eps = 0.01f;
static double rmsnorm_loss(void) {
    double y[NORM_N * NORM_YS] = {0};
    assert_int_equal(fw_rmsnorm_forward(ref, y, NORM_YS, (void *)norm_rstd, norm_x, NORM_XS, norm_w, norm_eps, NORM_N,
                                        NORM_G, NORM_C, FW_F64),
                     FW_OK);
    return dot(y, norm_dy, COUNT(y));
}
static void test_rmsnorm_backward(void **state) {
    (void)state;
    double dx[NORM_N * NORM_XS], add[NORM_N * NORM_XS], dw[NORM_C], dw_before[NORM_C];
    FILL(norm_x, 4);
    FILL(norm_w, 5);
    FILL(norm_dy, 6);
    FILL(add, 7);
    FILL(dw_before, 8);
    memcpy(dw, dw_before, sizeof dw);
    memcpy(dx, add, sizeof dx);
    rmsnorm_loss(); /* fills rstd */
    assert_int_equal(fw_rmsnorm_backward(ref, dx, NORM_XS, (void *)dw, norm_dy, NORM_YS, dx, norm_x, NORM_XS, norm_w,
                                         (void *)norm_rstd, NORM_N, NORM_G, NORM_C, FW_F64),
                     FW_OK);
    for (size_t i = 0; i < COUNT(dx); i++) dx[i] -= add[i]; /* leaves 0 in the gaps, as the differences do */
    for (size_t i = 0; i < COUNT(dw); i++) dw[i] -= dw_before[i];
    check("rmsnorm dx", rmsnorm_loss, norm_x, COUNT(norm_x), dx);
    check("rmsnorm dw", rmsnorm_loss, norm_w, COUNT(norm_w), dw);
}

/* --- rope: direction -1 is the gradient --- */
enum { ROPE_N = 3, ROPE_G = 2, ROPE_D = 6, ROPE_S = 14, ROPE_P = 9 };
static const int32_t rope_position[ROPE_N] = {0, 8, 5};
static double rope_x[ROPE_N * ROPE_S], rope_dy[ROPE_N * ROPE_S];
static float rope_cos[ROPE_P * ROPE_D / 2], rope_sin[ROPE_P * ROPE_D / 2];
static double rope_loss(void) {
    double y[ROPE_N * ROPE_S];
    memcpy(y, rope_x, sizeof y);
    assert_int_equal(fw_rope(ref, y, ROPE_S, rope_cos, rope_sin, rope_position, ROPE_N, ROPE_G, ROPE_D, 1, FW_F64),
                     FW_OK);
    return dot(y, rope_dy, COUNT(y));
}
static void test_rope_backward(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(rope_cos); i++) {
        rope_cos[i] = (float)cos(0.7 * (double)i);
        rope_sin[i] = (float)sin(0.7 * (double)i);
    }
    FILL(rope_x, 9);
    FILL(rope_dy, 10);
    double dx[ROPE_N * ROPE_S];
    memcpy(dx, rope_dy, sizeof dx);
    assert_int_equal(fw_rope(ref, dx, ROPE_S, rope_cos, rope_sin, rope_position, ROPE_N, ROPE_G, ROPE_D, -1, FW_F64),
                     FW_OK);
    check("rope dx", rope_loss, rope_x, COUNT(rope_x), dx);
}

/* --- matmul and its bias --- */
enum { MM_N = 3, MM_O = 4, MM_I = 5 };
static double mm_x[MM_N * MM_I], mm_w[MM_O * MM_I], mm_b[MM_O], mm_dy[MM_N * MM_O];
static double matmul_loss(void) {
    double y[MM_N * MM_O];
    assert_int_equal(fw_matmul_forward(ref, y, mm_x, mm_w, mm_b, MM_N, MM_O, MM_I, FW_F64, FW_F64), FW_OK);
    return dot(y, mm_dy, COUNT(y));
}
static void fill_matmul(void) {
    FILL(mm_x, 11);
    FILL(mm_w, 12);
    FILL(mm_b, 13);
    FILL(mm_dy, 14);
}
static void test_matmul_backward_input(void **state) {
    (void)state;
    double dx[MM_N * MM_I];
    fill_matmul();
    assert_int_equal(fw_matmul_backward_input(ref, dx, mm_dy, mm_w, MM_N, MM_O, MM_I, FW_F64), FW_OK);
    check("matmul dx", matmul_loss, mm_x, COUNT(mm_x), dx);
}
static void test_matmul_backward_weight(void **state) {
    (void)state;
    double dw[MM_O * MM_I], before[MM_O * MM_I];
    fill_matmul();
    FILL(before, 15);
    memcpy(dw, before, sizeof dw);
    assert_int_equal(fw_matmul_backward_weight(ref, (void *)dw, mm_dy, mm_x, MM_N, MM_O, MM_I, FW_F64), FW_OK);
    for (size_t i = 0; i < COUNT(dw); i++) dw[i] -= before[i];
    check("matmul dw", matmul_loss, mm_w, COUNT(mm_w), dw);
}
static void test_bias_backward(void **state) {
    (void)state;
    double db[MM_O] = {1, 2, 3, 4};
    fill_matmul();
    assert_int_equal(fw_bias_backward(ref, (void *)db, mm_dy, MM_N, MM_O, FW_F64), FW_OK);
    for (size_t i = 0; i < COUNT(db); i++) db[i] -= (double)i + 1;
    check("bias db", matmul_loss, mm_b, COUNT(mm_b), db);
}

/* --- swiglu: the gradient takes the place of gu --- */
enum { GLU_N = 3, GLU_F = 5 };
static double glu_gu[GLU_N * 2 * GLU_F], glu_dh[GLU_N * GLU_F];
static double swiglu_loss(void) {
    double h[GLU_N * GLU_F];
    assert_int_equal(fw_swiglu_forward(ref, h, glu_gu, GLU_N, GLU_F, FW_F64), FW_OK);
    return dot(h, glu_dh, COUNT(h));
}
static void test_swiglu_backward(void **state) {
    (void)state;
    double dgu[GLU_N * 2 * GLU_F];
    FILL(glu_gu, 16);
    FILL(glu_dh, 17);
    memcpy(dgu, glu_gu, sizeof dgu);
    assert_int_equal(fw_swiglu_backward(ref, dgu, glu_dh, dgu, GLU_N, GLU_F, FW_F64), FW_OK);
    check("swiglu dgu", swiglu_loss, glu_gu, COUNT(glu_gu), dgu);
}

/* --- attention: 6 query heads on 2 key heads, packed q|k|v rows, three documents --- */
enum { ATT_N = 6, ATT_H = 6, ATT_K = 2, ATT_D = 3, ATT_S = (ATT_H + 2 * ATT_K) * ATT_D + 1 };
static const int32_t att_documents[ATT_N] = {0, 0, 2, 2, 2, 5};
static const int32_t *att_first;
static double att_qkv[ATT_N * ATT_S], att_do[ATT_N * ATT_H * ATT_D], att_o[ATT_N * ATT_H * ATT_D],
    att_lse[ATT_N * ATT_H];
static const float att_scale = 0.6f;
static double attention_loss(void) {
    const double *k = att_qkv + ATT_H * ATT_D, *v = k + ATT_K * ATT_D;
    assert_int_equal(fw_attention_forward(ref, att_o, (void *)att_lse, att_qkv, ATT_S, k, ATT_S, v, ATT_S, att_first,
                                          ATT_N, 0, ATT_H, ATT_K, ATT_D, att_scale, FW_F64),
                     FW_OK);
    return dot(att_o, att_do, COUNT(att_o));
}
static void test_attention_backward(void **state) {
    (void)state;
    FILL(att_qkv, 18);
    FILL(att_do, 19);
    for (int packed = 0; packed < 2; packed++) {
        att_first = packed ? att_documents : NULL;
        double dqkv[ATT_N * ATT_S] = {0};
        const double *k = att_qkv + ATT_H * ATT_D, *v = k + ATT_K * ATT_D;
        double *dk = dqkv + ATT_H * ATT_D, *dv = dk + ATT_K * ATT_D;
        attention_loss(); /* fills o and lse */
        assert_int_equal(fw_attention_backward(ref, dqkv, ATT_S, dk, dv, ATT_S, att_do, att_o, (void *)att_lse, att_qkv,
                                               ATT_S, k, ATT_S, v, ATT_S, att_first, ATT_N, ATT_H, ATT_K, ATT_D,
                                               att_scale, FW_F64),
                         FW_OK);
        check(packed ? "attention dqkv, packed" : "attention dqkv", attention_loss, att_qkv, COUNT(att_qkv), dqkv);
    }
}

/* --- cross entropy: L = scale * sum of losses --- */
enum { CE_N = 3, CE_V = 7 };
static const int32_t ce_label[CE_N] = {6, 0, 3};
static double ce_logits[CE_N * CE_V];
static const float ce_scale = 0.25f;
static double cross_entropy_loss(void) {
    double loss[CE_N], sum = 0;
    assert_int_equal(
        fw_cross_entropy(ref, (void *)loss, NULL, (void *)ce_logits, ce_label, CE_N, CE_V, ce_scale, FW_F64), FW_OK);
    for (int n = 0; n < CE_N; n++) sum += loss[n];
    return (double)ce_scale * sum;
}
static void test_cross_entropy(void **state) {
    (void)state;
    double loss[CE_N], dlogits[CE_N * CE_V];
    FILL(ce_logits, 20);
    assert_int_equal(
        fw_cross_entropy(ref, (void *)loss, dlogits, (void *)ce_logits, ce_label, CE_N, CE_V, ce_scale, FW_F64), FW_OK);
    check("cross entropy dlogits", cross_entropy_loss, ce_logits, COUNT(ce_logits), dlogits);
}

/* --- gather: its gradient is the scatter --- */
enum { ROW_N = 5, ROW_n = 3, ROW_C = 2 };
static const int32_t row_index[ROW_n] = {4, 0, 2};
static double row_x[ROW_N * ROW_C], row_dy[ROW_n * ROW_C];
static double gather_loss(void) {
    double y[ROW_n * ROW_C];
    assert_int_equal(fw_gather_rows(ref, y, row_x, row_index, ROW_n, ROW_C, FW_F64), FW_OK);
    return dot(y, row_dy, COUNT(y));
}
static void test_scatter_rows(void **state) {
    (void)state;
    double dx[ROW_N * ROW_C];
    FILL(row_x, 21);
    FILL(row_dy, 22);
    FILL(dx, 23); /* must be cleared */
    assert_int_equal(fw_scatter_rows(ref, dx, row_dy, row_index, ROW_n, ROW_N, ROW_C, FW_F64), FW_OK);
    check("gather dx", gather_loss, row_x, COUNT(row_x), dx);
}

/* --- a LoRA module: y = y0 + scale (x A^T) B^T, in rows with gaps --- */
enum { LORA_N = 4, LORA_O = 5, LORA_I = 6, LORA_R = 3, LORA_YS = 7 };
static double lora_x[LORA_N * LORA_I], lora_a[LORA_R * LORA_I], lora_b[LORA_O * LORA_R], lora_u[LORA_N * LORA_R],
    lora_dy[LORA_N * LORA_YS];
static const float lora_scale = 1.5f;
static double lora_expand_loss(void) {
    double y[LORA_N * LORA_YS] = {0};
    assert_int_equal(fw_lora_expand(ref, y, LORA_YS, lora_u, lora_b, lora_scale, LORA_N, LORA_O, LORA_R, FW_F64),
                     FW_OK);
    return dot(y, lora_dy, COUNT(y));
}
static double lora_loss(void) {
    assert_int_equal(fw_matmul_forward(ref, lora_u, lora_x, lora_a, NULL, LORA_N, LORA_R, LORA_I, FW_F64, FW_F64),
                     FW_OK);
    return lora_expand_loss();
}
static void fill_lora(void) {
    FILL(lora_x, 24);
    FILL(lora_a, 25);
    FILL(lora_b, 26);
    FILL(lora_dy, 27);
    lora_loss(); /* fills u */
}
static void test_lora_backward_b(void **state) {
    (void)state;
    double db[LORA_O * LORA_R], before[LORA_O * LORA_R];
    fill_lora();
    FILL(before, 28);
    memcpy(db, before, sizeof db);
    assert_int_equal(
        fw_lora_backward_b(ref, (void *)db, lora_dy, LORA_YS, lora_u, lora_scale, LORA_N, LORA_O, LORA_R, FW_F64),
        FW_OK);
    for (size_t i = 0; i < COUNT(db); i++) db[i] -= before[i];
    check("lora db", lora_expand_loss, lora_b, COUNT(lora_b), db);
}
static void test_lora_reduce(void **state) {
    (void)state;
    double du[LORA_N * LORA_R];
    fill_lora();
    assert_int_equal(fw_lora_reduce(ref, du, lora_dy, LORA_YS, lora_b, lora_scale, LORA_N, LORA_O, LORA_R, FW_F64),
                     FW_OK);
    check("lora du", lora_expand_loss, lora_u, COUNT(lora_u), du);
}
static void test_lora_backward_input(void **state) {
    (void)state;
    double du[LORA_N * LORA_R], dx[LORA_N * LORA_I], before[LORA_N * LORA_I];
    fill_lora();
    FILL(before, 29);
    memcpy(dx, before, sizeof dx);
    assert_int_equal(fw_lora_reduce(ref, du, lora_dy, LORA_YS, lora_b, lora_scale, LORA_N, LORA_O, LORA_R, FW_F64),
                     FW_OK);
    assert_int_equal(fw_lora_backward_input(ref, dx, du, lora_a, LORA_N, LORA_I, LORA_R, FW_F64), FW_OK);
    for (size_t i = 0; i < COUNT(dx); i++) dx[i] -= before[i];
    check("lora dx", lora_loss, lora_x, COUNT(lora_x), dx);
}

/* --- dropout: the same call turns dy to dx, here added to what is there --- */
enum { DROP_N = 5, DROP_C = 9 };
static const uint64_t drop_key[DROP_N] = {1, 2, 3, UINT64_MAX, 0};
static double drop_x[DROP_N * DROP_C], drop_dy[DROP_N * DROP_C];
static double dropout_loss(void) {
    double y[DROP_N * DROP_C];
    assert_int_equal(fw_dropout(ref, y, drop_x, 0, drop_key, 3, 0.4f, DROP_N, DROP_C, FW_F64), FW_OK);
    return dot(y, drop_dy, COUNT(y));
}
static void test_dropout(void **state) {
    (void)state;
    double dx[DROP_N * DROP_C], before[DROP_N * DROP_C];
    FILL(drop_x, 30);
    FILL(drop_dy, 31);
    FILL(before, 32);
    memcpy(dx, before, sizeof dx);
    assert_int_equal(fw_dropout(ref, dx, drop_dy, 1, drop_key, 3, 0.4f, DROP_N, DROP_C, FW_F64), FW_OK);
    for (size_t i = 0; i < COUNT(dx); i++) dx[i] -= before[i];
    check("dropout dx", dropout_loss, drop_x, COUNT(drop_x), dx);
}

/* --- DoRA: y = z m / norm + b --- */
enum { DORA_N = 4, DORA_O = 5, DORA_S = 8 };
static double dora_z[DORA_N * DORA_S], dora_m[DORA_O], dora_bias[DORA_O], dora_dy[DORA_N * DORA_S];
static double dora_norm[DORA_O] = {0.5, 1.25, 2, 3.5, 0.75};
static double dora_loss(void) {
    double y[DORA_N * DORA_S] = {0};
    assert_int_equal(fw_dora_scale(ref, y, DORA_S, 0, dora_z, DORA_S, 1, dora_m, (void *)dora_norm, dora_bias, DORA_N,
                                   DORA_O, FW_F64),
                     FW_OK);
    return dot(y, dora_dy, COUNT(y));
}
static void fill_dora(void) {
    FILL(dora_z, 33);
    FILL(dora_m, 34);
    FILL(dora_bias, 35);
    FILL(dora_dy, 36);
}
static void test_dora_backward_m(void **state) {
    (void)state;
    double dm[DORA_O] = {1, 2, 3, 4, 5};
    fill_dora();
    assert_int_equal(
        fw_dora_backward_m(ref, (void *)dm, dora_dy, DORA_S, dora_z, DORA_S, (void *)dora_norm, DORA_N, DORA_O, FW_F64),
        FW_OK);
    for (size_t i = 0; i < COUNT(dm); i++) dm[i] -= (double)i + 1;
    check("dora dm", dora_loss, dora_m, COUNT(dora_m), dm);
}
static void test_dora_scale(void **state) {
    (void)state;
    double dz[DORA_N * DORA_S];
    fill_dora();
    memcpy(dz, dora_dy, sizeof dz);
    for (size_t i = 0; i < COUNT(dz); i++) dz[i] = i % DORA_S < DORA_O ? dz[i] : 0; /* gaps have no gradient */
    assert_int_equal(
        fw_dora_scale(ref, dz, DORA_S, 0, dz, DORA_S, 1, dora_m, (void *)dora_norm, NULL, DORA_N, DORA_O, FW_F64),
        FW_OK);
    check("dora dz", dora_loss, dora_z, COUNT(dora_z), dz);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_embedding_backward),     cmocka_unit_test(test_rmsnorm_backward),
    cmocka_unit_test(test_rope_backward),          cmocka_unit_test(test_matmul_backward_input),
    cmocka_unit_test(test_matmul_backward_weight), cmocka_unit_test(test_bias_backward),
    cmocka_unit_test(test_swiglu_backward),        cmocka_unit_test(test_attention_backward),
    cmocka_unit_test(test_cross_entropy),          cmocka_unit_test(test_scatter_rows),
    cmocka_unit_test(test_lora_backward_b),        cmocka_unit_test(test_lora_reduce),
    cmocka_unit_test(test_lora_backward_input),    cmocka_unit_test(test_dropout),
    cmocka_unit_test(test_dora_backward_m),        cmocka_unit_test(test_dora_scale),
};

/* A backward added to ops.def without a check here is noticed before anything runs. */
static int every_backward_is_checked(void) {
    static const char *const op[] = {
#define FW_OP(name, parameters, arguments) #name,
#include "device/ops.def"
#undef FW_OP
    };
    int missing_n = 0;
    for (size_t i = 0; i < COUNT(op); i++) {
        if (strstr(op[i], "_backward") == NULL) continue;
        int found = 0;
        for (size_t j = 0; j < COUNT(tests); j++) found |= strcmp(tests[j].name + strlen("test_"), op[i]) == 0;
        if (!found) {
            fprintf(stderr, "%s has no gradient check in %s\n", op[i], __FILE__);
            missing_n++;
        }
    }
    return missing_n == 0;
}

int main(void) {
    if (!every_backward_is_checked()) return 1;
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
