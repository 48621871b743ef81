/* all_reduce between ranks of this host against memcpy of the same bytes on the same ranks at the same time.
 *
 *     bench_allreduce [ranks]        (2)
 *
 * With two ranks both read and write each byte once, so memcpy's time is what memory allows; a ratio of 1 is as fast
 * as that. Each line is the median of pairs measured one after the other, so that a busy machine slows both. The bus
 * bandwidth is that of nccl-tests: 2 (W-1)/W bytes / time. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/comm.h"
#include "comm/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIR_N = 15 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

/* One all_reduce, in seconds, from the moment all ranks are ready. */
static fw_status time_all_reduce(fw_comm *c, void *x, size_t bytes, fw_dtype dtype, double *seconds) {
    fw_comm_request request = {0};
    FW_TRY(fw_comm_barrier(c));
    uint64_t start_ns = fw_host_now_ns();
    FW_TRY(fw_comm_all_reduce(c, x, (int64_t)(bytes / fw_dtype_bytes(dtype)), dtype, &request));
    FW_TRY(fw_comm_wait(c, &request));
    *seconds = (double)(fw_host_now_ns() - start_ns) * 1e-9;
    return FW_OK;
}

static fw_status time_memcpy(fw_comm *c, void *to, const void *from, size_t bytes, double *seconds) {
    FW_TRY(fw_comm_barrier(c));
    uint64_t start_ns = fw_host_now_ns();
    memcpy(to, from, bytes);
    *seconds = (double)(fw_host_now_ns() - start_ns) * 1e-9;
    return FW_OK;
}

static fw_status measure(fw_comm *c, void *x, void *to, size_t bytes, fw_dtype dtype, const char *memory) {
    double ratio[PAIR_N], seconds[PAIR_N];
    const double w = fw_comm_world(c);
    for (int i = -2; i < PAIR_N; i++) { /* two to warm up */
        double ours = 0, copy = 1;
        FW_TRY(time_memcpy(c, to, x, bytes, &copy));
        FW_TRY(time_all_reduce(c, x, bytes, dtype, &ours));
        if (i >= 0) ratio[i] = ours / copy;
        if (i >= 0) seconds[i] = ours;
    }
    double ours = median(seconds, PAIR_N);
    if (fw_comm_rank(c) == 0)
        printf("%6.1f MiB  %s  %-8s  %8.3f ms  %6.2f GB/s  %5.2f x memcpy\n", (double)bytes / 1048576.0,
               fw_dtype_name(dtype), memory, ours * 1e3, 2 * (w - 1) / w * (double)bytes / ours * 1e-9,
               median(ratio, PAIR_N));
    return FW_OK;
}

static fw_status run(fw_comm *c) {
    static const size_t sizes[] = {1 << 16, 1 << 20, 8 << 20, 64 << 20};
    enum { MAX_BYTES = 64 << 20 };
    void *shared, *private, *to;
    FW_TRY(fw_comm_alloc(c, &shared, MAX_BYTES, "the buffer"));
    FW_TRY(fw_calloc(&private, MAX_BYTES, 1));
    FW_TRY(fw_calloc(&to, MAX_BYTES, 1));
    memset(shared, 0, MAX_BYTES);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        FW_TRY(measure(c, shared, to, sizes[i], FW_F32, "shared"));
        FW_TRY(measure(c, shared, to, sizes[i], FW_BF16, "shared"));
        FW_TRY(measure(c, private, to, sizes[i], FW_F32, "private"));
    }
    fw_free(to);
    fw_free(private);
    return FW_OK;
}

static int be_a_rank(void) {
    fw_comm_options o;
    int found;
    fw_comm *c = NULL;
    fw_status status = fw_comm_options_from_environment(&o, &found);
    if (status == FW_OK) status = fw_comm_create(&c, &o);
    if (status == FW_OK) status = run(c);
    if (status != FW_OK && (c == NULL || fw_comm_reports_failure(c))) fprintf(stderr, "%s\n", fw_trail_message());
    if (c != NULL && status != FW_OK) fw_comm_abort(c, status);
    fw_comm_destroy(c);
    return fw_status_exit_code(status);
}

int main(int argc, char **argv) {
    char self[4096];
    if (argc == 2 && strcmp(argv[1], "--rank") == 0) return be_a_rank();
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return 1;
    self[n] = 0;
    char *rank_argv[] = {self, "--rank", NULL};
    int exit_code;
    fw_launch_options options = {.process_n = argc > 1 ? atoi(argv[1]) : 2};
    if (fw_launch(&options, rank_argv, &exit_code) == FW_OK) return exit_code;
    fprintf(stderr, "%s\n", fw_trail_message());
    return 1;
}
