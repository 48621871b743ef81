/* Writing and reading a checkpoint, beside a plain write of as many bytes from the same memory.
 *
 *   bench_checkpoint [FOLDER [MILLIONS [WRITERS [ROUNDS [FIRST]]]]]      defaults: . 30 1 3 0
 *
 * The model has SmolLM2-135M's shapes with as many layers as make MILLIONS of parameters (135: all of it); 12 bytes a
 * parameter are written. WRITERS processes write at once, each its part. In each round, one after the
 * other (the first two change places from round to round; FIRST 1: the other way round):
 *
 *   plain       each writer: one file, 1 MiB a write (4 MiB is slower here), fsync
 *   checkpoint  what a run does: parts, manifest, every file and folder synced, renamed
 *   read        every array from the files (in the page cache) into memory that was just taken, checked, by one thread
 *   load        the same by all CPUs, every byte checked on its way, which is what a resuming run does
 *   weights     the part of it that comes before the first step: the weights alone, by all CPUs. BYTES are those of all
 *
 * A line each: NAME WRITERS BYTES SECONDS CPU_SECONDS. bench/bench_checkpoint runs this and torch's save and load in turn. */
#include "base/alloc.h"
#include "base/host.h"
#include "store/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct bench {
    const char *dir;
    char source[600], out[600];
    int writer_n;
    fw_param_table table;
    float *values; /* [FW_CHECKPOINT_ARRAY_N][total_n], before the fork */
    int64_t bytes;
} bench;

static void need(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "bench_checkpoint: %s: %s\n", what, fw_trail_message());
    exit(1);
}

/* Of this process and of those it has waited for. */
static double cpu_s(void) {
    double s = 0;
    static const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (int k = 0; k < 2; k++) {
        struct rusage u;
        getrusage(who[k], &u);
        s += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    }
    return s;
}

typedef struct moment {
    uint64_t ns;
    double cpu;
} moment;
static moment now(void) { return (moment){fw_host_now_ns(), cpu_s()}; }

static void tell(const bench *b, const char *name, moment begin) {
    printf("%s %d %lld %.4f %.4f\n", name, b->writer_n, (long long)b->bytes,
           (double)(fw_host_now_ns() - begin.ns) * 1e-9, cpu_s() - begin.cpu);
    fflush(stdout);
}

static fw_status from_memory(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                             void *out) {
    const bench *b = context;
    memcpy(out, b->values + (int64_t)array * b->table.total_n + b->table.unit_offset_n[p->unit] + p->offset_n + first_n,
           (size_t)n * sizeof *b->values);
    return FW_OK;
}

static const void *view_memory(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n) {
    const bench *b = context;
    return b->values + (int64_t)array * b->table.total_n + b->table.unit_offset_n[p->unit] + p->offset_n + first_n;
}

/* fn in each of the writers, all at once. */
static void run_writers(const bench *b, void (*fn)(const bench *b, int writer, const void *context),
                        const void *context) {
    pid_t pid[64];
    for (int i = 0; i < b->writer_n; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            fn(b, i, context);
            _exit(0);
        }
    }
    for (int i = 0; i < b->writer_n; i++) {
        int status;
        need(waitpid(pid[i], &status, 0) == pid[i] && status == 0, "a writer");
    }
}

static void write_plain(const bench *b, int writer, const void *context) {
    (void)context;
    enum { STEP_BYTES = 1 << 20 };
    char path[700];
    snprintf(path, sizeof path, "%s/plain-%d", b->dir, writer);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    need(fd >= 0, path);
    const int64_t part = b->bytes / b->writer_n;
    const char *from = (const char *)b->values + part * writer;
    for (int64_t at = 0; at < part;) {
        ssize_t n = write(fd, from + at, (size_t)(part - at < STEP_BYTES ? part - at : STEP_BYTES));
        need(n > 0, path);
        at += n;
    }
    need(fsync(fd) == 0 && close(fd) == 0, path);
}

static void write_part(const bench *b, int writer, const void *context) {
    fw_checkpoint_range *range;
    json_t *part;
    char path[700];
    need(FW_NEW_ARRAY(range, (size_t)b->table.unit_n) == FW_OK, "memory");
    fw_checkpoint_even_ranges(range, &b->table, writer, b->writer_n);
    const fw_checkpoint_share share = {writer,      b->writer_n,       range, from_memory, (void *)(uintptr_t)b,
                                       view_memory, FW_OPTIMIZER_ADAMW};
    need(fw_checkpoint_write_part(&part, context, &b->table, &share) == FW_OK, "a part");
    snprintf(path, sizeof path, "%s/part-%d.json", b->dir, writer);
    need(fw_json_save(part, path) == FW_OK, path);
}

static void write_checkpoint(const bench *b) {
    fw_checkpoint_writer w;
    json_t *part[64];
    need(fw_checkpoint_begin(&w, b->out, b->source, &b->table, FW_OPTIMIZER_ADAMW, 1, b->writer_n) == FW_OK, "begin");
    need(fw_checkpoint_write_small_files(&w, b->source) == FW_OK, "small files");
    run_writers(b, write_part, w.staged.path_tmp);
    for (int i = 0; i < b->writer_n; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/part-%d.json", b->dir, i);
        need(fw_json_load(&part[i], path, 1 << 26) == FW_OK, path);
        unlink(path);
    }
    const fw_checkpoint_state state = {.step = 1, .world_size = b->writer_n, .strategy = "zero3"};
    need(fw_checkpoint_commit(&w, &b->table, part, b->writer_n, &state) == FW_OK, "commit");
    fw_checkpoint_writer_close(&w);
    for (int i = 0; i < b->writer_n; i++) json_decref(part[i]);
}

