/* Filling the state from files, and reading it back for saving, wherever it is owned. */
#include "base/alloc.h"
#include "shard/shard_internal.h"
#include "shard/shard_record.h"
#include "shard/shard_weights_away.h"

#include <string.h>

enum { LOAD_CHUNK_N = 1 << 22 }; /* much more than a block of a checkpoint: two are cut by a chunk */

/* ---- where an array's part lies */

typedef struct part {
    char *data; /* of this rank's part of a bucket; NULL: the array is not kept */
    fw_dtype t;
} part;

/* record: the bucket's, open. */
static part part_of(const fw_shard *s, fw_shard_array array, int32_t b, char *record) {
    if (array == FW_SHARD_WEIGHT) {
        float *master = fw_shard_master_part(s, b, record);
        if (master != NULL) return (part){(char *)master, FW_F32};
        return (part){fw_shard_compute_part(s, b), s->layout.options.t};
    }
    const int k = (int)array - FW_SHARD_EXP_AVG;
    FW_ASSERT(s->layout.options.training && k < s->layout.array_n);
    return (part){record + fw_shard_record_at(&s->layout, b, k), FW_F32};
}

/* ---- loading */

/* Elements [first, first + n) of a bucket as they are in its units; 0 beyond them. */
static fw_status read_bucket(const fw_shard *s, int32_t b, int64_t first, int64_t n, fw_unit_reader read, void *context,
                             float *out) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_param_table *table = s->layout.table;
    for (int32_t unit = bucket->first_unit; unit < bucket->first_unit + bucket->unit_n; unit++) {
        int64_t at = fw_shard_unit_at(s, unit), end = at + table->unit_size_n[unit];
        int64_t from = first > at ? first : at, to = first + n < end ? first + n : end;
        if (from < to) FW_TRY(read(context, unit, from - at, to - from, out + (from - first)));
    }
    int64_t used = bucket->n > first ? bucket->n - first : 0;
    if (used < n) memset(out + used, 0, (size_t)(n - used) * sizeof *out);
    return FW_OK;
}

/* To bf16, at the start of the same memory. */
static void round_in_place(float *host, int64_t n) {
    for (int64_t i = 0; i < n; i++) { /* a place is read before it is written over */
        const fw_bf16 rounded = fw_bf16_from_f32(host[i]);
        memcpy((char *)host + (size_t)i * sizeof rounded, &rounded, sizeof rounded);
    }
}

/* To a device that cannot reach memory of the host: rounded here, where the numbers are, and copied. */
static fw_status put_rounded(const fw_shard *s, char *data, float *host, int64_t n) {
    round_in_place(host, n);
    return fw_copy(s->device, data, host, (size_t)n * sizeof(fw_bf16));
}

/* host: a chunk for what cannot be read into its place, which is where the host cannot write or the type is another. */
static fw_status load_part(fw_shard *s, const part to, int32_t b, fw_unit_reader read, void *context, float *host) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const int64_t own = s->group_rank * bucket->part_n;
    if (host == NULL) return read_bucket(s, b, own, bucket->part_n, read, context, (float *)(void *)to.data);
    for (int64_t at = 0; at < bucket->part_n; at += LOAD_CHUNK_N) {
        int64_t n = bucket->part_n - at < LOAD_CHUNK_N ? bucket->part_n - at : LOAD_CHUNK_N;
        FW_TRY(read_bucket(s, b, own + at, n, read, context, host));
        char *data = to.data + at * (int64_t)fw_dtype_bytes(to.t);
        if (to.t == FW_F32)
            FW_TRY(fw_copy(s->device, data, host, (size_t)n * sizeof *host));
        else if (s->device->on_host)
            FW_TRY(fw_cast(s->device, data, to.t, host, FW_F32, n));
        else
            FW_TRY(put_rounded(s, data, host, n));
    }
    return FW_OK;
}

typedef struct loading {
    fw_unit_reader read;
    void *context;
    float *host;      /* a chunk, once it is needed: to take and clear it takes time */
    fw_status status; /* of reading, the first that failed */
    fw_trail trail;
} loading;

/* A rank that cannot read goes on without reading: the others wait for it where weights are shared. */
static void note(loading *l, fw_status status) {
    l->status = status;
    if (status != FW_OK) fw_trail_copy(&l->trail);
}

static void need_chunk(loading *l) {
    if (l->status == FW_OK && l->host == NULL) note(l, FW_NEW_ARRAY(l->host, LOAD_CHUNK_N));
}

/* Weights that are only read and wait elsewhere: made in memory of the host. */
static fw_status load_away(fw_shard *s, int32_t b, loading *l) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const int64_t own = s->group_rank * bucket->part_n;
    char *data;
    need_chunk(l);
    if (l->status != FW_OK) return FW_OK;
    FW_TRY(fw_shard_weights_away_open(s, b, &data));
    for (int64_t at = 0; at < bucket->part_n && l->status == FW_OK; at += LOAD_CHUNK_N) {
        const int64_t n = bucket->part_n - at < LOAD_CHUNK_N ? bucket->part_n - at : LOAD_CHUNK_N;
        note(l, read_bucket(s, b, own + at, n, l->read, l->context, l->host));
        if (s->layout.options.t == FW_BF16) round_in_place(l->host, n);
        const size_t size = fw_dtype_bytes(s->layout.options.t);
        memcpy(data + (size_t)at * size, l->host, (size_t)n * size);
    }
    return fw_shard_weights_away_close(s, b, data);
}

