/* A checkpoint does not know who wrote it: written as 1, 2, 3, 4, 8 and 64 ranks of every strategy write it, read as 1, 2, 3,
 * 5, 8 and 64 ranks of every strategy read it, every weight and moment has the same bits. Sizes are odd, tied and untied; all of
 * a model is trained, or adapters of it are, with what is trained whole beside them.
 * Without ranks: what a rank writes and reads is a function of the layout; tests/world/test_resharding.c has real ones. */
#include "base/alloc.h"
#include "model/adapter.h"
#include "shard/shard.h"
#include "support/checkpoint_lab.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

typedef struct place {
    fw_shard_strategy strategy;
    int world;
    fw_shard_wrap wrap;
} place;

/* Shard groups of two where that divides. */
static void make_layout(fw_shard_layout *l, fw_arena *arena, place p) {
    const fw_shard_options options = {.strategy = p.strategy,
                                      .t = FW_F32,
                                      .gradient_t = FW_F32,
                                      .training = true,
                                      .group_n = p.world % 2 == 0 ? 2 : 1,
                                      .wrap = p.wrap};
    *arena = (fw_arena){0};
    fw_test_must(fw_shard_layout_init(l, &fw_lab.model.table, &options, p.world, arena));
}

static void save_as(const char *out, place p) {
    const fw_param_table *table = &fw_lab.model.table;
    fw_shard_layout l;
    fw_arena arena;
    fw_checkpoint_writer w;
    json_t *part[64] = {0};
    fw_checkpoint_range *range;
    make_layout(&l, &arena, p);
    fw_test_must(FW_NEW_ARRAY(range, (size_t)table->unit_n));
    fw_test_must(fw_checkpoint_begin(&w, out, fw_lab.source, table, FW_OPTIMIZER_ADAMW, 1, p.world));
    fw_test_must(fw_checkpoint_write_small_files(&w, fw_lab.source));
    for (int rank = 0; rank < p.world; rank++) {
        const int at = fw_shard_saved_place(&l, rank);
        assert_true(at >= 0 && at < p.world && part[at] == NULL);
        for (int32_t unit = 0; unit < table->unit_n; unit++)
            fw_shard_saved_range(&l, rank, unit, &range[unit].first_n, &range[unit].n);
        const fw_checkpoint_share share = {at, p.world, range, fw_test_from_memory, NULL, NULL, FW_OPTIMIZER_ADAMW};
        fw_test_must(fw_checkpoint_write_part(&part[at], w.staged.path_tmp, table, &share));
    }
    fw_checkpoint_state state = {.step = 1, .world_size = p.world};
    fw_test_must(fw_checkpoint_commit(&w, table, part, p.world, &state));
    fw_checkpoint_writer_close(&w);
    for (int i = 0; i < p.world; i++) json_decref(part[i]);
    fw_free(range);
    fw_shard_layout_fini(&l);
}

/* What each rank owns, range by range as fw_shard_load asks for it. */
static void read_as(const fw_checkpoint_files *files, place p, float *buffer) {
    const fw_param_table *table = &fw_lab.model.table;
    const float *const want[] = {fw_lab.model.flat, fw_lab.moment[0], fw_lab.moment[1]};
    fw_shard_layout l;
    fw_arena arena;
    make_layout(&l, &arena, p);
    for (int array = 0; array < FW_CHECKPOINT_ARRAY_N; array++)
        for (int part = 0; part < l.S; part++)
            for (int32_t unit = 0; unit < table->unit_n; unit++) {
                const fw_bucket *b = &l.bucket[l.bucket_of_unit[unit]];
                const int64_t unit_at = table->unit_offset_n[unit] - table->unit_offset_n[b->first_unit];
                int64_t first = part * b->part_n - unit_at, last = first + b->part_n;
                if (first < 0) first = 0;
                if (last > table->unit_size_n[unit]) last = table->unit_size_n[unit];
                if (first >= last) continue;
                fw_test_must(fw_checkpoint_read(files, (fw_checkpoint_array)array, unit, first, last - first, buffer));
                assert_memory_equal(buffer, want[array] + table->unit_offset_n[unit] + first,
                                    (size_t)(last - first) * sizeof *buffer);
            }
    fw_shard_layout_fini(&l);
}

static const int writers[] = {1, 2, 3, 4, 8, 64}, readers[] = {1, 2, 3, 5, 8, 64};
enum { WORLD_N = sizeof writers / sizeof *writers };

