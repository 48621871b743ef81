#include "model/projection.h"

const fw_projected fw_project_qkv = {FW_LINEAR_Q, 3}, fw_project_o = {FW_LINEAR_O, 1},
                   fw_project_gate_up = {FW_LINEAR_GATE, 2}, fw_project_down = {FW_LINEAR_DOWN, 1};

/* ---- shapes */

static const fw_linear_place *modules(const fw_model *m, int64_t l, fw_projected which) {
    return &m->block[l].linear[which.first];
}

static int64_t outputs_of(const fw_linear_place *l, int n) {
    int64_t O = 0;
    for (int i = 0; i < n; i++) O += l[i].O;
    return O;
}

/* The next parameter begins where this one, of n elements, ends. */
static bool follows(fw_place one, int64_t n, fw_place next) {
    return one.trained == next.trained && (one.at_n < 0 ? next.at_n < 0 : next.at_n == one.at_n + n);
}

static bool one_matrix(const fw_linear_place *l, int n) {
    for (int i = 0; i + 1 < n; i++)
        if (!follows(l[i].weight, l[i].O * l[i].I, l[i + 1].weight)) return false;
    return true;
}

static bool one_bias(const fw_linear_place *l, int n) {
    for (int i = 0; i + 1 < n; i++)
        if (!follows(l[i].bias, l[i].O, l[i + 1].bias)) return false;
    return true;
}

static bool is_dora(const fw_linear_place *l) { return l->r > 0 && l->magnitude >= 0; }

static bool any_dora(const fw_linear_place *l, int n) {
    for (int i = 0; i < n; i++)
        if (is_dora(&l[i])) return true;
    return false;
}

static float dropped(const fw_projection *p) { return p->b->key_N == NULL ? 0 : (float)p->m->adapter.request.dropout; }

/* DoRA multiplies the whole of y, but with dropout a part of it. */
static bool scales_all(const fw_projection *p, const fw_linear_place *l) { return is_dora(l) && dropped(p) == 0; }

static bool any_scales_all(const fw_projection *p, const fw_linear_place *l, int n) {
    return dropped(p) == 0 && any_dora(l, n);
}

fw_projection_work fw_projection_work_of(const fw_model *m) {
    static const fw_projected all[] = {{FW_LINEAR_Q, 3}, {FW_LINEAR_O, 1}, {FW_LINEAR_GATE, 2}, {FW_LINEAR_DOWN, 1}};
    fw_projection_work work = {0, 0, 0};
    if (!m->adapted) return work;
    const bool drops = m->adapter.request.dropout > 0;
    for (int64_t layer = 0; layer < m->config.L; layer++) {
        for (int g = 0; g < 4; g++) {
            const fw_linear_place *l = modules(m, layer, all[g]);
            const bool apart = !one_matrix(l, all[g].n) || !one_bias(l, all[g].n) || any_dora(l, all[g].n);
            for (int i = 0; i < all[g].n; i++) {
                if (l[i].r > work.r) work.r = l[i].r;
                if ((apart || (drops && l[i].r > 0)) && l[i].I > work.I) work.I = l[i].I;
                if (apart && l[i].O > work.O) work.O = l[i].O;
            }
        }
    }
    return work;
}

/* ---- one module */

/* A module at hand: its place, its rows in the packed row, and its inner product. */
typedef struct module {
    const fw_linear_place *l;
    int index; /* fw_linear */
    int64_t at, stride;
    const void *w, *a, *b, *m, *bias;
    void *u;
    float *norm;
} module;

static module module_of(const fw_projection *p, fw_projected which, int i) {
    const fw_linear_place *all = modules(p->m, p->l, which), *l = &all[i];
    const fw_dtype t = p->m->t;
    const int index = (int)which.first + i;
    return (module){.l = l,
                    .index = index,
                    .at = outputs_of(all, i),
                    .stride = outputs_of(all, which.n),
                    .w = fw_weight(p->m, p->w, l->weight),
                    .bias = fw_weight(p->m, p->w, l->bias),
                    .a = fw_at_const(p->w->trained, l->a, t),
                    .b = fw_at_const(p->w->trained, l->b, t),
                    .m = fw_at_const(p->w->trained, l->magnitude, t),
                    .u = p->s->u_NR[index],
                    .norm = p->s->norm_O[index]};
}

/* x' of a module: x itself, or in inputs_NI. */
static fw_status drop(const fw_projection *p, const module *k, const void *x, const void **x_dropped) {
    const float rate = dropped(p);
    *x_dropped = x;
    if (rate == 0) return FW_OK;
    *x_dropped = p->a->inputs_NI;
    const uint64_t salt = (uint64_t)(p->l * FW_LINEAR_N + k->index);
    return fw_dropout(p->d, p->a->inputs_NI, x, 0, p->b->key_N, salt, rate, p->b->N, k->l->I, p->m->t);
}

