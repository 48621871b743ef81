/* Real ranks write a checkpoint under one strategy, others load it under another: every weight and moment that a rank then
 * owns has the bits that went in; of a whole model, or of an adapter. Pairs are drawn with seed 7; tests/unit/test_store_reshard.c has all of them. */
#include "base/alloc.h"
#include "store/checkpoint_later.h"
#include "support/model_lab.h"
#include "support/scratch.h"
#include "support/tiny_model.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trial {
    const char *variant, *out, *source;
    const fw_adapter_request *adapter; /* NULL: all of the model is trained */
    bool whole;                        /* an array is read in one go, into pages that were taken before */
    fw_shard_options shard;
} trial;

static const fw_adapter_request adapter = {
    .r = 3, .alpha = 6, .target_modules = "all-linear", .dora = true, .modules_to_save = "norm"};

static const fw_shard_array arrays[FW_CHECKPOINT_ARRAY_N] = {FW_SHARD_WEIGHT, FW_SHARD_EXP_AVG, FW_SHARD_EXP_AVG_SQ};

/* Element i of a unit in an array; padding between parameters is 0. */
static float value_of(const fw_param_table *table, int array, int32_t unit, int64_t i) {
    for (int32_t p = table->unit_first[unit]; p < table->unit_first[unit + 1]; p++) {
        const fw_param *param = &table->param[p];
        if (i >= param->offset_n && i < param->offset_n + param->n)
            return (float)(1 + array) * 1e-3f + (float)(i * 31 % 10007 + unit) * 1e-6f;
    }
    return 0;
}

typedef struct made {
    const fw_param_table *table;
    int array;
} made;
static fw_status make(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const made *from = context;
    for (int64_t i = 0; i < n; i++) out[i] = value_of(from->table, from->array, unit, first_n + i);
    return FW_OK;
}

static fw_status read_own(void *shard, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                          void *out) {
    return fw_shard_read_own(shard, arrays[array], p->unit, p->offset_n + first_n, n, out);
}

static fw_status open_lab(fw_test_lab *lab, fw_comm *c, const trial *t) {
    const fw_test_lab_options options = {.variant = t->variant,
                                         .device = "cpu",
                                         .t = t->shard.gradient_t == FW_BF16 ? FW_BF16 : FW_F32,
                                         .micro = 1,
                                         .accumulation = 1,
                                         .sample_n = 4,
                                         .comm = c,
                                         .adapter = t->adapter,
                                         .shard = t->shard};
    return fw_test_lab_open(lab, &options);
}

/* The parts go to rank 0 as files. */
static fw_status commit(fw_comm *c, fw_checkpoint_writer *w, const fw_param_table *table) {
    json_t *part[64] = {0};
    fw_status status = FW_OK;
    for (int i = 0; i < fw_comm_world(c) && status == FW_OK; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/part-%d.json", w->staged.parent, i);
        status = fw_json_load(&part[i], path, 1 << 24);
    }
    const fw_checkpoint_state state = {.step = 1, .world_size = fw_comm_world(c)};
    if (status == FW_OK) status = fw_checkpoint_commit(w, table, part, fw_comm_world(c), &state);
    for (int i = 0; i < 64; i++) json_decref(part[i]);
    return status;
}

static int save(fw_comm *c, void *context) {
    const trial *t = context;
    fw_test_lab lab;
    fw_checkpoint_writer w = {0};
    char dir[512] = "", path[600];
    FW_RANK_CHECK(open_lab(&lab, c, t) == FW_OK);
    const fw_param_table *table = fw_model_trained(&lab.model);
    const fw_shard_layout *l = fw_shard_layout_of(lab.shard);
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++) {
        made from = {table, k};
        FW_RANK_CHECK(fw_shard_load(lab.shard, arrays[k], make, &from) == FW_OK);
    }
    if (fw_comm_rank(c) == 0) {
        FW_RANK_CHECK(fw_checkpoint_begin(&w, t->out, t->source, table, FW_OPTIMIZER_ADAMW, 1, fw_comm_world(c)) ==
                      FW_OK);
        FW_RANK_CHECK(fw_checkpoint_write_small_files(&w, t->source) == FW_OK);
        snprintf(dir, sizeof dir, "%s", w.staged.path_tmp);
    }
    fw_comm_request request = {.label = "folder"};
    FW_RANK_CHECK(fw_comm_broadcast(c, dir, sizeof dir, 0, &request) == FW_OK);
    FW_RANK_CHECK(fw_comm_wait(c, &request) == FW_OK);
    fw_checkpoint_range range[64];
    for (int32_t unit = 0; unit < table->unit_n; unit++)
        fw_shard_saved_range(l, fw_comm_rank(c), unit, &range[unit].first_n, &range[unit].n);
    const fw_checkpoint_share share = {fw_shard_saved_place(l, fw_comm_rank(c)),
                                       fw_comm_world(c),
                                       range,
                                       read_own,
                                       lab.shard,
                                       NULL,
                                       FW_OPTIMIZER_ADAMW};
    json_t *part;
    FW_RANK_CHECK(fw_checkpoint_write_part(&part, dir, table, &share) == FW_OK);
    snprintf(path, sizeof path, "%s/part-%d.json", t->out, share.place);
    FW_RANK_CHECK(fw_json_save(part, path) == FW_OK);
    json_decref(part);
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
    if (fw_comm_rank(c) == 0) FW_RANK_CHECK(commit(c, &w, table) == FW_OK);
    fw_checkpoint_writer_close(&w);
    fw_test_lab_close(&lab);
    return 0;
}

