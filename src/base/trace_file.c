/* The trace file: Trace Event Format, JSON object format. */
#include "base/trace.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/trace_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 16 };

static const char *const lane_name[FW_TRACE_LANE_N] = {
    [FW_TRACE_STEP] = "step",          [FW_TRACE_COMPUTE] = "compute", [FW_TRACE_WAIT] = "wait",
    [FW_TRACE_COMM] = "communication", [FW_TRACE_HOST] = "host",       [FW_TRACE_BEHIND] = "behind",
};

static fw_status unfinished_name(fw_strbuf *out, const char *path) {
    return fw_strbuf_printf(out, "%s.unfinished", path);
}

static fw_status check_plain(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "the trace cannot be written to %s: it is %s; name a file", path,
                   S_ISDIR(info.st_mode) ? "a folder" : "not a plain file");
}

/* Says which option the file is of: the writer knows only its path. */
static fw_status about_trace(fw_status status, const char *path) {
    if (status == FW_ERR_IO) fw_fail_context(status, "--trace %s: ", path);
    return status;
}

fw_status fw_trace_file_check(const char *path) {
    fw_strbuf name = {0};
    fw_file_writer writer = {0};
    fw_status status;
    FW_TRY_OR(unfinished_name(&name, path), done);
    FW_TRY_OR(check_plain(path), done);
    FW_TRY_OR(check_plain(name.data), done);
    FW_TRY_OR(about_trace(fw_file_writer_open(&writer, name.data), path), done);
done:
    fw_file_writer_close(&writer); /* and what it began is gone */
    fw_strbuf_fini(&name);
    return status;
}

fw_status fw_trace_file_begin(const char *path, int world) {
    fw_strbuf name = {0}, text = {0};
    fw_status status;
    FW_TRY_OR(unfinished_name(&name, path), done);
    FW_TRY_OR(check_plain(path), done);
    FW_TRY_OR(check_plain(name.data), done);
    /* the first event stands here, so that all others begin with a comma */
    FW_TRY_OR(fw_strbuf_printf(&text,
                               "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                               "{\"name\":\"finewire_run\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"world\":%d}}",
                               world),
              done);
    FW_TRY_OR(about_trace(fw_file_write(name.data, text.data, text.len_bytes), path), done);
done:
    fw_strbuf_fini(&name);
    fw_strbuf_fini(&text);
    return status;
}

/* Bytes of the well-formed character at s, 0 when there is none: The Unicode Standard 15, table 3-7. */
static size_t character_bytes(const unsigned char *s) {
    if (*s < 0x80) return 1;
    size_t more = *s >= 0xc2 && *s < 0xe0 ? 1 : *s >= 0xe0 && *s < 0xf0 ? 2 : *s >= 0xf0 && *s < 0xf5 ? 3 : 0;
    unsigned char low = *s == 0xe0 ? 0xa0 : *s == 0xf0 ? 0x90 : 0x80;
    unsigned char high = *s == 0xed ? 0x9f : *s == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i <= more; i++) {
        if (s[i] < low || s[i] > high) return 0;
        low = 0x80;
        high = 0xbf;
    }
    return more == 0 ? 0 : more + 1;
}

/* The name as a JSON string; bytes that are no UTF-8, such as the half of a character where a name was cut, are left
 * out. */
static fw_status put_name(fw_strbuf *out, const char *name) {
    FW_TRY(fw_strbuf_putc(out, '"'));
    for (const unsigned char *s = (const unsigned char *)name; *s != 0;) {
        size_t n = character_bytes(s);
        if (*s == '"' || *s == '\\')
            FW_TRY(fw_strbuf_printf(out, "\\%c", *s));
        else if (*s < 0x20)
            FW_TRY(fw_strbuf_printf(out, "\\u%04x", *s));
        else
            FW_TRY(fw_strbuf_append(out, s, n));
        s += n > 0 ? n : 1;
    }
    return fw_strbuf_putc(out, '"');
}

