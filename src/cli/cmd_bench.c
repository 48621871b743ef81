/* finewire bench: measure what this machine does, as training uses it. */
#include "base/alloc.h"
#include "base/log.h"
#include "cli/bench_show.h"
#include "cli/commands.h"
#include "cli/ranks.h"
#include "cli/terminal.h"
#include "train/interrupt.h"
#include "train/same_job.h"

#include <stdlib.h>

static bool interrupted(void) { return fw_interrupt_requested() != 0; }

static const struct {
    fw_bench_what asked;
    fw_measured_what what;
} collectives[] = {{FW_BENCH_ALL_REDUCE, FW_MEASURED_ALL_REDUCE},
                   {FW_BENCH_ALL_GATHER, FW_MEASURED_ALL_GATHER},
                   {FW_BENCH_REDUCE_SCATTER, FW_MEASURED_REDUCE_SCATTER},
                   {FW_BENCH_BROADCAST, FW_MEASURED_BROADCAST},
                   {FW_BENCH_ALL_TO_ALL, FW_MEASURED_ALL_TO_ALL}};
enum { COLLECTIVE_N = sizeof collectives / sizeof *collectives };

static bool is_asked(const fw_options *o, fw_bench_what what) { return o->what == FW_BENCH_ALL || o->what == what; }

static bool is_collective(fw_bench_what what) { return what >= FW_BENCH_ALL_REDUCE && what <= FW_BENCH_ALL_TO_ALL; }

static fw_sweep sweep_of(const fw_options *o) {
    return (fw_sweep){.min_bytes = o->minbytes,
                      .max_bytes = o->maxbytes,
                      .factor = o->stepbytes > 0    ? 0
                                : o->stepfactor > 0 ? o->stepfactor
                                                    : 2,
                      .step_bytes = o->stepbytes};
}

static fw_status run_collectives(fw_bench_show *s) {
    const fw_options *o = s->options;
    fw_collective_bench b = {.comm = s->job->comm,
                             .device = s->job->device,
                             .dtype = o->datatype == FW_BENCH_FP32 ? FW_F32 : FW_BF16,
                             .root = (int)o->root,
                             .warmup_n = (int)o->warmup_iters,
                             .iter_n = (int)o->iters,
                             .check = o->check,
                             .stop = interrupted,
                             .sweep = sweep_of(o)};
    fw_status status;
    FW_TRY_OR(fw_collective_take_buffers(&b), done);
    for (int i = 0; i < COLLECTIVE_N; i++) {
        if (!is_asked(o, collectives[i].asked)) continue;
        b.what = collectives[i].what;
        fw_bench_show_collective(s, b.what);
        FW_TRY_OR(fw_collective_measure(&b, fw_bench_show_collective_row, s), done);
        fw_bench_show_collective_end(s);
    }
done:
    fw_collective_free_buffers(&b);
    return status;
}

static fw_status run_disk(fw_bench_show *s) {
    const fw_options *o = s->options;
    fw_comm *c = s->job->comm;
    fw_disk_result result;
    fw_status status = FW_OK;
    char *folder = NULL;
    fw_comm_host_work_begin(c, "measuring the disk");
    if (s->speaks) {
        folder = realpath(o->disk_dir, NULL);
        status = fw_disk_measure(&result, folder != NULL ? folder : o->disk_dir, o->disk_bytes, interrupted);
        if (status == FW_OK) fw_bench_show_disk(s, &result, folder);
    }
    fw_comm_host_work_end(c);
    free(folder);
    return fw_comm_agree(c, status);
}

static fw_status run_all(fw_bench_show *s) {
    const fw_options *o = s->options;
    fw_comm *c = s->job->comm;
    if (fw_comm_world(c) > 1 && (o->what == FW_BENCH_ALL || is_collective(o->what))) FW_TRY(run_collectives(s));
    if (is_asked(o, FW_BENCH_GEMM)) {
        fw_bench_show_gemm(s);
        FW_TRY(fw_gemm_measure(c, s->job->device, o->maxbytes, interrupted, fw_bench_show_gemm_row, s));
        fw_bench_show_gemm_end(s);
    }
    if (is_asked(o, FW_BENCH_MEMCPY)) {
        fw_bench_show_memory(s);
        FW_TRY(fw_memory_measure(c, s->job->device, interrupted, fw_bench_show_memory_row, s));
        fw_bench_show_memory_end(s);
    }
    return is_asked(o, FW_BENCH_DISK) ? run_disk(s) : FW_OK;
}

