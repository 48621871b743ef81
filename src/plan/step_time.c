#include "plan/step_time.h"

#include <math.h>

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* ---- computing */

static double sum(const fw_plan_work *w, bool backward) {
    double n = backward ? w->backward_attention_n : w->forward_attention_n;
    for (int i = 0; i < FW_PLAN_PRODUCTS; i++)
        n += w->product[i].each_n * (backward ? w->product[i].backward : w->product[i].forward);
    return n;
}

void fw_plan_count_work(fw_plan_work *out, const fw_model_config *c, int64_t batch, int64_t length,
                        fw_plan_method_work method) {
    const double N = (double)batch * (double)length, T = (double)length, L = (double)c->L,
                 t = (double)method.element_bytes;
    const double q = (double)(c->H * c->D), kv = (double)(c->K * c->D), C = (double)c->C, F = (double)c->F;
    const double through = method.frozen ? 1 : 2; /* gradients of inputs, and of weights */
    int64_t again_blocks = 0, between_blocks = 0; /* computed again: all of them, what lies between products */
    for (int64_t l = 0; l < c->L; l++) {
        const fw_activation_mode mode = fw_activations_mode_of(&method.activations, l);
        again_blocks += mode == FW_ACTIVATIONS_RECOMPUTE;
        between_blocks += mode == FW_ACTIVATIONS_SELECTIVE;
    }
    const double again = (double)again_blocks / L, between = (double)between_blocks / L,
                 chunks = N / (double)method.chunk_n;
    out->product[0] = (fw_plan_product){2 * N * C * (q + 2 * kv), L, L * (through + again)};
    out->product[1] = (fw_plan_product){2 * N * C * q, L, L * (through + again)};
    out->product[2] = (fw_plan_product){2 * N * C * 2 * F, L, L * (through + again)};
    out->product[3] = (fw_plan_product){2 * N * C * F, L, L * through}; /* nothing needs its result again */
    out->product[4] = (fw_plan_product){2 * (double)method.chunk_n * C * (double)c->V, chunks, chunks * through};
    /* Causal: half of T x T; scores and their product with the values. Backward makes five products of these two. */
    const double attention = L * (double)batch * 2 * T * T * q;
    out->forward_attention_n = attention;
    out->backward_attention_n = attention * (2.5 + again);
    /* Two norms (read, write), the additions (read twice, write), rope (read, write), gate times up (read twice, write);
     * backward about twice that. */
    const double block = L * N * t * (2 * 2 * C + 2 * 3 * C + 2 * (q + kv) + 3 * F);
    /* Again between products: both norms and gate times up; with QK-norm its read and write, and rope's. */
    const double cheap = L * N * t * (2 * 2 * C + 3 * F + (c->qk_norm ? 4 * (q + kv) : 0));
    out->again_bytes = block * again + cheap * between;
    out->forward_bytes = block;
    out->backward_bytes = block * 2 + out->again_bytes + 3 * 4 * N * (double)c->V;
    out->forward_n = sum(out, false);
    out->backward_n = sum(out, true);
    out->again_n = attention * again;
    for (int i = 0; i < 3; i++) out->again_n += out->product[i].each_n * L * again;
    out->token_n = batch * length;
}

/* Attention reaches this part of what products do: measured on x86-64 (bench/bench_ops). */
static const double attention_part = 0.75;

/* Where products were measured, each at its own size, and the passes between them by the bandwidth that was measured; else
 * all operations at one rate, which has the rest in it. */
static double compute_seconds(const fw_plan_site *s, const fw_plan_work *w, bool backward) {
    const fw_measured_record *gemm = s->measured != NULL ? s->measured->gemm : NULL;
    if (gemm == NULL) return (backward ? w->backward_n : w->forward_n) / s->compute_rate;
    double seconds = (backward ? w->backward_attention_n : w->forward_attention_n) / (s->compute_rate * attention_part);
    for (int i = 0; i < FW_PLAN_PRODUCTS; i++) {
        const fw_plan_product *p = &w->product[i];
        seconds += fw_measured_seconds(gemm, p->each_n) * (backward ? p->backward : p->forward);
    }
    return seconds + (backward ? w->backward_bytes : w->forward_bytes) / s->memory_rate;
}

/* ---- links */

double fw_plan_ring_seconds(const fw_plan_site *s, const fw_plan_ring *r, bool headline) {
    if (r->member_n <= 1 || r->bytes == 0) return 0;
    const double measured = headline ? 0 : fw_plan_measured_seconds(s->measured, r);
    if (measured > 0) return measured;
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
    if (r->what == FW_MEASURED_ALL_REDUCE) {
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
    const fw_plan_ring gather = {w->S, 1, w->gather_bytes, w->gather_n, FW_MEASURED_ALL_GATHER, w->weight_t};
    const fw_plan_ring update = {w->S, 1, w->update_bytes, w->update_n, FW_MEASURED_ALL_GATHER, w->weight_t};
    const fw_plan_ring scatter = {w->S, 1, w->scatter_bytes, w->reduce_n, FW_MEASURED_REDUCE_SCATTER, w->gradient_t};
    const fw_plan_ring across = {w->R, w->S, w->across_bytes, w->reduce_n, FW_MEASURED_ALL_REDUCE, w->gradient_t};
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
    const double forward = compute_seconds(s, work, false), backward = compute_seconds(s, work, true);
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
    const double of_machine = s->node_n; /* ranks share a machine's memory and its disk */
    const double update = work->update_on_host ? work->update_bytes * of_machine / s->host_memory_rate
                                               : work->update_bytes / s->memory_rate;
    *t = (fw_plan_times){
        .compute_ms = compute * 1e3,
        .update_ms =
            (update + (double)w->host_bytes / s->host_rate + (double)w->disk_bytes * of_machine / s->disk_rate) * 1e3,
        .wire_headline_ms = (headline.gather + headline.update + headline.reduce) * 1e3,
        .wire_ms = all * 1e3,
        .exposed_ms = waited * 1e3,
        .slowed_ms = beside ? (all - waited) * s->busy_share * 1e3 : 0};
    /* All ranks wait for the slowest: the largest of `world` normal deviations is about sqrt(2 ln world). */
    const double slowest = 1 + s->jitter * (s->world > 1 ? sqrt(2 * log(s->world)) : 0);
    t->step_ms = (t->compute_ms + t->update_ms + t->exposed_ms + t->slowed_ms) * slowest;
    t->tokens_per_s = micro_n * (double)work->token_n * s->world / (t->step_ms * 1e-3);
}
