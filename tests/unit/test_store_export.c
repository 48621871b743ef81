/* Exported folders: right dtype in bytes and config, shards, what may be replaced, and nothing half-written. */
#include "base/alloc.h"
#include "base/hash.h"
#include "store/export.h"
#include "store/model_folder.h"
#include "support/scratch.h"
#include "support/store_model.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char root[FW_TEST_PATH_BYTES];

static int setup(void **state) {
    (void)state;
    fw_test_scratch_make(root);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(root);
    return 0;
}

static void expect_message(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

static void must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

/* A source folder with a tokenizer of a kind, and the model in memory. */
static const char *make_source(fw_test_memory_model *m, const char *variant) {
    const char *source = fw_test_path(root, variant);
    must(fw_test_write_model(source, variant, 0));
    fw_test_write(fw_test_path(source, "tokenizer.json"), "{\"version\": \"1.0\"}", 18);
    fw_test_write(fw_test_path(source, "chat_template.jinja"), "{{ messages }}", 14);
    fw_test_write(fw_test_path(source, "notes.txt"), "mine", 4);
    must(fw_test_memory_model_init(m, source));
    return source;
}

static fw_status export(const char *dir, const char *source, fw_test_memory_model *m, fw_dtype dtype, uint64_t shard) {
    fw_flat_params flat = {&m->table, m->flat};
    fw_export_options options = {.dtype = dtype, .max_shard_bytes = shard};
    return fw_export_model(dir, source, &m->table, &options, fw_param_read_flat, &flat);
}

/* The folder holds the model's values, each rounded to dtype. */
static void compare_folder(const char *dir, const fw_test_memory_model *m, fw_dtype dtype) {
    fw_model_folder folder;
    must(fw_model_folder_open(&folder, dir));
    must(fw_model_folder_check(&folder, &m->table, &m->config));
    float *got;
    must(FW_NEW_ARRAY(got, (size_t)m->table.total_n));
    for (int32_t u = 0; u < m->table.unit_n; u++)
        must(fw_model_folder_read(&folder, &m->table, u, 0, m->table.unit_size_n[u], got + m->table.unit_offset_n[u]));
    for (int64_t i = 0; i < m->table.total_n; i++) {
        float want = m->flat[i];
        if (dtype == FW_BF16) want = fw_bf16_to_f32(fw_bf16_from_f32(want));
        if (dtype == FW_F16) want = fw_f16_to_f32(fw_f16_from_f32(want));
        if (got[i] != want) fail_msg("value %lld: %g, not %g", (long long)i, (double)got[i], (double)want);
    }
    fw_free(got);
    fw_model_folder_close(&folder);
}

static const char *config_dtype(const char *dir, const char *key) {
    static char text[64];
    json_t *config;
    must(fw_json_load(&config, fw_test_path(dir, "config.json"), 1 << 20));
    const char *value = json_string_value(json_object_get(config, key));
    snprintf(text, sizeof text, "%s", value ? value : "");
    json_decref(config);
    return text;
}

/* B24, B29, B31: every family, the dtype in the bytes and in the config, the small files. */
static void test_every_family(void **state) {
    (void)state;
    for (int v = 0; fw_test_model_variants[v] != NULL; v++) {
        fw_test_memory_model m;
        const char *source = make_source(&m, fw_test_model_variants[v]);
        const char *out = fw_test_path(root, "out");
        must(export(out, source, &m, FW_BF16, 0));
        compare_folder(out, &m, FW_BF16);
        json_t *config;
        must(fw_json_load(&config, fw_test_path(source, "config.json"), 1 << 20));
        bool new_keys = json_object_get(config, "dtype") != NULL || json_object_get(config, "rope_parameters") != NULL;
        json_decref(config);
        assert_string_equal(config_dtype(out, new_keys ? "dtype" : "torch_dtype"), "bfloat16");
        assert_string_equal(config_dtype(out, new_keys ? "torch_dtype" : "dtype"), ""); /* its generation is kept */
        fw_safetensors file;
        must(fw_safetensors_open(&file, fw_test_path(out, "model.safetensors")));
        uint64_t data_bytes = 0;
        for (size_t i = 0; i < file.tensor_n; i++) data_bytes += file.tensor[i].bytes;
        assert_int_equal(data_bytes, 2 * m.table.parameter_n);
        assert_string_equal(json_string_value(json_object_get(file.metadata, "format")), "pt");
        assert_true(m.config.tied == (fw_safetensors_find(&file, "lm_head.weight") == NULL));
        fw_safetensors_close(&file);
        assert_true(fw_file_exists(fw_test_path(out, "tokenizer.json")));
        assert_true(fw_file_exists(fw_test_path(out, "chat_template.jinja")));
        assert_false(fw_file_exists(fw_test_path(out, "notes.txt")));
        must(fw_dir_remove(out));
        fw_test_memory_model_fini(&m);
    }
}

static void test_shards(void **state) {
    (void)state;
    fw_test_memory_model m;
    const char *source = make_source(&m, "qwen3_untied"), *out = fw_test_path(root, "sharded");
    must(export(out, source, &m, FW_F32, 20000));
    json_t *index;
    must(fw_json_load(&index, fw_test_path(out, "model.safetensors.index.json"), 1 << 20));
    int64_t total;
    must(fw_json_need_int(&total, json_object_get(index, "metadata"), "total_size", 0, INT64_MAX, "index"));
    assert_int_equal(total, 4 * m.table.parameter_n);
    assert_int_equal(json_object_size(json_object_get(index, "weight_map")), m.table.param_n);
    json_decref(index);
    fw_model_folder folder;
    must(fw_model_folder_open(&folder, out));
    assert_true(folder.shard_n > 2);
    for (size_t s = 0; s < folder.shard_n; s++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < folder.shard[s].tensor_n; i++) bytes += folder.shard[s].tensor[i].bytes;
        assert_true(bytes <= 20000 || folder.shard[s].tensor_n == 1);
    }
    fw_model_folder_close(&folder);
    compare_folder(out, &m, FW_F32);
    assert_string_equal(config_dtype(out, "dtype")[0] ? "float32" : config_dtype(out, "torch_dtype"), "float32");
    must(export(out, source, &m, FW_F16, 0)); /* over our own: replaced, not mixed */
    assert_false(fw_file_exists(fw_test_path(out, "model.safetensors.index.json")));
    compare_folder(out, &m, FW_F16);
    uint64_t first, second, bytes;
    must(fw_hash_file(&first, &bytes, fw_test_path(out, "model.safetensors")));
    must(export(out, source, &m, FW_F16, 0));
    must(fw_hash_file(&second, &bytes, fw_test_path(out, "model.safetensors")));
    assert_true(first == second);
    must(fw_dir_remove(out));
    fw_test_memory_model_fini(&m);
}

