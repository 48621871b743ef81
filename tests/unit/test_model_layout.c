/* model: rope tables, the parameter table, the layout of activations. */
#include "model/model.h"
#include "model/rope_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_near(double value, double expected, double tolerance) {
    assert_true(fabs(value - expected) <= tolerance);
}

/* Angles in fp64 by repeated rotation: no pow, no cos of large arguments, so an independent way to the same numbers. */
static void rotate_to(double *c, double *s, double f, int p) {
    double c1 = cos(f), s1 = sin(f);
    *c = 1;
    *s = 0;
    for (int i = 0; i < p; i++) {
        double c2 = *c * c1 - *s * s1;
        *s = *c * s1 + *s * c1;
        *c = c2;
    }
}

static void test_rope_positions(void **state) {
    (void)state;
    enum { P = 4098, D = 64, E = D / 2 };
    fw_rope_config rope = {.kind = FW_ROPE_DEFAULT, .theta = 100000, .factor = 1};
    float *c = malloc(P * E * sizeof *c), *s = malloc(P * E * sizeof *s);
    assert_true(c != NULL && s != NULL);
    fw_rope_table_fill(c, s, &rope, P, D);
    const int positions[] = {0, 1, 257, 4097};
    for (int i = 0; i < 4; i++) {
        for (int e = 0; e < E; e++) {
            double cd, sd;
            rotate_to(&cd, &sd, exp(-2.0 * e / D * log(100000.0)), positions[i]);
            assert_true(fabs((double)c[positions[i] * E + e] - cd) < 1e-6);
            assert_true(fabs((double)s[positions[i] * E + e] - sd) < 1e-6);
        }
    }
    free(c);
    free(s);
}

static void test_rope_scaling(void **state) {
    (void)state;
    fw_rope_config linear = {.kind = FW_ROPE_LINEAR, .theta = 10000, .factor = 4};
    assert_near(fw_rope_frequency(&linear, 3, 16), pow(10000, -6.0 / 16) / 4, 1e-15);
    /* Llama 3.1: theta 500000, factor 8, low 1, high 4, original 8192 */
    fw_rope_config llama3 = {.kind = FW_ROPE_LLAMA3,
                             .theta = 500000,
                             .factor = 8,
                             .low_freq_factor = 1,
                             .high_freq_factor = 4,
                             .original_max_position = 8192};
    assert_near(fw_rope_frequency(&llama3, 0, 128), 1.0, 1e-15);                            /* fast: kept */
    assert_near(fw_rope_frequency(&llama3, 63, 128), pow(500000, -126.0 / 128) / 8, 1e-15); /* slow: divided */
    double f = pow(500000, -64.0 / 128), turns = 8192 * f / (2 * acos(-1.0)), blend = (turns - 1) / 3;
    assert_true(blend > 0 && blend < 1);
    assert_near(fw_rope_frequency(&llama3, 32, 128), (1 - blend) * f / 8 + blend * f, 1e-15);
}

static fw_model_config tiny(void) {
    return (fw_model_config){.architecture = FW_ARCH_QWEN3,
                             .C = 40,
                             .L = 3,
                             .H = 6,
                             .K = 2,
                             .D = 14,
                             .F = 52,
                             .V = 77,
                             .max_position = 64,
                             .rms_eps = 1e-6f,
                             .qkv_bias = true,
                             .output_bias = true,
                             .qk_norm = true,
                             .tied = true,
                             .rope = {.theta = 10000, .factor = 1}};
}

static void test_param_table(void **state) {
    (void)state;
    fw_model_config c = tiny();
    fw_model m;
    assert_int_equal(fw_model_init(&m, &c, FW_F32), FW_OK);
    const fw_param_table *t = &m.table;
    assert_int_equal(t->unit_n, 4);
    int64_t parameters =
        77 * 40 + 40 + 3 * (2 * 40 + (84 + 28 + 28) * 40 + (84 + 28 + 28) + 2 * 14 + 40 * 84 + 40 + 3 * 52 * 40);
    assert_int_equal(t->parameter_n, parameters);
    /* ranges do not overlap, lie in their units, and q k v and gate up are one piece each */
    for (int32_t i = 0; i < t->param_n; i++) {
        const fw_param *p = &t->param[i];
        assert_true(p->offset_n + p->n <= t->unit_size_n[p->unit]);
        if (i > 0 && t->param[i - 1].unit == p->unit)
            assert_true(p->offset_n >= t->param[i - 1].offset_n + t->param[i - 1].n);
        assert_int_equal(p->decay, p->cols != 0);
        assert_ptr_equal(fw_param_table_find(t, p->name), p);
    }
    const fw_param *q = fw_param_table_find(t, "model.layers.2.self_attn.q_proj.weight");
    const fw_param *k = fw_param_table_find(t, "model.layers.2.self_attn.k_proj.weight");
    const fw_param *v = fw_param_table_find(t, "model.layers.2.self_attn.v_proj.weight");
    assert_int_equal(k->offset_n, q->offset_n + q->n);
    assert_int_equal(v->offset_n, k->offset_n + k->n);
    assert_int_equal(m.block[2].linear[FW_LINEAR_Q].weight.at_n, q->offset_n);
    assert_int_equal(m.edge.head.at_n, m.edge.embedding.at_n);
    assert_null(fw_param_table_find(t, "lm_head.weight"));
    for (int32_t u = 0; u < t->unit_n; u++) assert_int_equal(t->unit_size_n[u] % FW_UNIT_ALIGN, 0);
    fw_model_fini(&m);
}

