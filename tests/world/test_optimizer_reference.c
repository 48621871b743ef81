/* The optimizers against their equations in fp64, on one rank and shared out: gradients are made up, a step is the shard's and
 * the optimizer's alone. The equations are those of docs/optimizers.md, element by element and tensor by tensor, and know of
 * no ranks. */
#include "base/alloc.h"
#include "base/rng.h"
#include "support/model_lab.h"
#include "support/world.h"
#include "train/optimizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP_N = 6 };
static const double RATE = 1e-2, B1 = 0.9, B2 = 0.97, EPS = 1e-8, DECAY = 0.1, CLIP = 0.5;

typedef struct trial {
    fw_optimizer optimizer;
    fw_shard_strategy strategy;
    double bound; /* of a tensor's weights, relative L2 of what they moved by */
} trial;

static double gradient_of(const fw_param *p, int64_t i, int step) {
    return (double)(float)(fw_rng_normal((uint64_t)step, (uint64_t)(p->unit * 1000000 + p->offset_n), (uint64_t)i) *
                           0.1);
}

/* ---- one rank's side */

static int fill(fw_comm *c, fw_test_lab *lab, int32_t unit, int step, float *g) {
    const fw_param_table *t = &lab->model.table;
    /* All of it on the first rank: the sum over ranks is exact. */
    for (int32_t k = t->unit_first[unit]; k < t->unit_first[unit + 1] && fw_comm_rank(c) == 0; k++)
        for (int64_t i = 0; i < t->param[k].n; i++)
            g[t->param[k].offset_n + i] = (float)gradient_of(&t->param[k], i, step);
    return 0;
}

static int run_step(fw_comm *c, fw_test_lab *lab, const trial *tr, int step) {
    fw_shard *s = lab->shard;
    const int32_t last = lab->model.table.unit_n - 1;
    const void *w;
    float *g;
    FW_RANK_CHECK(fw_shard_begin(s, FW_SHARD_PASS_TRAIN, false) == FW_OK);
    for (int32_t unit = 0; unit <= last; unit++) {
        FW_RANK_CHECK(fw_shard_acquire(s, unit, FW_SHARD_FORWARD, &w, NULL) == FW_OK);
        FW_RANK_CHECK(fw_shard_release(s, unit, FW_SHARD_FORWARD) == FW_OK);
    }
    FW_RANK_CHECK(fw_shard_acquire(s, 0, FW_SHARD_LOSS, &w, &g) == FW_OK);
    FW_RANK_CHECK(fw_shard_release(s, 0, FW_SHARD_LOSS) == FW_OK);
    for (int32_t unit = last; unit >= 0; unit--) {
        const fw_shard_use use = unit == 0 ? FW_SHARD_GRADIENT : FW_SHARD_BACKWARD;
        FW_RANK_CHECK(fw_shard_acquire(s, unit, use, &w, &g) == FW_OK);
        FW_RANK_CHECK(fill(c, lab, unit, step, g) == 0);
        FW_RANK_CHECK(fw_shard_reduce(s, unit, true) == FW_OK);
        FW_RANK_CHECK(fw_shard_release(s, unit, use) == FW_OK);
    }
    FW_RANK_CHECK(fw_shard_finish(s) == FW_OK);
    const fw_adamw_options o = {.learning_rate = (float)RATE,
                                .beta1 = (float)B1,
                                .beta2 = (float)B2,
                                .epsilon = (float)EPS,
                                .weight_decay = (float)DECAY,
                                .grad_scale = (float)CLIP,
                                .step = step};
    fw_optim_settings settings = fw_optim_settings_default();
    settings.beta1 = B1;
    settings.beta2 = B2;
    if (tr->optimizer == FW_OPTIMIZER_SGD_MOMENTUM) settings.momentum = 0.75f, settings.nesterov = true;
    FW_RANK_CHECK(fw_optimizer_update(s, &lab->model.table, lab->device, &o, &settings) == FW_OK);
    return 0;
}

