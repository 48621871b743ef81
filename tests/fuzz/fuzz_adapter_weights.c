/* The tensors of an adapter from anywhere, beside a configuration and a model that are sound: an error, or what the adapter's
 * table asks for, which can be read.
 *
 * An input begins with which of a few adapters is meant, and a byte that all numbers are made of; then it is a list of
 * changes to the file that peft would write: a byte that says which tensor, one what is done to it, and a text that ends with a byte 0. */
#include "fuzz/made_weights.h"
#include "fuzz/small_model.h"
#include "store/peft_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES_MAX = 16, NAME_BYTES = 256 };

static const fw_model_config model = {FUZZ_SMALL_MODEL, .L = 1, .qkv_bias = true};

static const fw_adapter_request requests[] = {
    {.r = 3, .alpha = 6, .target_modules = "all-linear", .dora = true},
    {.r = 2, .alpha = 2, .target_modules = "q_proj,down_proj", .bias = FW_ADAPTER_BIAS_ALL},
    {.r = 2, .alpha = 2, .target_modules = "v_proj", .modules_to_save = "lm_head,q_proj", .bias = FW_ADAPTER_BIAS_ALL}};
enum { REQUEST_N = sizeof requests / sizeof *requests };

typedef enum change_kind { MISSING, OTHER_TYPE, ROW_MORE, TURNED, RENAMED, TWICE, CHANGE_KIND_N } change_kind;
typedef struct change {
    uint8_t at, kind;
    char text[NAME_BYTES];
} change;

/* Names are plain text, so that the header stays sound. */
static int32_t read_changes(change *out, const uint8_t *data, size_t size) {
    int32_t n = 0;
    for (size_t i = 0; i + 2 < size && n < CHANGES_MAX; n++) {
        change *c = &out[n];
        *c = (change){.at = data[i], .kind = data[i + 1] % CHANGE_KIND_N};
        size_t k = 0;
        for (i += 2; i < size && data[i] != 0; i++)
            if (k + 1 < NAME_BYTES && data[i] > 32 && data[i] < 127 && data[i] != '"' && data[i] != '\\')
                c->text[k++] = (char)data[i];
        i++;
    }
    return n;
}

static void put(made_weights *w, const fw_param *p, const change *c, uint8_t fill) {
    static const char *const types[] = {"F32", "BF16", "F16", "F64", "I8"};
    static const size_t type_bytes[] = {4, 2, 2, 8, 1};
    const change none = {.kind = CHANGE_KIND_N};
    if (c == NULL) c = &none;
    int64_t rows = p->rows, cols = p->cols;
    const size_t type = c->kind == OTHER_TYPE ? (size_t)c->text[0] % 5 : 0;
    if (c->kind == MISSING) return;
    if (c->kind == ROW_MORE) rows++;
    if (c->kind == TURNED && cols > 0) rows = p->cols, cols = p->rows;
    const size_t bytes = (size_t)(cols == 0 ? rows : rows * cols) * type_bytes[type];
    made_put(w, c->kind == RENAMED ? c->text : p->name, types[type], rows, cols, bytes, &fill, 1);
    if (c->kind == TWICE) made_put(w, c->text, types[type], rows, cols, bytes, &fill, 1);
}

static void check_read(const fw_peft_folder *folder, const fw_param_table *table) {
    static float x[1 << 14];
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        FW_ASSERT(table->unit_size_n[unit] <= (int64_t)(sizeof x / sizeof *x));
        FW_ASSERT(fw_model_folder_read(&folder->weights, table, unit, 0, table->unit_size_n[unit], x) == FW_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static made_weights w;
    static change changes[CHANGES_MAX];
    fw_param_table base, frozen, trained;
    fw_adapter adapter;
    fw_safetensors file;
    if (size < 2) return 0;
    const fw_adapter_request *request = &requests[data[0] % REQUEST_N];
    const int32_t change_n = read_changes(changes, data + 2, size - 2);
    FW_ASSERT(fw_param_table_init(&base, &model) == FW_OK);
    FW_ASSERT(fw_adapter_resolve(&adapter, request, &model, &base) == FW_OK);
    FW_ASSERT(fw_adapter_tables(&adapter, &base, &frozen, &trained) == FW_OK);
    made_begin(&w);
    for (int32_t i = 0; i < trained.param_n; i++) {
        const change *c = NULL;
        for (int32_t k = 0; k < change_n && c == NULL; k++)
            if (changes[k].at % trained.param_n == i) c = &changes[k];
        put(&w, &trained.param[i], c, data[1]);
    }
    if (made_open(&file, &w, "adapter_model.safetensors") == FW_OK) { /* a name may be there twice */
        fw_peft_part part;
        char module[FW_PEFT_MODULE_BYTES];
        const fw_peft_folder folder = {
            .config = {.where = (char *)(uintptr_t) "adapter_config.json", .request = *request},
            .weights = {.dir = (char *)(uintptr_t) "DIR", .shard = &file, .shard_n = 1}};
        for (size_t i = 0; i < file.tensor_n; i++)
            if (fw_peft_name_split(&part, module, file.tensor[i].name, "it") == FW_OK) FW_ASSERT(strlen(module) > 0);
        if (fw_peft_folder_check(&folder, &trained, "base") == FW_OK) check_read(&folder, &trained);
        fw_safetensors_close(&file);
    }
    fw_param_table_fini(&trained);
    fw_param_table_fini(&frozen);
    fw_adapter_fini(&adapter);
    fw_param_table_fini(&base);
    return 0;
}
