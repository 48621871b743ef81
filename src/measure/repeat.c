#include "measure/repeat.h"

#include "base/host.h"

#include <stdlib.h>

enum { ROUND_MOST = 25, ROUND_LEAST = 3 };
static const double round_s = 0.02, all_s = 0.5;

static fw_status run_round(const fw_repeat *r, int64_t call_n, double *seconds) {
    FW_TRY(fw_comm_barrier(r->comm));
    const uint64_t start_ns = fw_host_now_ns();
    fw_status status = FW_OK;
    for (int64_t k = 0; k < call_n && status == FW_OK; k++) status = r->work(r->context);
    if (status == FW_OK && r->settle != NULL) status = r->settle(r->context);
    int64_t values[2] = {(int64_t)(fw_host_now_ns() - start_ns), r->stop != NULL && r->stop()};
    FW_TRY(fw_comm_agree(r->comm, status));
    FW_TRY(fw_comm_max_i64(r->comm, values, 2));
    if (values[1]) return fw_fail(FW_ERR_INTERRUPTED, "interrupted by a signal");
    *seconds = (double)(values[0] > 0 ? values[0] : 1) * 1e-9 / (double)call_n;
    return FW_OK;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

fw_status fw_repeat_time(const fw_repeat *r, double *seconds) {
    double time[ROUND_MOST], spent = 0;
    int n = 0;
    FW_TRY(run_round(r, 1, &time[0])); /* warm-up */
    FW_TRY(run_round(r, 1, &time[0]));
    const int64_t call_n = time[0] < round_s ? (int64_t)(round_s / time[0]) : 1;
    while (n < ROUND_MOST && (n < ROUND_LEAST || spent < all_s)) {
        FW_TRY(run_round(r, call_n, &time[n]));
        spent += time[n++] * (double)call_n;
    }
    qsort(time, (size_t)n, sizeof *time, compare);
    *seconds = time[n / 2];
    return FW_OK;
}
