/* Filling and reading the arrays of the optimizer, parameter by parameter, raw. */
#include "base/alloc.h"
#include "shard/shard_internal.h"
#include "shard/shard_record.h"

enum { LOAD_CHUNK_N = 1 << 20 };

/* What this rank holds of an array: where, and which values. Its record is open until the caller closes it. */
static fw_status open_array(fw_shard *s, int32_t param, int k, fw_shard_record_use use, char **data, fw_state_array *of,
                            fw_state_range *held) {
    const fw_shard_layout *l = &s->layout;
    const fw_param *p = &l->table->param[param];
    const int32_t b = l->bucket_of_unit[p->unit];
    fw_state_array array[FW_STATE_ARRAYS_MAX];
    const fw_state_range elements = fw_shard_record_elements(l, s->group_rank, p);
    FW_ASSERT(k < fw_state_arrays(array, l->options.optimizer, p));
    *of = array[k];
    *held = fw_state_held(of, p, elements);
    FW_TRY(fw_shard_record_open(s, b, use, data));
    if (!l->by_tensor) {
        const int64_t in_part = fw_shard_unit_at(s, p->unit) + p->offset_n + elements.first_n -
                                s->group_rank * fw_shard_bucket(s, b)->part_n;
        *data += fw_shard_record_at(l, b, k) + (size_t)(held->n == 0 ? 0 : in_part) * sizeof(float);
        return FW_OK;
    }
    *data += s->state_at[param];
    for (int before = 0; before < k; before++) *data += fw_shard_record_array_bytes(&array[before], p, elements);
    return FW_OK;
}

fw_status fw_shard_read_state(fw_shard *s, int32_t param, int k, int64_t first_n, int64_t n, void *out) {
    fw_state_array of;
    fw_state_range held;
    char *data;
    if (n == 0) return FW_OK;
    FW_TRY(open_array(s, param, k, FW_RECORD_READ, &data, &of, &held));
    FW_ASSERT(first_n >= held.first_n && first_n + n <= held.first_n + held.n);
    const size_t bytes = fw_dtype_bytes(of.t);
    FW_TRY(fw_copy(s->device, out, data + (size_t)(first_n - held.first_n) * bytes, (size_t)n * bytes));
    return fw_shard_record_close(s, s->layout.bucket_of_unit[s->layout.table->param[param].unit]);
}

/* chunk: LOAD_CHUNK_N fp32 values of room, for devices whose memory the host cannot write; where it can, all is read at once. */
static fw_status load_array(fw_shard *s, int32_t param, int k, fw_state_reader read, void *context, float *chunk) {
    fw_state_array of;
    fw_state_range held;
    char *data;
    FW_TRY(open_array(s, param, k, FW_RECORD_UPDATE, &data, &of, &held));
    const size_t bytes = fw_dtype_bytes(of.t);
    const int64_t most = s->device->on_host ? held.n : LOAD_CHUNK_N;
    for (int64_t at = 0; at < held.n; at += most) {
        const int64_t n = held.n - at < most ? held.n - at : most;
        void *to = s->device->on_host ? (void *)data : chunk;
        FW_TRY(read(context, param, k, held.first_n + at, n, to));
        if (to == chunk) FW_TRY(fw_copy(s->device, data + (size_t)at * bytes, chunk, (size_t)n * bytes));
    }
    return FW_OK;
}

static fw_status load_arrays(fw_shard *s, int32_t b, fw_state_reader read, void *context, float *chunk) {
    const fw_param_table *t = s->layout.table;
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    for (int32_t i = t->unit_first[bucket->first_unit]; i < t->unit_first[bucket->first_unit + bucket->unit_n]; i++) {
        fw_state_array of[FW_STATE_ARRAYS_MAX];
        const int n = fw_state_arrays(of, s->layout.options.optimizer, &t->param[i]);
        for (int k = 0; k < n; k++) FW_TRY(load_array(s, i, k, read, context, chunk));
    }
    return fw_shard_record_close(s, b);
}

fw_status fw_shard_load_state(fw_shard *s, fw_state_reader read, void *context) {
    float *chunk = NULL;
    fw_status status = s->device->on_host ? FW_OK : FW_NEW_ARRAY(chunk, LOAD_CHUNK_N);
    for (int32_t b = 0; b < s->layout.bucket_n && status == FW_OK; b++)
        status = load_arrays(s, b, read, context, chunk);
    fw_free(chunk);
    return fw_comm_agree(s->comm, status);
}

bool fw_shard_state_stays(const fw_shard *s) { return s->device->on_host && s->layout.block.record_slots < 0; }

fw_status fw_shard_clear_state(fw_shard *s) {
    for (int32_t b = 0; b < s->layout.bucket_n; b++) {
        const fw_bucket *bucket = fw_shard_bucket(s, b);
        const size_t master = s->layout.master_in_record ? (size_t)bucket->part_n * sizeof(float) : 0;
        char *record;
        FW_TRY(fw_shard_record_open(s, b, FW_RECORD_UPDATE, &record));
        if (record != NULL) FW_TRY(fw_zero(fw_shard_update_device(s), record + master, bucket->record.bytes - master));
        FW_TRY(fw_shard_record_close(s, b));
    }
    return FW_OK;
}