/* u and norm. */
static fw_status remember(const fw_projection *p, const module *k, const void *x_dropped) {
    const fw_dtype t = p->m->t;
    FW_TRY(fw_matmul_forward(p->d, k->u, x_dropped, k->a, NULL, p->b->N, k->l->r, k->l->I, t, t));
    if (!is_dora(k->l)) return FW_OK;
    return fw_dora_norm(p->d, k->norm, k->w, k->a, k->b, k->l->scale, k->l->O, k->l->I, k->l->r, t);
}

/* outputs_NO = W x' + s B u */
static fw_status sum_apart(const fw_projection *p, const module *k, const void *x_dropped) {
    const fw_dtype t = p->m->t;
    void *z = p->a->outputs_NO;
    FW_TRY(fw_matmul_forward(p->d, z, x_dropped, k->w, NULL, p->b->N, k->l->O, k->l->I, t, t));
    return fw_lora_expand(p->d, z, k->l->O, k->u, k->b, k->l->scale, p->b->N, k->l->O, k->l->r, t);
}

/* ---- forward */

/* y += factor * x * m / norm + b for the rows of one module; keep: of what is in y. */
static fw_status put_rows(const fw_projection *p, const module *k, void *y, float keep, const void *x, int64_t x_stride,
                          float factor, bool magnitude, const void *bias) {
    return fw_dora_scale(p->d, y, k->stride, keep, x, x_stride, factor, magnitude ? k->m : NULL,
                         magnitude ? k->norm : NULL, bias, p->b->N, k->l->O, p->m->t);
}

static fw_status forward_adapter(const fw_projection *p, const module *k, void *y, const void *x) {
    const void *x_dropped;
    FW_TRY(drop(p, k, x, &x_dropped));
    FW_TRY(remember(p, k, x_dropped));
    if (is_dora(k->l) && dropped(p) > 0) {
        const fw_dtype t = p->m->t;
        void *z = p->a->outputs_NO;
        FW_TRY(fw_matmul_forward(p->d, z, x_dropped, k->w, NULL, p->b->N, k->l->O, k->l->I, t, t));
        FW_TRY(put_rows(p, k, y, 1, z, k->l->O, -1, false, NULL));
        FW_TRY(fw_lora_expand(p->d, z, k->l->O, k->u, k->b, k->l->scale, p->b->N, k->l->O, k->l->r, t));
        return put_rows(p, k, y, 1, z, k->l->O, 1, true, NULL);
    }
    FW_TRY(fw_lora_expand(p->d, y, k->stride, k->u, k->b, k->l->scale, p->b->N, k->l->O, k->l->r, p->m->t));
    return scales_all(p, k->l) ? put_rows(p, k, y, 0, y, k->stride, 1, true, k->bias) : FW_OK;
}

/* W x, with biases where nothing is multiplied afterwards. */
static fw_status forward_base(const fw_projection *p, fw_projected which, void *y, const void *x) {
    const fw_linear_place *l = modules(p->m, p->l, which);
    const fw_dtype t = p->m->t;
    const bool whole = one_matrix(l, which.n), plain = one_bias(l, which.n) && !any_scales_all(p, l, which.n);
    if (whole)
        FW_TRY(fw_matmul_forward(p->d, y, x, fw_weight(p->m, p->w, l->weight),
                                 plain ? fw_weight(p->m, p->w, l->bias) : NULL, p->b->N, outputs_of(l, which.n), l->I,
                                 t, t));
    if (whole && plain) return FW_OK;
    for (int i = 0; i < which.n; i++) {
        const module k = module_of(p, which, i);
        void *y_k = fw_at(y, k.at, t);
        const void *bias = scales_all(p, k.l) ? NULL : k.bias; /* it comes behind the magnitude */
        if (!whole) {
            void *z = p->a->outputs_NO;
            FW_TRY(fw_matmul_forward(p->d, z, x, k.w, bias, p->b->N, k.l->O, k.l->I, t, t));
            FW_TRY(put_rows(p, &k, y_k, 0, z, k.l->O, 1, false, NULL));
        } else if (bias != NULL) {
            FW_TRY(put_rows(p, &k, y_k, 0, y_k, k.stride, 1, false, bias));
        }
    }
    return FW_OK;
}

