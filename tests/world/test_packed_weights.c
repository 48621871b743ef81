/* Frozen weights in 4 bits: what the model computes with is what bitsandbytes dequantises (tests/data/quant/models.json, by
 * tests/parity/make_quant_reference.py), and every strategy trains an adapter on it with the same bits as the others. */
#include "base/alloc.h"
#include "support/model_lab.h"
#include "support/tiny_model.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { STEP_N = 3 };

static const fw_adapter_request adapter = {.r = 4, .alpha = 8, .target_modules = "all-linear", .dora = true};

static fw_packed_options options_of(fw_quant_kind kind, bool nested) {
    return (fw_packed_options){.kind = kind, .block = 64, .nested = nested, .nested_block = 256};
}

static fw_test_lab_options lab_options(const char *variant, fw_dtype t, const fw_packed_options *packed) {
    return (fw_test_lab_options){.variant = variant,
                                 .device = "cpu",
                                 .t = t,
                                 .mode = FW_ACTIVATIONS_RECOMPUTE,
                                 .micro = 2,
                                 .accumulation = 2,
                                 .adapter = &adapter,
                                 .packed = packed};
}

/* ---- the numbers ---- */

static void check_matrix(const json_t *sums, const char *how, const fw_param *p, const float *w) {
    float *x;
    assert_int_equal(FW_NEW_ARRAY(x, (size_t)p->n), FW_OK);
    for (int64_t i = 0; i < p->n; i++) x[i] = w[i] == 0 ? 0 : w[i]; /* no sign */
    const uLong sum = crc32(crc32(0, NULL, 0), (const Bytef *)x, (uInt)((size_t)p->n * sizeof *x));
    const json_t *want = json_object_get(json_object_get(sums, p->name), how);
    assert_non_null(want);
    if ((json_int_t)sum != json_integer_value(want)) fail_msg("%s, %s: not what bitsandbytes has", p->name, how);
    fw_free(x);
}

static void check_numbers(const json_t *sums, const char *variant, fw_quant_kind kind, bool nested) {
    const fw_packed_options packed = options_of(kind, nested);
    const fw_test_lab_options options = lab_options(variant, FW_F32, &packed);
    char how[16];
    snprintf(how, sizeof how, "%s%s", fw_quant_kind_name(kind), nested ? " nested" : "");
    fw_test_lab lab;
    assert_int_equal(fw_test_lab_open(&lab, &options), FW_OK);
    const fw_param_table *frozen = &lab.model.frozen;
    const fw_units *units = &lab.step.units;
    assert_int_equal(fw_units_begin(units, FW_SHARD_PASS_FORWARD, false), FW_OK);
    for (int32_t unit = 0; unit < frozen->unit_n; unit++) {
        fw_unit_weights w;
        assert_int_equal(fw_units_acquire(units, unit, FW_SHARD_FORWARD, false, &w), FW_OK);
        for (int32_t i = frozen->unit_first[unit]; i < frozen->unit_first[unit + 1]; i++) {
            const fw_param *p = &frozen->param[i];
            const float *numbers = (const float *)w.frozen + p->offset_n;
            if (unit > 0 && p->cols > 0)
                check_matrix(sums, how, p, numbers);
            else /* embedding, norms and head are as they were */
                for (int64_t k = 0; k < p->n; k++) assert_true(numbers[k] == fw_test_weight(p->name, k));
        }
        assert_int_equal(fw_units_release(units, unit, FW_SHARD_FORWARD), FW_OK);
    }
    fw_test_lab_close(&lab);
}

static void test_numbers(void **state) {
    (void)state;
    static const char *const variants[] = {"llama_tied", "qwen3_untied"};
    json_t *sums = json_load_file(FW_TEST_DATA "/quant/models.json", 0, NULL);
    assert_non_null(sums);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < FW_QUANT_KIND_N; k++)
            for (int nested = 0; nested < 2; nested++)
                check_numbers(json_object_get(sums, variants[i]), variants[i], (fw_quant_kind)k, nested);
    json_decref(sums);
}

