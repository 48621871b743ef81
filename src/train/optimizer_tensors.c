/* Optimizers that go tensor by tensor. */
#include "train/optimizer.h"

#include <math.h>

/* As many parameters at a time as their sums fit one exchange: two sums each. */
enum { PARAMS_MOST = FW_SHARD_SUMS_MAX / 2 };

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

static fw_step_options step_options(const fw_optimizer_unit *u, fw_step_rule rule, bool decay) {
    const fw_adamw_options *o = u->options;
    return (fw_step_options){.rule = rule,
                             .learning_rate = o->learning_rate,
                             .weight_decay = decay ? o->weight_decay : 0,
                             .beta1 = u->settings->beta1,
                             .beta2 = u->settings->beta2,
                             .epsilon = o->epsilon,
                             .grad_scale = o->grad_scale,
                             .step = o->step};
}

/* Where elements of a parameter lie in the owned range of its unit. */
static int64_t place_of(const fw_optimizer_unit *u, const fw_param *p, fw_state_range elements) {
    return p->offset_n + elements.first_n - u->own.first_n;
}

/* This rank's part of the sum of squares of a parameter's weights or gradients, `values` of the owned range. */
static fw_status part_of_squares(const fw_optimizer_unit *u, const fw_param *p, const float *values, double *out) {
    int64_t first, n;
    *out = 0;
    fw_shard_counted_range(u->shard, u->unit, &first, &n);
    const fw_state_range counted = fw_state_of_param(p, first, n);
    if (counted.n == 0) return FW_OK;
    return fw_sum_squares(u->device, out, values + place_of(u, p, counted), counted.n);
}

/* w = w - lr (decay w + along g), g holding the direction. */
static fw_status step_along(const fw_optimizer_unit *u, const fw_param *p, double along, bool decay) {
    const fw_state_range e = fw_optimizer_elements(u, p);
    if (e.n == 0) return FW_OK;
    fw_step_options o = step_options(u, FW_STEP_ALONG, decay);
    o.along = (float)along;
    const int64_t at = place_of(u, p, e);
    return fw_optimizer_step(u->device, u->own.w + at, NULL, NULL, u->own.g + at, e.n, &o);
}

/* ---- lamb: the step of a tensor has its weights' norm, times the learning rate */

static double trust_ratio(const fw_optim_settings *s, double w_squares, double u_squares) {
    if (w_squares <= 0 || u_squares <= 0) return 1;
    double ratio = sqrt(w_squares / u_squares);
    if (s->max_coeff > 0 && ratio > s->max_coeff) ratio = s->max_coeff;
    return ratio < s->min_coeff ? s->min_coeff : ratio;
}

static fw_status lamb_some(const fw_optimizer_unit *u, int32_t first, int32_t n) {
    double sum[FW_SHARD_SUMS_MAX];
    for (int32_t k = 0; k < n; k++) {
        const fw_param *p = &u->table->param[first + k];
        const fw_state_range e = fw_optimizer_elements(u, p);
        const fw_step_options o = step_options(u, FW_STEP_LAMB, p->decay);
        const int64_t at = place_of(u, p, e);
        if (e.n > 0)
            FW_TRY(fw_optimizer_step(u->device, u->own.w + at, u->own.array[0] + at, u->own.array[1] + at,
                                     u->own.g + at, e.n, &o));
        FW_TRY(part_of_squares(u, p, u->own.w, &sum[2 * k]));
        FW_TRY(part_of_squares(u, p, u->own.g, &sum[2 * k + 1]));
    }
    FW_TRY(fw_shard_sum(u->shard, sum, 2 * n));
    for (int32_t k = 0; k < n; k++) /* the decay is in the direction */
        FW_TRY(step_along(u, &u->table->param[first + k], trust_ratio(u->settings, sum[2 * k], sum[2 * k + 1]), false));
    return FW_OK;
}

fw_status fw_optimizer_lamb(const fw_optimizer_unit *u) {
    const int32_t end = u->table->unit_first[u->unit + 1];
    for (int32_t i = u->table->unit_first[u->unit]; i < end; i += PARAMS_MOST)
        FW_TRY(lamb_some(u, i, smaller(PARAMS_MOST, end - i)));
    return FW_OK;
}

/* ---- adafactor: second moments by rows and columns */

