/* A save behind the training holds what was there when it began, whoever copies first: the thread behind, or an update that
 * comes at once. Against files that were written before, under every strategy. */
#include "base/alloc.h"
#include "base/file.h"
#include "support/model_lab.h"
#include "support/scratch.h"
#include "support/world.h"
#include "train/optimizer.h"
#include "train/save_async.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

typedef struct trial {
    const char *out;
    fw_shard_options shard;
    fw_dtype t;
} trial;

/* For a run of the same element of every array, as fw_checkpoint_share wants it. */
static fw_status read_own(void *shard, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                          void *out) {
    const fw_param_table *table = fw_shard_layout_of(shard)->table;
    if (array == FW_CHECKPOINT_WEIGHT)
        return fw_shard_read_own(shard, FW_SHARD_WEIGHT, p->unit, p->offset_n + first_n, n, out);
    return fw_shard_read_state(shard, (int32_t)(p - table->param), (int)array - 1, first_n, n, out);
}

static fw_status write_now(fw_comm *c, fw_shard *shard, const char *dir) {
    const fw_shard_layout *l = fw_shard_layout_of(shard);
    fw_checkpoint_range range[64];
    for (int32_t unit = 0; unit < l->table->unit_n; unit++)
        fw_shard_saved_range(l, fw_comm_rank(c), unit, &range[unit].first_n, &range[unit].n);
    const fw_checkpoint_share share = {
        fw_shard_saved_place(l, fw_comm_rank(c)), fw_comm_world(c), range, read_own, shard, NULL, l->options.optimizer};
    json_t *part = NULL;
    fw_status status = fw_checkpoint_write_part(&part, dir, l->table, &share);
    json_decref(part);
    return status;
}

/* 1: the same files with the same bytes, at least one. */
static int same_files(const char *a, const char *b) {
    char **names;
    size_t n;
    int same = 1;
    if (fw_dir_list(&names, &n, a) != FW_OK) return 0;
    for (size_t i = 0; i < n && same; i++) {
        fw_strbuf x = {0}, y = {0};
        same = fw_file_read(&x, fw_test_path(a, names[i]), 1 << 28) == FW_OK &&
               fw_file_read(&y, fw_test_path(b, names[i]), 1 << 28) == FW_OK && x.len_bytes == y.len_bytes &&
               memcmp(x.data, y.data, x.len_bytes) == 0;
        fw_strbuf_fini(&x);
        fw_strbuf_fini(&y);
    }
    same = same && n > 0 && fw_test_count_entries(b) == (int)n;
    fw_dir_list_free(names, n);
    return same;
}

static int train_and_save(fw_comm *c, void *context) {
    const trial *t = context;
    fw_test_lab lab;
    fw_save_async *async = NULL;
    const fw_test_lab_options options = {.variant = "qwen2_tied",
                                         .device = "cpu",
                                         .thread_n = 2,
                                         .t = t->t,
                                         .mode = FW_ACTIVATIONS_RECOMPUTE,
                                         .micro = 1,
                                         .accumulation = 1,
                                         .sample_n = 4,
                                         .comm = c,
                                         .shard = t->shard};
    FW_RANK_CHECK(fw_test_lab_open(&lab, &options) == FW_OK);
    const fw_param_table *table = &lab.model.table;
    FW_RANK_CHECK(fw_save_async_create(&async, lab.shard, table, fw_comm_rank(c), fw_comm_world(c), lab.threads) ==
                  FW_OK);
    for (int step = 1; step <= 6; step++) {
        fw_step_result result;
        char now[64], behind[64];
        json_t *part = NULL;
        FW_RANK_CHECK(fw_step_run(&lab.step, step, step, 0, 1e-3, &result) == FW_OK);
        FW_RANK_CHECK(fw_shard_settle(lab.shard) == FW_OK); /* the next forward would wait for this */
        snprintf(now, sizeof now, "now-%d-%d", fw_comm_rank(c), step);
        snprintf(behind, sizeof behind, "behind-%d-%d", fw_comm_rank(c), step);
        const char *before = fw_test_path(t->out, now), *after = fw_test_path(t->out, behind);
        FW_RANK_CHECK(fw_dir_make(before) == FW_OK && fw_dir_make(after) == FW_OK);
        FW_RANK_CHECK(write_now(c, lab.shard, before) == FW_OK);
        FW_RANK_CHECK(fw_save_async_start(async, after, NULL, NULL) == FW_OK);
        /* moments alone move the weights */
        const fw_adamw_options o = {
            .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .learning_rate = 1e-2f, .grad_scale = 1, .step = step + 1};
        FW_RANK_CHECK(fw_optimizer_update(lab.shard, table, fw_shard_update_device(lab.shard), &o, &lab.step.optim) ==
                      FW_OK);
        FW_RANK_CHECK(fw_shard_settle(lab.shard) == FW_OK);
        FW_RANK_CHECK(fw_save_async_wait(async, &part) == FW_OK);
        json_decref(part);
        FW_RANK_CHECK(same_files(before, after));
        FW_RANK_CHECK(write_now(c, lab.shard, before) == FW_OK); /* as it is after the update */
        FW_RANK_CHECK(!same_files(before, after));
    }
    fw_save_async_destroy(async);
    fw_test_lab_close(&lab);
    return 0;
}

static void test_update_at_once(void **state) {
    (void)state;
    for (int k = 0; k < FW_SHARD_STRATEGY_N * 2; k++) {
        char out[FW_TEST_PATH_BYTES];
        fw_test_scratch_make(out);
        trial t = {out,
                   {.strategy = (fw_shard_strategy)(k % FW_SHARD_STRATEGY_N),
                    .gradient_t = FW_F32,
                    .wrap = FW_SHARD_WRAP_BLOCK,
                    .group_n = 2,
                    .optimizer = k % 4 == 3 ? FW_OPTIMIZER_ADAMW_8BIT : FW_OPTIMIZER_ADAMW},
                   k < FW_SHARD_STRATEGY_N ? FW_F32 : FW_BF16};
        const int world = t.shard.strategy >= FW_SHARD_HSDP ? 4 : k % 3 + 1;
        if (fw_test_world(world, train_and_save, &t) != 0)
            fail_msg("%d ranks with %s", world, fw_shard_strategy_name(t.shard.strategy));
        fw_test_scratch_remove(out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_update_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
