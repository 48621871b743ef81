/* A matrix in 4 bits from anywhere, in a small model whose other weights are as they should be: an error, or numbers that are
 * the same whichever way they are read: as those of any model, number by number, and as the packed unit that training
 * carries and a device unpacks.
 *
 * An input says which matrix, nested or not, and for each tensor beside it what is wrong with it; then the text of its
 * quant_state, a byte 0, and the bytes that its tensors are filled with. So the header of the file is always sound. */
#include "base/alloc.h"
#include "device/device.h"
#include "fuzz/made_weights.h"
#include "fuzz/small_model.h"
#include "store/packed_weights.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PART_N = 6, MATRIX_N = 7, STATE_BYTES = 1 << 12, UNIT_NUMBERS = 1 << 12, FIXED_BYTES = 9 };

static const fw_model_config model = {FUZZ_SMALL_MODEL, .L = 1};

/* One of the tensors of the matrix. wrong: 0 nothing, 1 it is missing, 2 one element more, 3 one less, 4 another type. */
static void put_part(made_weights *w, const char *of, const char *suffix, bool bytes, int64_t n, uint8_t wrong,
                     const uint8_t *from, size_t from_n) {
    const bool floats = (wrong == 4) == bytes;
    char name[256];
    if (wrong == 1) return;
    n += wrong == 2 ? 1 : wrong == 3 ? -1 : 0;
    snprintf(name, sizeof name, "%s%s", of, suffix);
    made_put(w, name, floats ? "F32" : "U8", n, 0, (size_t)n * (floats ? 4 : 1), from, from_n);
}

typedef struct input {
    int32_t matrix; /* which, of a block's */
    bool fp4, nested, bf16;
    uint8_t block_log, wrong[PART_N];
    const char *state;
    size_t state_n;
    const uint8_t *bytes;
    size_t bytes_n;
} input;

static bool take(input *in, const uint8_t *data, size_t size) {
    if (size < FIXED_BYTES) return false;
    *in = (input){.matrix = data[0] % MATRIX_N,
                  .fp4 = data[1] & 1,
                  .nested = data[1] & 2,
                  .bf16 = data[1] & 4,
                  .block_log = data[2] % 8,
                  .state = (const char *)data + FIXED_BYTES};
    for (int i = 0; i < PART_N; i++) in->wrong[i] = data[3 + i] % 5;
    const char *end = memchr(in->state, 0, size - FIXED_BYTES);
    in->state_n = end == NULL ? size - FIXED_BYTES : (size_t)(end - in->state);
    in->bytes = data + FIXED_BYTES + in->state_n + (end != NULL);
    in->bytes_n = size - FIXED_BYTES - in->state_n - (end != NULL);
    return true;
}

static void put_matrix(made_weights *w, const input *in, const fw_param *p) {
    const int64_t block_n = fw_quant_block_n(p->n, (int64_t)2 << in->block_log);
    const char *state = in->fp4 ? ".quant_state.bitsandbytes__fp4" : ".quant_state.bitsandbytes__nf4";
    const uint8_t *from = in->bytes;
    const size_t n = in->bytes_n;
    put_part(w, p->name, "", true, fw_quant_code_bytes(p->n), in->wrong[0], from, n);
    put_part(w, p->name, ".absmax", in->nested, block_n, in->wrong[1], from, n);
    put_part(w, p->name, ".quant_map", false, FW_QUANT_MAP4_N, in->wrong[2], from, n);
    if (in->nested) {
        put_part(w, p->name, ".nested_absmax", false, fw_quant_block_n(block_n, FW_QUANT_NESTED_BLOCK), in->wrong[3],
                 from, n);
        put_part(w, p->name, ".nested_quant_map", false, FW_QUANT_MAP8_N, in->wrong[4], from, n);
    }
    char name[256];
    snprintf(name, sizeof name, "%s%s", p->name, state);
    made_put(w, name, in->wrong[5] == 4 ? "I8" : "U8", (int64_t)in->state_n, 0, in->state_n, (const uint8_t *)in->state,
             in->state_n);
}

static bool same(const float *x, const float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(x[i] != x[i] && y[i] != y[i])) return false;
    return true;
}

