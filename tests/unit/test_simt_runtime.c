/* The emulation of a GPU computes what a GPU would: places of threads, warp collectives, tensor-core layouts as PTX
 * states them, asynchronous copies. In each kind of schedule. */
#include "base/dtype.h"
#include "base/rng.h"
#include "support/simt_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef FW_HAS_SIMT

static void test_places(void **state) {
    (void)state;
    int32_t out[8 * 64][6];
    fw_simt_lab_places(out[0]);
    for (int block = 0; block < 8; block++) {
        for (int thread = 0; thread < 64; thread++) {
            const int32_t expected[6] = {block % 2, block / 2 % 2, block / 4, thread % 8, thread / 8 % 4, thread / 32};
            assert_memory_equal(out[64 * block + thread], expected, sizeof expected);
        }
    }
}

static void test_shuffles(void **state) {
    (void)state;
    double in[64], out[FW_SIMT_LAB_SHUFFLES][64];
    for (int i = 0; i < 64; i++) in[i] = 1e10 + i; /* more than a float holds */
    fw_simt_lab_shuffles(out[0], in);
    for (int i = 0; i < 64; i++) {
        const int warp = i / 32 * 32, lane = i % 32;
        assert_true(out[0][i] == in[warp + (lane ^ 5)]);
        assert_true(out[1][i] == in[warp + (lane + 3 > 31 ? lane : lane + 3)]);
        assert_true(out[2][i] == in[warp + 7]);
        assert_true(out[3][i] == in[warp + lane * 11 % 32]);
    }
}

static void test_ballot(void **state) {
    (void)state;
    int32_t in[64], part[32];
    uint32_t out[64], expected[2] = {0, 0};
    int32_t sum = 0;
    for (int i = 0; i < 64; i++) {
        in[i] = (int32_t)(fw_rng_bits(1, 2, (uint64_t)i) % 100);
        if (in[i] % 2 != 0) expected[i / 32] |= 1u << (i % 32);
        if (i < 8) sum += in[i];
    }
    fw_simt_lab_ballot(out, in);
    for (int i = 0; i < 64; i++) assert_int_equal(out[i], expected[i / 32]);
    fw_simt_lab_part_of_warp(part, in);
    for (int i = 0; i < 32; i++) assert_int_equal(part[i], i < 8 ? 1000 * (int32_t)(expected[0] & 0xffu) + sum : 0);
}

static void test_block_sums(void **state) {
    (void)state;
    static const int sizes[] = {32, 96, 1024};
    static float in[3 * 1024];
    for (size_t s = 0; s < 3; s++) {
        const int n = sizes[s];
        float out[6];
        for (int i = 0; i < 3 * n; i++) in[i] = (float)(i * 7 % 31 - 15); /* whole numbers: every order gives one sum */
        fw_simt_lab_block_sums(out, in, n, 3);
        for (int b = 0; b < 3; b++) {
            float sum = 0, most = in[b * n];
            for (int i = b * n; i < (b + 1) * n; i++) sum += in[i], most = fmaxf(most, in[i]);
            assert_true(out[2 * b] == sum && out[2 * b + 1] == most);
        }
    }
}

/* PTX ISA, ldmatrix: thread t of the warp gets of matrix i the elements 2 (t % 4) and the next of row t / 4. */
static void test_matrices(void **state) {
    (void)state;
    uint16_t in[4][8][8], out[32][8];
    for (int i = 0; i < 256; i++) in[i / 64][i / 8 % 8][i % 8] = (uint16_t)(1000 + i);
    for (int transposed = 0; transposed < 2; transposed++) {
        fw_simt_lab_matrices(out, in[0][0], transposed);
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < 4; i++) {
                for (int half = 0; half < 2; half++) {
                    const int a = lane / 4, b = 2 * (lane % 4) + half;
                    assert_int_equal(out[lane][2 * i + half], transposed ? in[i][b][a] : in[i][a][b]);
                }
            }
        }
    }
}

static void test_product(void **state) {
    (void)state;
    uint16_t a[16][16], b[8][16];
    float d[16][8], before[16][8];
    for (int i = 0; i < 256; i++) a[i / 16][i % 16] = fw_bf16_from_f32((float)(i * 5 % 17 - 8));
    for (int i = 0; i < 128; i++) b[i / 16][i % 16] = fw_bf16_from_f32((float)(i * 3 % 13 - 6) / 4);
    for (int i = 0; i < 128; i++) before[i / 8][i % 8] = d[i / 8][i % 8] = (float)i;
    fw_simt_lab_product(d[0], a[0], b[0]);
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 8; column++) {
            float sum = before[row][column]; /* every partial sum is exact */
            for (int k = 0; k < 16; k++) sum += fw_bf16_to_f32(a[row][k]) * fw_bf16_to_f32(b[column][k]);
            assert_true(d[row][column] == sum);
        }
    }
}

static void test_async(void **state) {
    (void)state;
    static _Alignas(16) float in[256], out[256];
    for (int i = 0; i < 256; i++) in[i] = (float)i;
    fw_simt_lab_async(out, in);
    for (int i = 0; i < 128; i++) {
        assert_true(out[i] == in[i]);
        assert_true(out[128 + i] == in[128 + i]);
    }
}

static int set_seed(void **state) { return setenv("FW_SIMT_SEED", *state, 1); }

int main(void) {
#define TEST(test, seed) cmocka_unit_test_prestate_setup_teardown(test, set_seed, NULL, seed)
#define TESTS(seed)                                                                                                    \
    TEST(test_places, seed), TEST(test_shuffles, seed), TEST(test_ballot, seed), TEST(test_block_sums, seed),          \
        TEST(test_matrices, seed), TEST(test_product, seed), TEST(test_async, seed)
    const struct CMUnitTest tests[] = {TESTS("0"), TESTS("1"), TESTS("2"), TESTS("3"), TESTS("4")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
