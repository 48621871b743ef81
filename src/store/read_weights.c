/* The weights of a model folder as fp32, and the hash that says which weights they are. */
#include "base/host.h"
#include "store/model_folder.h"
#include "store/stored_quant.h"

#include <string.h>

/* Elements at a time: 1 MiB of fp32 is still in the cache when it is written after the system has cleared its pages. */
enum { PIECE_N = 1 << 18 };

/* ---- reading ---- */

/* A matrix in 4 bits, dequantised. */
static fw_status read_quantised(const fw_model_folder *folder, const fw_param *param, int64_t from, int64_t to,
                                float *out) {
    fw_stored_quant q;
    FW_TRY(fw_stored_quant_open(&q, folder, param->name, param->rows, param->cols));
    fw_stored_quant_read(&q, from - param->offset_n, to - from, out);
    return FW_OK;
}

/* Of one parameter, elements [from, to) of the unit, into where they go. */
static fw_status read_param(const fw_model_folder *folder, const fw_param *param, int64_t from, int64_t to,
                            float *out) {
    const fw_safetensors *file = NULL;
    const fw_stored_tensor *tensor = fw_model_folder_find(folder, param->name, &file);
    if (param->cols > 0 && fw_stored_quant_has(folder, param->name))
        return read_quantised(folder, param, from, to, out);
    if (tensor == NULL || tensor->n != param->n)
        return fw_fail(FW_ERR_INTERNAL, "%s is read before fw_model_folder_check has passed", param->name);
    size_t element_bytes = fw_stored_dtype_bytes(tensor->dtype);
    for (int64_t next; from < to; out += next - from, from = next) {
        next = to - from > PIECE_N ? from + PIECE_N : to;
        fw_host_take_pages(out, (size_t)(next - from) * sizeof *out);
        int64_t first_n = from - param->offset_n;
        FW_TRY(fw_safetensors_read_f32(out, file, tensor, first_n, next - from));
        fw_file_unmap_pages(&file->mapping, tensor->offset_bytes + (size_t)first_n * element_bytes,
                            (size_t)(next - from) * element_bytes);
    }
    return FW_OK;
}

/* out[0, last_n - first_n) = elements [first_n, last_n) of the unit: parameters, and zeros between them. */
static fw_status read_range(const fw_model_folder *folder, const fw_param_table *table, int32_t unit, int64_t first_n,
                            int64_t last_n, float *out) {
    int64_t done_n = first_n;
    for (int32_t i = table->unit_first[unit]; i < table->unit_first[unit + 1]; i++) {
        const fw_param *param = &table->param[i];
        int64_t from = param->offset_n > first_n ? param->offset_n : first_n;
        int64_t to = param->offset_n + param->n < last_n ? param->offset_n + param->n : last_n;
        if (from >= to) continue;
        memset(out + (done_n - first_n), 0, (size_t)(from - done_n) * sizeof *out);
        FW_TRY(read_param(folder, param, from, to, out + (from - first_n)));
        done_n = to;
    }
    memset(out + (done_n - first_n), 0, (size_t)(last_n - done_n) * sizeof *out);
    return FW_OK;
}

typedef struct read_call {
    const fw_model_folder *folder;
    const fw_param_table *table;
    int32_t unit;
    int64_t first_n, count_n;
    float *out;
} read_call;

static void read_part(void *context, int index, int thread_n) {
    const read_call *c = context;
    int64_t first, last;
    fw_threads_split(&first, &last, c->count_n, PIECE_N, index, thread_n);
    fw_status status = read_range(c->folder, c->table, c->unit, c->first_n + first, c->first_n + last, c->out + first);
    FW_ASSERT(status == FW_OK); /* the one thing that can fail is a dtype, and fw_model_folder_check has passed */
}

fw_status fw_model_folder_read(const fw_model_folder *folder, const fw_param_table *table, int32_t unit,
                               int64_t first_n, int64_t count_n, float *out) {
    FW_ASSERT(unit >= 0 && unit < table->unit_n && first_n >= 0 && count_n >= 0 &&
              count_n <= table->unit_size_n[unit] - first_n);
    read_call call = {folder, table, unit, first_n, count_n, out};
    fw_threads_run(count_n > PIECE_N ? folder->threads : NULL, read_part, &call);
    return FW_OK;
}

/* ---- hashing ---- */

static int64_t blocks_of(const fw_stored_tensor *tensor) {
    return (int64_t)((tensor->bytes + FW_HASH_BLOCK_BYTES - 1) / FW_HASH_BLOCK_BYTES);
}

int64_t fw_model_folder_blocks(const fw_model_folder *folder, const fw_param_table *table) {
    int64_t block_n = 0;
    for (int32_t i = 0; i < table->param_n; i++)
        block_n += blocks_of(fw_model_folder_find(folder, table->param[i].name, NULL));
    return block_n;
}

static void put_u64(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t hash_block(const fw_safetensors *file, const fw_stored_tensor *tensor, uint64_t name_hash,
                           int64_t index) {
    size_t at = (size_t)index * FW_HASH_BLOCK_BYTES, left = tensor->bytes - at;
    size_t bytes = left < FW_HASH_BLOCK_BYTES ? left : FW_HASH_BLOCK_BYTES;
    uint8_t place[32];
    put_u64(place, name_hash);
    put_u64(place + 8, (uint64_t)tensor->dtype);
    put_u64(place + 16, (uint64_t)tensor->bytes);
    put_u64(place + 24, (uint64_t)index);
    fw_hash h;
    fw_hash_init(&h);
    fw_hash_update(&h, place, sizeof place);
    fw_hash_update(&h, file->mapping.data + tensor->offset_bytes + at, bytes);
    fw_file_unmap_pages(&file->mapping, tensor->offset_bytes + at, bytes);
    return fw_hash_value(&h);
}

uint64_t fw_model_folder_hash(const fw_model_folder *folder, const fw_param_table *table, int64_t first, int64_t last) {
    uint64_t sum = 0;
    int64_t before = 0; /* blocks of the parameters so far */
    for (int32_t i = 0; i < table->param_n && before < last; i++) {
        const fw_safetensors *file = NULL;
        const fw_stored_tensor *tensor = fw_model_folder_find(folder, table->param[i].name, &file);
        int64_t block_n = blocks_of(tensor), from = first > before ? first - before : 0;
        int64_t to = last - before < block_n ? last - before : block_n;
        uint64_t name_hash = fw_hash_bytes(tensor->name, strlen(tensor->name));
        for (int64_t block = from; block < to; block++) sum += hash_block(file, tensor, name_hash, block);
        before += block_n;
    }
    return sum;
}
