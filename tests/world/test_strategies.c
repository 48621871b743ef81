/* Every strategy in one world trains alike: losses, norms, weights and moments have the same bits wherever the sums have
 * the same order, bytes on the wire are those of the formula, and no more is gathered than may be. Freed weights are
 * poisoned, so that a unit used after its release shows. */
#include "base/alloc.h"
#include "support/model_lab.h"
#include "support/scratch.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Thirteen documents: the last window of an epoch is short, and some ranks then have nothing. */
enum { STEP_N = 4, DOCUMENT_N = 13, CASES_MAX = 96 };

typedef struct course {
    double loss[STEP_N], grad_norm[STEP_N];
    uint64_t hash[FW_SHARD_ARRAY_N]; /* of the final state, on rank 0 */
} course;

typedef struct plan_case {
    fw_shard_options shard;
    int64_t accumulation;
    int like;     /* the case before it with the same order of sums */
    double bound; /* relative, against case `like`; 0: the same bits */
} plan_case;

typedef struct family {
    const char *variant, *shape; /* shape: see support/model_lab.h */
    fw_dtype t;
    int world;
    plan_case cases[CASES_MAX];
    int case_n;
} family;

static uint64_t hash_of(const float *values, int64_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < n; i++) {
        float value = values[i] == 0 ? 0 : values[i]; /* the sign of a zero says nothing */
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

static int check_traffic(fw_comm *c, const fw_shard_counters *before, const fw_shard_counters *after,
                         const fw_shard_traffic *plan) {
    FW_RANK_CHECK(after->all_reduce_bytes - before->all_reduce_bytes == plan->all_reduce_bytes);
    FW_RANK_CHECK(after->reduce_scatter_bytes - before->reduce_scatter_bytes == plan->reduce_scatter_bytes);
    FW_RANK_CHECK(after->all_gather_bytes - before->all_gather_bytes == plan->all_gather_bytes);
    return 0;
}

/* Its gradients are found, and not wanted: no trace of it may be left. */
static fw_status give_up_a_step(fw_test_lab *lab, int64_t in_epoch) {
    fw_step_work work;
    FW_TRY(fw_step_find_gradients(&lab->step, 1, 0, in_epoch, &work));
    FW_TRY(fw_shard_forget_gradients(lab->shard));
    return fw_shard_settle(lab->shard);
}

/* abandons: a step before the first is given up. */
static int train(fw_comm *c, const family *f, const plan_case *p, bool abandons, course *out) {
    fw_test_lab lab;
    fw_test_lab_options options = {.variant = f->variant,
                                   .shape = f->shape,
                                   .device = "cpu",
                                   .t = f->t,
                                   .mode = FW_ACTIVATIONS_RECOMPUTE,
                                   .micro = 1,
                                   .accumulation = p->accumulation,
                                   .sample_n = DOCUMENT_N,
                                   .comm = c,
                                   .shuffle = true,
                                   .shard = p->shard};
    options.shard.poison = true;
    FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
    lab.step.max_grad_norm = 0.5;
    int64_t per_epoch = fw_batcher_steps_per_epoch(lab.batcher);
    if (abandons && !lab.plan.layout.gradients_away) FW_RANK_CHECK(give_up_a_step(&lab, per_epoch - 1) == FW_OK);
    fw_shard_counters before, after;
    fw_shard_traffic sum = {0};
    fw_shard_get_counters(lab.shard, &before);
    for (int64_t step = 0; step < STEP_N; step++) {
        fw_step_result result;
        int64_t in_epoch = step % per_epoch;
        FW_RANK_CHECK(fw_step_run(&lab.step, step + 1, step / per_epoch, in_epoch, 2e-3, &result) == FW_OK);
        fw_shard_traffic traffic;
        FW_RANK_CHECK(fw_shard_traffic_of(&traffic, &lab.plan.layout, fw_batcher_micro_steps(lab.batcher, in_epoch)) ==
                      FW_OK);
        sum.all_reduce_bytes += traffic.all_reduce_bytes;
        sum.reduce_scatter_bytes += traffic.reduce_scatter_bytes;
        sum.all_gather_bytes += traffic.all_gather_bytes;
        out->loss[step] = result.loss;
        out->grad_norm[step] = result.grad_norm;
    }
    FW_RANK_CHECK(fw_shard_settle(lab.shard) == FW_OK);
    fw_shard_get_counters(lab.shard, &after);
    FW_RANK_CHECK(check_traffic(c, &before, &after, &sum) == 0);
    fw_shard_residency r = fw_shard_residency_of(lab.shard);
    const fw_shard_layout *l = &lab.plan.layout;
    FW_RANK_CHECK(r.peak_n <= 1 + l->weight_slot_n);
    if (l->S > 1 && !l->weights_full) FW_RANK_CHECK(r.now_n == 0);
    for (int k = 0; k < FW_SHARD_ARRAY_N; k++) {
        const float *flat;
        FW_RANK_CHECK(fw_test_lab_state(&lab, (fw_shard_array)k, &flat) == FW_OK);
        out->hash[k] = flat == NULL ? 0 : hash_of(flat, lab.model.table.total_n);
    }
    fw_test_lab_close(&lab);
    return 0;
}

static int compare(fw_comm *c, const family *f, int index, const course *got, const course *want) {
    const bool is_root = fw_comm_rank(c) == 0;
    const plan_case *p = &f->cases[index];
    for (int step = 0; step < STEP_N; step++) {
        double bound = p->bound;
        bool good = fabs(got->loss[step] - want->loss[step]) <= bound * want->loss[step] &&
                    fabs(got->grad_norm[step] - want->grad_norm[step]) <= bound * want->grad_norm[step];
        if (!good && is_root)
            fprintf(stderr, "%s %s world %d case %d (%s), step %d: loss %.9g not %.9g, norm %.9g not %.9g\n",
                    f->variant, fw_dtype_name(f->t), f->world, index, fw_shard_strategy_name(p->shard.strategy), step,
                    got->loss[step], want->loss[step], got->grad_norm[step], want->grad_norm[step]);
        FW_RANK_CHECK(good);
    }
    for (int k = 0; p->bound == 0 && k < FW_SHARD_ARRAY_N; k++) {
        if (got->hash[k] != want->hash[k] && is_root)
            fprintf(stderr, "%s %s world %d case %d (%s): array %d differs\n", f->variant, fw_dtype_name(f->t),
                    f->world, index, fw_shard_strategy_name(p->shard.strategy), k);
        FW_RANK_CHECK(got->hash[k] == want->hash[k]);
    }
    return 0;
}

static int run_rank(fw_comm *c, void *context) {
    const family *f = context;
    course *got;
    FW_RANK_CHECK(FW_NEW_ARRAY(got, CASES_MAX) == FW_OK);
    for (int i = 0; i < f->case_n; i++) {
        int failed = train(c, f, &f->cases[i], i % 3 == 1, &got[i]);
        if (failed == 0) failed = compare(c, f, i, &got[i], &got[f->cases[i].like]);
        if (failed != 0) {
            if (fw_comm_rank(c) == 0) fprintf(stderr, "case %d of %s, world %d\n", i, f->variant, f->world);
            return failed;
        }
    }
    fw_free(got);
    return 0;
}

static int add(family *f, fw_shard_options shard, int64_t accumulation, int like, double bound) {
    assert_true(f->case_n < CASES_MAX);
    f->cases[f->case_n] = (plan_case){shard, accumulation, like < 0 ? f->case_n : like, bound};
    return f->case_n++;
}

/* All strategies at one world size, in one precision; gradients in fp32. */
static void all_strategies(const char *variant, fw_dtype t, int world) {
    family f = {.variant = variant, .t = t, .world = world};
    for (int way = 0; way < 3; way++) { /* one micro-batch; three, each reduced; three, held */
        int64_t accumulation = way == 0 ? 1 : 3;
        bool each = way == 1;
        int first = add(&f, (fw_shard_options){.strategy = FW_SHARD_DDP, .sync_each = each}, accumulation, -1, 0);
        for (int s = FW_SHARD_ZERO1; s <= FW_SHARD_ZERO3; s++)
            add(&f, (fw_shard_options){.strategy = (fw_shard_strategy)s, .sync_each = each, .prefetch = way},
                accumulation, first, 0);
    }
    /* whole model in one bucket, and neighbouring blocks together */
    add(&f,
        (fw_shard_options){.strategy = FW_SHARD_ZERO3,
                           .sync_each = true,
                           .wrap = FW_SHARD_WRAP_SIZE,
                           .wrap_min_n = 1 << 20,
                           .prefetch = 1},
        1, 0, 1e-5);
    add(&f, (fw_shard_options){.strategy = FW_SHARD_ZERO3, .sync_each = true, .wrap = FW_SHARD_WRAP_MODEL}, 1, 0, 1e-5);
    add(&f, (fw_shard_options){.strategy = FW_SHARD_ZERO2, .sync_each = true, .wrap = FW_SHARD_WRAP_MODEL}, 1, 0, 1e-5);
    for (int group = 1; group <= world; group++) {
        if (world % group != 0) continue;
        double bound = group == world ? 0 : 1e-5;
        add(&f, (fw_shard_options){.strategy = FW_SHARD_HSDP, .group_n = group, .prefetch = 1, .sync_each = true}, 1, 0,
            bound);
        add(&f, (fw_shard_options){.strategy = FW_SHARD_HSDP_ZERO2, .group_n = group, .sync_each = true}, 1, 0, bound);
    }
    assert_int_equal(fw_test_world(world, run_rank, &f), 0);
}

/* Gradients kept and sent in bf16: alike among themselves, roughly like fp32. */
static void bf16_gradients(const char *variant, int world) {
    family f = {.variant = variant, .t = FW_BF16, .world = world};
    add(&f, (fw_shard_options){.strategy = FW_SHARD_DDP}, 1, -1, 0);
    /* weights to compute with that are never rounded from the records */
    for (int s = FW_SHARD_DDP; s <= FW_SHARD_ZERO3; s++)
        add(&f, (fw_shard_options){.strategy = (fw_shard_strategy)s, .records_leave = true}, 1, 0, 0);
    for (int way = 0; way < 3; way++) {
        int64_t accumulation = way == 0 ? 1 : 3;
        bool each = way == 1;
        int first = add(&f, (fw_shard_options){.strategy = FW_SHARD_DDP, .gradient_t = FW_BF16, .sync_each = each},
                        accumulation, way == 0 ? 0 : -1, way == 0 ? 2e-2 : 0);
        for (int s = FW_SHARD_ZERO1; s <= FW_SHARD_ZERO3; s++)
            add(&f,
                (fw_shard_options){
                    .strategy = (fw_shard_strategy)s, .gradient_t = FW_BF16, .sync_each = each, .prefetch = 1},
                accumulation, first, 0);
    }
    assert_int_equal(fw_test_world(world, run_rank, &f), 0);
}

/* Optimizer state and weights elsewhere: in memory of the host, updated there or brought in; in a file, gradients with the
 * state; with a device that has memory of its own. The same bits as where everything stays, under every strategy, with one
 * micro-batch and with three that are held. each_n-th of all cases. */
static void places(const char *variant, const char *shape, fw_dtype t, int world, const char *folder, int each_n) {
    static const struct {
        fw_shard_place records, weights;
        bool update_on_host, apart;
    } ways[] = {{FW_SHARD_HOST, FW_SHARD_HERE, true, false}, {FW_SHARD_HOST, FW_SHARD_HERE, false, false},
                {FW_SHARD_FILE, FW_SHARD_HERE, true, false}, {FW_SHARD_HOST, FW_SHARD_HOST, true, false},
                {FW_SHARD_FILE, FW_SHARD_FILE, true, false}, {FW_SHARD_HOST, FW_SHARD_HERE, true, true},
                {FW_SHARD_HOST, FW_SHARD_HOST, true, true},  {FW_SHARD_FILE, FW_SHARD_FILE, true, true}};
    family f = {.variant = variant, .shape = shape, .t = t, .world = world};
    int count = world;
    for (int64_t accumulation = 1; accumulation <= 3; accumulation += 2) {
        const int first = add(&f, (fw_shard_options){.strategy = FW_SHARD_DDP}, accumulation, -1, 0);
        for (int s = FW_SHARD_DDP; s <= FW_SHARD_HSDP; s++)
            for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                const bool shares = world == 1 || s == FW_SHARD_ZERO3 || s == FW_SHARD_HSDP;
                if ((ways[i].weights != FW_SHARD_HERE && !shares) || count++ % each_n != 0) continue;
                fw_shard_options o = {.strategy = (fw_shard_strategy)s,
                                      .sync_each = accumulation == 1,
                                      .prefetch = count % 3,
                                      .group_n = world,
                                      .records = ways[i].records,
                                      .weights = ways[i].weights,
                                      .update_on_host = ways[i].update_on_host,
                                      .apart = ways[i].apart,
                                      .folder = folder};
                add(&f, o, accumulation, first, 0);
            }
    }
    fw_shard_options last = {.strategy = FW_SHARD_ZERO3, .sync_each = true, .records = FW_SHARD_FILE, .folder = folder};
    last.wrap = FW_SHARD_WRAP_SIZE;
    last.wrap_min_n = 1 << 20;
    add(&f, last, 1, 0, 1e-5);
    last.wrap = FW_SHARD_WRAP_MODEL;
    add(&f, last, 1, 0, 1e-5);
    if (t == FW_BF16) {
        const int rounded = add(&f, (fw_shard_options){.strategy = FW_SHARD_DDP, .gradient_t = FW_BF16}, 1, 0, 2e-2);
        for (int s = FW_SHARD_DDP; s <= FW_SHARD_ZERO3; s++)
            add(&f,
                (fw_shard_options){.strategy = (fw_shard_strategy)s,
                                   .gradient_t = FW_BF16,
                                   .sync_each = true,
                                   .records = FW_SHARD_FILE,
                                   .folder = folder},
                1, rounded, 0);
    }
    assert_int_equal(fw_test_world(world, run_rank, &f), 0);
}

