/* Shapes and bandwidths; one size of one collective: run, timed, compared. */
#include "measure/collective_internal.h"

#include "base/host.h"

#include <string.h>

static bool has_parts(fw_measured_what what) {
    return what == FW_MEASURED_ALL_GATHER || what == FW_MEASURED_REDUCE_SCATTER || what == FW_MEASURED_ALL_TO_ALL;
}

fw_collective_shape fw_collective_shape_of(fw_measured_what what, int64_t asked_bytes, fw_dtype dtype, int world) {
    const int64_t size = (int64_t)fw_dtype_bytes(dtype), n = asked_bytes / size, grain = 16 / size;
    fw_collective_shape shape = {.n = n, .count = n};
    if (has_parts(what)) {
        shape.count = n / world / grain * grain;
        shape.n = shape.count * world;
    }
    shape.bytes = shape.n * size;
    return shape;
}

double fw_collective_algorithm_bandwidth(int64_t bytes, double seconds) {
    return seconds > 0 ? (double)bytes / 1e9 / seconds : 0;
}

double fw_collective_bus_bandwidth(fw_measured_what what, int64_t bytes, double seconds, int world) {
    const double others = (double)(world - 1) / world;
    const double factor = what == FW_MEASURED_ALL_REDUCE ? 2 * others : has_parts(what) ? others : 1;
    return factor * fw_collective_algorithm_bandwidth(bytes, seconds);
}

/* ---- what ranks give and must get ---- */

/* Small whole numbers without a pattern in i or rank: 0 to 3 where they are added up, so that the sum over all ranks is
 * exact in bf16 in any order; else 0 to 255. */
static float value(const fw_collective_run *u, int rank, int64_t i) {
    const bool is_sum = u->b->what == FW_MEASURED_ALL_REDUCE || u->b->what == FW_MEASURED_REDUCE_SCATTER;
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(i >> 32) + (uint32_t)(rank + 1) * 0x9e3779b9u;
    x = (x ^ x >> 15) * 0x85ebca6bu;
    x ^= x >> 13;
    return (float)(x & (is_sum ? 3u : 255u));
}

static void put(void *buffer, int64_t i, fw_dtype dtype, float x) {
    if (dtype == FW_F32)
        ((float *)buffer)[i] = x;
    else
        ((fw_bf16 *)buffer)[i] = fw_bf16_from_f32(x);
}

static float get(const void *buffer, int64_t i, fw_dtype dtype) {
    return dtype == FW_F32 ? ((const float *)buffer)[i] : fw_bf16_to_f32(((const fw_bf16 *)buffer)[i]);
}

/* Element i of the result of rank `me`. */
static float expected(const fw_collective_run *u, int64_t i) {
    const int64_t part_n = u->shape.count;
    float sum = 0;
    switch (u->b->what) {
    case FW_MEASURED_ALL_REDUCE:
        for (int r = 0; r < u->world; r++) sum += value(u, r, i);
        return sum;
    case FW_MEASURED_REDUCE_SCATTER:
        for (int r = 0; r < u->world; r++) sum += value(u, r, u->me * part_n + i);
        return sum;
    case FW_MEASURED_ALL_GATHER: return value(u, (int)(i / part_n), i % part_n);
    case FW_MEASURED_ALL_TO_ALL: return value(u, (int)(i / part_n), u->me * part_n + i % part_n);
    default: return value(u, u->b->root, i);
    }
}

/* What this rank gives, put down at `to`, memory of the device. */
static fw_status fill(const fw_collective_run *u, void *to, int64_t n) {
    void *host = u->b->host != NULL ? u->b->host : to;
    for (int64_t i = 0; i < n; i++) put(host, i, u->b->dtype, value(u, u->me, i));
    return host == to ? FW_OK : fw_copy(u->b->device, to, host, (size_t)n * fw_dtype_bytes(u->b->dtype));
}

static fw_status count_wrong(const fw_collective_run *u, void *result, int64_t n, int64_t *wrong_n) {
    const size_t bytes = (size_t)n * fw_dtype_bytes(u->b->dtype);
    void *host = result;
    if (u->b->host != NULL) {
        host = u->b->host;
        FW_TRY(fw_copy(u->b->device, host, result, bytes));
    }
    if (u->b->tamper != NULL) u->b->tamper(u->me, host, bytes);
    *wrong_n = 0;
    for (int64_t i = 0; i < n; i++) *wrong_n += get(host, i, u->b->dtype) != expected(u, i);
    return FW_OK;
}

/* ---- one call ---- */

/* Where the data of this way lies: what is given, and the result. */
typedef struct way {
    void *given, *result;
    int64_t given_n, result_n;
} way;

static way way_of(const fw_collective_run *u, bool in_place) {
    const size_t part_bytes = (size_t)u->shape.count * fw_dtype_bytes(u->b->dtype);
    way w = {u->b->send, in_place ? u->b->send : u->b->receive, u->shape.n, u->shape.n};
    if (u->b->what == FW_MEASURED_ALL_GATHER) {
        w.given_n = u->shape.count;
        if (in_place) w.given = (char *)w.result + (size_t)u->me * part_bytes;
    }
    if (u->b->what == FW_MEASURED_REDUCE_SCATTER) {
        w.result_n = u->shape.count;
        if (in_place) w.result = (char *)w.given + (size_t)u->me * part_bytes;
    }
    return w;
}