/* ---- the equations */

typedef struct tensor {
    const fw_param *p;
    double *w, *g, *m, *v, *u; /* v: by rows and columns, or by elements */
} tensor;

static double squares(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

static void reference_factored(tensor *t, int step) {
    const int64_t R = t->p->rows, C = t->p->cols, n = t->p->n;
    const double b = 1 - pow(step, -0.8);
    if (C == 0) {
        for (int64_t i = 0; i < n; i++) {
            t->v[i] = b * t->v[i] + (1 - b) * (t->g[i] * t->g[i] + 1e-30);
            t->u[i] = t->g[i] / sqrt(t->v[i]);
        }
        return;
    }
    double *row = t->v, *col = t->v + R, mean = 0;
    for (int64_t k = 0; k < R + C; k++) t->v[k] *= b;
    for (int64_t i = 0; i < n; i++) {
        row[i / C] += (1 - b) * (t->g[i] * t->g[i] + 1e-30) / (double)C;
        col[i % C] += (1 - b) * (t->g[i] * t->g[i] + 1e-30) / (double)R;
    }
    for (int64_t r = 0; r < R; r++) mean += row[r] / (double)R;
    for (int64_t i = 0; i < n; i++) t->u[i] = t->g[i] / sqrt(row[i / C] / mean * col[i % C]);
}

static void reference_step(tensor *t, fw_optimizer optimizer, int step) {
    const double decay = t->p->decay ? DECAY : 0, c1 = 1 - pow(B1, step), c2 = 1 - pow(B2, step);
    const int64_t n = t->p->n;
    double along = 1;
    switch (optimizer) {
    case FW_OPTIMIZER_SGD:
    case FW_OPTIMIZER_SGD_MOMENTUM:
        for (int64_t i = 0; i < n; i++) {
            double d = t->g[i] + decay * t->w[i];
            if (optimizer == FW_OPTIMIZER_SGD_MOMENTUM) {
                t->m[i] = step == 1 ? d : 0.75 * t->m[i] + d;
                d += 0.75 * t->m[i];
            }
            t->w[i] -= RATE * d;
        }
        return;
    case FW_OPTIMIZER_LION:
        for (int64_t i = 0; i < n; i++) {
            const double mixed = B1 * t->m[i] + (1 - B1) * t->g[i];
            t->w[i] -= RATE * (decay * t->w[i] + (mixed > 0 ? 1 : mixed < 0 ? -1 : 0));
            t->m[i] = B2 * t->m[i] + (1 - B2) * t->g[i];
        }
        return;
    case FW_OPTIMIZER_LAMB:
        for (int64_t i = 0; i < n; i++) {
            t->m[i] = B1 * t->m[i] + (1 - B1) * t->g[i];
            t->v[i] = B2 * t->v[i] + (1 - B2) * t->g[i] * t->g[i];
            t->u[i] = t->m[i] / c1 / (sqrt(t->v[i] / c2) + EPS) + decay * t->w[i];
        }
        along = sqrt(squares(t->w, n) / squares(t->u, n));
        for (int64_t i = 0; i < n; i++) t->w[i] -= RATE * along * t->u[i];
        return;
    default:
        reference_factored(t, step);
        along = sqrt(squares(t->u, n) / (double)n);
        for (int64_t i = 0; i < n; i++) t->w[i] -= RATE * (decay * t->w[i] + t->u[i] / (along > 1 ? along : 1));
    }
}

/* Relative to what the weights moved by. */
static double difference(const tensor *t, const float *got, const float *start) {
    double sum = 0, moved = 0;
    for (int64_t i = 0; i < t->p->n; i++) {
        sum += pow((double)got[i] - t->w[i], 2);
        moved += pow((double)start[i] - t->w[i], 2);
    }
    return moved > 0 ? sqrt(sum / moved) : sum;
}

static int check(fw_comm *c, const trial *tr, const fw_param *p, const float *got, const float *start) {
    double *room;
    FW_RANK_CHECK(FW_NEW_ARRAY(room, (size_t)(p->n * 4 + (p->rows + p->cols + p->n))) == FW_OK);
    tensor t = {p, room, room + p->n, room + 2 * p->n, room + 4 * p->n, room + 3 * p->n};
    for (int64_t i = 0; i < p->n; i++) t.w[i] = (double)start[i];
    for (int step = 1; step <= STEP_N; step++) {
        for (int64_t i = 0; i < p->n; i++) t.g[i] = gradient_of(p, i, step) * (double)(float)CLIP;
        reference_step(&t, tr->optimizer, step);
    }
    const double off = difference(&t, got, start);
    fw_free(room);
    if (off > tr->bound)
        fprintf(stderr, "%s, %s, %d ranks: %s is off by %g\n", fw_optimizer_name(tr->optimizer),
                fw_shard_strategy_name(tr->strategy), fw_comm_world(c), p->name, off);
    FW_RANK_CHECK(off <= tr->bound);
    return 0;
}

static int run_rank(fw_comm *c, void *context) {
    const trial *tr = context;
    fw_test_lab lab;
    fw_test_lab_options options = {.variant = "llama_tied",
                                   .device = "cpu",
                                   .t = FW_F32,
                                   .mode = FW_ACTIVATIONS_KEEP,
                                   .micro = 1,
                                   .accumulation = 1,
                                   .sample_n = 4,
                                   .comm = c,
                                   .shard = {.strategy = tr->strategy, .optimizer = tr->optimizer}};
    FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
    const fw_param_table *t = &lab.model.table;
    float *start;
    const float *flat;
    FW_RANK_CHECK(FW_NEW_ARRAY(start, (size_t)t->total_n) == FW_OK);
    FW_RANK_CHECK(fw_test_lab_state(&lab, FW_SHARD_WEIGHT, &flat) == FW_OK);
    if (flat != NULL) memcpy(start, flat, (size_t)t->total_n * sizeof *start);
    for (int step = 1; step <= STEP_N; step++) FW_RANK_CHECK(run_step(c, &lab, tr, step) == 0);
    FW_RANK_CHECK(fw_shard_settle(lab.shard) == FW_OK);
    FW_RANK_CHECK(fw_test_lab_state(&lab, FW_SHARD_WEIGHT, &flat) == FW_OK);
    for (int32_t i = 0; i < t->param_n && flat != NULL; i++) {
        const int64_t at = t->unit_offset_n[t->param[i].unit] + t->param[i].offset_n;
        FW_RANK_CHECK(check(c, tr, &t->param[i], flat + at, start + at) == 0);
    }
    fw_free(start);
    fw_test_lab_close(&lab);
    return 0;
}

static void against_fp64(fw_optimizer optimizer, double bound) {
    for (int world = 1; world <= 4; world++)
        for (int s = FW_SHARD_DDP; s <= FW_SHARD_ZERO3; s += 3) {
            trial tr = {optimizer, (fw_shard_strategy)s, bound};
            assert_int_equal(fw_test_world(world, run_rank, &tr), 0);
        }
}

static void test_sgd(void **state) {
    (void)state;
    against_fp64(FW_OPTIMIZER_SGD, 1e-4); /* steps of a few roundings of a weight */
    against_fp64(FW_OPTIMIZER_SGD_MOMENTUM, 1e-4);
}
static void test_lion(void **state) {
    (void)state;
    against_fp64(FW_OPTIMIZER_LION, 1e-5);
}
static void test_lamb(void **state) {
    (void)state;
    against_fp64(FW_OPTIMIZER_LAMB, 1e-4);
}
static void test_adafactor(void **state) {
    (void)state;
    against_fp64(FW_OPTIMIZER_ADAFACTOR, 1e-5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sgd), cmocka_unit_test(test_lion),
                                       cmocka_unit_test(test_lamb), cmocka_unit_test(test_adafactor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