static void test_places(void **state) {
    (void)state;
    char folder[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(folder);
    /* eight blocks: more than there are buffers */
    places("llama_tied", "llama_deep", FW_BF16, 1, folder, 4);
    places("llama_tied", "llama_deep", FW_F32, 1, folder, 4);
    places("qwen3_tied", "qwen3_deep", FW_BF16, 2, folder, 2);
    places("llama_tied", "llama_deep", FW_F32, 2, folder, 4);
    places("llama_tied", "llama_deep", FW_BF16, 3, folder, 4);
    places("qwen3_tied", "qwen3_deep", FW_F32, 4, folder, 4);
    places("qwen3_untied", NULL, FW_BF16, 2, folder, 3);
    fw_test_scratch_remove(folder);
}

static void test_fp32(void **state) {
    (void)state;
    all_strategies("llama_tied", FW_F32, 1);
    all_strategies("llama_tied", FW_F32, 2);
    all_strategies("qwen3_untied", FW_F32, 3);
    all_strategies("qwen2_tied", FW_F32, 4);
    all_strategies("llama_tied", FW_F32, 5);
    all_strategies("llama_tied", FW_F32, 8);
}

static void test_bf16(void **state) {
    (void)state;
    all_strategies("qwen2_tied", FW_BF16, 1);
    all_strategies("qwen2_tied", FW_BF16, 2);
    all_strategies("llama_tied", FW_BF16, 3);
    all_strategies("qwen3_untied", FW_BF16, 4);
    all_strategies("qwen2_tied", FW_BF16, 5);
    all_strategies("qwen2_tied", FW_BF16, 8);
}

static void test_bf16_gradients(void **state) {
    (void)state;
    bf16_gradients("qwen2_tied", 1);
    bf16_gradients("llama_tied", 2);
    bf16_gradients("qwen3_untied", 3);
    bf16_gradients("qwen2_tied", 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fp32), cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_bf16_gradients), cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
