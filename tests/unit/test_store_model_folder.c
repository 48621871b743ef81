/* Model folders: one or many files, checked against the table before data is read, read in any slices. */
#include "base/alloc.h"
#include "store/model_folder.h"
#include "support/scratch.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static char dir[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

static void expect_message(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

static void load_table(fw_model_config *config, fw_param_table *table) {
    assert_int_equal(fw_model_config_load(config, dir), FW_OK);
    assert_int_equal(fw_param_table_init(table, config), FW_OK);
}

/* Elements [first, first + n) of the unit, one by one, from the definition of the test weights. */
static void compare_slice(const fw_param_table *table, int32_t unit, int64_t first, int64_t n, const float *got) {
    for (int64_t i = 0; i < n; i++) {
        float want = 0;
        for (int32_t p = table->unit_first[unit]; p < table->unit_first[unit + 1]; p++) {
            const fw_param *param = &table->param[p];
            int64_t at = first + i - param->offset_n;
            if (at >= 0 && at < param->n) want = fw_test_weight(param->name, at);
        }
        if (got[i] != want)
            fail_msg("unit %d element %lld: %g, not %g", unit, (long long)(first + i), (double)got[i], (double)want);
    }
}

static void read_everything(const fw_model_folder *folder, const fw_param_table *table) {
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        int64_t size = table->unit_size_n[unit];
        float *out;
        assert_int_equal(FW_NEW_ARRAY(out, (size_t)size), FW_OK);
        memset(out, 0x7f, (size_t)size * sizeof *out);
        assert_int_equal(fw_model_folder_read(folder, table, unit, 0, size, out), FW_OK);
        compare_slice(table, unit, 0, size, out);
        for (int64_t parts = 2; parts < 6; parts++) /* the slices of 2, 3, ... ranks */
            for (int64_t r = 0; r < parts; r++) {
                int64_t first = size * r / parts, last = size * (r + 1) / parts;
                assert_int_equal(fw_model_folder_read(folder, table, unit, first, last - first, out), FW_OK);
                if (parts == 5) compare_slice(table, unit, first, last - first, out);
            }
        assert_int_equal(fw_model_folder_read(folder, table, unit, size, 0, out), FW_OK);
        fw_free(out);
    }
}

static void test_every_family(void **state) {
    (void)state;
    for (int v = 0; fw_test_model_variants[v] != NULL; v++) {
        assert_int_equal(fw_test_write_model(dir, fw_test_model_variants[v], 0), FW_OK);
        fw_model_config config;
        fw_param_table table;
        load_table(&config, &table);
        fw_model_folder folder;
        assert_int_equal(fw_model_folder_open(&folder, dir), FW_OK);
        if (fw_model_folder_check(&folder, &table, &config) != FW_OK) fail_msg("%s", fw_trail_message());
        if (v < 2) read_everything(&folder, &table);
        fw_model_folder_close(&folder);
        fw_param_table_fini(&table);
    }
}

/* Write the table's parameters as shards by turns, but for those named; with an extra tensor when wanted. */
typedef struct shard_options {
    int shard_n;
    fw_stored_dtype dtype;
    const char *without, *extra, *lie; /* lie: the index names the wrong shard for this one */
    int64_t extra_rows, extra_cols;
} shard_options;

static void write_shards(const fw_param_table *table, shard_options o) {
    remove(fw_test_path(dir, "model.safetensors"));
    char index[32768];
    int used = snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 0}, \"weight_map\": {");
    for (int s = 0; s < o.shard_n; s++) {
        fw_safetensors_entry entry[128];
        const fw_param *param[128];
        size_t n = 0;
        char name[64];
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", s + 1, o.shard_n);
        for (int32_t p = 0; p < table->param_n; p++) {
            const char *pn = table->param[p].name;
            if (p % o.shard_n != s || (o.without != NULL && strcmp(pn, o.without) == 0)) continue;
            param[n] = &table->param[p];
            entry[n++] = (fw_safetensors_entry){
                pn, o.dtype, table->param[p].cols ? 2 : 1, {table->param[p].rows, table->param[p].cols}};
            char named[64];
            snprintf(named, sizeof named, "model-%05d-of-%05d.safetensors",
                     (o.lie != NULL && strcmp(pn, o.lie) == 0 ? (s + 1) % o.shard_n : s) + 1, o.shard_n);
            used += snprintf(index + used, sizeof index - (size_t)used, "\"%s\": \"%s\", ", pn, named);
        }
        if (s == 0 && o.extra != NULL) {
            param[n] = NULL;
            entry[n++] = (fw_safetensors_entry){o.extra, o.dtype, 2, {o.extra_rows, o.extra_cols}};
        }
        fw_safetensors_writer w;
        assert_int_equal(fw_safetensors_writer_open(&w, fw_test_path(dir, name), entry, n, NULL), FW_OK);
        for (size_t i = 0; i < n; i++) {
            int64_t values = param[i] ? param[i]->n : o.extra_rows * o.extra_cols;
            for (int64_t k = 0; k < values; k++) {
                float value = param[i] ? fw_test_weight(param[i]->name, k) : 0;
                assert_int_equal(fw_safetensors_writer_put_f32(&w, &value, 1), FW_OK);
            }
        }
        assert_int_equal(fw_safetensors_writer_commit(&w), FW_OK);
        fw_safetensors_writer_close(&w);
    }
    used -= 2;
    used += snprintf(index + used, sizeof index - (size_t)used, "}}");
    fw_test_write(fw_test_path(dir, "model.safetensors.index.json"), index, (size_t)used);
}

