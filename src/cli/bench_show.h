/* What finewire bench shows: tables, or one JSON object. Rank 0 only; measurements that plan can use are collected on the
 * way. */
#ifndef FW_CLI_BENCH_SHOW_H
#define FW_CLI_BENCH_SHOW_H

#include "config/options.h"
#include "machine/measured.h"
#include "measure/collective.h"
#include "measure/disk.h"
#include "measure/gemm.h"
#include "measure/memory.h"
#include "train/job.h"

typedef struct fw_bench_show {
    const fw_options *options;
    const fw_job *job;
    bool speaks;               /* rank 0 */
    fw_status status;          /* the first that failed while showing */
    fw_measured_key key;       /* what all measurements have in common */
    fw_measured found;         /* to be saved */
    fw_measured_record record; /* the one at work */
    json_t *results, *rows;    /* with --json; rows: of the result at work */
    double bus_sum;            /* of the table at work */
    int64_t bus_n, wrong_n;
} fw_bench_show;

void fw_bench_show_init(fw_bench_show *s, const fw_options *options, const fw_job *job);
void fw_bench_show_fini(fw_bench_show *s);

/* A table: begin, a row for each size, end. */
void fw_bench_show_collective(fw_bench_show *s, fw_measured_what what);
void fw_bench_show_collective_row(void *show, const fw_collective_row *row);
void fw_bench_show_collective_end(fw_bench_show *s);
void fw_bench_show_gemm(fw_bench_show *s);
void fw_bench_show_gemm_row(void *show, const fw_gemm_row *row);
void fw_bench_show_gemm_end(fw_bench_show *s);
void fw_bench_show_memory(fw_bench_show *s);
void fw_bench_show_memory_row(void *show, const fw_memory_row *row);
void fw_bench_show_memory_end(fw_bench_show *s);
void fw_bench_show_disk(fw_bench_show *s, const fw_disk_result *result, const char *folder);

/* The last line, or the JSON object. saved: the file of measurements that was written; NULL: none. */
fw_status fw_bench_show_done(fw_bench_show *s, const char *saved);

/* The columns of nccl-tests: one row as text. */
enum { FW_BENCH_ROW_BYTES = 256 };
void fw_bench_row_text(char out[FW_BENCH_ROW_BYTES], fw_measured_what what, fw_dtype dtype, int root, int world,
                       const fw_collective_row *row);

#endif