/* The first array_n arrays. */
static void read_arrays(const bench *b, int array_n, bool by_all) {
    fw_checkpoint_files files;
    fw_threads *threads = NULL;
    char path[700];
    size_t bytes = (size_t)b->table.total_n * (size_t)array_n * sizeof(float);
    snprintf(path, sizeof path, "%s/step-00000001", b->out);
    float *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(to != MAP_FAILED, "memory");
    if (by_all) need(fw_checkpoint_verify_with(NULL, path, FW_CHECKPOINT_SMALL_FILES) == FW_OK, "verify");
    if (by_all) need(fw_threads_create_for_host(&threads) == FW_OK, "threads");
    need(fw_checkpoint_open(&files, path, &b->table, NULL) == FW_OK, "open");
    files.threads = threads;
    for (int array = 0; array < array_n; array++)
        for (int32_t unit = 0; unit < b->table.unit_n; unit++)
            need(fw_checkpoint_read(&files, (fw_checkpoint_array)array, unit, 0, b->table.unit_size_n[unit],
                                    to + array * b->table.total_n + b->table.unit_offset_n[unit]) == FW_OK,
                 "read");
    fw_checkpoint_close(&files);
    fw_threads_destroy(threads);
    munmap(to, bytes);
}

static void make_model(bench *b, double millions) {
    fw_model_config c = {
        .architecture = FW_ARCH_LLAMA, .C = 576, .H = 9, .K = 3, .D = 64, .F = 1536, .V = 49152, .tied = true};
    const double block = 576.0 * 576 * 2 + 2 * 576.0 * 192 + 3 * 576.0 * 1536 + 2 * 576;
    double layers = (millions * 1e6 - 49152.0 * 576) / block;
    c.L = layers < 1 ? 1 : (int64_t)(layers + 0.5);
    need(fw_param_table_init(&b->table, &c) == FW_OK, "table");
    b->bytes = b->table.parameter_n * 12;
    int64_t n = b->table.total_n * FW_CHECKPOINT_ARRAY_N;
    need(FW_NEW_ARRAY(b->values, (size_t)n) == FW_OK, "memory");
    uint64_t x = 1;
    for (int64_t i = 0; i < n; i++) { /* numbers that no file system could pack */
        x = x * 6364136223846793005u + 1442695040888963407u;
        b->values[i] = (float)(int32_t)(x >> 32) * 1e-10f;
    }
    char path[700];
    need(fw_dir_make(b->source) == FW_OK, b->source);
    snprintf(path, sizeof path, "%s/config.json", b->source);
    need(fw_file_write(path, "{}\n", 3) == FW_OK, path);
}

static void time_plain(const bench *b) {
    sync();
    moment begin = now();
    run_writers(b, write_plain, NULL);
    tell(b, "plain", begin);
    for (int i = 0; i < b->writer_n; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/plain-%d", b->dir, i);
        unlink(path);
    }
}

static void time_checkpoint(const bench *b) {
    need(fw_dir_remove(b->out) == FW_OK && fw_dir_make(b->out) == FW_OK, b->out);
    sync();
    moment begin = now();
    write_checkpoint(b);
    tell(b, "checkpoint", begin);
}

int main(int argc, char **argv) {
    bench b = {.dir = argc > 1 ? argv[1] : ".", .writer_n = argc > 3 ? atoi(argv[3]) : 1};
    const int rounds = argc > 4 ? atoi(argv[4]) : 3, first = argc > 5 ? atoi(argv[5]) : 0;
    if (b.writer_n < 1 || b.writer_n > 64) b.writer_n = 1;
    snprintf(b.source, sizeof b.source, "%s/bench-source", b.dir);
    snprintf(b.out, sizeof b.out, "%s/bench-checkpoint", b.dir);
    make_model(&b, argc > 2 ? atof(argv[2]) : 30);
    for (int round = 0; round < rounds; round++) {
        const bool checkpoint_first = (first + round) % 2 == 1; /* what comes second finds the disk busier */
        if (checkpoint_first) time_checkpoint(&b);
        time_plain(&b);
        if (!checkpoint_first) time_checkpoint(&b);
        moment begin = now();
        read_arrays(&b, FW_CHECKPOINT_ARRAY_N, false);
        tell(&b, "read", begin);
        begin = now();
        read_arrays(&b, FW_CHECKPOINT_ARRAY_N, true);
        tell(&b, "load", begin);
        begin = now();
        read_arrays(&b, 1, true);
        tell(&b, "weights", begin);
    }
    need(fw_dir_remove(b.out) == FW_OK && fw_dir_remove(b.source) == FW_OK, "removing");
    fw_free(b.values);
    fw_param_table_fini(&b.table);
    return 0;
}
