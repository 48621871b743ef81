#include "base/alloc.h"
#include "plan/step_time.h"

#include <stdio.h>
#include <string.h>

void fw_plan_measured_destroy(fw_plan_measured *m) {
    if (m == NULL) return;
    fw_measured_fini(&m->all);
    fw_free(m);
}

static const fw_measured_record *find(const fw_measured *all, fw_measured_key key, fw_measured_what what,
                                      fw_dtype dtype) {
    key.what = what;
    key.dtype = dtype;
    return fw_measured_find(all, &key);
}

/* Bytes a second of the ring's links, at the best of the points. */
static double link_rate(const fw_plan_measured *m) {
    const double n = m->world;
    double best = 0;
    for (int t = 0; t < 2; t++) {
        if (m->all_reduce[t] == NULL) continue;
        const double rate = fw_measured_rate(m->all_reduce[t]) * 2 * (n - 1) / n;
        if (rate > best) best = rate;
    }
    return best;
}

fw_status fw_plan_site_use_measured(fw_plan_site *s, const fw_measured *measurements, const char *device,
                                    const char *transport, fw_dtype t) {
    fw_measured_key key = {.world = s->world, .thread_n = s->thread_n};
    fw_plan_measured *m;
    fw_measured_host(key.host);
    snprintf(key.device, sizeof key.device, "%s", device);
    FW_TRY(FW_NEW(m));
    m->world = s->world;
    fw_status status = FW_NEW_ARRAY(m->all.record, (size_t)measurements->record_n + 1);
    if (status != FW_OK) {
        fw_plan_measured_destroy(m);
        return status;
    }
    if (measurements->record_n > 0)
        memcpy(m->all.record, measurements->record, (size_t)measurements->record_n * sizeof *m->all.record);
    m->all.record_n = measurements->record_n;
    m->gemm = find(&m->all, key, FW_MEASURED_GEMM, t);
    m->update = find(&m->all, key, FW_MEASURED_UPDATE, FW_DTYPE_N);
    key.thread_n = 0; /* of collectives: any */
    snprintf(key.transport, sizeof key.transport, "%s", transport);
    static const fw_dtype types[] = {FW_F32, FW_BF16};
    for (int i = 0; i < 2; i++) {
        m->all_reduce[i] = find(&m->all, key, FW_MEASURED_ALL_REDUCE, types[i]);
        m->all_gather[i] = find(&m->all, key, FW_MEASURED_ALL_GATHER, types[i]);
        m->reduce_scatter[i] = find(&m->all, key, FW_MEASURED_REDUCE_SCATTER, types[i]);
    }
    s->measured = m;
    if (m->gemm != NULL) {
        s->compute_rate = fw_measured_rate(m->gemm);
        snprintf(s->compute_source, sizeof s->compute_source,
                 "measured here on %s: products at up to %.1f GFLOP/s a rank", m->gemm->date, s->compute_rate * 1e-9);
    }
    if (m->update != NULL) s->memory_rate = fw_measured_rate(m->update);
    const double rate = s->world > 1 ? link_rate(m) : 0;
    if (rate > 0) {
        s->inside.real_rate = rate;
        snprintf(s->link_source, sizeof s->link_source, "measured here on %s",
                 (m->all_reduce[0] != NULL ? m->all_reduce[0] : m->all_reduce[1])->date);
    }
    return FW_OK;
}

double fw_plan_measured_seconds(const fw_plan_measured *m, const fw_plan_ring *r) {
    if (m == NULL || r->member_n != m->world || r->collective_n == 0) return 0;
    const int type = r->dtype == FW_BF16, other = 1 - type;
    const double n = r->member_n, calls = (double)r->collective_n;
    const fw_measured_record *const *sums = m->all_reduce;
    const fw_measured_record *all_reduce = sums[type] != NULL ? sums[type] : sums[other];
    if (r->what == FW_MEASURED_ALL_REDUCE)
        return all_reduce == NULL
                   ? 0
                   : calls * fw_measured_seconds(all_reduce, (double)r->bytes * n / (2 * (n - 1)) / calls);
    const fw_measured_record *const *own = r->what == FW_MEASURED_ALL_GATHER ? m->all_gather : m->reduce_scatter;
    const fw_measured_record *record = own[type] != NULL ? own[type] : own[other];
    const double buffer = (double)r->bytes * n / (n - 1) / calls; /* the whole of it, n parts */
    if (record != NULL) return calls * fw_measured_seconds(record, buffer);
    return all_reduce == NULL ? 0 : calls * fw_measured_seconds(all_reduce, buffer) / 2;
}
