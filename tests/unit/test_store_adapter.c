/* Adapters on disk: written and read back, merged into their base by hand and by finewire, checkpoints of them. The cases
 * are those that peft wrote (tests/parity/adapters). */
#include "store/merge.h"

#include "base/alloc.h"
#include "store/checkpoint_tools.h"
#include "support/run_lab.h"
#include "support/scratch.h"
#include "support/store_model.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const cases[] = {
    "lora_qwen3",  "lora_llama",  "rslora_qwen3", "rslora_llama",   "dora_qwen3",     "dora_llama", "pattern_llama",
    "saved_qwen3", "embed_llama", "head_qwen3",   "bias_all_llama", "bias_own_llama", NULL};

static char root[FW_TEST_PATH_BYTES], base_dir[FW_TEST_PATH_BYTES + 16], adapter_dir[FW_TEST_PATH_BYTES + 16];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(root);
    snprintf(base_dir, sizeof base_dir, "%s/base", root);
    snprintf(adapter_dir, sizeof adapter_dir, "%s/adapter", root);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(root);
    return 0;
}

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s: %s", fw_status_name(status), fw_trail_message());
}

/* A base, and the adapter that a case describes for it. */
typedef struct lab {
    fw_peft_config config;
    fw_test_memory_model base;
    fw_adapter adapter;
    fw_param_table frozen, trained;
} lab;

static void open_lab(lab *l, const char *name) {
    char dir[256];
    snprintf(dir, sizeof dir, "%s/tests/parity/adapters/%s", FW_SOURCE_DIR, name);
    must(fw_peft_config_load(&l->config, dir));
    must(fw_test_write_model(base_dir, strrchr(l->config.base, '/') + 1, 0));
    must(fw_test_memory_model_init(&l->base, base_dir));
    must(fw_adapter_resolve(&l->adapter, &l->config.request, &l->base.config, &l->base.table));
    must(fw_adapter_tables(&l->adapter, &l->base.table, &l->frozen, &l->trained));
}

static void close_lab(lab *l) {
    fw_param_table_fini(&l->frozen);
    fw_param_table_fini(&l->trained);
    fw_adapter_fini(&l->adapter);
    fw_test_memory_model_fini(&l->base);
    fw_peft_config_fini(&l->config);
}

/* Every number that an adapter could have: of its name and place; magnitudes are not negative as a rule. */
static fw_status values(void *context, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        out[i] = fw_test_weight(p->name, first_n + i);
        if (p->kind == FW_PARAM_MAGNITUDE) out[i] += 1;
    }
    return FW_OK;
}

static fw_status read_base(void *context, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    const fw_test_memory_model *m = context;
    const fw_flat_params flat = {&m->table, m->flat};
    return fw_param_read_flat((void *)(uintptr_t)&flat, p, first_n, n, out);
}

static void write_adapter(const lab *l) {
    const fw_peft_origin origin = {base_dir, l->config.object, "0123456789abcdef", "nf4 nested"};
    must(fw_peft_folder_write(adapter_dir, &origin, &l->trained, values, NULL));
}

/* What is written is what is read; what does not fit is named. */
static void test_folder(void **state) {
    (void)state;
    for (int c = 0; cases[c] != NULL; c++) {
        lab l = {0};
        open_lab(&l, cases[c]);
        write_adapter(&l);
        fw_peft_folder folder;
        must(fw_peft_folder_open(&folder, adapter_dir));
        must(fw_peft_folder_check(&folder, &l.trained, base_dir));
        assert_true(json_equal(folder.config.object, l.config.object));
        assert_string_equal(fw_peft_folder_base_hash(&folder), "0123456789abcdef");
        assert_string_equal(fw_peft_folder_base_quantization(&folder), "nf4 nested");
        for (int32_t unit = 0; unit < l.trained.unit_n; unit++) {
            float *got;
            must(FW_NEW_ARRAY(got, (size_t)l.trained.unit_size_n[unit]));
            must(fw_model_folder_read(&folder.weights, &l.trained, unit, 0, l.trained.unit_size_n[unit], got));
            for (int32_t i = l.trained.unit_first[unit]; i < l.trained.unit_first[unit + 1]; i++) {
                const fw_param *p = &l.trained.param[i];
                for (int64_t k = 0; k < p->n; k++) {
                    float want;
                    must(values(NULL, p, k, 1, &want));
                    assert_true(got[p->offset_n + k] == want);
                }
            }
            fw_free(got);
        }
        /* another base: the first tensor that does not fit is named, with both shapes */
        fw_param *first = &l.trained.param[0];
        int64_t *side = first->kind == FW_PARAM_LORA_A ? &first->cols : &first->rows;
        (*side)++;
        assert_int_equal(fw_peft_folder_check(&folder, &l.trained, "other/base"), FW_ERR_INPUT);
        assert_non_null(strstr(fw_trail_message(), l.trained.param[0].name));
        assert_non_null(strstr(fw_trail_message(), "for the model other/base it must be ["));
        (*side)--;
        if (first->kind == FW_PARAM_LORA_A) { /* another rank is no other base */
            first->rows++;
            assert_int_equal(fw_peft_folder_check(&folder, &l.trained, base_dir), FW_ERR_INPUT);
            assert_non_null(strstr(fw_trail_message(), "which is of rank"));
            first->rows--;
        }
        strcpy(l.trained.param[0].name, "base_model.model.x");
        assert_int_equal(fw_peft_folder_check(&folder, &l.trained, "other/base"), FW_ERR_INPUT);
        assert_non_null(strstr(fw_trail_message(), "base_model.model.x is missing"));
        fw_peft_folder_close(&folder);
        close_lab(&l);
    }
}