fw_status fw_project_forward(const fw_projection *p, fw_projected which, void *y, const void *x) {
    FW_TRY(forward_base(p, which, y, x));
    for (int i = 0; i < which.n; i++) {
        const module k = module_of(p, which, i);
        if (k.l->r > 0) FW_TRY(forward_adapter(p, &k, fw_at(y, k.at, p->m->t), x));
    }
    return FW_OK;
}

fw_status fw_project_remember(const fw_projection *p, fw_projected which, const void *x) {
    for (int i = 0; i < which.n; i++) {
        const module k = module_of(p, which, i);
        const void *x_dropped;
        if (k.l->r == 0) continue;
        FW_TRY(drop(p, &k, x, &x_dropped));
        FW_TRY(remember(p, &k, x_dropped));
    }
    return FW_OK;
}

/* ---- backward */

/* A module's rows of dy as a matrix of its own. */
static fw_status take_rows(const fw_projection *p, const module *k, const void *dy, bool magnitude) {
    return fw_dora_scale(p->d, p->a->outputs_NO, k->l->O, 0, dy, k->stride, 1, magnitude ? k->m : NULL,
                         magnitude ? k->norm : NULL, NULL, p->b->N, k->l->O, p->m->t);
}

/* Gradients of the weights and biases themselves, where they are trained. */
static fw_status backward_weights(const fw_projection *p, fw_projected which, const void *dy, const void *x) {
    const fw_linear_place *l = modules(p->m, p->l, which);
    const fw_dtype t = p->m->t;
    const int64_t N = p->b->N, O = outputs_of(l, which.n);
    const bool whole = one_matrix(l, which.n), plain = one_bias(l, which.n);
    float *dw = fw_gradient(p->w, l->weight), *db = fw_gradient(p->w, l->bias);
    if (whole && dw != NULL) FW_TRY(fw_matmul_backward_weight(p->d, dw, dy, x, N, O, l->I, t));
    if (plain && db != NULL) FW_TRY(fw_bias_backward(p->d, db, dy, N, O, t));
    if (whole && plain) return FW_OK;
    for (int i = 0; i < which.n; i++) {
        const module k = module_of(p, which, i);
        dw = whole ? NULL : fw_gradient(p->w, k.l->weight);
        db = plain ? NULL : fw_gradient(p->w, k.l->bias);
        if (dw == NULL && db == NULL) continue;
        FW_TRY(take_rows(p, &k, fw_at_const(dy, k.at, t), false));
        if (dw != NULL) FW_TRY(fw_matmul_backward_weight(p->d, dw, p->a->outputs_NO, x, N, k.l->O, k.l->I, t));
        if (db != NULL) FW_TRY(fw_bias_backward(p->d, db, p->a->outputs_NO, N, k.l->O, t));
    }
    return FW_OK;
}

/* Gradients of A and B from dz, the gradient of s B u; leaves du. */
static fw_status backward_adapter(const fw_projection *p, const module *k, const void *dz, int64_t dz_stride,
                                  const void *x_dropped) {
    const fw_linear_place *l = k->l;
    const fw_dtype t = p->m->t;
    const int64_t N = p->b->N;
    FW_TRY(fw_lora_backward_b(p->d, p->w->g + l->b, dz, dz_stride, k->u, l->scale, N, l->O, l->r, t));
    FW_TRY(fw_lora_reduce(p->d, p->a->du_NR, dz, dz_stride, k->b, l->scale, N, l->O, l->r, t));
    return fw_matmul_backward_weight(p->d, p->w->g + l->a, p->a->du_NR, x_dropped, N, l->r, l->I, t);
}

/* dx += what of inputs_NI was kept */
static fw_status add_kept(const fw_projection *p, const module *k, void *dx) {
    const uint64_t salt = (uint64_t)(p->l * FW_LINEAR_N + k->index);
    return fw_dropout(p->d, dx, p->a->inputs_NI, 1, p->b->key_N, salt, dropped(p), p->b->N, k->l->I, p->m->t);
}

/* dx (+)= outputs_NO W */
static fw_status through_weight(const fw_projection *p, const module *k, void *dx, bool first) {
    const fw_linear_place *l = k->l;
    const fw_dtype t = p->m->t;
    const int64_t N = p->b->N;
    if (first) return fw_matmul_backward_input(p->d, dx, p->a->outputs_NO, k->w, N, l->O, l->I, t);
    FW_TRY(fw_matmul_backward_input(p->d, p->a->inputs_NI, p->a->outputs_NO, k->w, N, l->O, l->I, t));
    return fw_add(p->d, dx, dx, p->a->inputs_NI, N * l->I, t);
}