static bool all_finite(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* As any model is read, number by number, and unpacked from the words of its block. */
static void check_numbers(const fw_model_folder *folder, const fw_param_table *table, const fw_packed_table *packed) {
    static float whole[UNIT_NUMBERS], single[UNIT_NUMBERS];
    static uint16_t words[1 << 14];
    static uint64_t work[UNIT_NUMBERS];
    const int64_t word_n = packed->words.unit_size_n[1], n = table->unit_size_n[1];
    fw_packed_weights weights;
    fw_device *device;
    FW_ASSERT(n <= UNIT_NUMBERS && word_n <= (int64_t)(sizeof words / sizeof *words));
    FW_ASSERT(fw_model_folder_read(folder, table, 1, 0, n, whole) == FW_OK);
    fw_packed_weights_init(&weights, folder, packed);
    for (int64_t at = 0, some = 2; at < word_n; at += some, some += 26) { /* in any pieces */
        if (some > word_n - at) some = word_n - at;
        if (fw_packed_read_words(&weights, 1, at, some, words + at) == FW_OK) continue;
        FW_ASSERT(!all_finite(whole, n)); /* a scale, or what a code stands for, is none */
        fw_packed_weights_fini(&weights);
        return;
    }
    FW_ASSERT(fw_device_create(&device, "ref", NULL) == FW_OK);
    FW_ASSERT(fw_packed_unpack(packed, device, 1, words, work) == FW_OK);
    for (int32_t i = table->unit_first[1]; i < table->param_n; i++) {
        const fw_param *p = &table->param[i];
        const float *want = whole + p->offset_n, *got = (const float *)(const void *)work + p->offset_n;
        FW_ASSERT(fw_packed_read_numbers(&weights, i, 0, p->n, single) == FW_OK);
        FW_ASSERT(same(want, single, p->n));
        if (packed->t == FW_F32) FW_ASSERT(same(want, got, p->n));
        for (int64_t k = 0; packed->t == FW_BF16 && k < p->n; k++) {
            const float rounded = fw_bf16_to_f32(fw_bf16_from_f32(want[k]));
            const float has = fw_bf16_to_f32(((const fw_bf16 *)(const void *)work)[p->offset_n + k]);
            FW_ASSERT(same(&rounded, &has, 1));
        }
    }
    fw_device_destroy(device);
    fw_packed_weights_fini(&weights);
}

static void check_folder(const fw_model_folder *folder, const fw_param_table *table, bool bf16) {
    fw_packed_options how;
    fw_packed_table packed;
    bool *stored;
    if (fw_model_folder_check(folder, table, &model) != FW_OK) return;
    FW_ASSERT(fw_packed_find_stored(&stored, &how, folder, table) == FW_OK); /* what was checked is as it says */
    FW_ASSERT(stored != NULL);
    FW_ASSERT(fw_packed_table_init(&packed, table, &how, stored, bf16 ? FW_BF16 : FW_F32) == FW_OK);
    check_numbers(folder, table, &packed);
    fw_packed_table_fini(&packed);
    fw_free(stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static made_weights w;
    static const uint8_t weights[] = {0x12, 0x3c, 0x80, 0xbd, 0x00, 0x00}; /* bf16 */
    input in;
    fw_param_table table;
    fw_safetensors file;
    int32_t matrix = 0;
    if (!take(&in, data, size) || in.state_n > STATE_BYTES) return 0;
    FW_ASSERT(fw_param_table_init(&table, &model) == FW_OK);
    made_begin(&w);
    for (int32_t i = 0; i < table.param_n; i++) {
        const fw_param *p = &table.param[i];
        if (p->unit > 0 && p->cols > 0 && matrix++ == in.matrix)
            put_matrix(&w, &in, p);
        else
            made_put(&w, p->name, "BF16", p->rows, p->cols, (size_t)p->n * 2, weights, sizeof weights);
    }
    FW_ASSERT(made_open(&file, &w, "model.safetensors") == FW_OK);
    const fw_model_folder folder = {.dir = (char *)(uintptr_t) "DIR", .shard = &file, .shard_n = 1};
    check_folder(&folder, &table, in.bf16);
    fw_safetensors_close(&file);
    fw_param_table_fini(&table);
    return 0;
}