static void test_targets(void **state) {
    (void)state;
    fw_test_memory_model m;
    const char *source = make_source(&m, "llama_tied");
    char slashed[FW_TEST_PATH_BYTES + 8];
    snprintf(slashed, sizeof slashed, "%s///", fw_test_path(root, "deep/er/out"));
    expect_message(export(source, source, &m, FW_BF16, 0), FW_ERR_OPTION, "is the folder of the model that is read");
    must(export(slashed, source, &m, FW_BF16, 0));
    must(fw_export_check_target(slashed, source));
    fw_test_write(fw_test_path(slashed, "README.md"), "x", 1);
    expect_message(export(slashed, source, &m, FW_BF16, 0), FW_ERR_OPTION, "README.md, which finewire did not write");
    assert_true(fw_file_exists(fw_test_path(slashed, "README.md")));
    const char *other = fw_test_path(root, "mistral"); /* a folder of somebody else */
    must(fw_test_write_model(other, "mistral", 0));
    expect_message(export(other, source, &m, FW_BF16, 0), FW_ERR_OPTION, "finewire did not write");
    const char *plain = fw_test_path(root, "plain");
    fw_test_write(plain, "x", 1);
    expect_message(export(plain, source, &m, FW_BF16, 0), FW_ERR_OPTION, "is not a folder");
    const char *empty = fw_test_path(root, "empty");
    must(fw_dir_make(empty));
    must(export(empty, source, &m, FW_BF16, 0));
    fw_test_memory_model_fini(&m);
}

static void test_no_space(void **state) {
    (void)state;
    fw_test_memory_model m;
    const char *source = make_source(&m, "llama_tied"), *out = fw_test_path(root, "nospace");
    int64_t parameters = m.table.parameter_n;
    m.table.parameter_n = INT64_C(1) << 56;
    expect_message(export(out, source, &m, FW_BF16, 0), FW_ERR_IO, "no space for");
    expect_message(export(out, source, &m, FW_BF16, 0), FW_ERR_IO, "it needs 144115188.08 GB and");
    assert_false(fw_dir_exists(out));
    m.table.parameter_n = parameters;
    fw_test_memory_model_fini(&m);
}

