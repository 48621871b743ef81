#include "shard/shard_record.h"

#include "shard/shard_internal.h"
#include "shard/shard_record_away.h"

enum { LINE_BYTES = 64 };

static size_t master_bytes(const fw_shard_layout *l, int32_t b) {
    return l->master_in_record ? (size_t)l->bucket[b].part_n * sizeof(float) : 0; /* whole lines, as parts are */
}

size_t fw_shard_record_at(const fw_shard_layout *l, int32_t b, int array) {
    if (array == FW_RECORD_MASTER) return 0;
    return master_bytes(l, b) + (size_t)array * (size_t)l->bucket[b].part_n * sizeof(float);
}

size_t fw_shard_record_array_bytes(const fw_state_array *a, const fw_param *p, fw_state_range elements) {
    const size_t bytes = (size_t)fw_state_held(a, p, elements).n * fw_dtype_bytes(a->t);
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

fw_state_range fw_shard_record_elements(const fw_shard_layout *l, int group_rank, const fw_param *p) {
    const fw_bucket *b = &l->bucket[l->bucket_of_unit[p->unit]];
    const int64_t unit_at = l->table->unit_offset_n[p->unit] - l->table->unit_offset_n[b->first_unit];
    return fw_state_of_param(p, group_rank * b->part_n - unit_at, b->part_n);
}

size_t fw_shard_record_tensors(const fw_shard_layout *l, int32_t b, int group_rank, size_t *at) {
    const fw_param_table *t = l->table;
    const fw_bucket *bucket = &l->bucket[b];
    size_t end = master_bytes(l, b);
    for (int32_t i = t->unit_first[bucket->first_unit]; i < t->unit_first[bucket->first_unit + bucket->unit_n]; i++) {
        fw_state_array array[FW_STATE_ARRAYS_MAX];
        const int n = fw_state_arrays(array, l->options.optimizer, &t->param[i]);
        const fw_state_range elements = fw_shard_record_elements(l, group_rank, &t->param[i]);
        if (at != NULL) at[i] = end;
        for (int k = 0; k < n; k++) end += fw_shard_record_array_bytes(&array[k], &t->param[i], elements);
    }
    return end;
}

static size_t bytes_of_record(const fw_shard_layout *l, int32_t b) {
    if (!l->by_tensor) return fw_shard_record_at(l, b, l->array_n);
    size_t most = 0;
    for (int rank = 0; rank < l->S; rank++) {
        const size_t bytes = fw_shard_record_tensors(l, b, rank, NULL);
        if (bytes > most) most = bytes;
    }
    return most;
}

void fw_shard_record_lay_out(fw_shard_layout *l) {
    l->record_bytes = l->record_most_bytes = 0;
    for (int32_t b = 0; b < l->bucket_n; b++) {
        fw_shard_record *r = &l->bucket[b].record;
        *r = (fw_shard_record){.at_bytes = l->record_bytes, .bytes = bytes_of_record(l, b)};
        l->record_bytes += r->bytes;
        if (r->bytes > l->record_most_bytes) l->record_most_bytes = r->bytes;
    }
}

/* Where they stay in one place, to open one is to know where it is. */
fw_status fw_shard_record_open(fw_shard *s, int32_t b, fw_shard_record_use use, char **out) {
    if (s->layout.block.record_slots >= 0) return fw_shard_record_away_open(s, b, use, out);
    *out = s->records == NULL ? NULL : s->records + fw_shard_bucket(s, b)->record.at_bytes;
    return FW_OK;
}

fw_status fw_shard_record_close(fw_shard *s, int32_t b) {
    return s->layout.block.record_slots >= 0 ? fw_shard_record_away_close(s, b) : FW_OK;
}
