#include "plan/step_time.h"

#include <math.h>

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* ---- computing */

void fw_plan_count_work(fw_plan_work *out, const fw_model_config *c, int64_t batch, int64_t length,
                        fw_plan_method_work method) {
    const double N = (double)batch * (double)length, T = (double)length;
    const double block_n = (double)(2 * (c->H + c->K) * c->D * c->C + 3 * c->C * c->F), head_n = (double)(c->V * c->C);
    /* causal: half of T x T; scores and their product with the values */
    const double attention = (double)batch * 2 * T * T * (double)(c->H * c->D);
    const double block = 2 * block_n * N + attention, head = 2 * head_n * N, L = (double)c->L;
    const double through = method.frozen ? 1 : 2; /* gradients of inputs, and of weights */
    /* Recomputing a block leaves out its last product, which nothing needs. */
    const double again = method.recompute ? block - 2 * N * (double)(c->F * c->C) : 0;
    out->forward_n = L * block + head;
    out->backward_n = L * (2 * block_n * N * through + 2.5 * attention + again) + head * through;
    out->token_n = batch * length;
}

/* ---- links */

double fw_plan_ring_seconds(const fw_plan_site *s, const fw_plan_ring *r, bool headline) {
    if (r->member_n <= 1 || r->bytes == 0) return 0;
    const double inside = headline ? s->inside.headline_rate : s->inside.real_rate;
    const double network = headline ? s->between.headline_rate : s->between.real_rate;
    /* Members of one group on a machine: the machine's network carries one ring for each group that crosses it. */
    const int on_node = s->node_n / r->stride > 0 ? s->node_n / r->stride : 1;
    const int node_n = (r->member_n + on_node - 1) / on_node;
    const int rings = r->stride < s->node_n ? r->stride : s->node_n;
    const double rate = node_n == 1 ? inside : on_node == 1 ? network / rings : smaller(inside, network / rings);
    const double seconds = (double)r->bytes / rate;
    if (headline) return seconds;
    const double hops = r->member_n - 1, far = node_n > 1 ? node_n - 1 : 0;
    double latency = (hops - far) * s->inside.latency_s + far * s->between.latency_s;
    if (r->both_ways) {
        /* A tree between machines has fewer hops for what is sent once to all. */
        const double tree = 2 * (ceil(log2(node_n)) * s->between.latency_s + (on_node - 1) * s->inside.latency_s);
        latency = smaller(2 * latency, tree);
    }
    return seconds + latency * (double)r->collective_n;
}

typedef struct wire_seconds {
    double gather, update, reduce;
} wire_seconds;

static wire_seconds seconds_of(const fw_plan_site *s, const fw_plan_wire *w, bool headline) {
    const fw_plan_ring gather = {w->S, 1, w->gather_bytes, w->gather_n, false};
    const fw_plan_ring update = {w->S, 1, w->update_bytes, w->update_n, false};
    const fw_plan_ring scatter = {w->S, 1, w->scatter_bytes, w->reduce_n, false};
    const fw_plan_ring across = {w->R, w->S, w->across_bytes, w->reduce_n, true};
    return (wire_seconds){.gather = fw_plan_ring_seconds(s, &gather, headline),
                          .update = fw_plan_ring_seconds(s, &update, headline),
                          .reduce =
                              fw_plan_ring_seconds(s, &scatter, headline) + fw_plan_ring_seconds(s, &across, headline)};
}

/* ---- what hides what */

/* Of `wire` seconds beside `computing`, waited for: what computing cannot hide, and at least what has nothing to hide
 * behind. The piece at hand cannot hide its own transfer: a part 1 / unit_n of computing hides nothing. */
static double exposed(double wire, double computing, int unit_n, double bare_part) {
    if (wire == 0) return 0;
    const double hides = computing * (1 - 1.0 / unit_n);
    return smaller(wire, larger(wire - hides, wire * bare_part));
}

void fw_plan_step_time(fw_plan_times *t, const fw_plan_site *s, const fw_plan_wire *w, const fw_plan_work *work) {
    const double micro_n = (double)work->micro_n;
    const double forward = work->forward_n / s->compute_rate, backward = work->backward_n / s->compute_rate;
    const wire_seconds real = seconds_of(s, w, false), headline = seconds_of(s, w, true);
    const double compute = micro_n * (forward + backward), all = real.gather + real.update + real.reduce;
    const bool beside = s->busy_share < 1; /* else the same processors compute and copy */
    double waited = all;
    if (beside) {
        const double gather = real.gather / 2 / micro_n; /* of one pass of one micro-batch */
        const double bare = w->prefetch ? w->edge_part : 1;
        /* Only the first forward begins with nothing gathered; a backward begins with what forward ended with. */
        const double first = exposed(gather, w->prefetch ? forward : 0, w->unit_n, bare);
        const double next = exposed(gather, w->prefetch ? forward : 0, w->unit_n, w->prefetch ? 0 : 1);
        const double back = exposed(gather, w->prefetch ? backward : 0, w->unit_n, w->prefetch ? 0 : 1);
        const double reduce_n = w->reduce_each ? micro_n : 1, left = larger(backward - gather, 0);
        waited = first + (micro_n - 1) * next + micro_n * back +
                 reduce_n * exposed(real.reduce / reduce_n, left, w->unit_n, w->edge_part) +
                 exposed(real.update, larger(forward - gather, 0), w->unit_n, w->edge_part);
    }
    *t =
        (fw_plan_times){.compute_ms = compute * 1e3,
                        .update_ms = (work->update_bytes / s->memory_rate + (double)w->host_bytes / s->host_rate) * 1e3,
                        .wire_headline_ms = (headline.gather + headline.update + headline.reduce) * 1e3,
                        .wire_ms = all * 1e3,
                        .exposed_ms = waited * 1e3,
                        .slowed_ms = beside ? (all - waited) * s->busy_share * 1e3 : 0};
    /* All ranks wait for the slowest: the largest of `world` normal deviations is about sqrt(2 ln world). */
    const double slowest = 1 + s->jitter * (s->world > 1 ? sqrt(2 * log(s->world)) : 0);
    t->step_ms = (t->compute_ms + t->update_ms + t->exposed_ms + t->slowed_ms) * slowest;
    t->tokens_per_s = micro_n * (double)work->token_n * s->world / (t->step_ms * 1e-3);
}
