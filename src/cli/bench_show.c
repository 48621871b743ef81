/* Tables of finewire bench, in the columns of nccl-tests, and what of them is kept. */
#include "cli/bench_show.h"

#include "base/json.h"
#include "cli/terminal.h"
#include "device/gpu.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- what is kept ---- */

void fw_bench_show_init(fw_bench_show *s, const fw_options *options, const fw_job *job) {
    const fw_device *d = job->device;
    *s = (fw_bench_show){.options = options, .job = job, .speaks = fw_comm_rank(job->comm) == 0};
    fw_measured_host(s->key.host);
    snprintf(s->key.device, sizeof s->key.device, "%s", d->gpu != NULL ? d->gpu->name : d->name);
    s->key.world = fw_comm_world(job->comm);
    s->key.dtype = FW_DTYPE_N;
    if (options->json && s->speaks) s->status = fw_json_parse(&s->results, "[]", 2, "bench", 1);
}

void fw_bench_show_fini(fw_bench_show *s) {
    json_decref(s->results);
    fw_measured_fini(&s->found);
}

static void keep_status(fw_bench_show *s, fw_status status) {
    if (s->status == FW_OK) s->status = status;
}

static void begin_record(fw_bench_show *s, fw_measured_what what, fw_dtype dtype) {
    const time_t now = time(NULL);
    struct tm day;
    s->record = (fw_measured_record){.key = s->key};
    s->record.key.what = what;
    s->record.key.dtype = dtype;
    strftime(s->record.date, sizeof s->record.date, "%Y-%m-%d", localtime_r(&now, &day));
}

/* Of more sizes than a record holds every second one goes. */
static void add_point(fw_bench_show *s, double amount, double seconds) {
    fw_measured_record *r = &s->record;
    if (r->point_n == FW_MEASURED_POINTS) {
        for (int i = 0; i < FW_MEASURED_POINTS / 2; i++) r->point[i] = r->point[2 * i];
        r->point_n /= 2;
    }
    if (r->point_n > 0 && amount <= r->point[r->point_n - 1].amount) return; /* two sizes that round to one */
    r->point[r->point_n++] = (fw_measured_point){amount, seconds};
}

static void end_record(fw_bench_show *s) {
    if (s->record.point_n > 0) keep_status(s, fw_measured_put(&s->found, &s->record));
    s->record.point_n = 0;
}

/* ---- JSON; NULL objects (no memory) are found by the functions that take them ---- */

static void begin_result(fw_bench_show *s, const char *what) {
    if (s->results == NULL) return;
    json_t *result = json_pack("{s:s}", "what", what);
    s->rows = json_array();
    if (json_object_set_new(result, "rows", s->rows) != 0) s->rows = NULL;
    if (json_array_append_new(s->results, result) != 0)
        keep_status(s, fw_fail(FW_ERR_NOMEM, "out of memory while writing results"));
}

static void add_row(fw_bench_show *s, json_t *row) {
    if (s->rows == NULL || json_array_append_new(s->rows, row) != 0)
        keep_status(s, fw_fail(FW_ERR_NOMEM, "out of memory while writing results"));
}

static json_t *timing_to_json(const fw_bench_show *s, const fw_collective_row *row, const fw_collective_timing *t) {
    const int64_t bytes = row->shape.bytes;
    if (!t->done) return json_null();
    return json_pack("{s:f, s:f, s:f, s:o}", "seconds", t->seconds, "algbw",
                     fw_collective_algorithm_bandwidth(bytes, t->seconds), "busbw",
                     fw_collective_bus_bandwidth(s->record.key.what, bytes, t->seconds, s->key.world), "wrong",
                     t->wrong_n < 0 ? json_null() : json_integer(t->wrong_n));
}

/* ---- collectives ---- */

static const char *type_name(fw_dtype dtype) { return dtype == FW_F32 ? "float" : "bfloat16"; }

static fw_dtype dtype_of(const fw_options *o) { return o->datatype == FW_BENCH_FP32 ? FW_F32 : FW_BF16; }