/* Sums of squares of the rows and columns of all matrices of the unit, over all ranks. */
static fw_status sum_rows_and_columns(const fw_optimizer_unit *u) {
    int64_t first, n;
    float *sums = fw_shard_sums(u->shard);
    fw_shard_counted_range(u->shard, u->unit, &first, &n);
    for (int32_t i = u->table->unit_first[u->unit]; i < u->table->unit_first[u->unit + 1]; i++) {
        const fw_param *p = &u->table->param[i];
        if (p->cols == 0) continue;
        const fw_state_range counted = fw_state_of_param(p, first, n);
        const int64_t at = counted.n > 0 ? place_of(u, p, counted) : 0;
        FW_TRY(fw_factored_sums(u->device, sums, sums + p->rows, u->own.g + at, counted.first_n, counted.n, p->rows,
                                p->cols, u->options->grad_scale, u->settings->epsilon1));
        sums += p->rows + p->cols;
    }
    return fw_shard_sum_sums(u->shard, u->unit);
}

/* The moments follow, and g holds the direction. sums: of this matrix. */
static fw_status find_direction(const fw_optimizer_unit *u, int32_t param, float *sums, float beta2) {
    const fw_param *p = &u->table->param[param];
    void *array[FW_STATE_ARRAYS_MAX];
    fw_state_range e;
    FW_TRY(fw_shard_owned_state(u->shard, param, array, &e));
    if (e.n == 0) return FW_OK;
    float *g = u->own.g + place_of(u, p, e);
    if (p->cols > 0) {
        FW_TRY(fw_factored_moments(u->device, array[0], array[1], sums, p->rows, p->cols, beta2));
        return fw_factored_direction(u->device, g, sums, e.first_n, e.n, p->rows, p->cols, u->options->grad_scale);
    }
    fw_step_options o = step_options(u, FW_STEP_VECTOR, false);
    o.beta2 = (double)beta2;
    o.epsilon = u->settings->epsilon1;
    return fw_optimizer_step(u->device, NULL, NULL, array[0], g, e.n, &o);
}

static fw_status adafactor_some(const fw_optimizer_unit *u, int32_t first, int32_t n, float **sums) {
    const float beta2 = (float)(1 - pow((double)u->options->step, (double)u->settings->decay_rate));
    double sum[FW_SHARD_SUMS_MAX];
    for (int32_t k = 0; k < n; k++) {
        const fw_param *p = &u->table->param[first + k];
        FW_TRY(find_direction(u, first + k, *sums, beta2));
        if (p->cols > 0) *sums += p->rows + p->cols;
        FW_TRY(part_of_squares(u, p, u->own.g, &sum[k]));
    }
    FW_TRY(fw_shard_sum(u->shard, sum, n));
    for (int32_t k = 0; k < n; k++) {
        const fw_param *p = &u->table->param[first + k];
        const double above = sqrt(sum[k] / (double)p->n) / (double)u->settings->clip_threshold;
        FW_TRY(step_along(u, p, above > 1 ? 1 / above : 1, p->decay));
    }
    return FW_OK;
}

fw_status fw_optimizer_adafactor(const fw_optimizer_unit *u) {
    const int32_t end = u->table->unit_first[u->unit + 1];
    float *sums = fw_shard_sums(u->shard);
    FW_TRY(sum_rows_and_columns(u));
    for (int32_t i = u->table->unit_first[u->unit]; i < end; i += PARAMS_MOST)
        FW_TRY(adafactor_some(u, i, smaller(PARAMS_MOST, end - i), &sums));
    return FW_OK;
}

/* ---- 8-bit state, or fp32 for the tensors that keep it */

static fw_status update_8bit(const fw_optimizer_unit *u, int32_t param, bool lion) {
    const fw_param *p = &u->table->param[param];
    void *array[FW_STATE_ARRAYS_MAX];
    fw_state_range e;
    FW_TRY(fw_shard_owned_state(u->shard, param, array, &e));
    if (e.n == 0) return FW_OK;
    const int64_t at = place_of(u, p, e);
    float *w = u->own.w + at, *g = u->own.g + at;
    const fw_step_options o = step_options(u, lion ? FW_STEP_LION : FW_STEP_ADAMW, p->decay);
    if (fw_state_is_8bit(p)) return fw_step_8bit(u->device, w, array[0], array[1], array[2], array[3], g, e.n, &o);
    if (lion) return fw_optimizer_step(u->device, w, array[0], NULL, g, e.n, &o);
    fw_adamw_options plain = *u->options;
    if (!p->decay) plain.weight_decay = 0;
    return fw_adamw(u->device, w, array[0], array[1], g, NULL, e.n, &plain, FW_F32);
}

fw_status fw_optimizer_8bit(const fw_optimizer_unit *u) {
    const bool lion = fw_shard_layout_of(u->shard)->options.optimizer == FW_OPTIMIZER_LION_8BIT;
    for (int32_t i = u->table->unit_first[u->unit]; i < u->table->unit_first[u->unit + 1]; i++)
        FW_TRY(update_8bit(u, i, lion));
    return FW_OK;
}
