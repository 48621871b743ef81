/* One transformer block, forward and backward. Equation and legend: model/model.h; products with weights, and what
 * adapters add to them: model/projection.h. */
#include "model/model.h"
#include "model/projection.h"

/* The pieces of a row of packed queries, keys and values, and the distance from row to row in elements. With QK-norm
 * the normed and rotated q and k lie in a buffer of their own, because backward needs the raw ones; without, they are
 * rotated in place. */
typedef struct qkv_view {
    void *q, *k, *v;
    int64_t q_stride, k_stride, v_stride;
} qkv_view;

static qkv_view view_packed(const fw_model *m, void *qkv_NS) {
    int64_t HD = m->config.H * m->config.D, KD = m->config.K * m->config.D, S = HD + 2 * KD;
    return (qkv_view){qkv_NS, fw_at(qkv_NS, HD, m->t), fw_at(qkv_NS, HD + KD, m->t), S, S, S};
}

static qkv_view view_rotated(const fw_model *m, const fw_block_activations *s) {
    qkv_view view = view_packed(m, s->qkv_NS);
    if (m->config.qk_norm) {
        view.q = s->qk_NHKD;
        view.k = fw_at(s->qk_NHKD, m->config.H * m->config.D, m->t);
        view.q_stride = view.k_stride = (m->config.H + m->config.K) * m->config.D;
    }
    return view;
}

static float attention_scale(const fw_model *m) { return 1.0f / __builtin_sqrtf((float)m->config.D); }

static fw_projection projection_of(const fw_model *m, fw_device *d, int64_t l, const fw_unit_weights *w,
                                   const fw_activations *a, const fw_micro_batch *b) {
    return (fw_projection){.m = m, .d = d, .w = w, .a = a, .s = &a->block[l], .b = b, .l = l};
}

static fw_status norm_input(const fw_projection *p, const void *x_NC) {
    const fw_model_config *g = &p->m->config;
    return fw_rmsnorm_forward(p->d, p->s->norm1_NC, g->C, p->s->rstd1_N, x_NC, g->C,
                              fw_weight(p->m, p->w, p->m->block[p->l].input_norm), g->rms_eps, p->b->N, 1, g->C,
                              p->m->t);
}

static fw_status norm_mid(const fw_projection *p) {
    const fw_model_config *g = &p->m->config;
    return fw_rmsnorm_forward(p->d, p->s->norm2_NC, g->C, p->s->rstd2_N, p->s->mid_NC, g->C,
                              fw_weight(p->m, p->w, p->m->block[p->l].post_norm), g->rms_eps, p->b->N, 1, g->C,
                              p->m->t);
}

/* q and k as attention takes them. Without QK-norm in place: once only. */
static fw_status rotate(const fw_projection *p) {
    const fw_model *m = p->m;
    const fw_model_config *g = &m->config;
    const fw_block_places *at = &m->block[p->l];
    const fw_block_activations *s = p->s;
    const fw_micro_batch *b = p->b;
    fw_device *d = p->d;
    qkv_view raw = view_packed(m, s->qkv_NS), r = view_rotated(m, s);
    if (g->qk_norm) {
        const void *q_norm = fw_weight(m, p->w, at->q_norm), *k_norm = fw_weight(m, p->w, at->k_norm);
        FW_TRY(fw_rmsnorm_forward(d, r.q, r.q_stride, s->rstd_q_NH, raw.q, raw.q_stride, q_norm, g->rms_eps, b->N, g->H,
                                  g->D, m->t));
        FW_TRY(fw_rmsnorm_forward(d, r.k, r.k_stride, s->rstd_k_NK, raw.k, raw.k_stride, k_norm, g->rms_eps, b->N, g->K,
                                  g->D, m->t));
    }
    FW_TRY(fw_rope(d, r.q, r.q_stride, p->a->cos_PE, p->a->sin_PE, b->position_N, b->N, g->H, g->D, 1, m->t));
    return fw_rope(d, r.k, r.k_stride, p->a->cos_PE, p->a->sin_PE, b->position_N, b->N, g->K, g->D, 1, m->t);
}

/* norm1, qkv, rotated q and k. */
static fw_status project_qkv(const fw_projection *p, const void *x_NC) {
    FW_TRY(norm_input(p, x_NC));
    FW_TRY(fw_project_forward(p, fw_project_qkv, p->s->qkv_NS, p->s->norm1_NC));
    return rotate(p);
}