/* The module's magnitude: outputs_NO = z, then dz, the gradient before the magnitude. */
static fw_status backward_magnitude(const fw_projection *p, const module *k, const void *dy, const void *x_dropped) {
    FW_TRY(sum_apart(p, k, x_dropped));
    FW_TRY(fw_dora_backward_m(p->d, p->w->g + k->l->magnitude, dy, k->stride, p->a->outputs_NO, k->l->O, k->norm,
                              p->b->N, k->l->O, p->m->t));
    return take_rows(p, k, dy, true);
}

/* DoRA with dropout, beside the base: dx += dropout((dz - dy) W + du A). */
static fw_status backward_dropped_dora(const fw_projection *p, const module *k, void *dx, const void *dy,
                                       const void *x) {
    const fw_linear_place *l = k->l;
    const fw_dtype t = p->m->t;
    const int64_t N = p->b->N;
    const void *x_dropped;
    FW_TRY(drop(p, k, x, &x_dropped));
    FW_TRY(backward_magnitude(p, k, dy, x_dropped));
    FW_TRY(backward_adapter(p, k, p->a->outputs_NO, l->O, x_dropped));
    if (dx == NULL) return FW_OK;
    FW_TRY(fw_dora_scale(p->d, p->a->outputs_NO, l->O, 1, dy, k->stride, -1, NULL, NULL, NULL, N, l->O, t));
    FW_TRY(fw_matmul_backward_input(p->d, p->a->inputs_NI, p->a->outputs_NO, k->w, N, l->O, l->I, t));
    FW_TRY(fw_lora_backward_input(p->d, p->a->inputs_NI, p->a->du_NR, k->a, N, l->I, l->r, t));
    return add_kept(p, k, dx);
}

/* The adapter's part of dx is added; the base's is there. */
static fw_status backward_lora(const fw_projection *p, const module *k, void *dx, const void *dy, const void *x) {
    const fw_linear_place *l = k->l;
    const fw_dtype t = p->m->t;
    const void *x_dropped;
    FW_TRY(drop(p, k, x, &x_dropped));
    FW_TRY(backward_adapter(p, k, dy, k->stride, x_dropped));
    if (dx == NULL) return FW_OK;
    if (dropped(p) == 0) return fw_lora_backward_input(p->d, dx, p->a->du_NR, k->a, p->b->N, l->I, l->r, t);
    FW_TRY(fw_matmul_backward_input(p->d, p->a->inputs_NI, p->a->du_NR, k->a, p->b->N, l->r, l->I, t));
    return add_kept(p, k, dx);
}

/* Each module by itself: where weights are no single matrix, or magnitudes come between them and dy. */
static fw_status backward_apart(const fw_projection *p, fw_projected which, void *dx, const void *dy, const void *x) {
    for (int i = 0; i < which.n; i++) {
        const module k = module_of(p, which, i);
        const void *dy_k = fw_at_const(dy, k.at, p->m->t);
        if (!scales_all(p, k.l)) {
            if (dx == NULL) continue;
            FW_TRY(take_rows(p, &k, dy_k, false));
            FW_TRY(through_weight(p, &k, dx, i == 0));
            continue;
        }
        FW_TRY(backward_magnitude(p, &k, dy_k, x));
        FW_TRY(backward_adapter(p, &k, p->a->outputs_NO, k.l->O, x));
        if (dx == NULL) continue;
        FW_TRY(through_weight(p, &k, dx, i == 0));
        FW_TRY(fw_lora_backward_input(p->d, dx, p->a->du_NR, k.a, p->b->N, k.l->I, k.l->r, p->m->t));
    }
    return FW_OK;
}

fw_status fw_project_backward(const fw_projection *p, fw_projected which, void *dx, const void *dy, const void *x) {
    const fw_linear_place *l = modules(p->m, p->l, which);
    const fw_dtype t = p->m->t;
    FW_TRY(backward_weights(p, which, dy, x));
    if (!one_matrix(l, which.n) || any_scales_all(p, l, which.n))
        FW_TRY(backward_apart(p, which, dx, dy, x));
    else if (dx != NULL)
        FW_TRY(fw_matmul_backward_input(p->d, dx, dy, fw_weight(p->m, p->w, l->weight), p->b->N, outputs_of(l, which.n),
                                        l->I, t));
    for (int i = 0; i < which.n; i++) {
        const module k = module_of(p, which, i);
        const void *dy_k = fw_at_const(dy, k.at, t);
        if (k.l->r == 0 || scales_all(p, k.l)) continue; /* done */
        FW_TRY(is_dora(k.l) ? backward_dropped_dora(p, &k, dx, dy_k, x) : backward_lora(p, &k, dx, dy_k, x));
    }
    return FW_OK;
}