/* The size that a dry run tells is the end of what a real one hands out, for every mode and type. */
static void test_activations(void **state) {
    (void)state;
    fw_model_config c = tiny();
    for (int mode = FW_ACTIVATIONS_FORWARD; mode <= FW_ACTIVATIONS_KEEP; mode++) {
        for (int t = FW_F32; t <= FW_BF16; t++) {
            fw_model m;
            assert_int_equal(fw_model_init(&m, &c, (fw_dtype)t), FW_OK);
            fw_activation_options o = {
                .mode = (fw_activation_mode)mode, .N_max = 33, .n_max = 20, .chunk_n = 8, .P = 30};
            fw_activations dry, real;
            assert_int_equal(fw_activations_init(&dry, &m, &o, NULL), FW_OK);
            char *memory = aligned_alloc(64, dry.bytes);
            assert_non_null(memory);
            assert_int_equal(fw_activations_init(&real, &m, &o, memory), FW_OK);
            assert_int_equal(real.bytes, dry.bytes);
            assert_int_equal(real.bytes, real.kept_bytes + real.work_bytes + real.loss_bytes);
            assert_true((char *)real.logits_cV + 8 * 77 * sizeof(float) <= memory + real.bytes);
            assert_int_equal(real.block[0].h_NF == real.block[2].h_NF, mode != FW_ACTIVATIONS_KEEP);
            assert_int_equal(real.block[0].qkv_NS == real.block[2].qkv_NS, mode <= FW_ACTIVATIONS_RECOMPUTE);
            assert_int_equal(real.block[0].norm1_NC == real.block[0].norm2_NC, mode == FW_ACTIVATIONS_SELECTIVE);
            fw_activations_fini(&dry);
            fw_activations_fini(&real);
            free(memory);
            fw_model_fini(&m);
        }
    }
}

/* What is kept for backward: the least with all blocks computed again, the more the fewer of them are. */
static void test_recompute_every(void **state) {
    (void)state;
    fw_model_config c = tiny();
    fw_model m;
    c.L = 7;
    assert_int_equal(fw_model_init(&m, &c, FW_BF16), FW_OK);
    size_t kept[2][9];
    for (int selective = 0; selective < 2; selective++)
        for (int64_t every = 1; every <= 8; every++) {
            fw_activation_options o = {.mode = selective ? FW_ACTIVATIONS_SELECTIVE : FW_ACTIVATIONS_RECOMPUTE,
                                       .recompute_every = every,
                                       .N_max = 33,
                                       .n_max = 20,
                                       .chunk_n = 8,
                                       .P = 30};
            fw_activations a;
            int again_n = 0;
            assert_int_equal(fw_activations_init(&a, &m, &o, NULL), FW_OK);
            for (int64_t l = 0; l < c.L; l++) again_n += fw_activations_mode_of(&o, l) == o.mode;
            assert_int_equal(again_n, (c.L + every - 1) / every);
            kept[selective][every] = a.kept_bytes;
            if (every > 1) assert_true(a.kept_bytes >= kept[selective][every - 1]);
            fw_activations_fini(&a);
        }
    fw_activation_options all = {.mode = FW_ACTIVATIONS_KEEP, .N_max = 33, .n_max = 20, .chunk_n = 8, .P = 30};
    fw_activations a;
    assert_int_equal(fw_activations_init(&a, &m, &all, NULL), FW_OK);
    assert_true(kept[0][1] < kept[1][1] && kept[1][1] < a.kept_bytes);
    assert_true(kept[0][8] < kept[1][8] && kept[1][8] < a.kept_bytes); /* one block of seven */
    fw_activations_fini(&a);
    fw_model_fini(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_positions),  cmocka_unit_test(test_rope_scaling),
        cmocka_unit_test(test_param_table),     cmocka_unit_test(test_activations),
        cmocka_unit_test(test_recompute_every),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