/* Append the new rows of k and v to the cache: row i of it is [k K D | v K D]. */
static fw_status append_to_cache(const fw_model *m, fw_device *d, const qkv_view *r, const fw_block_cache *cache,
                                 int64_t N) {
    int64_t KD = m->config.K * m->config.D;
    size_t bytes = (size_t)KD * fw_dtype_bytes(m->t);
    for (int64_t i = 0; i < N; i++) {
        void *row = fw_at(cache->kv, (cache->length + i) * 2 * KD, m->t);
        FW_TRY(fw_copy(d, row, fw_at(r->k, i * r->k_stride, m->t), bytes));
        FW_TRY(fw_copy(d, fw_at(row, KD, m->t), fw_at(r->v, i * r->v_stride, m->t), bytes));
    }
    return FW_OK;
}

static fw_status attend(const fw_model *m, fw_device *d, const fw_block_activations *s, const fw_micro_batch *b,
                        const fw_block_cache *cache) {
    const fw_model_config *g = &m->config;
    qkv_view r = view_rotated(m, s);
    int64_t q_offset = 0;
    const int32_t *first_N = b->first_N;
    if (cache != NULL) {
        FW_TRY(append_to_cache(m, d, &r, cache, b->N));
        r.k = cache->kv;
        r.v = fw_at(cache->kv, g->K * g->D, m->t);
        r.k_stride = r.v_stride = 2 * g->K * g->D;
        q_offset = cache->length;
        first_N = NULL; /* one document */
    }
    return fw_attention_forward(d, s->o_NHD, s->lse_NH, r.q, r.q_stride, r.k, r.k_stride, r.v, r.v_stride, first_N,
                                b->N, q_offset, g->H, g->K, g->D, attention_scale(m), m->t);
}

/* Everything but the last product: from x to h, and x_mid. */
static fw_status forward_to_h(const fw_projection *p, const void *x_NC, const fw_block_cache *cache) {
    const fw_model *m = p->m;
    const fw_model_config *g = &m->config;
    const fw_block_activations *s = p->s;
    const int64_t N = p->b->N;
    FW_TRY(project_qkv(p, x_NC));
    FW_TRY(attend(m, p->d, s, p->b, cache));

    FW_TRY(fw_project_forward(p, fw_project_o, s->mid_NC, s->o_NHD));
    FW_TRY(fw_add(p->d, s->mid_NC, s->mid_NC, x_NC, N * g->C, m->t));

    FW_TRY(norm_mid(p));
    FW_TRY(fw_project_forward(p, fw_project_gate_up, s->gate_up_N2F, s->norm2_NC));
    return fw_swiglu_forward(p->d, s->h_NF, s->gate_up_N2F, N, g->F, m->t);
}

fw_status fw_block_forward(const fw_model *m, fw_device *d, int64_t l, const fw_unit_weights *w, fw_activations *a,
                           const fw_micro_batch *b, fw_block_cache *cache) {
    const fw_projection p = projection_of(m, d, l, w, a, b);
    const fw_block_activations *s = &a->block[l];
    const void *x_NC = fw_activations_x(a, m, l);
    void *out_NC = fw_activations_x(a, m, l + 1);
    FW_TRY(forward_to_h(&p, x_NC, cache));
    FW_TRY(fw_project_forward(&p, fw_project_down, a->dn_NC, s->h_NF));
    return fw_add(d, out_NC, s->mid_NC, a->dn_NC, b->N * m->config.C, m->t);
}

/* A product's gradient of its inputs, where something behind it needs it. */
static void *if_beyond(const fw_projection *p, fw_block_part part, void *dx) {
    return p->m->block[p->l].reach > part ? dx : NULL;
}

static bool ends_at(const fw_projection *p, fw_block_part part) { return p->m->block[p->l].reach <= part; }

/* d = gradient of x_out -> gradient of x_mid. */
static fw_status backward_mlp(const fw_projection *p) {
    const fw_model *m = p->m;
    const fw_model_config *g = &m->config;
    const fw_activations *a = p->a;
    const fw_block_activations *s = p->s;
    const fw_place norm = m->block[p->l].post_norm;
    const int64_t N = p->b->N;
    FW_TRY(fw_project_backward(p, fw_project_down, if_beyond(p, FW_BLOCK_DOWN, a->dh_NF), a->d_NC, s->h_NF));
    if (ends_at(p, FW_BLOCK_DOWN)) return FW_OK;

    void *dgu_N2F = s->gate_up_N2F; /* takes the place of what it is computed from */
    FW_TRY(fw_swiglu_backward(p->d, dgu_N2F, a->dh_NF, s->gate_up_N2F, N, g->F, m->t));
    FW_TRY(fw_project_backward(p, fw_project_gate_up, if_beyond(p, FW_BLOCK_GATE_UP, a->dn_NC), dgu_N2F, s->norm2_NC));
    if (ends_at(p, FW_BLOCK_GATE_UP)) return FW_OK;

    return fw_rmsnorm_backward(p->d, a->d_NC, g->C, fw_gradient(p->w, norm), a->dn_NC, g->C, a->d_NC, s->mid_NC, g->C,
                               fw_weight(m, p->w, norm), s->rstd2_N, N, 1, g->C, m->t);
}

