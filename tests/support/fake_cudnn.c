#include "support/fake_cudnn.h"

#ifdef FW_HAS_CUDNN

#include "base/alloc.h"
#include "base/dtype.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { CHILDREN = 48 };

fw_fake_cudnn fw_fake_cudnn_state = {.version = 91900};

/* Any descriptor. */
typedef struct node {
    cudnnBackendDescriptorType_t type;
    struct node *child[CHILDREN];
    int child_n;
    int64_t number, dim[4], stride[4]; /* tensors */
    bool is_virtual, by_value;
    struct node *ragged;
    int64_t numbers[FW_CUDNN_NUMBERS]; /* arguments of a run */
    void *pointers[FW_CUDNN_NUMBERS];
    int64_t argument_n;
    void *workspace;
} node;

static cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
    node *d;
    FW_ASSERT(FW_NEW(d) == FW_OK);
    d->type = type;
    fw_fake_cudnn_state.descriptor_n++;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t drop(cudnnBackendDescriptor_t d) {
    fw_free(d);
    fw_fake_cudnn_state.descriptor_n--;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, const void *values) {
    node *d = of;
    const size_t count = (size_t)n;
    switch (name) {
    case CUDNN_ATTR_TENSOR_UNIQUE_ID: memcpy(&d->number, values, sizeof d->number); break;
    case CUDNN_ATTR_TENSOR_DIMENSIONS: memcpy(d->dim, values, sizeof d->dim); break;
    case CUDNN_ATTR_TENSOR_STRIDES: memcpy(d->stride, values, sizeof d->stride); break;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL: d->is_virtual = *(const bool *)values; break;
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE: d->by_value = *(const bool *)values; break;
    case CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC: memcpy(&d->ragged, values, sizeof d->ragged); break;
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
        memcpy(d->numbers, values, count * sizeof *d->numbers);
        d->argument_n = n;
        break;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS: memcpy(d->pointers, values, count * sizeof *d->pointers); break;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE: memcpy(&d->workspace, values, sizeof d->workspace); break;
    default: break;
    }
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        FW_ASSERT(d->child_n + n <= CHILDREN);
        memcpy(d->child + d->child_n, values, count * sizeof *d->child);
        d->child_n += (int)n;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Engine 1 gives other bits each time, as it says; engine 2 does not. */
static cudnnStatus_t get_results(const node *heuristic, int64_t *n, node *const *configuration) {
    *n = fw_fake_cudnn_state.refuses ? 0 : 2;
    for (int i = 0; i < *n; i++) {
        memcpy(configuration[i]->child, heuristic->child, sizeof heuristic->child);
        configuration[i]->child_n = heuristic->child_n;
        configuration[i]->number = i + 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get(cudnnBackendDescriptor_t const of, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t most, int64_t *n, void *values) {
    (void)type, (void)most;
    const node *d = of;
    *n = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) return get_results(d, n, values);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        (*(node **)values)->number = d->number;
    } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
        *(int64_t *)values = d->number;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        const cudnnBackendNumericalNote_t varies = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        *n = d->number == 1;
        if (*n == 1) memcpy(values, &varies, sizeof varies);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        const size_t bytes = fw_fake_cudnn_state.workspace_bytes;
        *(int64_t *)values = bytes != 0 ? (int64_t)bytes : FW_FAKE_CUDNN_WORKSPACE_BYTES;
    } else {
        return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(cudnnBackendDescriptor_t of) {
    const node *d = of;
    const int engine = d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    return engine && fw_fake_cudnn_state.refuses ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

/* ---- a run */

static const node *find_tensor(const node *d, int64_t number) {
    if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && d->number == number) return d;
    const node *found = NULL;
    for (int i = 0; i < d->child_n && found == NULL; i++) found = find_tensor(d->child[i], number);
    return found;
}

static void *argument(const node *pack, int64_t number) {
    int64_t i = 0;
    while (i < pack->argument_n && pack->numbers[i] != number) i++;
    FW_ASSERT(i < pack->argument_n); /* a tensor of the graph without memory */
    return pack->pointers[i];
}

/* Every tensor that is memory has some. */
static void check_arguments(const node *d, const node *pack) {
    if (d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR && !d->is_virtual)
        FW_ASSERT(d->by_value || (uintptr_t)argument(pack, d->number) % 16 == 0);
    for (int i = 0; i < d->child_n; i++) check_arguments(d->child[i], pack);
}

/* A tensor of documents: element (row, column) of a head. dim_row: which dimension counts rows. */
typedef struct view {
    void *memory;
    const int32_t *offset;
    int64_t head, row, column;
    int64_t document_n, row_n, column_n, head_n;
} view;

static view view_of(const node *plan, const node *pack, int64_t number, int dim_row) {
    const node *t = find_tensor(plan, number);
    FW_ASSERT(t != NULL && t->ragged != NULL && t->ragged->dim[0] == t->dim[0] + 1);
    const int dim_column = 5 - dim_row;
    return (view){.memory = argument(pack, number),
                  .offset = argument(pack, t->ragged->number),
                  .head = t->stride[1],
                  .row = t->stride[dim_row],
                  .column = t->stride[dim_column],
                  .document_n = t->dim[0],
                  .head_n = t->dim[1],
                  .row_n = t->dim[dim_row],
                  .column_n = t->dim[dim_column]};
}

static int64_t index_of(const view *v, int64_t document, int64_t head, int64_t row, int64_t column) {
    return v->offset[document] + head * v->head + row * v->row + column * v->column;
}
static double bf16_at(const view *v, int64_t document, int64_t head, int64_t row, int64_t column) {
    return (double)fw_bf16_to_f32(((const fw_bf16 *)v->memory)[index_of(v, document, head, row, column)]);
}
static void put_bf16(const view *v, int64_t document, int64_t head, int64_t row, int64_t column, double value) {
    ((fw_bf16 *)v->memory)[index_of(v, document, head, row, column)] = fw_bf16_from_f32((float)value);
}
static float *f32_at(const view *v, int64_t document, int64_t head, int64_t row, int64_t column) {
    return (float *)v->memory + index_of(v, document, head, row, column);
}

typedef struct call {
    view q, k, v, o, lse;
    const int32_t *length;
    double scale;
    int64_t D, group;
} call;

static double dot(const view *a, const view *b, int64_t document, int64_t a_head, int64_t a_row, int64_t b_head,
                  int64_t b_row, int64_t D) {
    double sum = 0;
    for (int64_t e = 0; e < D; e++)
        sum += bf16_at(a, document, a_head, a_row, e) * bf16_at(b, document, b_head, b_row, e);
    return sum;
}

static void forward_row(const call *c, int64_t i, int64_t h, int64_t n) {
    const int64_t kh = h / c->group;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= n; j++) most = fmax(most, c->scale * dot(&c->q, &c->k, i, h, n, kh, j, c->D));
    for (int64_t j = 0; j <= n; j++) sum += exp(c->scale * dot(&c->q, &c->k, i, h, n, kh, j, c->D) - most);
    *f32_at(&c->lse, i, h, n, 0) = (float)(most + log(sum));
    for (int64_t e = 0; e < c->D; e++) {
        double o = 0;
        for (int64_t j = 0; j <= n; j++)
            o += exp(c->scale * dot(&c->q, &c->k, i, h, n, kh, j, c->D) - most) / sum * bf16_at(&c->v, i, kh, j, e);
        put_bf16(&c->o, i, h, n, e, o);
    }
}

typedef struct gradients {
    view d_o, dq, dk, dv;
} gradients;

/* One key and value head: dk and dv of all rows, dq of its query heads. */
static void backward_head(const call *c, const gradients *g, int64_t i, int64_t kh) {
    const int64_t n_rows = c->length[i], D = c->D;
    double *dk, *dv, *dq;
    FW_ASSERT(FW_NEW_ARRAY(dk, (size_t)(3 * n_rows * D)) == FW_OK);
    dv = dk + n_rows * D;
    dq = dv + n_rows * D;
    for (int64_t h = kh * c->group; h < (kh + 1) * c->group; h++) {
        memset(dq, 0, (size_t)(n_rows * D) * sizeof *dq);
        for (int64_t n = 0; n < n_rows; n++) {
            const double delta = dot(&g->d_o, &c->o, i, h, n, h, n, D);
            for (int64_t j = 0; j <= n; j++) {
                const double p =
                    exp(c->scale * dot(&c->q, &c->k, i, h, n, kh, j, D) - (double)*f32_at(&c->lse, i, h, n, 0));
                const double ds = c->scale * p * (dot(&g->d_o, &c->v, i, h, n, kh, j, D) - delta);
                for (int64_t e = 0; e < D; e++) {
                    dv[j * D + e] += p * bf16_at(&g->d_o, i, h, n, e);
                    dk[j * D + e] += ds * bf16_at(&c->q, i, h, n, e);
                    dq[n * D + e] += ds * bf16_at(&c->k, i, kh, j, e);
                }
            }
        }
        for (int64_t n = 0; n < n_rows; n++)
            for (int64_t e = 0; e < D; e++) put_bf16(&g->dq, i, h, n, e, dq[n * D + e]);
    }
    for (int64_t n = 0; n < n_rows; n++)
        for (int64_t e = 0; e < D; e++) {
            put_bf16(&g->dk, i, kh, n, e, dk[n * D + e]);
            put_bf16(&g->dv, i, kh, n, e, dv[n * D + e]);
        }
    fw_free(dk);
}

/* Rows of the batch: where the document behind the last one would begin, in rows. */
static int64_t rows_of(const view *v) { return v->offset[v->document_n] / v->row; }

static void spoil_scratch(const node *plan, const node *pack, int64_t N) {
    static const int64_t scratch[] = {FW_CUDNN_DELTA, FW_CUDNN_DQ_SUM, FW_CUDNN_DK_HEADS, FW_CUDNN_DV_HEADS};
    for (int i = 0; i < 4; i++) {
        const node *t = find_tensor(plan, scratch[i]);
        if (t == NULL) continue;
        const int64_t row = t->stride[2]; /* fp32 for all of them: what is set aside, not what is used */
        memset(argument(pack, scratch[i]), 0xff, (size_t)(N * row) * sizeof(float));
    }
    int64_t bytes = 0, n;
    get((void *)(uintptr_t)plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes);
    memset(pack->workspace, 0xff, (size_t)bytes);
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t of, cudnnBackendDescriptor_t with) {
    const node *plan = of, *pack = with;
    FW_ASSERT(handle != NULL);
    check_arguments(plan, pack);
    const int backward = find_tensor(plan, FW_CUDNN_D_O) != NULL;
    call c = {.q = view_of(plan, pack, FW_CUDNN_Q, 2),
              .k = view_of(plan, pack, FW_CUDNN_K, 3),
              .v = view_of(plan, pack, FW_CUDNN_V, backward ? 3 : 2),
              .o = view_of(plan, pack, FW_CUDNN_O, 2),
              .lse = view_of(plan, pack, FW_CUDNN_LSE, 2),
              .length = argument(pack, FW_CUDNN_LENGTHS_Q),
              .scale = (double)*(const float *)argument(pack, FW_CUDNN_SCALE)};
    c.D = c.q.column_n;
    c.group = c.q.head_n / c.k.head_n;
    spoil_scratch(plan, pack, rows_of(&c.q));
    gradients g = {0};
    if (backward)
        g = (gradients){.d_o = view_of(plan, pack, FW_CUDNN_D_O, 2),
                        .dq = view_of(plan, pack, FW_CUDNN_DQ, 2),
                        .dk = view_of(plan, pack, FW_CUDNN_DK, 2),
                        .dv = view_of(plan, pack, FW_CUDNN_DV, 2)};
    for (int64_t i = 0; i < c.q.document_n; i++) {
        FW_ASSERT(c.length[i] >= 0 && c.length[i] <= c.q.row_n);
        if (backward)
            for (int64_t h = 0; h < c.k.head_n && c.length[i] > 0; h++) backward_head(&c, &g, i, h);
        else
            for (int64_t h = 0; h < c.q.head_n; h++)
                for (int64_t n = 0; n < c.length[i]; n++) forward_row(&c, i, h, n);
    }
    fw_fake_cudnn_state.run_n++;
    return CUDNN_STATUS_SUCCESS;
}

static size_t version(void) { return fw_fake_cudnn_state.version; }
static const char *error_string(cudnnStatus_t status) {
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "an error";
}
static void last_error(char *text, size_t bytes) {
    if (bytes > 0) text[0] = 0;
}
static cudnnStatus_t create_handle(cudnnHandle_t *out) {
    static int handle;
    *out = (cudnnHandle_t)(void *)&handle;
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t drop_handle(cudnnHandle_t handle) {
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t stream) {
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

fw_status fw_fake_cudnn_open(fw_cudnn *api, fw_cudnn_target *target, int gpu, int sm) {
    (void)gpu;
    *api = (fw_cudnn){.version = fw_fake_cudnn_state.version,
                      .GetVersion = version,
                      .GetErrorString = error_string,
                      .GetLastErrorString = last_error,
                      .Create = create_handle,
                      .Destroy = drop_handle,
                      .SetStream = set_stream,
                      .BackendCreateDescriptor = create,
                      .BackendDestroyDescriptor = drop,
                      .BackendSetAttribute = set,
                      .BackendGetAttribute = get,
                      .BackendFinalize = finalize,
                      .BackendExecute = execute};
    return fw_cudnn_target_of_json(target, api, "{}", sm);
}

#endif
