#include "base/alloc.h"
#include "base/hash.h"
#include "data/cache_format.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fw_cache_writer {
    fw_file_writer file;    /* ids, then the rest */
    fw_file_writer trained; /* flags, beside it, until all ids are written */
    char *trained_path;
    fw_cache_footer footer;
    int failed;     /* the disk refused */
    uint64_t at;    /* bytes written to file */
    fw_hash block;  /* of the current block */
    uint64_t *hash; /* of the blocks before */
    size_t hash_n, hash_cap;
};

static fw_status end_block(fw_cache_writer *w) {
    if (w->hash_n == w->hash_cap) {
        size_t cap = w->hash_cap ? 2 * w->hash_cap : 16;
        FW_TRY(FW_GROW_ARRAY(w->hash, cap));
        w->hash_cap = cap;
    }
    w->hash[w->hash_n++] = fw_hash_value(&w->block);
    fw_hash_init(&w->block);
    return FW_OK;
}

/* Notes that it was the disk of the cache, and nothing that is read. */
static fw_status noted(fw_cache_writer *w, fw_status status) {
    w->failed = w->failed || status == FW_ERR_IO;
    return status;
}

static fw_status put(fw_cache_writer *w, const void *bytes, size_t n_bytes) {
    const uint8_t *from = bytes;
    FW_TRY(noted(w, fw_file_writer_write(&w->file, bytes, n_bytes)));
    while (n_bytes > 0) {
        size_t room = FW_CACHE_BLOCK_BYTES - (size_t)(w->at % FW_CACHE_BLOCK_BYTES),
               take = n_bytes < room ? n_bytes : room;
        fw_hash_update(&w->block, from, take);
        w->at += take;
        from += take;
        n_bytes -= take;
        if (w->at % FW_CACHE_BLOCK_BYTES == 0) FW_TRY(end_block(w));
    }
    return FW_OK;
}

fw_status fw_cache_writer_create(fw_cache_writer **out, const char *path, const fw_cache_key *key) {
    *out = NULL;
    fw_cache_writer *w;
    fw_status status;
    fw_strbuf beside = {0};
    FW_TRY(FW_NEW(w));
    memcpy(w->footer.magic, FW_CACHE_MAGIC, sizeof w->footer.magic);
    w->footer.key = *key;
    fw_hash_init(&w->block);
    FW_TRY_OR(fw_strbuf_printf(&beside, "%s.tmp-flags-%ld", path, (long)getpid()), done);
    FW_TRY_OR(fw_strdup(&w->trained_path, beside.data), done);
    FW_TRY_OR(fw_file_writer_open(&w->file, path), done);
    FW_TRY_OR(fw_file_writer_open(&w->trained, w->trained_path), done);
    *out = w;
done:
    fw_strbuf_fini(&beside);
    if (status != FW_OK) fw_cache_writer_destroy(w);
    return status;
}

void fw_cache_writer_destroy(fw_cache_writer *w) {
    if (w == NULL) return;
    fw_file_writer_close(&w->file);
    fw_file_writer_close(&w->trained);
    if (w->trained_path != NULL) unlink(w->trained_path);
    fw_free(w->trained_path);
    fw_free(w->hash);
    fw_free(w);
}

fw_status fw_cache_writer_append(fw_cache_writer *w, const int32_t *id, const uint8_t *trained, int64_t n) {
    FW_TRY(put(w, id, (size_t)n * sizeof *id));
    return noted(w, fw_file_writer_write(&w->trained, trained, (size_t)n));
}

/* The flags behind the ids. */
static fw_status put_flags(fw_cache_writer *w, size_t n_bytes) {
    fw_mapping flags;
    FW_TRY(fw_file_writer_commit(&w->trained));
    FW_TRY(fw_file_map(&flags, w->trained_path));
    fw_status status =
        flags.bytes == n_bytes ? FW_OK : fw_fail(FW_ERR_INTERNAL, "%zu flags of %zu tokens", flags.bytes, n_bytes);
    for (size_t at = 0; at < n_bytes && status == FW_OK; at += FW_CACHE_BLOCK_BYTES) {
        size_t n = n_bytes - at < FW_CACHE_BLOCK_BYTES ? n_bytes - at : FW_CACHE_BLOCK_BYTES;
        status = put(w, flags.data + at, n);
        fw_file_unmap_pages(&flags, at, n);
    }
    fw_file_unmap(&flags);
    return status;
}

int fw_cache_writer_failed(const fw_cache_writer *w) { return w != NULL && w->failed; }

fw_status fw_cache_writer_commit(fw_cache_writer *w, const fw_dataset *d) {
    fw_cache_footer *f = &w->footer;
    static const uint8_t zeros[8];
    fw_strbuf report = {0};
    fw_status status;
    f->token_n = (uint64_t)d->stats.token_n;
    f->sample_n = (uint64_t)d->sample_n;
    f->dataset_hash = d->hash;
    f->trained_at = w->at;
    FW_TRY_OR(put_flags(w, (size_t)f->token_n), done);
    FW_TRY_OR(put(w, zeros, (size_t)(-w->at & 7)), done);
    f->sample_at = w->at;
    FW_TRY_OR(put(w, d->sample, (size_t)d->sample_n * sizeof *d->sample), done);
    f->run_at = w->at;
    f->run_n = (uint64_t)d->run_n;
    FW_TRY_OR(put(w, d->run, (size_t)d->run_n * sizeof *d->run), done);
    f->report_at = w->at;
    FW_TRY_OR(fw_cache_report_write(&report, d), done);
    f->report_bytes = report.len_bytes;
    FW_TRY_OR(put(w, report.data, report.len_bytes), done);
    FW_TRY_OR(put(w, zeros, (size_t)(-w->at & 7)), done);
    f->table_at = w->at;
    if (w->at % FW_CACHE_BLOCK_BYTES != 0) FW_TRY_OR(end_block(w), done);
    f->block_n = w->hash_n;
    FW_TRY_OR(fw_file_writer_write(&w->file, w->hash, w->hash_n * sizeof *w->hash), done);
    f->footer_hash = fw_hash_bytes(f, offsetof(fw_cache_footer, footer_hash));
    FW_TRY_OR(fw_file_writer_write(&w->file, f, sizeof *f), done);
    FW_TRY_OR(fw_file_writer_commit(&w->file), done);
done:
    fw_strbuf_fini(&report);
    return noted(w, status);
}
