#include "train/adapter_start.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

/* Elements [first_n, first_n + n) of a parameter of the model's own table. */
static fw_status read_base(const fw_adapter_start *s, int32_t base, int64_t first_n, int64_t n, float *out) {
    const fw_param_table *table = &s->model->table;
    const fw_param *p = &table->param[base];
    return fw_model_folder_read(s->folder, table, p->unit, p->offset_n + first_n, n, out);
}

/* The same as the frozen model computes with it. */
static fw_status read_frozen(const fw_adapter_start *s, int32_t base, int64_t first_n, int64_t n, float *out) {
    const fw_param_table *frozen = fw_model_frozen(s->model);
    const char *name = s->model->table.param[base].name;
    if (s->packed == NULL) return read_base(s, base, first_n, n, out);
    return fw_packed_read_numbers(s->packed, (int32_t)(fw_param_table_find(frozen, name) - frozen->param), first_n, n,
                                  out);
}

/* In the type that the model computes in: what a row's norm will be compared with. */
static double as_computed(float w, fw_dtype t) {
    return (double)(t == FW_F32 ? w : fw_bf16_to_f32(fw_bf16_from_f32(w)));
}

/* Norms of rows [first_n, first_n + n) of W + s B A; B is zero but for FW_ADAPTER_INIT_RANDOM. */
static fw_status fill_magnitudes(const fw_adapter_start *s, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    const fw_model *m = s->model;
    const fw_param *w = &m->table.param[p->base];
    const fw_param *b = p - 1, *a = p - 2; /* a module's parameters are neighbours: A, B, magnitude */
    const float scale = fw_adapter_linear(&m->adapter, p->unit - 1, fw_linear_of_name(w->name))->scale;
    const int64_t I = w->cols, r = b->cols;
    const bool zero = m->adapter.request.init != FW_ADAPTER_INIT_RANDOM;
    float *row = NULL, *a_RI = NULL, *b_R = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(row, (size_t)I), done);
    FW_TRY_OR(FW_NEW_ARRAY(a_RI, zero ? 1 : (size_t)(r * I)), done);
    FW_TRY_OR(FW_NEW_ARRAY(b_R, (size_t)r), done);
    if (!zero) fw_adapter_fill_initial(&m->adapter, a, s->seed, 0, r * I, a_RI);
    for (int64_t o = first_n; o < first_n + n; o++) {
        double squares = 0;
        FW_TRY_OR(read_frozen(s, p->base, o * I, I, row), done);
        if (!zero) fw_adapter_fill_initial(&m->adapter, b, s->seed, o * r, r, b_R);
        for (int64_t i = 0; i < I; i++) {
            double value = as_computed(row[i], m->t);
            for (int64_t k = 0; !zero && k < r; k++)
                value += (double)scale * as_computed(b_R[k], m->t) * as_computed(a_RI[k * I + i], m->t);
            squares += value * value;
        }
        out[o - first_n] = (float)sqrt(squares);
    }
done:
    fw_free(row);
    fw_free(a_RI);
    fw_free(b_R);
    return status;
}

static fw_status fill(const fw_adapter_start *s, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    switch (p->kind) {
    case FW_PARAM_BASE:
    case FW_PARAM_TIED_HEAD: return read_base(s, p->base, first_n, n, out);
    case FW_PARAM_MAGNITUDE: return fill_magnitudes(s, p, first_n, n, out);
    case FW_PARAM_LORA_A:
    case FW_PARAM_LORA_B: fw_adapter_fill_initial(&s->model->adapter, p, s->seed, first_n, n, out); break;
    }
    return FW_OK;
}

fw_status fw_adapter_read_start(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const fw_adapter_start *s = context;
    const fw_param_table *table = fw_model_trained(s->model);
    memset(out, 0, (size_t)n * sizeof *out);
    for (int32_t i = table->unit_first[unit]; i < table->unit_first[unit + 1]; i++) {
        const fw_param *p = &table->param[i];
        int64_t from = p->offset_n > first_n ? p->offset_n : first_n, to = p->offset_n + p->n;
        if (to > first_n + n) to = first_n + n;
        if (from < to) FW_TRY(fill(s, p, from - p->offset_n, to - from, out + (from - first_n)));
    }
    return FW_OK;
}