/* ---- strategies ---- */

typedef struct course {
    double loss[STEP_N], grad_norm[STEP_N];
} course;

typedef struct family {
    fw_dtype t;
    bool nested;
} family;

static int train(fw_comm *c, const family *f, fw_shard_options shard, course *out) {
    const fw_packed_options packed = options_of(FW_QUANT_NF4, f->nested);
    fw_test_lab_options options = lab_options("llama_tied", f->t, &packed);
    options.comm = c;
    options.micro = 1;
    options.shard = shard;
    options.shard.poison = true;
    fw_test_lab lab;
    FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
    fw_shard_counters before, after;
    uint64_t gathered = 0, reduced = 0;
    fw_units_get_counters(&lab.step.units, &before);
    for (int64_t step = 0; step < STEP_N; step++) {
        fw_step_result result;
        const int64_t in_epoch = step % fw_batcher_steps_per_epoch(lab.batcher);
        const int64_t micro_n = fw_batcher_micro_steps(lab.batcher, in_epoch);
        fw_shard_traffic trained, frozen;
        FW_RANK_CHECK(fw_step_run(&lab.step, step + 1, 0, in_epoch, 2e-2, &result) == FW_OK);
        FW_RANK_CHECK(fw_shard_traffic_of(&trained, &lab.plan.layout, micro_n) == FW_OK);
        FW_RANK_CHECK(fw_shard_traffic_of(&frozen, &lab.plan.frozen, micro_n) == FW_OK);
        gathered += trained.all_gather_bytes + frozen.all_gather_bytes;
        reduced += trained.reduce_scatter_bytes + trained.all_reduce_bytes;
        out->loss[step] = result.loss;
        out->grad_norm[step] = result.grad_norm;
    }
    FW_RANK_CHECK(fw_shard_settle(lab.shard) == FW_OK);
    fw_units_get_counters(&lab.step.units, &after);
    FW_RANK_CHECK(after.all_gather_bytes - before.all_gather_bytes == gathered);
    FW_RANK_CHECK(after.reduce_scatter_bytes + after.all_reduce_bytes - before.reduce_scatter_bytes -
                      before.all_reduce_bytes ==
                  reduced);
    /* What is planned is what is taken: the packed bytes, or a rank's share of them. */
    const fw_packed_table *t = &lab.packed;
    const uint64_t most = (uint64_t)t->words.total_n * FW_PACKED_WORD_BYTES;
    FW_RANK_CHECK(lab.plan.frozen.bytes.compute <= most + (uint64_t)lab.plan.frozen.bucket_n * 64 * 2 * 8);
    if (lab.plan.frozen.S > 1) FW_RANK_CHECK(lab.plan.frozen.bytes.compute < most);
    fw_test_lab_close(&lab);
    return 0;
}

static int run_rank(fw_comm *c, void *context) {
    const family *f = context;
    const int world = fw_comm_world(c);
    course first, other;
    FW_RANK_CHECK(train(c, f, (fw_shard_options){.strategy = FW_SHARD_DDP}, &first) == 0);

    for (int s = FW_SHARD_ZERO1; s < FW_SHARD_STRATEGY_N; s++) {
        const fw_shard_options shard = {.strategy = (fw_shard_strategy)s, .group_n = world, .prefetch = s % 3};
        FW_RANK_CHECK(train(c, f, shard, &other) == 0);
        FW_RANK_CHECK(memcmp(&first, &other, sizeof first) == 0);
    }
    return 0;
}

static void test_strategies(void **state) {
    (void)state;
    for (int world = 1; world <= 4; world++) {
        const family f = {.t = world % 2 == 0 ? FW_BF16 : FW_F32, .nested = world > 1};
        assert_int_equal(fw_test_world(world, run_rank, (void *)(uintptr_t)&f), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_strategies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
