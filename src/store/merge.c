#include "store/merge.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

/* Rows of the base at a time, while the norms of a matrix are found. */
enum { NORM_CHUNK_N = 1 << 18 };

/* ---- the parameter at hand */

static const fw_param *find_trained(const fw_merge *m, int32_t base, fw_param_kind kind) {
    for (int32_t i = 0; i < m->trained->param_n; i++)
        if (m->trained->param[i].base == base && m->trained->param[i].kind == kind) return &m->trained->param[i];
    return NULL;
}

static const fw_stored_tensor *stored(const fw_merge *m, const fw_param *trained) {
    return trained == NULL ? NULL : fw_safetensors_find(&m->folder->weights.shard[0], trained->name);
}

/* A model with such a number answers nothing: none is written. */
static fw_status check_finite(const float *x, int64_t first_n, int64_t n, const char *what, const char *name) {
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite &= isfinite(x[i]) != 0; /* no early end: this is one pass of vectors */
    if (finite) return FW_OK;
    int64_t at = 0;
    while (isfinite(x[at])) at++;
    return fw_fail(FW_ERR_INPUT,
                   "%s: tensor %s has %g as element %lld: it is damaged, and so the merged model would be", what, name,
                   (double)x[at], (long long)(first_n + at));
}

static fw_status load(float **out, const fw_merge *m, const fw_param *trained) {
    const fw_safetensors *file = &m->folder->weights.shard[0];
    FW_TRY(FW_NEW_ARRAY(*out, (size_t)trained->n));
    FW_TRY(fw_safetensors_read_f32(*out, file, stored(m, trained), 0, trained->n));
    return check_finite(*out, 0, trained->n, file->path, trained->name);
}

static void forget(fw_merge *m) {
    fw_free(m->A_rI);
    fw_free(m->B_Or);
    fw_free(m->factor_O);
    fw_free(m->rows);
    m->A_rI = m->B_Or = m->factor_O = m->rows = NULL;
    m->at = NULL;
    m->whole = NULL;
    m->r = 0;
}

/* Columns [first, last) of row o of s B A, added to out. */
static void add_delta(const fw_merge *m, int64_t o, int64_t first, int64_t last, float *out) {
    const int64_t I = m->at->cols;
    for (int64_t k = 0; k < m->r; k++) {
        const float b = m->scale * m->B_Or[o * m->r + k], *a = m->A_rI + k * I;
        for (int64_t i = first; i < last; i++) out[i - first] += b * a[i];
    }
}

/* factor_O is m: it becomes m / norm. */
static fw_status find_factors(fw_merge *m, const fw_param *p) {
    const int64_t I = p->cols, rows_n = NORM_CHUNK_N / I > 0 ? NORM_CHUNK_N / I : 1;
    FW_TRY(FW_NEW_ARRAY(m->rows, (size_t)(rows_n * I)));
    for (int64_t o = 0; o < p->rows; o++) {
        float *row = m->rows + o % rows_n * I;
        if (o % rows_n == 0) {
            const int64_t left = p->rows - o;
            FW_TRY(m->read_base(m->base_context, p, o * I, (left < rows_n ? left : rows_n) * I, m->rows));
        }
        add_delta(m, o, 0, I, row);
        double sum = 0;
        for (int64_t i = 0; i < I; i++) sum += (double)row[i] * (double)row[i];
        if (!(sum > 0))
            return fw_fail(FW_ERR_INPUT, "%s: row %lld with its adapter has norm %g: DoRA divides by it", p->name,
                           (long long)o, sqrt(sum));
        m->factor_O[o] = (float)((double)m->factor_O[o] / sqrt(sum));
    }
    return FW_OK;
}

/* The head of a model that was tied is the embedding, unless it was trained. */
static const fw_param *base_of(const fw_merge *m, const fw_param *param) {
    const fw_param *p = fw_param_table_find(m->base, param->name);
    return p != NULL ? p : fw_param_table_find(m->base, "model.embed_tokens.weight");
}

static fw_status enter(fw_merge *m, const fw_param *param) {
    const fw_param *p = base_of(m, param);
    const int32_t index = (int32_t)(p - m->base->param);
    const bool own_head = strcmp(p->name, param->name) != 0;
    forget(m);
    m->at = param;
    m->whole = stored(m, find_trained(m, index, own_head ? FW_PARAM_TIED_HEAD : FW_PARAM_BASE));
    const fw_param *A = own_head ? NULL : find_trained(m, index, FW_PARAM_LORA_A);
    if (A == NULL) return FW_OK;
    const fw_linear linear = fw_linear_of_name(p->name);
    const fw_param *magnitude = find_trained(m, index, FW_PARAM_MAGNITUDE);
    m->r = A->rows;
    m->scale = fw_adapter_linear(m->adapter, p->unit - 1, linear)->scale;
    FW_TRY(load(&m->A_rI, m, A));
    FW_TRY(load(&m->B_Or, m, find_trained(m, index, FW_PARAM_LORA_B)));
    if (magnitude == NULL) return FW_OK;
    FW_TRY(load(&m->factor_O, m, magnitude));
    return find_factors(m, p);
}

/* ---- reading */

typedef struct part {
    const fw_merge *m;
    int64_t first_n, n;
    float *out;
} part;

/* Whole rows go to one thread; the first and the last may be cut off. */
static void add_rows(void *context, int index, int thread_n) {
    const part *c = context;
    const fw_merge *m = c->m;
    const int64_t I = m->at->cols, end_n = c->first_n + c->n, row_0 = c->first_n / I,
                  row_n = (end_n + I - 1) / I - row_0;
    int64_t from, to;
    fw_threads_split(&from, &to, row_n, 1, index, thread_n);
    for (int64_t o = row_0 + from; o < row_0 + to; o++) {
        const int64_t first = o * I > c->first_n ? o * I : c->first_n, last = (o + 1) * I < end_n ? (o + 1) * I : end_n;
        float *out = c->out + (first - c->first_n);
        add_delta(m, o, first - o * I, last - o * I, out);
        if (m->factor_O == NULL) continue;
        for (int64_t i = 0; i < last - first; i++) out[i] *= m->factor_O[o];
    }
}

fw_status fw_merge_read(void *merge, const fw_param *param, int64_t first_n, int64_t n, float *out) {
    fw_merge *m = merge;
    if (m->at != param) FW_TRY(enter(m, param));
    if (m->whole != NULL) {
        const fw_safetensors *file = &m->folder->weights.shard[0];
        FW_TRY(fw_safetensors_read_f32(out, file, m->whole, first_n, n));
        return check_finite(out, first_n, n, file->path, m->whole->name);
    }
    FW_TRY(m->read_base(m->base_context, base_of(m, param), first_n, n, out));
    FW_TRY(check_finite(out, first_n, n, "the base", base_of(m, param)->name));
    if (m->r == 0) return FW_OK;
    part whole = {m, first_n, n, out};
    fw_threads_run(m->threads, add_rows, &whole);
    return check_finite(out, first_n, n, "the base with its adapter", param->name);
}

void fw_merge_fini(fw_merge *m) { forget(m); }
