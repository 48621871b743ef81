/* Matrices in 4 bits as bitsandbytes saves them: tests/data/quant/linear4bit.safetensors, which
 * tests/parity/make_quant_reference.py writes, and spoilt forms of it. */
#include "base/alloc.h"
#include "base/file.h"
#include "store/packed_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <zlib.h>

typedef struct data {
    fw_safetensors file;
    fw_model_folder folder; /* around the file, without a folder on the disk */
    uint8_t *bytes;
    size_t n;
} data;

static void close_data(data *d) {
    fw_safetensors_close(&d->file);
    fw_free(d->bytes);
}

/* The file with every `from` replaced by `to` of the same length. */
static void open_data(data *d, const char *from, const char *to) {
    FILE *f = fopen(FW_TEST_DATA "/quant/linear4bit.safetensors", "rb");
    assert_non_null(f);
    *d = (data){0};
    assert_int_equal(FW_NEW_ARRAY(d->bytes, 1 << 16), FW_OK);
    d->n = fread(d->bytes, 1, 1 << 16, f);
    fclose(f);
    int replaced = 0;
    const size_t length = from == NULL ? 0 : strlen(from);
    for (size_t i = 0; from != NULL && i + length <= d->n; i++)
        if (memcmp(d->bytes + i, from, length) == 0) memcpy(d->bytes + i, to, length), replaced++;
    assert_true(from == NULL || (replaced > 0 && strlen(to) == length));
    assert_int_equal(fw_safetensors_parse(&d->file, d->bytes, d->n, "linear4bit.safetensors"), FW_OK);
    d->folder = (fw_model_folder){.dir = (char *)(uintptr_t) "DIR", .shard = &d->file, .shard_n = 1};
}

static void check_read(const fw_model_folder *folder, const char *name, int64_t rows, int64_t cols, uint64_t crc) {
    const int64_t n = rows * cols;
    fw_stored_quant q;
    float *x, *y;
    assert_true(fw_stored_quant_has(folder, name));
    assert_int_equal(fw_stored_quant_open(&q, folder, name, rows, cols), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(x, (size_t)n), FW_OK);
    assert_int_equal(FW_NEW_ARRAY(y, (size_t)n), FW_OK);
    fw_stored_quant_read(&q, 0, n, x);
    for (int64_t i = 0; i < n; i++) x[i] = x[i] == 0 ? 0 : x[i];
    const uLong sum = crc32(crc32(0, NULL, 0), (const Bytef *)x, (uInt)((size_t)n * sizeof *x));
    if (sum != crc) fail_msg("%s: the numbers are not those of bitsandbytes", name);
    fw_stored_quant_read(&q, 0, n, x);
    for (int64_t at = 0, some = 1; at < n; at += some, some += 6) { /* any range is a part of the whole */
        if (some > n - at) some = n - at;
        fw_stored_quant_read(&q, at, some, y + at);
    }
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    fw_free(x);
    fw_free(y);
}

static void test_read(void **state) {
    (void)state;
    data d;
    open_data(&d, NULL, NULL);
    json_t *sums = json_load_file(FW_TEST_DATA "/quant/linear4bit.json", 0, NULL), *sum;
    const char *name;
    assert_non_null(sums);
    json_object_foreach(sums, name, sum) {
        const json_t *shape = json_object_get(sum, "shape");
        check_read(&d.folder, name, json_integer_value(json_array_get(shape, 0)),
                   json_integer_value(json_array_get(shape, 1)),
                   (uint64_t)json_integer_value(json_object_get(sum, "crc")));
    }
    assert_true(fw_stored_quant_belongs(&d.folder, "a.weight.nested_absmax"));
    assert_true(fw_stored_quant_belongs(&d.folder, "b.weight.quant_state.bitsandbytes__fp4"));
    assert_false(fw_stored_quant_belongs(&d.folder, "a.weight"));
    assert_false(fw_stored_quant_belongs(&d.folder, "c.weight.absmax"));
    assert_false(fw_stored_quant_has(&d.folder, "a"));
    json_decref(sums);
    close_data(&d);
}

/* ---- a model as transformers saves it ---- */

static void check_sum(const json_t *sums, const char *name, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = x[i] == 0 ? 0 : x[i];
    const uLong sum = crc32(crc32(0, NULL, 0), (const Bytef *)x, (uInt)((size_t)n * sizeof *x));
    const json_t *want = json_object_get(json_object_get(sums, name), "nf4 nested");
    if ((json_int_t)sum != json_integer_value(want)) fail_msg("%s: not what bitsandbytes has", name);
}