static fw_status check(const fw_param_table *table, const fw_model_config *config) {
    fw_model_folder folder;
    FW_TRY(fw_model_folder_open(&folder, dir));
    fw_status status = fw_model_folder_check(&folder, table, config);
    fw_model_folder_close(&folder);
    return status;
}

static void test_shards(void **state) {
    (void)state;
    assert_int_equal(fw_test_write_model(dir, "llama_tied", 0), FW_OK);
    fw_model_config config;
    fw_param_table table;
    load_table(&config, &table);

    write_shards(&table, (shard_options){.shard_n = 3, .dtype = FW_STORED_F32});
    fw_model_folder folder;
    assert_int_equal(fw_model_folder_open(&folder, dir), FW_OK);
    assert_int_equal(folder.shard_n, 3);
    assert_int_equal(fw_model_folder_check(&folder, &table, &config), FW_OK);
    read_everything(&folder, &table);
    fw_model_folder_close(&folder);

    const char *name = "model.layers.1.mlp.up_proj.weight";
    write_shards(&table, (shard_options){.shard_n = 3, .dtype = FW_STORED_F32, .without = name});
    expect_message(check(&table, &config), FW_ERR_INPUT, "tensor model.layers.1.mlp.up_proj.weight is missing");
    expect_message(check(&table, &config), FW_ERR_INPUT, "(intermediate_size, hidden_size)");
    write_shards(&table, (shard_options){.shard_n = 3, .dtype = FW_STORED_F32, .lie = name});
    expect_message(check(&table, &config), FW_ERR_INPUT, "tensor model.layers.1.mlp.up_proj.weight is not in it");
    write_shards(&table, (shard_options){3, FW_STORED_F32, NULL, "model.layers.9.x.weight", NULL, 2, 2});
    expect_message(check(&table, &config), FW_ERR_INPUT,
                   "tensor model.layers.9.x.weight ([2, 2]) is not part of the model");
    write_shards(&table, (shard_options){2, FW_STORED_BF16, NULL, "lm_head.weight", NULL, config.V, config.C});
    assert_int_equal(check(&table, &config), FW_OK); /* the tied head written out: accepted */
    write_shards(&table, (shard_options){2, FW_STORED_BF16, NULL, "lm_head.weight", NULL, config.V, 3});
    expect_message(check(&table, &config), FW_ERR_INPUT, "lm_head.weight of a tied model has another shape");
    write_shards(&table,
                 (shard_options){2, FW_STORED_F16, NULL, "model.layers.0.self_attn.rotary_emb.inv_freq", NULL, 1, 4});
    assert_int_equal(check(&table, &config), FW_OK);
    write_shards(&table, (shard_options){.shard_n = 2, .dtype = FW_STORED_BF16});
    remove(fw_test_path(dir, "model-00002-of-00002.safetensors"));
    expect_message(check(&table, &config), FW_ERR_INPUT, "model-00002-of-00002.safetensors is missing");
    expect_message(check(&table, &config), FW_ERR_INPUT, "model.safetensors.index.json names it");
    fw_param_table_fini(&table);
}

static void test_index(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"{", "not valid JSON"},
        {"[]", "\"weight_map\" is missing or empty"},
        {"{\"weight_map\": {}}", "\"weight_map\" is missing or empty"},
        {"{\"weight_map\": {\"a\": 1}}", "\"a\" is not a file name"},
        {"{\"weight_map\": {\"a\": \"../secret.safetensors\"}}", "only *.safetensors in the same folder"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "only *.safetensors in the same folder"},
        {"{\"weight_map\": {\"a\": \"x.bin\"}}", "only *.safetensors in the same folder"},
        {"{\"weight_map\": {\"a\": \"x.safetensors\\u0000\"}}", "\"a\" is not a file name"},
        {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", "gone.safetensors is missing"},
    };
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    fw_model_folder folder;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fw_test_write(fw_test_path(own, "model.safetensors.index.json"), bad[i].text, strlen(bad[i].text));
        expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, bad[i].message);
    }
    const char *one = "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    fw_test_write_safetensors(fw_test_path(own, "a.safetensors"), one, 1);
    fw_test_write_safetensors(fw_test_path(own, "b.safetensors"),
                              "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                              "\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                              2);
    const char *both = "{\"weight_map\": {\"t\": \"a.safetensors\", \"u\": \"b.safetensors\"}}";
    fw_test_write(fw_test_path(own, "model.safetensors.index.json"), both, strlen(both));
    expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, "tensor t is in two files");
    fw_test_scratch_remove(own);
}

