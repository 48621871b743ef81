#include "shard/shard_record.h"

#include "shard/shard_internal.h"
#include "shard/shard_record_away.h"

size_t fw_shard_record_at(const fw_shard_layout *l, int32_t b, int array) {
    FW_ASSERT(array < l->array_n);
    const size_t n = (size_t)l->bucket[b].part_n, before = (size_t)(array + (l->master_in_record ? 1 : 0));
    return array == FW_RECORD_MASTER ? 0 : before * n * sizeof(float);
}

void fw_shard_record_lay_out(fw_shard_layout *l) {
    l->record_bytes = l->record_most_bytes = 0;
    for (int32_t b = 0; b < l->bucket_n; b++) {
        const size_t of_element = (size_t)(l->array_n + (l->master_in_record ? 1 : 0)) * sizeof(float);
        fw_shard_record *r = &l->bucket[b].record;
        r->at_bytes = l->record_bytes;
        r->bytes = (size_t)l->bucket[b].part_n * of_element; /* parts are multiples of whole cache lines */
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