/* On a GPU a cast between equal types: a copy that does not wait. */
static fw_status copy(const fw_collective_run *u, const way *w) {
    fw_device *d = u->b->device;
    if (w->given == w->result) return FW_OK;
    if (!d->on_host) return fw_cast(d, w->result, u->b->dtype, w->given, u->b->dtype, u->shape.n);
    return fw_copy(d, w->result, w->given, (size_t)u->shape.bytes);
}

static fw_status call(const fw_collective_run *u, const way *w) {
    fw_comm *c = u->b->comm;
    fw_comm_request request = {.label = "bench"};
    const int64_t n = u->shape.n;
    switch (u->b->what) {
    case FW_MEASURED_ALL_REDUCE:
        FW_TRY(copy(u, w));
        FW_TRY(fw_comm_all_reduce(c, w->result, n, u->b->dtype, &request));
        break;
    case FW_MEASURED_ALL_GATHER: FW_TRY(fw_comm_all_gather(c, w->result, w->given, n, u->b->dtype, &request)); break;
    case FW_MEASURED_REDUCE_SCATTER:
        FW_TRY(fw_comm_reduce_scatter(c, w->result, w->given, n, u->b->dtype, &request));
        break;
    case FW_MEASURED_ALL_TO_ALL: FW_TRY(fw_comm_all_to_all(c, w->result, w->given, n, u->b->dtype, &request)); break;
    default: /* only the root has something to copy */
        if (u->me == u->b->root) FW_TRY(copy(u, w));
        FW_TRY(fw_comm_broadcast(c, w->result, (size_t)u->shape.bytes, u->b->root, &request));
    }
    return fw_comm_wait(c, &request);
}

/* All work that was issued is done: a copy to the host waits for it. */
static fw_status settle(const fw_collective_run *u, const way *w) {
    char last[4];
    return u->b->host == NULL ? FW_OK : fw_copy(u->b->device, last, w->result, fw_dtype_bytes(u->b->dtype));
}

/* In pieces, after each of which the ranks agree to go on: the clock stands while they do. *ns: of the slowest rank. */
static fw_status run_calls(const fw_collective_run *u, const way *w, int64_t call_n, int64_t *ns) {
    enum { FIRST_CALLS = 20 };
    static const double piece_ns = 0.25e9;
    int64_t piece_n = FIRST_CALLS;
    *ns = 0;
    for (int64_t done_n = 0; done_n < call_n; done_n += piece_n) {
        if (done_n > 0) {
            const double fitting_n = piece_ns * (double)done_n / (double)(*ns > 0 ? *ns : 1);
            piece_n = fitting_n < 1 ? 1 : fitting_n > 1e9 ? (int64_t)1e9 : (int64_t)fitting_n;
        }
        if (piece_n > call_n - done_n) piece_n = call_n - done_n;
        FW_TRY(fw_comm_barrier(u->b->comm));
        const uint64_t start_ns = fw_host_now_ns();
        for (int64_t k = 0; k < piece_n; k++) FW_TRY(call(u, w));
        FW_TRY(settle(u, w));
        int64_t values[2] = {(int64_t)(fw_host_now_ns() - start_ns), u->b->stop != NULL && u->b->stop()};
        FW_TRY(fw_comm_max_i64(u->b->comm, values, 2));
        if (values[1]) return fw_fail(FW_ERR_INTERRUPTED, "interrupted by a signal");
        *ns += values[0];
    }
    return FW_OK;
}

static fw_status time_calls(const fw_collective_run *u, const way *w, double *seconds) {
    int64_t ns;
    FW_TRY(run_calls(u, w, u->b->warmup_n, &ns));
    FW_TRY(run_calls(u, w, u->b->iter_n, &ns));
    *seconds = (double)(ns > 0 ? ns : 1) * 1e-9 / u->b->iter_n;
    return FW_OK;
}

/* A result that nobody writes is seen: the timed calls have left the right one. */
static fw_status prepare(const fw_collective_run *u, const way *w) {
    const size_t result_bytes = (size_t)w->result_n * fw_dtype_bytes(u->b->dtype);
    if (w->result != w->given) FW_TRY(fw_zero(u->b->device, w->result, result_bytes));
    return fill(u, w->given, w->given_n);
}

fw_status fw_collective_try(const fw_collective_run *u, bool in_place, fw_collective_timing *out) {
    *out = (fw_collective_timing){.wrong_n = -1};
    if (in_place && u->b->what == FW_MEASURED_ALL_TO_ALL) return FW_OK;
    const way w = way_of(u, in_place);
    out->done = true;
    FW_TRY(prepare(u, &w));
    FW_TRY(time_calls(u, &w, &out->seconds));
    if (!u->b->check) return FW_OK;
    FW_TRY(prepare(u, &w));
    FW_TRY(call(u, &w));
    FW_TRY(count_wrong(u, w.result, w.result_n, &out->wrong_n));
    FW_TRY(fw_comm_sum_i64(u->b->comm, &out->wrong_n, 1));
    return FW_OK;
}
