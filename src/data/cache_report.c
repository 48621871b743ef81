#include "base/alloc.h"
#include "data/cache_format.h"

#include <string.h>

static fw_status put_i64(fw_strbuf *out, int64_t value) { return fw_strbuf_append(out, &value, sizeof value); }

static fw_status put_text(fw_strbuf *out, const char *text) {
    FW_TRY(put_i64(out, (int64_t)strlen(text)));
    return fw_strbuf_append(out, text, strlen(text));
}

fw_status fw_cache_report_write(fw_strbuf *out, const fw_dataset *d) {
    FW_TRY(fw_strbuf_append(out, &d->stats, sizeof d->stats));
    FW_TRY(put_i64(out, d->source_n));
    for (int32_t i = 0; i < d->source_n; i++) {
        const fw_dataset_source *s = &d->source[i];
        const int64_t values[] = {s->format, s->shape, s->row_n, s->used_n, s->set};
        FW_TRY(fw_strbuf_append(out, values, sizeof values));
        FW_TRY(put_text(out, s->path));
    }
    FW_TRY(put_i64(out, d->dropped_n));
    for (int64_t i = 0; i < d->dropped_n; i++) {
        const int64_t values[] = {d->dropped[i].reason, d->dropped[i].source, d->dropped[i].line};
        FW_TRY(fw_strbuf_append(out, values, sizeof values));
        FW_TRY(put_text(out, d->dropped[i].message));
    }
    return FW_OK;
}

/* Bytes from a file: they may be anything, even with good checksums. */
typedef struct taker {
    const uint8_t *at;
    size_t left;
    int broken;
} taker;

static void take(taker *t, void *out, size_t n_bytes) {
    if (n_bytes > t->left) {
        t->broken = 1;
        t->left = 0;
        memset(out, 0, n_bytes);
        return;
    }
    memcpy(out, t->at, n_bytes);
    t->at += n_bytes;
    t->left -= n_bytes;
}

static int64_t take_count(taker *t) {
    int64_t n;
    take(t, &n, sizeof n);
    if (n < 0 || (uint64_t)n > t->left) t->broken = 1; /* whatever is counted takes a byte at least */
    return t->broken ? 0 : n;
}

static fw_status take_text(taker *t, char **out) {
    int64_t n = take_count(t);
    FW_TRY(fw_strndup(out, (const char *)t->at, (size_t)n));
    t->at += n;
    t->left -= (size_t)n;
    return FW_OK;
}

static fw_status read_sources(fw_dataset *d, taker *t) {
    int64_t n = take_count(t);
    for (int64_t i = 0; i < n && !t->broken; i++) {
        int64_t values[5];
        char *path = NULL;
        take(t, values, sizeof values);
        FW_TRY(take_text(t, &path));
        fw_status status =
            fw_dataset_add_source(d, path, (fw_format)values[0], (fw_shape)values[1], (int32_t)values[4]);
        fw_free(path);
        FW_TRY(status);
        d->source[i].row_n = values[2];
        d->source[i].used_n = values[3];
    }
    return FW_OK;
}

fw_status fw_cache_report_read(fw_dataset *d, const uint8_t *bytes, size_t n_bytes) {
    taker t = {.at = bytes, .left = n_bytes};
    take(&t, &d->stats, sizeof d->stats);
    FW_TRY(read_sources(d, &t));
    int64_t n = take_count(&t);
    if (n > FW_DROPPED_LISTED_MAX) t.broken = 1;
    if (!t.broken && n > 0) FW_TRY(FW_NEW_ARRAY(d->dropped, (size_t)n));
    for (int64_t i = 0; i < n && !t.broken; i++) {
        int64_t values[3];
        take(&t, values, sizeof values);
        d->dropped[i] =
            (fw_dropped){.reason = (fw_drop_reason)values[0], .source = (int32_t)values[1], .line = values[2]};
        FW_TRY(take_text(&t, &d->dropped[i].message));
        d->dropped_n++;
        if (values[0] < 0 || values[0] >= FW_DROP_REASON_N || values[1] < 0 || values[1] >= d->source_n) t.broken = 1;
    }
    return t.broken || t.left != 0 ? fw_fail(FW_ERR_INPUT, "its report cannot be read") : FW_OK;
}