/* ---- merging */

static const fw_param *trained_of(const lab *l, int32_t base, fw_param_kind kind) {
    for (int32_t i = 0; i < l->trained.param_n; i++)
        if (l->trained.param[i].base == base && l->trained.param[i].kind == kind) return &l->trained.param[i];
    return NULL;
}

static double trained_value(const fw_param *p, int64_t i) {
    float value;
    must(values(NULL, p, i, 1, &value));
    return (double)value;
}

/* Row o of the merged matrix in fp64, from the definition. */
static void merged_row(const lab *l, int32_t base, int64_t o, double *row) {
    const fw_param *p = &l->base.table.param[base], *A = trained_of(l, base, FW_PARAM_LORA_A);
    const fw_param *B = trained_of(l, base, FW_PARAM_LORA_B), *m = trained_of(l, base, FW_PARAM_MAGNITUDE);
    const double scale = (double)fw_adapter_linear(&l->adapter, p->unit - 1, fw_linear_of_name(p->name))->scale;
    double square = 0;
    for (int64_t i = 0; i < p->cols; i++) {
        row[i] = (double)fw_test_weight(p->name, o * p->cols + i);
        for (int64_t k = 0; k < A->rows; k++)
            row[i] += scale * trained_value(B, o * A->rows + k) * trained_value(A, k * p->cols + i);
        square += row[i] * row[i];
    }
    for (int64_t i = 0; m != NULL && i < p->cols; i++) row[i] *= trained_value(m, o) / sqrt(square);
}

/* Returns whether it is a parameter that the adapter touches. */
static bool check_param(const lab *l, fw_merge *merge, int32_t index, int64_t chunk_n) {
    const fw_param *p = &l->base.table.param[index], *whole = trained_of(l, index, FW_PARAM_BASE);
    const bool adapted = trained_of(l, index, FW_PARAM_LORA_A) != NULL;
    float *got;
    double row[256];
    must(FW_NEW_ARRAY(got, (size_t)p->n));
    for (int64_t at = 0; at < p->n; at += chunk_n) /* rows are cut anywhere */
        must(fw_merge_read(merge, p, at, p->n - at < chunk_n ? p->n - at : chunk_n, got + at));
    for (int64_t i = 0; i < p->n; i++) {
        if (adapted && i % p->cols == 0) merged_row(l, index, i / p->cols, row);
        const double want = adapted         ? row[i % p->cols]
                            : whole != NULL ? trained_value(whole, i)
                                            : (double)fw_test_weight(p->name, i);
        if (fabs((double)got[i] - want) > (adapted ? 1e-6 : 0))
            fail_msg("%s[%lld] is %.9g, not %.9g", p->name, (long long)i, (double)got[i], want);
    }
    fw_free(got);
    return adapted || whole != NULL;
}

/* A tied model of which one side was trained has two sides when it is merged. */
static void check_untied(const lab *l, fw_merge *merge) {
    fw_model_config config = l->base.config;
    fw_param_table table;
    config.tied = false;
    must(fw_param_table_init(&table, &config));
    const fw_param *own = trained_of(l, 0, FW_PARAM_TIED_HEAD), *embedding = trained_of(l, 0, FW_PARAM_BASE);
    static const char *const names[] = {"model.embed_tokens.weight", "lm_head.weight"};
    for (int k = 0; k < 2; k++) {
        const fw_param *p = fw_param_table_find(&table, names[k]), *whole = k == 0 ? embedding : own;
        for (int64_t i = 0; i < p->n; i += 7) {
            float got;
            must(fw_merge_read(merge, p, i, 1, &got));
            const double want = whole != NULL ? trained_value(whole, i) : (double)fw_test_weight(names[0], i);
            if ((double)got != want) fail_msg("%s[%lld] is %g, not %g", names[k], (long long)i, (double)got, want);
        }
    }
    assert_true(own != NULL || embedding != NULL);
    fw_param_table_fini(&table);
}

