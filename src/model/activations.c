#include "model/model.h"

#include "base/alloc.h"
#include "model/projection.h"
#include "model/rope_table.h"

#include <string.h>

/* Hands out consecutive 64-byte aligned pieces of one block; with a NULL base it only counts. */
typedef struct carver {
    char *base;
    size_t used_bytes;
} carver;

static void *carve(carver *c, int64_t n, size_t element_bytes) {
    size_t at = c->used_bytes;
    c->used_bytes += ((size_t)n * element_bytes + 63) / 64 * 64;
    return c->base == NULL ? NULL : c->base + at;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Inner products and norms of the adapters of block l; l < 0: that fit those of every block. */
static void carve_adapters(carver *c, fw_block_activations *b, const fw_model *m, int64_t N, int64_t l) {
    for (int i = 0; m->adapted && i < FW_LINEAR_N; i++) {
        int64_t r = l < 0 ? 0 : m->block[l].linear[i].r;
        for (int64_t k = 0; l < 0 && k < m->config.L; k++) r = larger(r, m->block[k].linear[i].r);
        if (r == 0) continue;
        b->u_NR[i] = carve(c, N * r, fw_dtype_bytes(m->t));
        if (m->adapter.request.dora) b->norm_O[i] = carve(c, m->block[0].linear[i].O, sizeof(float));
    }
}

/* Results of products and of attention: of block l, or l < 0, of any. */
static void carve_products(carver *c, fw_block_activations *b, const fw_model *m, int64_t N, int64_t l) {
    const fw_model_config *g = &m->config;
    size_t t = fw_dtype_bytes(m->t);
    b->qkv_NS = carve(c, N * (g->H + 2 * g->K) * g->D, t);
    b->o_NHD = carve(c, N * g->H * g->D, t);
    b->lse_NH = carve(c, N * g->H, sizeof(float));
    b->mid_NC = carve(c, N * g->C, t);
    b->gate_up_N2F = carve(c, N * 2 * g->F, t);
    carve_adapters(c, b, m, N, l);
}

/* What lies between them: a pass over memory makes it from what came before. */
static void carve_between(carver *c, fw_block_activations *b, const fw_model *m, int64_t N, bool one_norm) {
    const fw_model_config *g = &m->config;
    size_t t = fw_dtype_bytes(m->t);
    b->norm1_NC = carve(c, N * g->C, t);
    b->norm2_NC = one_norm ? b->norm1_NC : carve(c, N * g->C, t);
    b->rstd1_N = carve(c, N, sizeof(float));
    b->rstd2_N = carve(c, N, sizeof(float));
    if (g->qk_norm) {
        b->qk_NHKD = carve(c, N * (g->H + g->K) * g->D, t);
        b->rstd_q_NH = carve(c, N * g->H, sizeof(float));
        b->rstd_k_NK = carve(c, N * g->K, sizeof(float));
    }
    b->h_NF = carve(c, N * g->F, t);
}

fw_activation_mode fw_activations_mode_of(const fw_activation_options *o, int64_t l) {
    const bool again = o->mode == FW_ACTIVATIONS_RECOMPUTE || o->mode == FW_ACTIVATIONS_SELECTIVE;
    return again && o->recompute_every > 1 && l % o->recompute_every != 0 ? FW_ACTIVATIONS_KEEP : o->mode;
}

/* Memory of its own for what blocks keep; what they do not follows once for all of them, as block 0 needs it. */
static void carve_kept(carver *c, fw_activations *a, const fw_model *m) {
    const int64_t N = a->options.N_max;
    for (int64_t l = 0; l < m->config.L; l++) {
        const fw_activation_mode mode = fw_activations_mode_of(&a->options, l);
        if (mode == FW_ACTIVATIONS_KEEP || mode == FW_ACTIVATIONS_SELECTIVE) carve_products(c, &a->block[l], m, N, l);
        if (mode == FW_ACTIVATIONS_KEEP) carve_between(c, &a->block[l], m, N, false);
    }
}

static void carve_shared(carver *c, fw_activations *a, const fw_model *m) {
    const fw_activation_mode mode = a->options.mode; /* of block 0 */
    fw_block_activations shared = {0};
    if (mode == FW_ACTIVATIONS_KEEP) return;
    if (mode != FW_ACTIVATIONS_SELECTIVE) carve_products(c, &shared, m, a->options.N_max, -1);
    /* Backward needs both norms of a whole forward that it has run again; one by one they are made in the same place. */
    carve_between(c, &shared, m, a->options.N_max, mode == FW_ACTIVATIONS_SELECTIVE);
    for (int64_t l = 0; l < m->config.L; l++) {
        if (fw_activations_mode_of(&a->options, l) == FW_ACTIVATIONS_KEEP) continue;
        fw_block_activations *b = &a->block[l], own = *b;
        *b = shared;
        if (mode != FW_ACTIVATIONS_SELECTIVE) continue;
        b->qkv_NS = own.qkv_NS;
        b->o_NHD = own.o_NHD;
        b->lse_NH = own.lse_NH;
        b->mid_NC = own.mid_NC;
        b->gate_up_N2F = own.gate_up_N2F;
        memcpy(b->u_NR, own.u_NR, sizeof own.u_NR);
        memcpy(b->norm_O, own.norm_O, sizeof own.norm_O);
    }
}

fw_status fw_activations_init(fw_activations *a, const fw_model *m, const fw_activation_options *options, void *base) {
    const fw_model_config *g = &m->config;
    *a = (fw_activations){.options = *options};
    FW_TRY(FW_NEW_ARRAY(a->block, (size_t)g->L));
    carver c = {.base = base};
    size_t t = fw_dtype_bytes(m->t);
    int64_t N = options->N_max, n = options->n_max;
    bool training = options->mode != FW_ACTIVATIONS_FORWARD;

    /* kept from forward to backward */
    a->x_LNC = carve(&c, (training ? g->L + 1 : 1) * N * g->C, t);
    carve_kept(&c, a, m);
    a->kept_bytes = c.used_bytes;

    /* in passing */
    carve_shared(&c, a, m);
    a->cos_PE = carve(&c, options->P * g->D / 2, sizeof(float));
    a->sin_PE = carve(&c, options->P * g->D / 2, sizeof(float));
    a->dn_NC = carve(&c, N * g->C, t);
    if (training) {
        a->d_NC = carve(&c, N * g->C, t);
        a->dh_NF = carve(&c, N * g->F, t);
        a->dqkv_NS = carve(&c, N * (g->H + 2 * g->K) * g->D, t);
        a->do_NHD = carve(&c, N * g->H * g->D, t);
    }
    const fw_projection_work work = fw_projection_work_of(m);
    if (training && work.r > 0) a->du_NR = carve(&c, N * work.r, t);
    if (training && work.I > 0) a->inputs_NI = carve(&c, N * work.I, t);
    if (work.O > 0) a->outputs_NO = carve(&c, N * work.O, t);
    a->work_bytes = c.used_bytes - a->kept_bytes;

    a->target_nC = carve(&c, n * g->C, t);
    a->norm_nC = carve(&c, n * g->C, t);
    a->rstd_n = carve(&c, n, sizeof(float));
    a->loss_n = carve(&c, n, sizeof(float));
    a->logits_cV = carve(&c, options->chunk_n * g->V, sizeof(float));
    /* In fp32 the gradient of a chunk takes the place of its logits. */
    if (training && m->t != FW_F32)
        a->dlogits_cV = carve(&c, options->chunk_n * g->V, t);
    else
        a->dlogits_cV = a->logits_cV;
    a->bytes = c.used_bytes;
    a->loss_bytes = a->bytes - a->kept_bytes - a->work_bytes;
    return FW_OK;
}

void fw_activations_fini(fw_activations *a) {
    fw_free(a->block);
    *a = (fw_activations){0};
}

fw_status fw_activations_fill_rope(fw_activations *a, const fw_model *m, fw_device *d) {
    int64_t P = a->options.P, E = m->config.D / 2;
    float *host;
    FW_TRY(FW_NEW_ARRAY(host, (size_t)(2 * P * E)));
    fw_rope_table_fill(host, host + P * E, &m->config.rope, P, m->config.D);
    fw_status status = fw_copy(d, a->cos_PE, host, (size_t)(P * E) * sizeof(float));
    if (status == FW_OK) status = fw_copy(d, a->sin_PE, host + P * E, (size_t)(P * E) * sizeof(float));
    fw_free(host);
    return status;
}

void *fw_activations_x(const fw_activations *a, const fw_model *m, int64_t l) {
    if (a->options.mode == FW_ACTIVATIONS_FORWARD) return a->x_LNC;
    return fw_at(a->x_LNC, l * a->options.N_max * m->config.C, m->t);
}

/* Rows of attention as block.c has them: q, k and v in one projection, or normed q and k in a buffer of their own. */
static fw_attention_limits attention_limits(const fw_activation_options *o, const fw_model *m) {
    const fw_model_config *g = &m->config;
    fw_attention_limits l = {.choice = o->attention, .t = m->t};
    if (o->document_n == 0) return l;
    const int64_t packed = (g->H + 2 * g->K) * g->D, normed = g->qk_norm ? (g->H + g->K) * g->D : packed;
    l.document_n = o->document_n;
    l.longest_n = o->longest_n;
    l.q_stride = l.k_stride = normed;
    l.v_stride = l.dq_stride = packed;
    l.backward = o->mode != FW_ACTIVATIONS_FORWARD;
    return l;
}

fw_device_limits fw_activations_limits(const fw_activations *a, const fw_model *m) {
    const fw_model_config *g = &m->config;
    int64_t dim = larger(larger(g->C, 2 * g->F), larger((g->H + 2 * g->K) * g->D, g->V));
    return (fw_device_limits){.N = larger(larger(a->options.N_max, a->options.n_max), a->options.P),
                              /* keys of a cache count */ .matmul_dim = dim,
                              .H = g->H,
                              .K = g->K,
                              .D = g->D,
                              .attention = attention_limits(&a->options, m)};
}
