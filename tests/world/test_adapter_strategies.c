/* Adapters under every strategy: at one world size losses, norms and trained weights have the same bits, over worlds of 1 to
 * 4 ranks the same losses, dropout included; what is kept again or computed again changes nothing; frozen weights have no
 * gradient and no state; what crosses is the adapter's gradient, to the byte. Freed weights are poisoned. */
#include "support/model_lab.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { STEP_N = 3, GLOBAL_BATCH = 12, WORLD_MAX = 4, CASE_MAX = 16 };

typedef struct course {
    double loss[STEP_N], grad_norm[STEP_N];
    uint64_t hash; /* of the trained weights, on rank 0 */
} course;

typedef struct run {
    const char *variant;
    fw_dtype t;
    fw_adapter_request adapter;
    int world;
    course *first; /* shared with the parent: of the first case */
} run;

static uint64_t hash_of(const float *values, int64_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash;
}

static const struct {
    fw_shard_strategy strategy;
    fw_activation_mode mode;
    int prefetch;
    bool each;
} cases[] = {{FW_SHARD_DDP, FW_ACTIVATIONS_RECOMPUTE, 0, false},  {FW_SHARD_DDP, FW_ACTIVATIONS_KEEP, 0, false},
             {FW_SHARD_DDP, FW_ACTIVATIONS_SELECTIVE, 0, false},  {FW_SHARD_ZERO1, FW_ACTIVATIONS_RECOMPUTE, 0, false},
             {FW_SHARD_ZERO2, FW_ACTIVATIONS_KEEP, 0, false},     {FW_SHARD_ZERO3, FW_ACTIVATIONS_RECOMPUTE, 1, false},
             {FW_SHARD_ZERO3, FW_ACTIVATIONS_KEEP, 2, false},     {FW_SHARD_HSDP, FW_ACTIVATIONS_RECOMPUTE, 1, false},
             {FW_SHARD_HSDP_ZERO2, FW_ACTIVATIONS_KEEP, 0, false}};
enum { CASE_N = sizeof cases / sizeof *cases };

/* Nothing of the frozen model is trained: its engine has weights in the compute type and, gathered, units at work. */
static int check_memory(fw_comm *c, const fw_test_lab *lab) {
    const fw_shard_bytes *b = &lab->plan.frozen.bytes;
    const fw_param_table *frozen = fw_model_frozen(&lab->model), *trained = fw_model_trained(&lab->model);
    FW_RANK_CHECK(b->gradient == 0 && b->state == 0 && b->gradient_units == 0 && b->staging == 0);
    for (int32_t i = 0; i < frozen->param_n; i++)
        for (int32_t k = 0; k < trained->param_n; k++)
            FW_RANK_CHECK(strcmp(frozen->param[i].name, trained->param[k].name) != 0);
    return 0;
}

static int check_traffic(fw_comm *c, const fw_test_lab *lab, const fw_shard_counters *sent, int index) {
    const uint64_t W = (uint64_t)fw_comm_world(c), g = (uint64_t)fw_model_trained(&lab->model)->total_n * sizeof(float);
    FW_RANK_CHECK(sent->all_reduce_bytes == STEP_N * lab->plan.traffic.all_reduce_bytes);
    FW_RANK_CHECK(sent->reduce_scatter_bytes == STEP_N * lab->plan.traffic.reduce_scatter_bytes);
    FW_RANK_CHECK(sent->all_gather_bytes == STEP_N * lab->plan.traffic.all_gather_bytes);
    if (cases[index].strategy != FW_SHARD_DDP) return 0;
    FW_RANK_CHECK(sent->all_gather_bytes == 0 && sent->reduce_scatter_bytes == 0);
    FW_RANK_CHECK(W == 3 || sent->all_reduce_bytes == STEP_N * (2 * (W - 1) * g / W));
    return 0;
}

static int train(fw_comm *c, const run *r, int index, course *out) {
    fw_test_lab lab;
    const int world = fw_comm_world(c);
    fw_test_lab_options options = {.variant = r->variant,
                                   .device = "cpu",
                                   .t = r->t,
                                   .mode = cases[index].mode,
                                   .micro = 1,
                                   .accumulation = GLOBAL_BATCH / world,
                                   .comm = c,
                                   .sample_n = GLOBAL_BATCH,
                                   .adapter = &r->adapter,
                                   .shard = {.strategy = cases[index].strategy,
                                             .prefetch = cases[index].prefetch,
                                             .sync_each = cases[index].each,
                                             .group_n = world % 2 == 0 ? 2 : world,
                                             .poison = true}};
    FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
    FW_RANK_CHECK(check_memory(c, &lab) == 0);
    fw_shard_counters before, after;
    fw_units_get_counters(&lab.step.units, &before);
    for (int64_t step = 0; step < STEP_N; step++) {
        fw_step_result result;
        FW_RANK_CHECK(fw_step_run(&lab.step, step + 1, step, 0, 2e-3, &result) == FW_OK);
        out->loss[step] = result.loss;
        out->grad_norm[step] = result.grad_norm;
    }
    FW_RANK_CHECK(fw_shard_settle(lab.shard) == FW_OK);
    fw_units_get_counters(&lab.step.units, &after);
    after.all_reduce_bytes -= before.all_reduce_bytes;
    after.reduce_scatter_bytes -= before.reduce_scatter_bytes;
    after.all_gather_bytes -= before.all_gather_bytes;
    FW_RANK_CHECK(check_traffic(c, &lab, &after, index) == 0);
    const float *flat;
    FW_RANK_CHECK(fw_test_lab_state(&lab, FW_SHARD_WEIGHT, &flat) == FW_OK);
    out->hash = flat == NULL ? 0 : hash_of(flat, fw_model_trained(&lab.model)->total_n);
    fw_test_lab_close(&lab);
    return 0;
}