/* asks: for what this rank owns of the bucket; ends: it is there. */
static fw_status load_bucket(fw_shard *s, fw_shard_array array, int32_t b, loading *l, bool asks, bool ends) {
    char *record;
    if (s->layout.weights_away && !s->layout.options.training) return load_away(s, b, l);
    FW_TRY(fw_shard_record_open(s, b, FW_RECORD_UPDATE, &record));
    const part to = part_of(s, array, b, record);
    const bool in_place = s->device->on_host && to.t == FW_F32;
    FW_ASSERT(in_place || (asks && ends));
    if (!in_place) need_chunk(l);
    if (asks && l->status == FW_OK) note(l, load_part(s, to, b, l->read, l->context, in_place ? NULL : l->host));
    if (ends && array == FW_SHARD_WEIGHT) FW_TRY(fw_shard_weights_renew(s, b, record));
    return fw_shard_record_close(s, b);
}

static fw_status end_load(fw_shard *s, loading *l, fw_status status) {
    fw_free(l->host);
    FW_TRY(status);
    FW_TRY(fw_shard_settle(s));
    if (l->status != FW_OK) fw_trail_restore(&l->trail);
    return fw_comm_agree(s->comm, l->status);
}

fw_status fw_shard_load(fw_shard *s, fw_shard_array array, fw_unit_reader read, void *context) {
    loading l = {.read = read, .context = context, .status = FW_OK};
    fw_status status = FW_OK;
    fw_shard_end_pages(s);
    for (int32_t b = 0; b < s->layout.bucket_n && status == FW_OK; b++)
        status = load_bucket(s, array, b, &l, true, true);
    return end_load(s, &l, status);
}

fw_status fw_shard_load_whole(fw_shard *s, fw_shard_array array, fw_unit_reader ask, fw_status (*fill)(void *context),
                              void *context) {
    loading l = {.read = ask, .context = context, .status = FW_OK};
    fw_status status = FW_OK;
    fw_shard_end_pages(s);
    for (int32_t b = 0; b < s->layout.bucket_n && status == FW_OK; b++)
        status = load_bucket(s, array, b, &l, true, false);
    if (status == FW_OK && l.status == FW_OK) note(&l, fill(context));
    for (int32_t b = 0; b < s->layout.bucket_n && status == FW_OK; b++)
        status = load_bucket(s, array, b, &l, false, true);
    return end_load(s, &l, status);
}

/* ---- packed weights ---- */

static fw_status load_words(fw_shard *s, int32_t b, fw_word_reader read, void *context, uint16_t *host) {
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const fw_param_table *table = s->layout.table;
    const int64_t own = s->group_rank * bucket->part_n;
    const bool away = s->layout.weights_away;
    char *data = fw_shard_compute_part(s, b);
    if (away) FW_TRY(fw_shard_weights_away_open(s, b, &data));
    for (int64_t at = 0; at < bucket->part_n; at += LOAD_CHUNK_N) {
        const int64_t first = own + at, n = bucket->part_n - at < LOAD_CHUNK_N ? bucket->part_n - at : LOAD_CHUNK_N;
        memset(host, 0, (size_t)n * sizeof *host);
        for (int32_t unit = bucket->first_unit; unit < bucket->first_unit + bucket->unit_n; unit++) {
            const int64_t start = fw_shard_unit_at(s, unit), end = start + table->unit_size_n[unit];
            const int64_t from = first > start ? first : start, to = first + n < end ? first + n : end;
            if (from < to) FW_TRY(read(context, unit, from - start, to - from, host + (from - first)));
        }
        if (away)
            memcpy(data + at * (int64_t)sizeof *host, host, (size_t)n * sizeof *host);
        else
            FW_TRY(fw_copy(s->device, data + at * (int64_t)sizeof *host, host, (size_t)n * sizeof *host));
    }
    return away ? fw_shard_weights_away_close(s, b, data) : FW_OK;
}

fw_status fw_shard_load_words(fw_shard *s, fw_word_reader read, void *context) {
    FW_ASSERT(s->layout.options.packed && (s->layout.S == 1 || !s->layout.weights_full)); /* each word has one owner */
    uint16_t *host = NULL;
    fw_status status = FW_NEW_ARRAY(host, LOAD_CHUNK_N);
    for (int32_t b = 0; b < s->layout.bucket_n && status == FW_OK; b++) status = load_words(s, b, read, context, host);
    fw_free(host);
    return fw_comm_agree(s->comm, status);
}

/* ---- reading for saving: rank 0 asks, the owner answers, all take part */