static void test_merge(void **state) {
    (void)state;
    fw_threads *threads;
    must(fw_threads_create(&threads, 3, NULL));
    for (int c = 0; cases[c] != NULL; c++) {
        lab l = {0};
        int touched_n = 0;
        open_lab(&l, cases[c]);
        write_adapter(&l);
        fw_peft_folder folder;
        must(fw_peft_folder_open(&folder, adapter_dir));
        fw_merge merge = {.adapter = &l.adapter,
                          .base = &l.base.table,
                          .trained = &l.trained,
                          .folder = &folder,
                          .read_base = read_base,
                          .base_context = &l.base,
                          .threads = c % 2 == 0 ? threads : NULL};
        for (int32_t i = 0; i < l.base.table.param_n; i++) touched_n += check_param(&l, &merge, i, 101 + 7 * c);
        assert_true(touched_n > 0);
        if (strcmp(cases[c], "embed_llama") == 0 || strcmp(cases[c], "head_qwen3") == 0) check_untied(&l, &merge);
        fw_merge_fini(&merge);
        fw_peft_folder_close(&folder);
        close_lab(&l);
    }
    fw_threads_destroy(threads);
}

/* ---- checkpoints: what is trained and nothing else, whoever wrote it */

static fw_status all_arrays(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                            void *raw) {
    float *out = raw;
    FW_TRY(values(context, p, first_n, n, out));
    for (int64_t i = 0; i < n; i++) out[i] += (float)array;
    return FW_OK;
}

static void test_checkpoint(void **state) {
    (void)state;
    lab l = {0};
    open_lab(&l, "dora_qwen3");
    write_adapter(&l);
    char out[FW_TEST_PATH_BYTES + 16], again[FW_TEST_PATH_BYTES + 16], exported[FW_TEST_PATH_BYTES + 16];
    snprintf(out, sizeof out, "%s/run", root);
    snprintf(again, sizeof again, "%s/again", root);
    snprintf(exported, sizeof exported, "%s/exported", root);
    char *path = NULL, *resharded = NULL;
    fw_checkpoint_state s = {.step = 7, .world_size = 3, .adapter = l.config.object};
    s.run = json_pack("{s:s, s:s}", "weights_hash", "0123456789abcdef", "base_quantization", "nf4 nested");
    must(fw_checkpoint_save(&path, out, base_dir, &l.trained, 3, all_arrays, NULL, &s));
    json_decref(s.run);
    must(fw_checkpoint_verify(path, true));

    fw_checkpoint_whole w;
    must(fw_checkpoint_whole_open(&w, path));
    assert_int_equal(w.table.param_n, l.trained.param_n);
    assert_non_null(w.peft.object);
    fw_checkpoint_whole_close(&w);

    fw_checkpoint_found_list list;
    must(fw_checkpoint_find_all(&list, out));
    assert_int_equal(list.found_n, 1);
    assert_true(list.found[0].adapter && list.found[0].why == NULL);
    fw_checkpoint_found_list_fini(&list);

    must(fw_checkpoint_reshard(&resharded, again, path, 2, false));
    const fw_export_options options = {.dtype = FW_BF16};
    bool adapter = false;
    must(fw_checkpoint_export(exported, resharded, &options, &adapter));
    assert_true(adapter);
    fw_test_same_folder(exported, adapter_dir);

    fw_free(path);
    fw_free(resharded);
    close_lab(&l);
}

/* Every allocation fails once: an error, no crash, no leak, and the folder stays what it was. */
static void test_no_memory(void **state) {
    (void)state;
    lab l = {0};
    open_lab(&l, "dora_llama");
    write_adapter(&l);
    const fw_peft_origin origin = {base_dir, l.config.object, NULL, NULL};
    for (int what = 0; what < 3; what++) {
        fw_status status = FW_ERR_NOMEM;
        for (uint64_t at = 1; status != FW_OK; at++) {
            fw_peft_folder folder = {0};
            json_t *made = NULL;
            fw_alloc_fail_at(at);
            status = what == 0   ? fw_peft_folder_open(&folder, adapter_dir)
                     : what == 1 ? fw_peft_config_make(&made, &l.config.request, "base")
                                 : fw_peft_folder_write(adapter_dir, &origin, &l.trained, values, NULL);
            fw_alloc_fail_at(0);
            if (status != FW_OK && status != FW_ERR_NOMEM)
                fail_msg("allocation %d of %d: %s", (int)at, what, fw_trail_message());
            fw_peft_folder_close(&folder);
            json_decref(made);
        }
    }
    close_lab(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folder), cmocka_unit_test(test_merge),
                                       cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
