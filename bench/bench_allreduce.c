/* all_reduce between ranks of this host, and the time that memory alone would take.
 *
 *     bench_allreduce [RANKS [MOST_MIB]]        (2, 64)
 *
 * One line a measurement: what, dtype, bytes, median and least microseconds, calls. Before each call every rank writes
 * its whole buffer, as a backward pass does, and all meet; the time is that of the slowest rank.
 *
 *   finewire          in place on memory of fw_comm_alloc, as training uses it
 *   finewire-private  in place on memory of malloc: through staging buffers
 *   traffic           the bound: an all_reduce in place must read and write each rank's buffer once, so each of W ranks
 *                     that share the work reads and writes as many bytes as one buffer has. The same bytes are moved
 *                     here by all ranks at once in memory of their own, without a rank ever waiting for another: a sum
 *                     of the buffer's two halves stored in both, or a copy past the caches, whichever is faster.
 *
 * bench/bench_allreduce runs this beside gloo and Open MPI. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/comm.h"
#include "comm/comm_sum.h"
#include "comm/kernels/comm_sum_loops.h"
#include "comm/launcher.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 41, WARM_N = 2 };

typedef struct lab {
    fw_comm *c;
    char *shared, *private;
} lab;

/* What is timed. */
typedef enum kind { SHARED, PRIVATE, TRAFFIC_SUM, TRAFFIC_COPY, KIND_N } kind;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int call_n_for(size_t bytes) { return bytes <= 1 << 20 ? MOST_CALLS : bytes <= 16 << 20 ? 21 : 9; }

/* Small values: their sums never overflow, however often they are added up. */
static void write_buffer(void *x, size_t bytes, fw_dtype dtype) {
    if (dtype == FW_F32)
        for (size_t i = 0; i < bytes / 4; i++) ((float *)x)[i] = (float)(i % 64);
    else
        for (size_t i = 0; i < bytes / 2; i++) ((fw_bf16 *)x)[i] = (fw_bf16)(0x3f80 + i % 64);
}

static fw_status move(lab *l, kind what, size_t bytes, fw_dtype dtype) {
    const int64_t n = (int64_t)(bytes / fw_dtype_bytes(dtype));
    if (what == TRAFFIC_SUM) {
        void *halves[2] = {l->shared, l->shared + bytes / 2};
        fw_comm_sum(halves, 2, (const void *const *)halves, 2, n / 2, dtype);
        return FW_OK;
    }
    if (what == TRAFFIC_COPY) {
        fw_comm_loops_variant(NULL)->copy_past_cache(l->private, l->shared, bytes);
        return FW_OK;
    }
    fw_comm_request request = {.label = "bench"};
    FW_TRY(fw_comm_all_reduce(l->c, what == SHARED ? l->shared : l->private, n, dtype, &request));
    return fw_comm_wait(l->c, &request);
}

/* One call of each kind after the other, so that a slow spell of the machine hits all alike. Of the slowest rank. */
static fw_status time_calls(lab *l, size_t bytes, fw_dtype dtype, int call_n, double seconds[KIND_N][MOST_CALLS]) {
    for (int k = -WARM_N; k < call_n; k++) {
        int64_t ns[KIND_N];
        for (int what = 0; what < KIND_N; what++) {
            write_buffer(what == PRIVATE ? l->private : l->shared, bytes, dtype);
            FW_TRY(fw_comm_barrier(l->c));
            uint64_t start_ns = fw_host_now_ns();
            FW_TRY(move(l, (kind)what, bytes, dtype));
            ns[what] = (int64_t)(fw_host_now_ns() - start_ns);
        }
        FW_TRY(fw_comm_max_i64(l->c, ns, KIND_N));
        for (int what = 0; k >= 0 && what < KIND_N; what++) seconds[what][k] = (double)ns[what] * 1e-9;
    }
    for (int what = 0; what < KIND_N; what++) qsort(seconds[what], (size_t)call_n, sizeof *seconds[what], compare);
    return FW_OK;
}

static fw_status measure(lab *l, size_t bytes, fw_dtype dtype) {
    static const char *const names[] = {"finewire", "finewire-private", "traffic"};
    double seconds[KIND_N][MOST_CALLS];
    const int call_n = call_n_for(bytes);
    FW_TRY(time_calls(l, bytes, dtype, call_n, seconds));
    if (fw_comm_rank(l->c) != 0) return FW_OK;
    int traffic = seconds[TRAFFIC_SUM][call_n / 2] < seconds[TRAFFIC_COPY][call_n / 2] ? TRAFFIC_SUM : TRAFFIC_COPY;
    for (int i = 0; i < 3; i++) {
        const double *s = seconds[i < 2 ? i : traffic];
        printf("%s %s %zu %.2f %.2f %d\n", names[i], fw_dtype_name(dtype), bytes, s[call_n / 2] * 1e6, s[0] * 1e6,
               call_n);
    }
    fflush(stdout);
    return FW_OK;
}

static fw_status run(fw_comm *c, size_t most_bytes) {
    lab l = {.c = c};
    FW_TRY(fw_comm_alloc(c, (void **)&l.shared, most_bytes, "the buffer"));
    FW_TRY(fw_calloc((void **)&l.private, most_bytes, 1));
    for (size_t bytes = 4096; bytes <= most_bytes; bytes *= 4) {
        FW_TRY(measure(&l, bytes, FW_F32));
        FW_TRY(measure(&l, bytes, FW_BF16));
    }
    fw_free(l.private);
    return FW_OK;
}

/* As a training rank: its threads share the CPUs with the other ranks' evenly. */
static void take_cpus(fw_comm *c) {
    int cpus[1024], cpu_n = fw_host_cpus(cpus, 1024), first, n;
    fw_comm_cpu_share(fw_comm_rank(c), fw_comm_world(c), cpu_n, &first, &n);
    fw_comm_set_cpus(c, cpus + first, n);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < n; i++) CPU_SET((size_t)cpus[first + i], &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int be_a_rank(size_t most_bytes) {
    fw_comm_options o;
    int found;
    fw_comm *c = NULL;
    fw_status status = fw_comm_options_from_environment(&o, &found);
    if (status == FW_OK) status = fw_comm_create(&c, &o);
    if (status == FW_OK) take_cpus(c);
    if (status == FW_OK && fw_comm_rank(c) == 0) printf("# what, type, bytes, median us, least us, calls\n");
    if (status == FW_OK) status = run(c, most_bytes);
    if (status != FW_OK && fw_comm_reports_failure(c)) fprintf(stderr, "%s\n", fw_trail_message());
    if (c != NULL && status != FW_OK) fw_comm_abort(c, status);
    fw_comm_destroy(c);
    return fw_status_exit_code(status);
}

int main(int argc, char **argv) {
    char self[4096];
    if (argc == 3 && strcmp(argv[1], "--rank") == 0) return be_a_rank((size_t)atol(argv[2]) << 20);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return 1;
    self[n] = 0;
    char most[] = "64";
    char *rank_argv[] = {self, "--rank", argc > 2 ? argv[2] : most, NULL};
    int exit_code;
    fw_launch_options options = {.process_n = argc > 1 ? atoi(argv[1]) : 2};
    if (fw_launch(&options, rank_argv, &exit_code) == FW_OK) return exit_code;
    fprintf(stderr, "%s\n", fw_trail_message());
    return 1;
}
