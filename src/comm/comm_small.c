/* Small exchanges of integers and statuses, built on the transport's exchange. */
#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>

enum { INTEGER_N = FW_COMM_EXCHANGE_BYTES / 8 };

/* What fails here is known to every rank at once, or this rank tells them. */
static fw_status exchange(fw_comm *c, void *all, const void *mine, size_t bytes, const char *call) {
    if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
    fw_status status = c->transport->exchange(c, all, mine, bytes, call);
    if (status != FW_OK) fw_comm_abort(c, status);
    return status;
}

fw_status fw_comm_exchange(fw_comm *c, void *all, const void *mine, size_t bytes) {
    FW_TRY(fw_comm_refuse_group(c, "exchange"));
    if (bytes > FW_COMM_EXCHANGE_BYTES)
        return fw_fail(FW_ERR_INTERNAL, "fw_comm_exchange of %zu bytes: at most %d", bytes, FW_COMM_EXCHANGE_BYTES);
    return exchange(c, all, mine, bytes, "exchange");
}

fw_status fw_comm_barrier(fw_comm *c) { return exchange(c, NULL, NULL, 0, "barrier"); }

/* values[i] = combination over ranks; 32 KiB of stack at a time for 64 ranks. */
static fw_status combine(fw_comm *c, int64_t *values, int n, int take_max, const char *call) {
    enum { STEP_N = 64 };
    int64_t all[FW_COMM_MAX_WORLD * STEP_N];
    FW_TRY(fw_comm_refuse_group(c, call));
    if (n < 0 || n > INTEGER_N) return fw_fail(FW_ERR_INTERNAL, "%s of %d integers: at most %d", call, n, INTEGER_N);
    for (int at = 0; at < n; at += STEP_N) {
        int now_n = n - at < STEP_N ? n - at : STEP_N;
        FW_TRY(exchange(c, all, values + at, (size_t)now_n * sizeof *values, call));
        for (int i = 0; i < now_n; i++) {
            int64_t result = all[i];
            for (int r = 1; r < c->options.world; r++) {
                int64_t other = all[r * now_n + i];
                if (take_max)
                    result = other > result ? other : result;
                else
                    result = (int64_t)((uint64_t)result + (uint64_t)other);
            }
            values[at + i] = result;
        }
    }
    return FW_OK;
}

fw_status fw_comm_sum_i64(fw_comm *c, int64_t *values, int n) { return combine(c, values, n, 0, "sum_i64"); }

fw_status fw_comm_max_i64(fw_comm *c, int64_t *values, int n) { return combine(c, values, n, 1, "max_i64"); }

fw_status fw_comm_agree(fw_comm *c, fw_status mine) {
    int32_t own = (int32_t)mine, all[FW_COMM_MAX_WORLD];
    char text[FW_TRAIL_MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s", mine == FW_OK ? "" : fw_trail_message());
    FW_TRY(fw_comm_refuse_group(c, "agree"));
    atomic_store(&c->job->agree_origin, -1); /* the job went on after the last one */
    FW_TRY(exchange(c, all, &own, sizeof own, "agree"));
    int failing = -1;
    for (int r = c->options.world - 1; r >= 0; r--)
        if (all[r] != FW_OK) failing = r;
    if (failing < 0) return FW_OK;
    /* The text travels only when there is one, one rank's at a time would be too many exchanges: all send at once. */
    static const size_t step_bytes = 256;
    char everyone[FW_COMM_MAX_WORLD * 256];
    char message[FW_TRAIL_MESSAGE_BYTES];
    for (size_t at = 0; at < sizeof text; at += step_bytes) {
        FW_TRY(exchange(c, everyone, text + at, step_bytes, "agree on a message"));
        memcpy(message + at, everyone + (size_t)failing * step_bytes, step_bytes);
    }
    message[sizeof message - 1] = 0;
    atomic_store(&c->job->agree_origin, failing);
    fw_status status = (fw_status)all[failing];
    if (failing == c->options.rank) return mine; /* its trail is there, with its frames */
    return fw_fail(status, "rank %d failed: %s", failing, message);
}

/* ---- for transports ---- */

typedef struct wish {
    uint64_t bytes;
    char what[64];
} wish;

fw_status fw_comm_agree_on_memory(fw_comm *c, size_t bytes, const char *what) {
    wish mine = {.bytes = bytes}, all[FW_COMM_MAX_WORLD];
    snprintf(mine.what, sizeof mine.what, "%s", what);
    FW_TRY(c->transport->exchange(c, all, &mine, sizeof mine, "alloc"));
    for (int r = 1; r < c->options.world; r++)
        if (all[r].bytes != all[0].bytes)
            return fw_fail(
                FW_ERR_RANK,
                "rank %d asks for %llu bytes of memory for %.60s, rank 0 for %llu for %.60s; collectives need "
                "the same on all",
                r, (unsigned long long)all[r].bytes, all[r].what, (unsigned long long)all[0].bytes, all[0].what);
    return FW_OK;
}

fw_status fw_comm_check_host_memory(size_t bytes, int ranks, const char *what) {
    const uint64_t free_bytes = fw_host_memory_available();
    if (bytes <= free_bytes / (uint64_t)ranks) return FW_OK;
    return fw_fail(
        FW_ERR_NOMEM,
        "%s needs %d x %.1f MiB of memory for collectives and this host has %.1f MiB left; use fewer ranks or a "
        "smaller model",
        what, ranks, (double)bytes / 1048576.0, (double)free_bytes / 1048576.0);
}