/* hsdp of several groups adds in another order. */
static bool same_order(int index, int world) {
    const bool hybrid = cases[index].strategy == FW_SHARD_HSDP || cases[index].strategy == FW_SHARD_HSDP_ZERO2;
    return !hybrid || world % 2 != 0 || world == 2;
}

static int run_rank(fw_comm *c, void *context) {
    const run *r = context;
    course first;
    for (int i = 0; i < CASE_N; i++) {
        course got;
        FW_RANK_CHECK(train(c, r, i, &got) == 0);
        if (i == 0) first = got;
        const double bound = same_order(i, r->world) ? 0 : r->t == FW_F32 ? 1e-5 : 2e-3;
        bool good = bound > 0 || got.hash == first.hash;
        for (int step = 0; step < STEP_N; step++)
            good = good && fabs(got.loss[step] - first.loss[step]) <= bound * first.loss[step] &&
                   fabs(got.grad_norm[step] - first.grad_norm[step]) <= bound * first.grad_norm[step];
        if (!good && fw_comm_rank(c) == 0)
            fprintf(stderr, "%s %s world %d case %d: loss %.9g not %.9g, norm %.9g not %.9g\n", r->variant,
                    fw_dtype_name(r->t), r->world, i, got.loss[STEP_N - 1], first.loss[STEP_N - 1],
                    got.grad_norm[STEP_N - 1], first.grad_norm[STEP_N - 1]);
        FW_RANK_CHECK(good);
    }
    if (fw_comm_rank(c) == 0) *r->first = first;
    return 0;
}

static void in_every_world(const char *variant, fw_dtype t, const fw_adapter_request *adapter) {
    course *first = mmap(NULL, sizeof *first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(first, MAP_FAILED);
    course alone = {0};
    for (int world = 1; world <= WORLD_MAX; world++) {
        run r = {.variant = variant, .t = t, .adapter = *adapter, .world = world, .first = first};
        assert_int_equal(fw_test_world(world, run_rank, &r), 0);
        if (world == 1) alone = *first;
        const double bound = t == FW_F32 ? 2e-6 : 2e-3;
        for (int step = 0; step < STEP_N; step++) {
            assert_true(isfinite(first->loss[step]) && first->grad_norm[step] > 0);
            if (!(fabs(first->loss[step] - alone.loss[step]) <= bound * alone.loss[step]))
                fail_msg("%s, world %d, step %d: loss %.9g, of one rank %.9g", variant, world, step, first->loss[step],
                         alone.loss[step]);
        }
        assert_true(first->loss[STEP_N - 1] < first->loss[0]);
    }
    munmap(first, sizeof *first);
}

static void test_lora(void **state) {
    (void)state;
    const fw_adapter_request lora = {.r = 4, .alpha = 8, .target_modules = "all-linear"};
    in_every_world("qwen3_tied", FW_F32, &lora);
    in_every_world("llama_tied", FW_BF16, &lora);
}

/* Masks come from seed, step, conversation and position: alike for any number of ranks, and when computed again. */
static void test_dropout(void **state) {
    (void)state;
    const fw_adapter_request lora = {
        .r = 3, .alpha = 6, .dropout = 0.3, .target_modules = "q_proj,v_proj,down_proj", .rslora = true};
    in_every_world("qwen2_tied", FW_F32, &lora);
    fw_adapter_request dora = lora;
    dora.dora = true;
    dora.target_modules = "q_proj,o_proj,up_proj";
    in_every_world("qwen2_tied", FW_F32, &dora);
}

/* Parts of fused matrices and biases, the edge, blocks without adapters: units of all kinds, empty ones too. */
static void test_mixed(void **state) {
    (void)state;
    const fw_adapter_request dora = {.r = 2,
                                     .alpha = 4,
                                     .dora = true,
                                     .target_modules = "k_proj,gate_proj",
                                     .layers_to_transform = "1",
                                     .bias = FW_ADAPTER_BIAS_LORA_ONLY};
    in_every_world("llama_bias", FW_F32, &dora);
    const fw_adapter_request whole = {.r = 2,
                                      .alpha = 4,
                                      .target_modules = "q_proj,down_proj",
                                      .modules_to_save = "up_proj,norm,lm_head",
                                      .rank_pattern = "down_proj=3"};
    in_every_world("qwen3_tied", FW_F32, &whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