void fw_bench_show_collective(fw_bench_show *s, fw_measured_what what) {
    const fw_options *o = s->options;
    begin_record(s, what, dtype_of(o));
    snprintf(s->record.key.transport, sizeof s->record.key.transport, "%s", fw_comm_transport(s->job->comm));
    s->bus_sum = 0;
    s->bus_n = 0;
    if (!s->speaks) return;
    begin_result(s, fw_measured_name(what));
    if (s->results != NULL) return;
    char step[64];
    if (o->stepbytes > 0)
        snprintf(step, sizeof step, "%lld(bytes)", (long long)o->stepbytes);
    else
        snprintf(step, sizeof step, "%lld(factor)", (long long)(o->stepfactor > 0 ? o->stepfactor : 2));
    keep_status(
        s,
        fw_terminal_printf(
            "# %s: ranks %d, transport %s, device %s, minBytes %lld maxBytes %lld step: %s warmup iters: %lld iters: "
            "%lld validation: %d\n#\n"
            "# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n"
            "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n"
            "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n",
            fw_measured_name(what), s->key.world, s->record.key.transport, s->key.device, (long long)o->minbytes,
            (long long)o->maxbytes, step, (long long)o->warmup_iters, (long long)o->iters, o->check, "", "", "", "", "",
            "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
            "#wrong", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", ""));
}

static int timing_text(char *out, size_t bytes, fw_measured_what what, int world, int64_t size,
                       const fw_collective_timing *t) {
    const double us = t->seconds * 1e6;
    char time[32], wrong[32] = "N/A";
    if (!t->done) return snprintf(out, bytes, "  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
    snprintf(time, sizeof time, us >= 10000 ? "%7.0f" : us >= 100 ? "%7.1f" : "%7.2f", us);
    if (t->wrong_n >= 0) snprintf(wrong, sizeof wrong, "%lld", (long long)t->wrong_n);
    return snprintf(out, bytes, "  %7s  %6.2f  %6.2f  %5s", time, fw_collective_algorithm_bandwidth(size, t->seconds),
                    fw_collective_bus_bandwidth(what, size, t->seconds, world), wrong);
}

void fw_bench_row_text(char out[FW_BENCH_ROW_BYTES], fw_measured_what what, fw_dtype dtype, int root, int world,
                       const fw_collective_row *row) {
    const bool is_sum = what == FW_MEASURED_ALL_REDUCE || what == FW_MEASURED_REDUCE_SCATTER;
    int n = snprintf(out, FW_BENCH_ROW_BYTES, "%12lld  %12lld  %8s  %6s  %6d", (long long)row->shape.bytes,
                     (long long)row->shape.count, type_name(dtype), is_sum ? "sum" : "none",
                     what == FW_MEASURED_BROADCAST ? root : -1);
    n += timing_text(out + n, (size_t)(FW_BENCH_ROW_BYTES - n), what, world, row->shape.bytes, &row->out_of_place);
    timing_text(out + n, (size_t)(FW_BENCH_ROW_BYTES - n), what, world, row->shape.bytes, &row->in_place);
}

static void count_timing(fw_bench_show *s, int64_t bytes, const fw_collective_timing *t) {
    if (!t->done) return;
    s->bus_sum += fw_collective_bus_bandwidth(s->record.key.what, bytes, t->seconds, s->key.world);
    s->bus_n++;
    if (t->wrong_n > 0) s->wrong_n += t->wrong_n;
}

void fw_bench_show_collective_row(void *show, const fw_collective_row *row) {
    fw_bench_show *s = show;
    const fw_measured_key *key = &s->record.key;
    count_timing(s, row->shape.bytes, &row->out_of_place);
    count_timing(s, row->shape.bytes, &row->in_place);
    /* Training works in place. */
    add_point(s, (double)row->shape.bytes, row->in_place.done ? row->in_place.seconds : row->out_of_place.seconds);
    if (!s->speaks) return;
    if (s->results != NULL) {
        add_row(s, json_pack("{s:I, s:I, s:s, s:o, s:o}", "bytes", (json_int_t)row->shape.bytes, "count",
                             (json_int_t)row->shape.count, "type", type_name(key->dtype), "out_of_place",
                             timing_to_json(s, row, &row->out_of_place), "in_place",
                             timing_to_json(s, row, &row->in_place)));
        return;
    }
    char text[FW_BENCH_ROW_BYTES];
    fw_bench_row_text(text, key->what, key->dtype, (int)s->options->root, key->world, row);
    keep_status(s, fw_terminal_printf("%s\n", text));
}

void fw_bench_show_collective_end(fw_bench_show *s) {
    const double average = s->bus_n > 0 ? s->bus_sum / (double)s->bus_n : 0;
    end_record(s);
    if (!s->speaks) return;
    if (s->results == NULL) {
        keep_status(s, fw_terminal_printf("# Out of bounds values : %lld %s\n# Avg bus bandwidth    : %g\n#\n",
                                          (long long)s->wrong_n, s->wrong_n > 0 ? "FAILED" : "OK", average));
        return;
    }
    json_t *result = json_array_get(s->results, json_array_size(s->results) - 1);
    if (json_object_set_new(result, "average_busbw", json_real(average)) != 0)
        keep_status(s, fw_fail(FW_ERR_NOMEM, "out of memory while writing results"));
}

/* ---- matrix products ---- */

void fw_bench_show_gemm(fw_bench_show *s) {
    s->record.point_n = 0;
    if (!s->speaks) return;
    begin_result(s, "gemm");
    if (s->results != NULL) return;
    keep_status(s, fw_terminal_printf("# gemm: ranks %d at once, device %s, threads %d; GFLOP/s of a rank\n#\n"
                                      "# %10s  %8s  %9s  %9s  %9s  %9s\n",
                                      s->key.world, s->key.device, s->job->thread_n, "m = n = k", "type", "forward",
                                      "d input", "d weight", "all three"));
}

/* A training step does each of the three once: what is kept is their mean. */
void fw_bench_show_gemm_row(void *show, const fw_gemm_row *row) {
    fw_bench_show *s = show;
    const double work = fw_gemm_operations(row->size), mean_s = (row->forward_s + row->input_s + row->weight_s) / 3;
    if (s->record.point_n == 0 || s->record.key.dtype != row->dtype) {
        end_record(s);
        begin_record(s, FW_MEASURED_GEMM, row->dtype);
        if (s->job->device->on_host) s->record.key.thread_n = s->job->thread_n;
    }
    add_point(s, work, mean_s);
    if (!s->speaks) return;
    if (s->results != NULL) {
        add_row(s, json_pack("{s:I, s:s, s:f, s:f, s:f}", "size", (json_int_t)row->size, "type", type_name(row->dtype),
                             "forward_seconds", row->forward_s, "input_seconds", row->input_s, "weight_seconds",
                             row->weight_s));
        return;
    }
    keep_status(s, fw_terminal_printf("%12lld  %8s  %9.1f  %9.1f  %9.1f  %9.1f\n", (long long)row->size,
                                      type_name(row->dtype), work / row->forward_s * 1e-9, work / row->input_s * 1e-9,
                                      work / row->weight_s * 1e-9, work / mean_s * 1e-9));
}

void fw_bench_show_gemm_end(fw_bench_show *s) {
    end_record(s);
    if (s->speaks && s->results == NULL) keep_status(s, fw_terminal_printf("#\n"));
}

/* ---- memory ---- */

void fw_bench_show_memory(fw_bench_show *s) {
    if (!s->speaks) return;
    begin_result(s, "memcpy");
    if (s->results != NULL) return;
    keep_status(s, fw_terminal_printf("# memcpy: ranks %d at once, device %s, threads %d; GB/s of a rank\n#\n"
                                      "# %14s  %12s  %9s  %9s\n# %14s  %12s  %9s  %9s\n",
                                      s->key.world, s->key.device, s->job->thread_n, "what", "size", "time", "rate", "",
                                      "(B)", "(us)", "(GB/s)"));
}

void fw_bench_show_memory_row(void *show, const fw_memory_row *row) {
    fw_bench_show *s = show;
    if (row->is_copy || row->is_adamw) {
        begin_record(s, row->is_copy ? FW_MEASURED_MEMCPY : FW_MEASURED_UPDATE, FW_DTYPE_N);
        if (s->job->device->on_host) s->record.key.thread_n = s->job->thread_n;
        add_point(s, (double)row->bytes, row->seconds);
        end_record(s);
    }
    if (!s->speaks) return;
    if (s->results != NULL)
        add_row(s, json_pack("{s:s, s:I, s:f}", "what", row->what, "bytes", (json_int_t)row->bytes, "seconds",
                             row->seconds));
    else
        keep_status(s, fw_terminal_printf("  %14s  %12lld  %9.1f  %9.2f\n", row->what, (long long)row->bytes,
                                          row->seconds * 1e6, (double)row->bytes / row->seconds * 1e-9));
}

void fw_bench_show_memory_end(fw_bench_show *s) {
    if (s->speaks && s->results == NULL)
        keep_status(s, fw_terminal_printf("# copy: bytes copied; adamw: bytes read and written, %d a parameter\n#\n",
                                          FW_MEMORY_ADAMW_BYTES));
}

/* ---- disk ---- */

void fw_bench_show_disk(fw_bench_show *s, const fw_disk_result *r, const char *folder) {
    for (int reads = 0; reads < 2; reads++) {
        begin_record(s, reads ? FW_MEASURED_DISK_READ : FW_MEASURED_DISK_WRITE, FW_DTYPE_N);
        snprintf(s->record.key.device, sizeof s->record.key.device, "%s", folder);
        s->record.key.world = 1;
        if (!reads || r->cached_part < 0.1) add_point(s, (double)r->bytes, reads ? r->read_s : r->write_s);
        end_record(s);
    }
    begin_result(s, "disk");
    if (s->results != NULL) {
        add_row(s, json_pack("{s:s, s:I, s:f, s:f, s:f}", "folder", folder, "bytes", (json_int_t)r->bytes,
                             "write_seconds", r->write_s, "read_seconds", r->read_s, "cached_part", r->cached_part));
        return;
    }
    keep_status(s, fw_terminal_printf("# disk: %s, one file of %lld bytes\n#\n"
                                      "         write  %9.2f GB/s, until it is on the disk (fsync)\n"
                                      "          read  %9.2f GB/s%s\n#\n",
                                      folder, (long long)r->bytes, (double)r->bytes / r->write_s * 1e-9,
                                      (double)r->bytes / r->read_s * 1e-9,
                                      r->cached_part < 0.1 ? "" : ", from the system's memory: this is not the disk"));
}

/* ---- the end ---- */

fw_status fw_bench_show_done(fw_bench_show *s, const char *saved) {
    FW_TRY(s->status);
    if (!s->speaks) return FW_OK;
    if (s->results == NULL) {
        if (saved == NULL) return FW_OK;
        return fw_terminal_printf("# %d measurement%s saved in %s for \"%s\"\n", s->found.record_n,
                                  s->found.record_n == 1 ? "" : "s", saved, s->key.host);
    }
    fw_strbuf text = {0};
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:i, s:O, s:s?}", "host", s->key.host, "device", s->key.device,
                            "transport", fw_comm_transport(s->job->comm), "world", s->key.world, "threads",
                            s->job->thread_n, "results", s->results, "saved", saved);
    fw_status status = all != NULL ? fw_json_dump(&text, all, JSON_INDENT(2))
                                   : fw_fail(FW_ERR_NOMEM, "out of memory while writing results");
    if (status == FW_OK) status = fw_terminal_printf("%s\n", fw_strbuf_text(&text));
    json_decref(all);
    fw_strbuf_fini(&text);
    return status;
}