static void test_what_else_is_there(void **state) {
    (void)state;
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    fw_model_folder folder;
    expect_message(fw_model_folder_open(&folder, fw_test_path(own, "none")), FW_ERR_INPUT, "does not exist");
    expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, "has no model.safetensors");
    fw_test_write(fw_test_path(own, "m.gguf"), "GGUF", 4);
    expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, "finewire import");
    remove(fw_test_path(own, "m.gguf"));
    fw_test_write(fw_test_path(own, "training_args.bin"), "x", 1);
    expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, "has no model.safetensors");
    fw_test_write(fw_test_path(own, "pytorch_model.bin"), "x", 1);
    expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, "pytorch_model.bin, a Python pickle");
    expect_message(fw_model_folder_open(&folder, own), FW_ERR_INPUT, "save_pretrained");
    fw_test_scratch_remove(own);
}

/* The config asks for other sizes than the file has: tensor, both shapes and the keys are named. */
static void test_shape_contradicts_config(void **state) {
    (void)state;
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    assert_int_equal(fw_test_write_model(own, "qwen2_untied", 0), FW_OK);
    fw_model_config config;
    fw_param_table table;
    assert_int_equal(fw_model_config_load(&config, own), FW_OK);
    config.F += 8;
    assert_int_equal(fw_param_table_init(&table, &config), FW_OK);
    fw_model_folder folder;
    assert_int_equal(fw_model_folder_open(&folder, own), FW_OK);
    fw_status status = fw_model_folder_check(&folder, &table, &config);
    char want[256];
    snprintf(want, sizeof want, "mlp.gate_proj.weight has shape [%d, %d], config.json asks for [%d, %d] (intermediate",
             (int)config.F - 8, (int)config.C, (int)config.F, (int)config.C);
    expect_message(status, FW_ERR_INPUT, want);
    fw_param_table_fini(&table);
    config.F -= 8;
    config.L -= 1; /* a layer too many in the file */
    assert_int_equal(fw_param_table_init(&table, &config), FW_OK);
    expect_message(fw_model_folder_check(&folder, &table, &config), FW_ERR_INPUT, "num_hidden_layers");
    fw_param_table_fini(&table);
    fw_model_folder_close(&folder);
    fw_test_scratch_remove(own);
}

/* Resident pages of mapped files, in bytes. */
static long resident_file_bytes(void) {
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    char line[256];
    long kib = -1;
    while (fgets(line, sizeof line, f) != NULL) sscanf(line, "RssFile: %ld", &kib);
    fclose(f);
    return kib < 0 ? -1 : kib * 1024;
}

/* D41: 64 MiB of weights go through in slices, and what was read does not stay resident. */
static void test_pages_are_given_back(void **state) {
    (void)state;
    if (resident_file_bytes() < 0) skip();
    enum { ROWS = 4096, COLS = 4096, SLICE = 1 << 18 };
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    char header[200];
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", ROWS, COLS,
             4 * ROWS * COLS);
    const char *path = fw_test_path(own, "model.safetensors");
    fw_test_write_safetensors(path, header, 0);
    fw_test_resize(path, fw_test_file_bytes(path) + 4ull * ROWS * COLS); /* zeros, without using the disk */
    fw_param param = {.name = "w", .rows = ROWS, .cols = COLS, .n = ROWS * COLS};
    int64_t unit_size = ROWS * COLS, unit_offset = 0;
    int32_t unit_first[2] = {0, 1};
    fw_param_table table = {&param, 1, 1, &unit_size, &unit_offset, unit_size, unit_size, unit_first};
    fw_model_folder folder;
    assert_int_equal(fw_model_folder_open(&folder, own), FW_OK);
    float *slice;
    assert_int_equal(FW_NEW_ARRAY(slice, SLICE), FW_OK);
    long before = resident_file_bytes(), most = before;
    for (int64_t at = 0; at < unit_size; at += SLICE) {
        assert_int_equal(fw_model_folder_read(&folder, &table, 0, at, SLICE, slice), FW_OK);
        long now = resident_file_bytes();
        if (now > most) most = now;
    }
    assert_true(most - before < 4 << 20);
    fw_free(slice);
    fw_model_folder_close(&folder);
    fw_test_scratch_remove(own);
}

static void test_nth_allocation(void **state) {
    (void)state;
    assert_int_equal(fw_test_write_model(dir, "llama_tied", 0), FW_OK);
    fw_model_config config;
    fw_param_table table;
    load_table(&config, &table);
    write_shards(&table, (shard_options){.shard_n = 2, .dtype = FW_STORED_BF16});
    uint64_t n = 1;
    for (;; n++) {
        fw_alloc_fail_at(n);
        fw_status status = check(&table, &config);
        fw_alloc_fail_at(0);
        if (status == FW_OK) break;
        if (status != FW_ERR_NOMEM) fail_msg("allocation %d: %s", (int)n, fw_trail_message());
    }
    assert_true(n > 20);
    fw_param_table_fini(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_what_else_is_there),
        cmocka_unit_test(test_shape_contradicts_config),
        cmocka_unit_test(test_pages_are_given_back),
        cmocka_unit_test(test_nth_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