static fw_status put_span(fw_strbuf *out, const fw_trace_event *e, int rank) {
    uint64_t dur_ns = e->end_ns - e->start_ns;
    FW_TRY(fw_strbuf_puts(out, ",\n{\"name\":"));
    FW_TRY(put_name(out, e->name));
    return fw_strbuf_printf(out, ",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%llu.%03u,\"dur\":%llu.%03u}", rank,
                            e->lane, (unsigned long long)(e->start_ns / 1000), (unsigned)(e->start_ns % 1000),
                            (unsigned long long)(dur_ns / 1000), (unsigned)(dur_ns % 1000));
}

/* Names and order of the rank and its lanes, and how much is missing. */
static fw_status put_metadata(fw_strbuf *out, int rank, size_t written_n) {
    uint64_t kept_n, dropped_n;
    fw_trace_counts(&kept_n, &dropped_n);
    const char *form = ",\n{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{";
    FW_TRY(fw_strbuf_printf(out, form, "process_name", rank, 0));
    FW_TRY(fw_strbuf_printf(out, "\"name\":\"rank %d\"}}", rank));
    FW_TRY(fw_strbuf_printf(out, form, "process_sort_index", rank, 0));
    FW_TRY(fw_strbuf_printf(out, "\"sort_index\":%d}}", rank));
    for (int lane = 0; lane < FW_TRACE_LANE_N; lane++) {
        FW_TRY(fw_strbuf_printf(out, form, "thread_name", rank, lane));
        FW_TRY(fw_strbuf_printf(out, "\"name\":\"%s\"}}", lane_name[lane]));
        FW_TRY(fw_strbuf_printf(out, form, "thread_sort_index", rank, lane));
        FW_TRY(fw_strbuf_printf(out, "\"sort_index\":%d}}", lane));
    }
    FW_TRY(fw_strbuf_printf(out, form, "finewire_spans", rank, 0));
    FW_TRY(fw_strbuf_printf(out, "\"kept\":%zu,\"dropped\":%llu}}", written_n, (unsigned long long)dropped_n));
    if (dropped_n == 0) return FW_OK;
    FW_TRY(fw_strbuf_printf(out, form, "process_labels", rank, 0)); /* viewers show it beside the name */
    return fw_strbuf_printf(out, "\"labels\":\"%llu later spans dropped\"}}", (unsigned long long)dropped_n);
}

/* By lane and start; of two that start together the longer one first, as it holds the other. */
static int compare_spans(const void *a, const void *b) {
    const fw_trace_event *x = *(const fw_trace_event *const *)a, *y = *(const fw_trace_event *const *)b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns > y->end_ns ? -1 : 1;
    return (x > y) - (x < y);
}

fw_status fw_trace_file_append(const char *path, int rank) {
    fw_trace_pause();
    const fw_trace_event **span = NULL;
    size_t span_n = 0;
    fw_strbuf name = {0}, text = {0};
    fw_status status;
    FW_TRY_OR(unfinished_name(&name, path), done);
    FW_TRY_OR(fw_trace_collect(&span, &span_n), done);
    if (span_n > 1) qsort(span, span_n, sizeof *span, compare_spans);
    FW_TRY_OR(put_metadata(&text, rank, span_n), done);
    for (size_t i = 0; i < span_n; i++) {
        FW_TRY_OR(put_span(&text, span[i], rank), done);
        if (text.len_bytes < PIECE_BYTES) continue;
        FW_TRY_OR(about_trace(fw_file_append(name.data, text.data, text.len_bytes), path), done);
        fw_strbuf_clear(&text);
    }
    FW_TRY_OR(about_trace(fw_file_append(name.data, text.data, text.len_bytes), path), done);
done:
    fw_free(span);
    fw_strbuf_fini(&name);
    fw_strbuf_fini(&text);
    return status;
}

fw_status fw_trace_file_end(const char *path) {
    fw_strbuf name = {0};
    fw_status status;
    FW_TRY_OR(unfinished_name(&name, path), done);
    FW_TRY_OR(about_trace(fw_file_append(name.data, "\n]}\n", 4), path), done);
    if (rename(name.data, path) != 0)
        status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", name.data, path, strerror(errno));
done:
    fw_strbuf_fini(&name);
    return status;
}

void fw_trace_file_cancel(const char *path) {
    fw_strbuf name = {0};
    if (unfinished_name(&name, path) == FW_OK) unlink(name.data);
    fw_strbuf_fini(&name);
}
