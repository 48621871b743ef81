/* The edge of the model: embedding at the bottom; final norm, head and loss at the top. Legend: model/model.h;
 * c = rows of logits that exist at a time.
 *
 * Only rows that have a target reach the head. Their logits exist one chunk at a time: product, loss, gradient of the
 * logits and both products of the backward pass follow each other before the next chunk begins, so neither V x N
 * logits nor their gradient are ever stored. */
#include "model/model.h"

fw_status fw_edge_embed(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                        const fw_micro_batch *b) {
    const fw_model_config *g = &m->config;
    return fw_embedding_forward(d, fw_activations_x(a, m, 0), fw_weight(m, w, m->edge.embedding), b->id_N, b->N, g->C,
                                g->V, m->t);
}

fw_status fw_edge_embed_backward(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                                 const fw_micro_batch *b) {
    const fw_model_config *g = &m->config;
    float *dw_VC = fw_gradient(w, m->edge.embedding);
    if (dw_VC == NULL) return FW_OK;
    return fw_embedding_backward(d, dw_VC, a->d_NC, b->id_N, b->N, g->C, g->V, m->t);
}

/* target_nC = chosen rows of x[L]; norm_nC = their final norm. */
static fw_status norm_rows(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                           const int32_t *row_n, int64_t n) {
    const fw_model_config *g = &m->config;
    FW_TRY(fw_gather_rows(d, a->target_nC, fw_activations_x(a, m, g->L), row_n, n, g->C, m->t));
    return fw_rmsnorm_forward(d, a->norm_nC, g->C, a->rstd_n, a->target_nC, g->C, fw_weight(m, w, m->edge.final_norm),
                              g->rms_eps, n, 1, g->C, m->t);
}

/* Losses of target rows [first, first + c), whose logits are there, and with grad_scale > 0 the gradient of the logits. Rows
 * are independent of each other, so neighbours of one weight take a call each, at no cost for the products around it. */
static fw_status losses(const fw_model *m, fw_device *d, fw_activations *a, const fw_micro_batch *b, int64_t first,
                        int64_t c, float grad_scale) {
    const int64_t V = m->config.V, last = first + c;
    const fw_loss_weight *weight = grad_scale > 0 ? b->weight_n : NULL;
    for (int64_t from = first, to = last; from < last; from = to, to = last) {
        float scale = grad_scale;
        if (weight != NULL) {
            for (to = from + 1; to < last && weight[to] == weight[from];) to++;
            scale *= (float)fw_loss_weight_value(weight[from]);
        }
        void *dlogits = grad_scale > 0 ? fw_at(a->dlogits_cV, (from - first) * V, m->t) : NULL;
        FW_TRY(fw_cross_entropy(d, a->loss_n + from, dlogits, a->logits_cV + (from - first) * V, b->label_n + from,
                                to - from, V, scale, m->t));
    }
    return FW_OK;
}

/* Loss of target rows [first, first + c); with grad_scale > 0 also their share of the head's gradient, and norm_nC becomes
 * the gradient of itself: its old values are not needed any more once the chunk is done. */
static fw_status loss_of_chunk(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                               const fw_micro_batch *b, int64_t first, int64_t c, float grad_scale) {
    const fw_model_config *g = &m->config;
    const void *head_VC = fw_weight(m, w, m->edge.head);
    float *dhead_VC = fw_gradient(w, m->edge.head);
    void *norm_cC = fw_at(a->norm_nC, first * g->C, m->t);
    FW_TRY(fw_matmul_forward(d, a->logits_cV, norm_cC, head_VC, NULL, c, g->V, g->C, m->t, FW_F32));
    FW_TRY(losses(m, d, a, b, first, c, grad_scale));
    if (grad_scale == 0) return FW_OK;
    if (dhead_VC != NULL) FW_TRY(fw_matmul_backward_weight(d, dhead_VC, a->dlogits_cV, norm_cC, c, g->V, g->C, m->t));
    return fw_matmul_backward_input(d, norm_cC, a->dlogits_cV, head_VC, c, g->V, g->C, m->t);
}

fw_status fw_edge_loss(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                       const fw_micro_batch *b, float grad_scale) {
    const fw_model_config *g = &m->config;
    FW_TRY(norm_rows(m, d, w, a, b->row_n, b->n));
    for (int64_t first = 0; first < b->n; first += a->options.chunk_n) {
        int64_t c = b->n - first < a->options.chunk_n ? b->n - first : a->options.chunk_n;
        FW_TRY(loss_of_chunk(m, d, w, a, b, first, c, grad_scale));
    }
    if (grad_scale == 0) return FW_OK;
    FW_TRY(fw_rmsnorm_backward(d, a->norm_nC, g->C, fw_gradient(w, m->edge.final_norm), a->norm_nC, g->C, NULL,
                               a->target_nC, g->C, fw_weight(m, w, m->edge.final_norm), a->rstd_n, b->n, 1, g->C,
                               m->t));
    return fw_scatter_rows(d, a->d_NC, a->norm_nC, b->row_n, b->n, b->N, g->C, m->t);
}

fw_status fw_edge_logits(const fw_model *m, fw_device *d, const fw_unit_weights *w, fw_activations *a,
                         const int32_t *row, int64_t row_n, float *logits) {
    const fw_model_config *g = &m->config;
    FW_TRY(norm_rows(m, d, w, a, row, row_n));
    return fw_matmul_forward(d, logits, a->norm_nC, fw_weight(m, w, m->edge.head), NULL, row_n, g->V, g->C, m->t,
                             FW_F32);
}