/* Read as fp32, as any model is, and packed as it is, for training an adapter: the same numbers. */
static void test_model(void **state) {
    (void)state;
    static const char dir[] = FW_TEST_DATA "/quant/llama_tied_4bit";
    fw_model_config config;
    fw_param_table table;
    fw_model_folder folder;
    fw_packed_options how;
    fw_packed_table packed;
    fw_packed_weights weights;
    bool *stored;
    json_t *models = json_load_file(FW_TEST_DATA "/quant/models.json", 0, NULL);
    const json_t *sums = json_object_get(models, "llama_tied");
    assert_non_null(sums);
    assert_int_equal(fw_model_config_load(&config, dir), FW_OK);
    assert_int_equal(fw_param_table_init(&table, &config), FW_OK);
    assert_int_equal(fw_model_folder_open(&folder, dir), FW_OK);
    assert_int_equal(fw_model_folder_check(&folder, &table, &config), FW_OK);
    assert_int_equal(fw_packed_find_stored(&stored, &how, &folder, &table), FW_OK);
    assert_non_null(stored);
    assert_true(how.kind == FW_QUANT_NF4 && how.block == 64 && how.nested && how.nested_block == 256);
    assert_int_equal(fw_packed_table_init(&packed, &table, &how, stored, FW_F32), FW_OK);
    fw_packed_weights_init(&weights, &folder, &packed);
    for (int32_t i = 0; i < table.param_n; i++) {
        const fw_param *p = &table.param[i];
        if (p->unit == 0 || p->cols == 0) {
            assert_false(stored[i]);
            continue;
        }
        float *x, *y;
        assert_int_equal(FW_NEW_ARRAY(x, (size_t)p->n), FW_OK);
        assert_int_equal(FW_NEW_ARRAY(y, (size_t)p->n), FW_OK);
        assert_int_equal(fw_model_folder_read(&folder, &table, p->unit, p->offset_n, p->n, x), FW_OK);
        assert_int_equal(fw_packed_read_numbers(&weights, i, 0, p->n, y), FW_OK);
        assert_memory_equal(x, y, (size_t)p->n * sizeof *x);
        check_sum(sums, p->name, x, p->n);
        fw_free(x);
        fw_free(y);
    }
    fw_packed_weights_fini(&weights);
    fw_packed_table_fini(&packed);
    fw_free(stored);
    fw_model_folder_close(&folder);
    fw_param_table_fini(&table);
    json_decref(models);
}

/* What is wrong is named. */
static void check_refused(const char *from, const char *to, const char *name, int64_t rows, int64_t cols,
                          const char *message) {
    data d;
    fw_stored_quant q;
    open_data(&d, from, to);
    assert_int_equal(fw_stored_quant_open(&q, &d.folder, name, rows, cols), FW_ERR_INPUT);
    if (strstr(fw_trail_message(), message) == NULL) fail_msg("\"%s\" is not in: %s", message, fw_trail_message());
    close_data(&d);
}

static void test_refused(void **state) {
    (void)state;
    check_refused(NULL, NULL, "a.weight", 40, 48, "\"shape\" is not the [40, 48]");
    check_refused("\"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [48",
                  "\"blocksize\": 63, \"dtype\": \"bfloat16\", \"shape\": [48", "a.weight", 48, 40, "\"blocksize\"");
    check_refused("\"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [48",
                  "\"blocksize\": -2, \"dtype\": \"bfloat16\", \"shape\": [48", "a.weight", 48, 40, "\"blocksize\"");
    check_refused("\"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [48",
                  "\"blocksize\": 32, \"dtype\": \"bfloat16\", \"shape\": [48", "a.weight", 48, 40,
                  "a.weight.absmax has 30 elements");
    check_refused("\"quant_type\": \"nf4\"", "\"quant_type\": \"fp4\"", "a.weight", 48, 40,
                  "\"quant_type\" is \"fp4\"");
    check_refused("\"nested_blocksize\": 256", "\"nested_blocksize\": 0  ", "a.weight", 48, 40, "\"nested_blocksize\"");
    check_refused("\"nested_offset\": 2.589583396911621", "\"nested_offset\": \"no number here\" ", "a.weight", 48, 40,
                  "\"nested_offset\"");
    check_refused("\"nested_offset\": 2.589583396911621", "\"nested_offset\": 2.58958339691e390", "a.weight", 48, 40,
                  "");
    check_refused("{\"quant_type\": \"nf4\"", "[\"quant_type\": \"nf4\"", "a.weight", 48, 40, "quant_state");
    check_refused("b.weight.absmax", "b.weight.absmin", "b.weight", 6, 30, "b.weight.absmax is missing");
    check_refused("b.weight.quant_map", "b.weight.quant_mop", "b.weight", 6, 30, "b.weight.quant_map is missing");
    check_refused("a.weight.nested_absmax", "a.weight.nested_absmix", "a.weight", 48, 40, "nested_absmax is missing");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_model),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
