/* The owner's side of a step: what it updates, the sums that this takes, and sharing what came of it. */
#include "shard/shard_internal.h"
#include "shard/shard_record.h"

void fw_shard_set_update_hook(fw_shard *s, fw_shard_update_hook fn, void *context) {
    s->before_update.fn = fn;
    s->before_update.context = context;
}

fw_status fw_shard_owned(fw_shard *s, int32_t unit, fw_owned_range *out) {
    *out = (fw_owned_range){0};
    if (s->before_update.fn != NULL) s->before_update.fn(s->before_update.context, unit);
    int32_t b = s->layout.bucket_of_unit[unit];
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    /* both ranges in elements of the bucket */
    int64_t own = s->group_rank * bucket->part_n, own_end = own + bucket->part_n;
    int64_t at = fw_shard_unit_at(s, unit), end = at + s->layout.table->unit_size_n[unit];
    int64_t first = own > at ? own : at, last = own_end < end ? own_end : end;
    if (first >= last) return FW_OK;
    int64_t in_part = first - own;
    char *record;
    FW_TRY(fw_shard_record_open(s, b, FW_RECORD_UPDATE, &record));
    *out = (fw_owned_range){.first_n = first - at, .n = last - first};
    float *master = fw_shard_master_part(s, b, record);
    if (master != NULL) out->w = master + in_part;
    if (!s->layout.options.training) return FW_OK;
    for (int k = 0; k < s->layout.array_n; k++)
        out->array[k] = (float *)(void *)(record + fw_shard_record_at(&s->layout, b, k)) + in_part;
    return fw_shard_gradient_part_f32(s, b, in_part, out->n, &out->g);
}

fw_status fw_shard_owned_state(fw_shard *s, int32_t param, void *array[FW_STATE_ARRAYS_MAX], fw_state_range *elements) {
    const fw_param *p = &s->layout.table->param[param];
    fw_state_array of[FW_STATE_ARRAYS_MAX];
    char *record;
    FW_ASSERT(s->layout.by_tensor);
    for (int k = 0; k < FW_STATE_ARRAYS_MAX; k++) array[k] = NULL;
    *elements = fw_shard_record_elements(&s->layout, s->group_rank, p);
    if (elements->n == 0) return FW_OK;
    FW_TRY(fw_shard_record_open(s, s->layout.bucket_of_unit[p->unit], FW_RECORD_UPDATE, &record));
    record += s->state_at[param];
    const int n = fw_state_arrays(of, s->layout.options.optimizer, p);
    for (int k = 0; k < n; record += fw_shard_record_array_bytes(&of[k], p, *elements), k++) array[k] = record;
    return FW_OK;
}

fw_status fw_shard_share(fw_shard *s, int32_t unit) {
    int32_t b = s->layout.bucket_of_unit[unit];
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    if (unit != bucket->first_unit + bucket->unit_n - 1) return FW_OK; /* the rest of the bucket comes first */
    char *record;
    FW_TRY(fw_shard_gradient_clear(s, b));
    FW_TRY(
        fw_shard_record_open(s, b, FW_RECORD_UPDATE, &record)); /* it is, unless all of this rank's part is padding */
    FW_TRY(fw_shard_weights_renew(s, b, record));
    return fw_shard_record_close(s, b);
}

/* ---- sums over ranks: as fw_shard_gradient_squares, the parts are those of S = W when nothing is shared out */

void fw_shard_counted_range(const fw_shard *s, int32_t unit, int64_t *first_n, int64_t *n) {
    const fw_shard_layout *l = &s->layout;
    const fw_bucket *bucket = fw_shard_bucket(s, l->bucket_of_unit[unit]);
    const bool whole = l->S == 1;
    const int64_t part_n = whole ? fw_shard_part_n(bucket->n, l->world) : bucket->part_n;
    const int64_t own = (whole ? s->rank : s->group_rank) * part_n, at = fw_shard_unit_at(s, unit);
    const int64_t end = at + l->table->unit_size_n[unit], own_end = own + part_n;
    const int64_t first = own > at ? own : at, last = own_end < end ? own_end : end;
    *first_n = first < last ? first - at : 0;
    *n = first < last ? last - first : 0;
}

fw_status fw_shard_sum(fw_shard *s, double *sum, int n) {
    double all[FW_COMM_MAX_WORLD * FW_SHARD_SUMS_MAX];
    /* The first replica's: the others have the same. */
    const int part_n = s->layout.S > 1 ? s->layout.S : s->layout.world;
    FW_ASSERT(n <= FW_SHARD_SUMS_MAX);
    FW_TRY(fw_comm_exchange(s->comm, all, sum, (size_t)n * sizeof *sum));
    for (int i = 0; i < n; i++) sum[i] = 0;
    for (int rank = 0; rank < part_n; rank++)
        for (int i = 0; i < n; i++) sum[i] += all[rank * n + i];
    return FW_OK;
}

int64_t fw_shard_sums_n(const fw_param_table *t, int32_t unit) {
    int64_t n = 0;
    for (int32_t i = t->unit_first[unit]; i < t->unit_first[unit + 1]; i++)
        if (t->param[i].cols > 0) n += t->param[i].rows + t->param[i].cols;
    return n;
}

float *fw_shard_sums(fw_shard *s) { return s->sums; }

fw_status fw_shard_sum_sums(fw_shard *s, int32_t unit) {
    fw_comm *c = s->layout.S == 1 ? s->comm : s->group;
    fw_comm_request request = {.label = "sums of rows and columns"};
    const int64_t n = fw_shard_sums_n(s->layout.table, unit);
    if (n == 0 || fw_comm_world(c) == 1) return FW_OK;
    FW_TRY(fw_comm_all_reduce(c, s->sums, n, FW_F32, &request));
    return fw_comm_wait(c, &request);
}