/* The first world_n numbers of ranks. */
static void matrix(int world_n) {
    char out[FW_TEST_PATH_BYTES];
    float *buffer;
    fw_test_scratch_make(out);
    fw_test_must(FW_NEW_ARRAY(buffer, (size_t)fw_lab.model.table.total_n));
    for (int w = 0; w < world_n; w++)
        for (int s = 0; s < FW_SHARD_STRATEGY_N; s++) {
            const place from = {(fw_shard_strategy)s, writers[w], (fw_shard_wrap)((w + s) % 3)};
            fw_checkpoint_files files;
            save_as(out, from);
            fw_test_must(fw_checkpoint_verify(fw_test_step_path(out, 1), true));
            fw_test_must(fw_checkpoint_open(&files, fw_test_step_path(out, 1), &fw_lab.model.table, NULL));
            for (int r = 0; r < world_n; r++)
                for (int t = 0; t < FW_SHARD_STRATEGY_N; t++)
                    read_as(&files, (place){(fw_shard_strategy)t, readers[r], (fw_shard_wrap)(r % 3)}, buffer);
            fw_checkpoint_close(&files);
        }
    fw_free(buffer);
    fw_test_scratch_remove(out);
}

/* Padding between parameters is not stored; in memory it is zero. */
static void clear_padding(float *flat) {
    const fw_param_table *table = &fw_lab.model.table;
    float *whole;
    fw_test_must(FW_NEW_ARRAY(whole, (size_t)table->total_n));
    for (int32_t i = 0; i < table->param_n; i++) {
        const int64_t at = table->unit_offset_n[table->param[i].unit] + table->param[i].offset_n;
        memcpy(whole + at, flat + at, (size_t)table->param[i].n * sizeof *flat);
    }
    memcpy(flat, whole, (size_t)table->total_n * sizeof *flat);
    fw_free(whole);
}

static void new_source(const char *variant) {
    fw_test_memory_model_fini(&fw_lab.model);
    snprintf(fw_lab.source, sizeof fw_lab.source, "%s", fw_test_path(fw_lab.root, variant));
    fw_test_must(fw_test_write_model(fw_lab.source, variant, 37));
    fw_test_must(fw_test_memory_model_init(&fw_lab.model, fw_lab.source));
}

/* Of the lab's table, whose weights are there. */
static void all_places(int world_n) {
    for (int k = 0; k < 2; k++) {
        fw_free(fw_lab.moment[k]);
        fw_test_must(FW_NEW_ARRAY(fw_lab.moment[k], (size_t)fw_lab.model.table.total_n));
        for (int64_t i = 0; i < fw_lab.model.table.total_n; i++)
            fw_lab.moment[k][i] = (float)(i % 977 + 1) * 1e-9f * (float)(k + 1);
        clear_padding(fw_lab.moment[k]);
    }
    clear_padding(fw_lab.model.flat);
    matrix(world_n);
}

static void test_variant(const char *variant) {
    new_source(variant);
    all_places(WORLD_N);
}

static void test_tied(void **unused) {
    (void)unused;
    test_variant("qwen2_tied");
}
static void test_untied(void **unused) {
    (void)unused;
    test_variant("qwen2_untied");
}

/* What an adapter trains takes the model's place in the lab. Ranks to 8. */
static void test_adapter(const char *variant, const fw_adapter_request *request) {
    fw_adapter adapter;
    fw_param_table frozen;
    new_source(variant);
    fw_test_memory_model base = fw_lab.model;
    fw_lab.model = (fw_test_memory_model){.config = base.config};
    fw_test_must(fw_adapter_resolve(&adapter, request, &base.config, &base.table));
    fw_test_must(fw_adapter_tables(&adapter, &base.table, &frozen, &fw_lab.model.table));
    fw_test_must(FW_NEW_ARRAY(fw_lab.model.flat, (size_t)fw_lab.model.table.total_n));
    for (int64_t i = 0; i < fw_lab.model.table.total_n; i++) fw_lab.model.flat[i] = (float)(i % 1009) - 500.25f;
    all_places(WORLD_N - 1);
    fw_param_table_fini(&frozen);
    fw_adapter_fini(&adapter);
    fw_test_memory_model_fini(&base);
}

static void test_adapters(void **unused) {
    (void)unused;
    static const fw_adapter_request requests[] = {
        {.r = 3, .alpha = 6, .target_modules = "all-linear"},
        {.r = 5, .alpha = 5, .target_modules = "q_proj,down_proj", .dora = true, .modules_to_save = "norm"},
        {.r = 1, .alpha = 2, .target_modules = "v_proj", .modules_to_save = "embed_tokens"},
        {.r = 2, .alpha = 2, .target_modules = "up_proj", .layers_to_transform = "0", .modules_to_save = "lm_head"}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        test_adapter(i % 2 == 0 ? "qwen2_tied" : "qwen2_untied", &requests[i]);
    test_adapter("qwen2_untied", &requests[0]);
    test_adapter("qwen2_tied", &requests[3]); /* a head of its own beside the tied embedding */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tied), cmocka_unit_test(test_untied),
                                       cmocka_unit_test(test_adapters)};
    return cmocka_run_group_tests(tests, fw_test_checkpoint_setup, fw_test_checkpoint_teardown);
}
