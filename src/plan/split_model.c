#include "plan/split_model.h"

#include <stdio.h>

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The largest number of parts that divides what is to be divided. */
static int parts(int64_t most, int64_t of) {
    int64_t way = smaller(most, of);
    while (way > 1 && of % way != 0) way--;
    return (int)way;
}

void fw_plan_split_tensor(fw_plan_split *t, const fw_plan_scenario *s, const fw_plan_case *best) {
    const fw_model_config *g = &s->model->config;
    *t = (fw_plan_split){.way = parts(s->site.node_n, g->K)};
    if (t->way == 1) {
        snprintf(t->reason, sizeof t->reason, "there is one device to split over");
        return;
    }
    const int64_t sums = g->L * (s->recompute ? 6 : 4) * s->micro_n, N = s->batch * s->length;
    t->wire_bytes = (uint64_t)(2 * (t->way - 1)) * (uint64_t)(N * g->C * 2) / (uint64_t)t->way * (uint64_t)sums;
    const fw_plan_ring ring = {t->way, 1, t->wire_bytes, sums, FW_MEASURED_ALL_REDUCE, s->model->t};
    t->wire_ms = fw_plan_ring_seconds(&s->site, &ring, false) * 1e3;
    char size[FW_PLAN_SIZE_BYTES];
    fw_plan_size(size, t->wire_bytes);
    const double each_ms = best->times.compute_ms / t->way; /* a step of one group of `way` takes this much */
    if (!s->site.inside.nvlink)
        snprintf(t->reason, sizeof t->reason,
                 "%d ways it sends %s a step, in %lld sums that computing waits for: %.0f ms on %s beside %.0f ms of "
                 "computing; never over PCIe when training",
                 t->way, size, (long long)sums, t->wire_ms, s->site.inside.name, each_ms);
    else if (best->fits)
        snprintf(
            t->reason, sizeof t->reason,
            "%d ways it sends %s a step, in %lld sums that computing waits for: %.0f ms beside %.0f ms of computing; "
            "sharding fits and hides what it sends",
            t->way, size, (long long)sums, t->wire_ms, each_ms);
    else {
        t->ruled_in = true;
        snprintf(t->reason, sizeof t->reason,
                 "%d ways inside a machine it would split activations too, which sharding cannot: %s a step, %.0f ms "
                 "beside %.0f ms of computing; finewire does not have it",
                 t->way, size, t->wire_ms, each_ms);
    }
}

void fw_plan_split_pipeline(fw_plan_split *p, const fw_plan_scenario *s, const fw_plan_case *best) {
    const fw_model_config *g = &s->model->config;
    *p = (fw_plan_split){.way = (int)smaller(s->site.world, smaller(8, g->L))};
    if (p->way == 1) {
        snprintf(p->reason, sizeof p->reason, "there is one device to split over");
        return;
    }
    /* Forward one way, its gradient the other: a rank sends each once a micro-batch. */
    p->wire_bytes = (uint64_t)(s->batch * s->length * g->C * 2) * 2 * (uint64_t)s->micro_n;
    const fw_plan_link *l = s->site.world > s->site.node_n ? &s->site.between : &s->site.inside;
    p->wire_ms = ((double)p->wire_bytes / l->real_rate + 2 * (double)s->micro_n * l->latency_s) * 1e3;
    p->bubble = (double)(p->way - 1) / (double)(s->micro_n + p->way - 1);
    char size[FW_PLAN_SIZE_BYTES];
    fw_plan_size(size, p->wire_bytes);
    p->ruled_in = !best->fits && s->site.world > s->site.node_n;
    snprintf(p->reason, sizeof p->reason,
             "%d stages send only %s a step (%.1f ms), but idle %.0f %% of the time with %lld micro-batch%s; %s",
             p->way, size, p->wire_ms, 100 * p->bubble, (long long)s->micro_n, s->micro_n == 1 ? "" : "es",
             p->ruled_in ? "between machines it would help here; finewire does not have it" : "sharding idles less");
}