typedef struct saved {
    const fw_checkpoint_files *files;
    int array;
    fw_checkpoint_later later;
} saved;
static fw_status read_saved(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const saved *from = context;
    return fw_checkpoint_read(from->files, (fw_checkpoint_array)from->array, unit, first_n, n, out);
}

static fw_status ask(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    saved *from = context;
    return fw_checkpoint_later_add(&from->later, from->files, (fw_checkpoint_array)from->array, unit, first_n, n, out);
}

static fw_status fill(void *context) {
    saved *from = context;
    return fw_checkpoint_later_finish(&from->later, NULL);
}

static int load(fw_comm *c, void *context) {
    const trial *t = context;
    fw_test_lab lab;
    fw_checkpoint_files files;
    char path[600];
    snprintf(path, sizeof path, "%s/step-00000001", t->out);
    FW_RANK_CHECK(open_lab(&lab, c, t) == FW_OK);
    const fw_param_table *table = fw_model_trained(&lab.model);
    if (t->whole) fw_shard_expect_load(lab.shard, NULL);
    FW_RANK_CHECK(fw_checkpoint_open(&files, path, table, NULL) == FW_OK);
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++) {
        saved from = {.files = &files, .array = k};
        FW_RANK_CHECK((t->whole ? fw_shard_load_whole(lab.shard, arrays[k], ask, fill, &from)
                                : fw_shard_load(lab.shard, arrays[k], read_saved, &from)) == FW_OK);
    }
    int64_t owned_n = 0;
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        fw_owned_range own;
        FW_RANK_CHECK(fw_shard_owned(lab.shard, unit, &own) == FW_OK);
        const float *const got[] = {own.w, own.array[0], own.array[1]};
        for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++)
            for (int64_t i = 0; i < own.n; i++) {
                const float want = value_of(table, k, unit, own.first_n + i);
                FW_RANK_CHECK(memcmp(&got[k][i], &want, sizeof want) == 0);
            }
        owned_n += own.n;
    }
    FW_RANK_CHECK(fw_comm_world(c) > 3 || owned_n > 0);
    fw_checkpoint_close(&files);
    fw_test_lab_close(&lab);
    return 0;
}

static fw_shard_options draw(int world) {
    fw_shard_options o = {.strategy = (fw_shard_strategy)(rand() % FW_SHARD_STRATEGY_N),
                          .gradient_t = FW_F32,
                          .wrap = (fw_shard_wrap)(rand() % 3),
                          .wrap_min_n = 3000,
                          .group_n = world % 2 == 0 ? 2 : 1};
    return o;
}

static void test_pairs(void **unused) {
    (void)unused;
    static const int writers[] = {1, 2, 3, 4, 8}, readers[] = {1, 2, 3, 5, 8};
    srand(7);
    for (int k = 0; k < 15; k++) {
        const char *variant = k % 2 == 0 ? "qwen2_tied" : "qwen2_untied";
        char out[FW_TEST_PATH_BYTES];
        fw_test_scratch_make(out);
        const char *source = fw_test_path(out, "source");
        assert_int_equal(fw_test_write_model(source, variant, 0), FW_OK);
        const int n = writers[k % 5], m = readers[rand() % 5];
        const fw_adapter_request *const trained = k % 3 == 2 ? &adapter : NULL;
        trial from = {variant, out, source, trained, false, draw(n)},
              to = {variant, out, source, trained, k % 2 == 1, draw(m)};
        int failed = fw_test_world(n, save, &from);
        if (failed == 0) failed = fw_test_world(m, load, &to);
        if (failed != 0)
            fail_msg("%s: %d ranks with %s to %d with %s", variant, n, fw_shard_strategy_name(from.shard.strategy), m,
                     fw_shard_strategy_name(to.shard.strategy));
        fw_test_scratch_remove(out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