static fw_status bad_reader(void *context, const fw_param *param, int64_t first_n, int64_t n, float *out) {
    if (strstr(param->name, "layers.1.") != NULL) return fw_fail(FW_ERR_RANK, "rank 1 is gone");
    return fw_param_read_flat(context, param, first_n, n, out);
}

/* Whatever fails, whenever: the old folder is intact, and nothing else is left. */
static void test_faults(void **state) {
    (void)state;
    char own[FW_TEST_PATH_BYTES];
    fw_test_scratch_make(own);
    fw_test_memory_model m;
    const char *source = make_source(&m, "llama_tied");
    const char *out = fw_test_path(own, "out");
    must(export(out, source, &m, FW_F32, 0));
    int entries = fw_test_count_entries(own);
    uint64_t before, after, bytes;
    must(fw_hash_file(&before, &bytes, fw_test_path(out, "model.safetensors")));
    m.flat[0] += 1;
    fw_flat_params flat = {&m.table, m.flat};
    fw_export_options options = {.dtype = FW_F32};
    expect_message(fw_export_model(out, source, &m.table, &options, bad_reader, &flat), FW_ERR_RANK, "rank 1 is gone");
    assert_int_equal(fw_test_count_entries(own), entries);
    int failures[2] = {0, 0};
    for (int kind = 0; kind < 2; kind++) {
        must(export(out, source, &m, FW_F32, 0));
        must(fw_hash_file(&before, &bytes, fw_test_path(out, "model.safetensors")));
        for (uint64_t n = 1;; n++) {
            if (kind == 0)
                fw_file_fail_write_at(n);
            else
                fw_alloc_fail_at(n);
            fw_status status = export(out, source, &m, FW_F32, 20000);
            fw_file_fail_write_at(0);
            fw_alloc_fail_at(0);
            if (status == FW_OK) break;
            failures[kind]++;
            if (status != (kind == 0 ? FW_ERR_IO : FW_ERR_NOMEM)) fail_msg("%d: %s", (int)n, fw_trail_message());
            must(fw_hash_file(&after, &bytes, fw_test_path(out, "model.safetensors")));
            assert_true(before == after);
            assert_int_equal(fw_test_count_entries(own), entries);
            if (kind == 1 && n > 400) n += 6; /* the rest is the same again for each tensor */
        }
    }
    assert_true(failures[0] > 4 && failures[1] > 20);
    fw_test_memory_model_fini(&m);
    fw_test_scratch_remove(own);
}

/* A folder of ours that cannot be looked into, for want of memory or of room for another open file, is not called
 * somebody else's. */
static void test_machine_at_its_limits(void **state) {
    (void)state;
    fw_test_memory_model m;
    const char *source = make_source(&m, "llama_tied"), *out = fw_test_path(root, "limits");
    must(export(out, source, &m, FW_BF16, 0));
    fw_alloc_fail_at(UINT64_MAX); /* counts */
    must(fw_export_check_target(out, source));
    uint64_t allocation_n = fw_alloc_count();
    assert_true(allocation_n > 4);
    for (uint64_t n = 1; n <= allocation_n; n++) {
        fw_alloc_fail_at(n);
        assert_int_equal(fw_export_check_target(out, source), FW_ERR_NOMEM);
        fw_alloc_fail_at(0);
    }
    struct rlimit was, less;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    less = was;
    less.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    fw_status status = fw_export_check_target(out, source);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    expect_message(status, FW_ERR_IO, "Too many open files");

    /* weights larger than the addresses that are left */
    assert_int_equal(truncate(fw_test_path(out, "model.safetensors"), (off_t)1 << 30), 0);
    unsigned long used_n = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%lu", &used_n), 1);
    fclose(statm);
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    less = was;
    less.rlim_cur = used_n * (unsigned long)sysconf(_SC_PAGESIZE) + (64 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    status = fw_export_check_target(out, source);
    assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
    expect_message(status, FW_ERR_NOMEM, "cannot map ");
    must(fw_dir_remove(out));
    fw_test_memory_model_fini(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family), cmocka_unit_test(test_shards),
        cmocka_unit_test(test_targets),      cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_machine_at_its_limits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
