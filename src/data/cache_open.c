#include "base/alloc.h"
#include "base/hash.h"
#include "data/cache_format.h"
#include "data/weight_runs.h"

#include <stdatomic.h>
#include <string.h>

/* Are the parts where they can be? */
static const char *check_footer(const fw_cache_footer *f, const fw_mapping *m, const fw_cache_key *key) {
    if (memcmp(f->magic, FW_CACHE_MAGIC, sizeof f->magic) != 0) return "it has no footer: it was cut off";
    if (f->footer_hash != fw_hash_bytes(f, offsetof(fw_cache_footer, footer_hash))) return "its footer is damaged";
    if (memcmp(&f->key, key, sizeof *key) != 0) return "it is another data set's";
    const uint64_t limit = m->bytes - sizeof *f;
    if (f->table_at > limit || f->block_n != (limit - f->table_at) / sizeof(uint64_t) ||
        f->block_n != (f->table_at + FW_CACHE_BLOCK_BYTES - 1) / FW_CACHE_BLOCK_BYTES)
        return "its size is not what its footer says";
    if (f->token_n > f->table_at / 5 || f->trained_at != f->token_n * 4 || f->sample_at % 8 != 0 ||
        f->sample_at < f->trained_at + f->token_n || f->sample_at > f->table_at ||
        f->sample_n > (f->table_at - f->sample_at) / sizeof(fw_sample) ||
        f->run_at != f->sample_at + f->sample_n * sizeof(fw_sample) ||
        f->run_n > (f->table_at - f->run_at) / sizeof(fw_weight_run) ||
        f->report_at != f->run_at + f->run_n * sizeof(fw_weight_run) || f->report_bytes > f->table_at - f->report_at)
        return "its parts overlap";
    return NULL;
}

typedef struct verification {
    const fw_mapping *mapping;
    const fw_cache_footer *footer;
    _Atomic int wrong;
} verification;

static void verify_part(void *context, int index, int thread_n) {
    verification *v = context;
    const uint64_t *table = (const uint64_t *)(const void *)(v->mapping->data + v->footer->table_at);
    int64_t first, last;
    fw_threads_split(&first, &last, (int64_t)v->footer->block_n, 1, index, thread_n);
    for (int64_t i = first; i < last && !v->wrong; i++) {
        const uint64_t at = (uint64_t)i * FW_CACHE_BLOCK_BYTES, left = v->footer->table_at - at;
        const size_t n = left < FW_CACHE_BLOCK_BYTES ? (size_t)left : FW_CACHE_BLOCK_BYTES;
        if (fw_hash_bytes(v->mapping->data + at, n) != table[i]) v->wrong = 1;
        fw_file_unmap_pages(v->mapping, (size_t)at, n); /* a set larger than memory passes through */
    }
}

/* Every sample lies among the tokens, one behind the other. */
static int samples_are_sound(const fw_dataset *d, uint64_t token_n) {
    int64_t next = 0;
    for (int64_t s = 0; s < d->sample_n; s++) {
        const fw_sample *sample = &d->sample[s];
        if (sample->first != next || sample->n < 1 || sample->target_n < 1 || sample->target_n >= sample->n ||
            sample->source < 0 || sample->source >= d->source_n)
            return 0;
        next += sample->n;
    }
    return (uint64_t)next == token_n && (uint64_t)d->stats.token_n == token_n && fw_weight_runs_are_sound(d);
}

static fw_status read_parts(fw_dataset *d, const fw_cache_footer *f) {
    uint8_t *bytes = (uint8_t *)(uintptr_t)d->mapping.data;
    FW_TRY(fw_cache_report_read(d, bytes + f->report_at, (size_t)f->report_bytes));
    d->id = (int32_t *)(void *)bytes;
    d->trained = bytes + f->trained_at;
    d->sample = (fw_sample *)(void *)(bytes + f->sample_at);
    d->sample_n = (int64_t)f->sample_n;
    d->run = (fw_weight_run *)(void *)(bytes + f->run_at);
    d->run_n = (int64_t)f->run_n;
    d->hash = f->dataset_hash;
    return samples_are_sound(d, f->token_n) ? FW_OK : fw_fail(FW_ERR_INPUT, "its samples are not sound");
}

fw_status fw_cache_open(fw_dataset **out, const char *path, const fw_cache_key *key, const char *name,
                        const fw_dataset_options *options, int verify) {
    *out = NULL;
    fw_dataset *d = NULL;
    fw_mapping mapping;
    fw_cache_footer footer;
    fw_status status;
    FW_TRY(fw_file_map(&mapping, path));
    const char *wrong = mapping.bytes < sizeof footer ? "it was cut off" : NULL;
    if (wrong == NULL) {
        memcpy(&footer, mapping.data + mapping.bytes - sizeof footer, sizeof footer);
        wrong = check_footer(&footer, &mapping, key);
    }
    if (wrong == NULL && verify) {
        verification v = {&mapping, &footer, 0};
        fw_threads_run(options->threads, verify_part, &v);
        if (v.wrong) wrong = "a checksum is wrong";
    }
    if (wrong != NULL) {
        fw_file_unmap(&mapping);
        return fw_fail(FW_ERR_INPUT, "%s: %s", path, wrong);
    }
    status = fw_dataset_create(&d, name, options);
    if (status != FW_OK) {
        fw_file_unmap(&mapping);
        return status;
    }
    fw_dataset_forget_borrowed(d);
    d->mapping = mapping;
    d->from_cache = 1;
    status = read_parts(d, &footer);
    if (status == FW_ERR_INPUT) fw_fail_context(status, "%s: ", path);
    if (status == FW_OK)
        *out = d;
    else
        fw_dataset_destroy(d);
    return status;
}