typedef struct wish {
    int64_t array, bucket, at, n, owner; /* array -1: no more */
} wish;

static fw_status tell(fw_shard *s, wish *w) {
    fw_comm_request request = {.label = "saving"};
    FW_TRY(fw_comm_broadcast(s->comm, w, sizeof *w, 0, &request));
    return fw_comm_wait(s->comm, &request);
}

/* `n` elements of a part as fp32, in memory of the host or in the staging memory. */
static fw_status read_from(const fw_shard *s, const part from, int64_t at, int64_t n, float *out) {
    const char *data = from.data + at * (int64_t)fw_dtype_bytes(from.t);
    if (from.t == FW_F32) return fw_copy(s->device, out, data, (size_t)n * sizeof *out);
    if (s->device->on_host || out == s->staging) return fw_cast(s->device, out, FW_F32, data, from.t, n);
    /* Into the upper half of `out`, from where they are widened in order: each place is read before it is written. */
    char *half = (char *)out + (size_t)n * sizeof(fw_bf16);
    FW_TRY(fw_copy(s->device, half, data, (size_t)n * sizeof(fw_bf16)));
    for (int64_t i = 0; i < n; i++) {
        fw_bf16 bits;
        memcpy(&bits, half + (size_t)i * sizeof bits, sizeof bits);
        out[i] = fw_bf16_to_f32(bits);
    }
    return FW_OK;
}

static fw_status read_part(fw_shard *s, fw_shard_array array, int32_t b, int64_t at, int64_t n, float *out) {
    char *record;
    FW_TRY(fw_shard_record_open(s, b, FW_RECORD_READ, &record));
    FW_TRY(read_from(s, part_of(s, array, b, record), at, n, out));
    return fw_shard_record_close(s, b);
}

fw_status fw_shard_read_own(fw_shard *s, fw_shard_array array, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const int32_t b = s->layout.bucket_of_unit[unit];
    const int64_t part_n = fw_shard_bucket(s, b)->part_n;
    const int64_t at = fw_shard_unit_at(s, unit) + first_n - s->group_rank * part_n;
    FW_ASSERT(at >= 0 && at + n <= part_n);
    return read_part(s, array, b, at, n, out);
}

const float *fw_shard_own_in_place(const fw_shard *s, fw_shard_array array, int32_t unit, int64_t first_n) {
    const int32_t b = s->layout.bucket_of_unit[unit];
    if (s->layout.options.records_leave) return NULL;
    char *record = s->records == NULL ? NULL : s->records + fw_shard_bucket(s, b)->record.at_bytes;
    const part from = part_of(s, array, b, record);
    const int64_t at = fw_shard_unit_at(s, unit) + first_n - s->group_rank * fw_shard_bucket(s, b)->part_n;
    return from.t == FW_F32 && s->device->on_host ? (const float *)(const void *)from.data + at : NULL;
}

/* The owner puts what is wished for into the staging memory of all. */
static fw_status answer(fw_shard *s, const wish *w) {
    if (s->rank == w->owner)
        FW_TRY(read_part(s, (fw_shard_array)w->array, (int32_t)w->bucket, w->at, w->n, s->staging));
    fw_comm_request request = {.label = "saving"};
    FW_TRY(fw_comm_broadcast(s->comm, s->staging, (size_t)w->n * sizeof(float), (int)w->owner, &request));
    return fw_comm_wait(s->comm, &request);
}

fw_status fw_shard_read(fw_shard *s, fw_shard_array array, int32_t unit, int64_t first_n, int64_t n, float *out) {
    FW_ASSERT(s->rank == 0);
    int32_t b = s->layout.bucket_of_unit[unit];
    const fw_bucket *bucket = fw_shard_bucket(s, b);
    const int64_t staging_n = (int64_t)(s->layout.bytes.staging / sizeof(float));
    int64_t at = fw_shard_unit_at(s, unit) + first_n;
    while (n > 0) {
        wish w = {.array = array, .bucket = b, .owner = at / bucket->part_n, .at = at % bucket->part_n, .n = n};
        if (w.n > bucket->part_n - w.at) w.n = bucket->part_n - w.at;
        if (w.owner == 0) {
            FW_TRY(read_part(s, array, b, w.at, w.n, out));
        } else {
            if (w.n > staging_n) w.n = staging_n;
            FW_TRY(tell(s, &w));
            FW_TRY(answer(s, &w));
            FW_TRY(fw_copy(s->device, out, s->staging, (size_t)w.n * sizeof *out));
        }
        at += w.n;
        n -= w.n;
        out += w.n;
    }
    return FW_OK;
}

fw_status fw_shard_read_end(fw_shard *s) {
    FW_ASSERT(s->rank == 0);
    wish end = {.array = -1};
    return tell(s, &end);
}

fw_status fw_shard_serve(fw_shard *s) {
    FW_ASSERT(s->rank != 0);
    for (;;) {
        wish w;
        FW_TRY(tell(s, &w));
        if (w.array < 0) return FW_OK;
        FW_TRY(answer(s, &w));
    }
}