/* The file of measurements and what it holds already: what is wrong with it is said before anything is measured. */
typedef struct store {
    char *path; /* NULL: nothing is to be saved */
    fw_measured known;
} store;

static fw_status open_store(store *t, const fw_options *o) {
    FW_TRY(fw_measured_path(&t->path, o->measured));
    return fw_measured_load(&t->known, t->path);
}

static fw_status save(store *t, const fw_measured *found) {
    for (int i = 0; i < found->record_n; i++) FW_TRY(fw_measured_put(&t->known, &found->record[i]));
    return fw_measured_save(&t->known, t->path);
}

static void close_store(store *t) {
    fw_free(t->path);
    fw_measured_fini(&t->known);
}

static fw_status check_place(const fw_options *o, const fw_job *job) {
    const int world = fw_comm_world(job->comm);
    if (world == 1 && is_collective(o->what))
        return fw_fail(FW_ERR_OPTION, "finewire bench %s needs at least 2 ranks: --num_processes 2",
                       fw_bench_what_words[o->what]);
    if (o->root >= world)
        return fw_fail(FW_ERR_OPTION, "root is %lld, and the ranks are 0 to %d", (long long)o->root, world - 1);
    if (world == 1 && o->what == FW_BENCH_ALL)
        fw_log_info("collectives are left out: they need several ranks (--num_processes 2)");
    const fw_sweep sweep = sweep_of(o);
    return fw_sweep_check(&sweep);
}

static fw_status wrong_results(int64_t n) {
    return fw_fail(FW_ERR_RANK, "%lld element%s not what %s must be: the link or its library gives wrong results",
                   (long long)n, n == 1 ? " was" : "s were", n == 1 ? "it" : "they");
}

static fw_status bench(fw_bench_show *s, const fw_options *o, const fw_job *job) {
    store kept = {0};
    fw_status status = FW_OK, shown;
    FW_TRY(fw_same_options(job->comm, o));
    FW_TRY(fw_comm_agree(job->comm, check_place(o, job)));
    fw_bench_show_init(s, o, job);
    if (o->save && s->speaks) status = open_store(&kept, o);
    FW_TRY_OR(fw_comm_agree(job->comm, status), done);
    FW_TRY_OR(run_all(s), done);
    status = s->status;
    if (status == FW_OK && s->wrong_n > 0) status = wrong_results(s->wrong_n); /* shown, but not kept */
    if (status == FW_OK && o->save && s->speaks) status = save(&kept, &s->found);
    shown = fw_bench_show_done(s, status == FW_OK ? kept.path : NULL);
    FW_TRY_OR(fw_comm_agree(job->comm, status != FW_OK ? status : shown), done);
done:
    close_store(&kept);
    return status;
}

fw_status fw_cli_bench(const fw_options *o) {
    bool must_launch;
    FW_TRY(fw_cli_must_launch(&must_launch, (int)o->num_processes));
    if (must_launch) return fw_cli_launch((int)o->num_processes, true);
    fw_job job;
    fw_bench_show show = {0};
    fw_interrupt_install();
    fw_status status = fw_job_open_place(&job, o);
    if (status == FW_OK) {
        fw_terminal_set_rank(fw_comm_rank(job.comm), fw_comm_world(job.comm));
        status = bench(&show, o, &job);
    }
    if (status != FW_OK && status != FW_ERR_INTERRUPTED) fw_comm_abort(job.comm, status);
    const bool reports = fw_comm_reports_failure(job.comm);
    fw_bench_show_fini(&show);
    fw_job_close(&job);
    if (status != FW_OK && !reports) fw_terminal_error_was_shown();
    return status;
}