/* d = gradient of x_mid -> gradient of x. */
static fw_status backward_attention(const fw_projection *p, const void *x_NC) {
    const fw_model *m = p->m;
    const fw_model_config *g = &m->config;
    const fw_block_places *at = &m->block[p->l];
    const fw_activations *a = p->a;
    const fw_block_activations *s = p->s;
    const fw_micro_batch *b = p->b;
    fw_device *d = p->d;
    int64_t N = b->N;
    FW_TRY(fw_project_backward(p, fw_project_o, if_beyond(p, FW_BLOCK_O, a->do_NHD), a->d_NC, s->o_NHD));
    if (ends_at(p, FW_BLOCK_O)) return FW_OK;

    qkv_view r = view_rotated(m, s), raw = view_packed(m, s->qkv_NS), dr = view_packed(m, a->dqkv_NS);
    int64_t S = dr.q_stride;
    FW_TRY(fw_attention_backward(d, dr.q, S, dr.k, dr.v, S, a->do_NHD, s->o_NHD, s->lse_NH, r.q, r.q_stride, r.k,
                                 r.k_stride, r.v, r.v_stride, b->first_N, N, g->H, g->K, g->D, attention_scale(m),
                                 m->t));
    FW_TRY(fw_rope(d, dr.q, S, a->cos_PE, a->sin_PE, b->position_N, N, g->H, g->D, -1, m->t));
    FW_TRY(fw_rope(d, dr.k, S, a->cos_PE, a->sin_PE, b->position_N, N, g->K, g->D, -1, m->t));
    if (g->qk_norm) {
        FW_TRY(fw_rmsnorm_backward(d, dr.q, S, fw_gradient(p->w, at->q_norm), dr.q, S, NULL, raw.q, S,
                                   fw_weight(m, p->w, at->q_norm), s->rstd_q_NH, N, g->H, g->D, m->t));
        FW_TRY(fw_rmsnorm_backward(d, dr.k, S, fw_gradient(p->w, at->k_norm), dr.k, S, NULL, raw.k, S,
                                   fw_weight(m, p->w, at->k_norm), s->rstd_k_NK, N, g->K, g->D, m->t));
    }

    FW_TRY(fw_project_backward(p, fw_project_qkv, if_beyond(p, FW_BLOCK_QKV, a->dn_NC), a->dqkv_NS, s->norm1_NC));
    if (ends_at(p, FW_BLOCK_QKV)) return FW_OK;

    return fw_rmsnorm_backward(d, a->d_NC, g->C, fw_gradient(p->w, at->input_norm), a->dn_NC, g->C, a->d_NC, x_NC, g->C,
                               fw_weight(m, p->w, at->input_norm), s->rstd1_N, N, 1, g->C, m->t);
}

fw_status fw_block_backward(const fw_model *m, fw_device *d, int64_t l, const fw_unit_weights *w, fw_activations *a,
                            const fw_micro_batch *b) {
    const fw_projection p = projection_of(m, d, l, w, a, b);
    const void *x_NC = fw_activations_x(a, m, l);
    const fw_activation_mode mode = fw_activations_mode_of(&a->options, l);
    const bool selective = mode == FW_ACTIVATIONS_SELECTIVE;
    if (ends_at(&p, FW_BLOCK_NONE)) return FW_OK;
    if (mode == FW_ACTIVATIONS_RECOMPUTE) {
        FW_TRY(forward_to_h(&p, x_NC, NULL));
        FW_TRY(fw_project_remember(&p, fw_project_down, p.s->h_NF));
    }
    if (selective) {
        FW_TRY(norm_mid(&p));
        FW_TRY(fw_swiglu_forward(d, p.s->h_NF, p.s->gate_up_N2F, b->N, m->config.F, m->t));
    }
    FW_TRY(backward_mlp(&p));
    if (ends_at(&p, FW_BLOCK_POST_NORM)) return FW_OK;
    if (selective) { /* in the place of the other norm */
        FW_TRY(norm_input(&p, x_NC));
        if (m->config.qk_norm) FW_TRY(rotate(&p));
    }
    return backward_attention(&p, x_NC);
}
