#include "device/cuda/cudnn/cudnn_library.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORWARD, BACKWARD, DIRECTIONS };

typedef struct cudnn_library {
    fw_cuda_library base;
    fw_cudnn_opener open;
    int gpu, sm;
    fw_cudnn api;           /* once opened: */
    fw_cudnn_target target; /* its api is set */
    cudnnHandle_t handle;
    int64_t N;                       /* rows at most */
    fw_dtype t;                      /* of the shape that was chosen for */
    fw_cudnn_plan *plan[DIRECTIONS]; /* of that shape; NULL: not by cuDNN */
    char why_not[DIRECTIONS][200];   /* plan NULL: the reason */
} cudnn_library;

static cudnn_library *library_of(fw_cuda_library *l) { return (cudnn_library *)(void *)l; }

static void drop_plan(cudnn_library *l, int direction) {
    if (l->plan[direction] != NULL) fw_cudnn_plan_fini(l->plan[direction]);
    fw_free(l->plan[direction]);
    l->plan[direction] = NULL;
}

static void destroy(fw_cuda_library *base) {
    cudnn_library *l = library_of(base);
    for (int i = 0; i < DIRECTIONS; i++) drop_plan(l, i);
    if (l->handle != NULL) l->api.Destroy(l->handle);
    fw_cudnn_target_fini(&l->target);
    fw_free(l);
}

/* ---- scratch: the table of documents, then what the direction needs, then cuDNN's workspace */

typedef struct scratch {
    size_t table, lse, delta, dq_sum, dk, dv, dk_heads, dv_heads, workspace, bytes;
} scratch;

static size_t place(scratch *s, size_t bytes) {
    const size_t at = s->bytes;
    s->bytes += (bytes + 255) / 256 * 256;
    return at;
}

static scratch lay_out(const fw_cudnn_plan *plan, int64_t N) {
    const fw_cudnn_attention *a = &plan->attention;
    const size_t rows = (size_t)N, compact = rows * (size_t)(a->K * a->D) * sizeof(uint16_t);
    const size_t heads = a->H > a->K ? rows * (size_t)(a->H * a->D) * sizeof(float) : 0;
    const size_t row_numbers = rows * (size_t)a->H * sizeof(float);
    scratch s = {0};
    s.table = place(&s, (size_t)(FW_CUDA_DOCUMENT_ROWS * fw_cuda_documents_pitch(a->document_n)) * sizeof(int32_t));
    if (a->backward) {
        s.delta = place(&s, row_numbers);
        s.dq_sum = place(&s, a->whole_sums ? 0 : rows * (size_t)a->dq_stride * sizeof(float));
        s.dk = place(&s, compact);
        s.dv = place(&s, compact);
        s.dk_heads = place(&s, heads);
        s.dv_heads = place(&s, heads);
    } else {
        s.lse = place(&s, row_numbers);
    }
    s.workspace = place(&s, plan->workspace_bytes);
    return s;
}

/* ---- the choice */

static int64_t or_most(int64_t given, int64_t most) { return given > 0 && given < most ? given : most; }

static fw_cudnn_attention shape_of(const fw_device_limits *limits, int direction) {
    const fw_attention_limits *l = &limits->attention;
    return (fw_cudnn_attention){.document_n = or_most(l->document_n, limits->N),
                                .longest_n = or_most(l->longest_n, limits->N),
                                .H = limits->H,
                                .K = limits->K,
                                .D = limits->D,
                                .q_stride = l->q_stride,
                                .k_stride = l->k_stride,
                                .v_stride = l->v_stride,
                                .dq_stride = direction == BACKWARD ? l->dq_stride : 0,
                                .backward = direction == BACKWARD};
}

/* What cuDNN's kernels and the table of documents take; the message says what is in the way. */
static fw_status check_shape(const fw_cudnn_attention *a, int64_t N, fw_dtype t) {
    const int64_t stride[] = {a->q_stride, a->k_stride, a->v_stride, a->dq_stride, a->H * a->D};
    if (t != FW_BF16) return fw_fail(FW_ERR_OPTION, "it computes in bf16 only");
    if (a->D % 8 != 0) return fw_fail(FW_ERR_OPTION, "the head size %lld is no multiple of 8", (long long)a->D);
    for (size_t i = 0; i < sizeof stride / sizeof *stride; i++) {
        if (stride[i] % 8 != 0)
            return fw_fail(FW_ERR_OPTION, "rows are %lld elements apart, no multiple of 8", (long long)stride[i]);
        if (N * stride[i] > INT32_MAX)
            return fw_fail(FW_ERR_OPTION, "a micro-batch has more than 2^31 elements (%lld rows of %lld)", (long long)N,
                           (long long)stride[i]);
    }
    return FW_OK;
}

/* Blocks of threads that start in vain, as many as those with work and more: the own kernels start none. */
static fw_status check_packing(const fw_cudnn_attention *a, int64_t N) {
    enum { TIMES = 8 };
    if (a->document_n * a->longest_n <= TIMES * N) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "up to %lld documents of up to %lld tokens are packed into %lld rows",
                   (long long)a->document_n, (long long)a->longest_n, (long long)N);
}

static fw_status check_architecture(int sm) {
    if (sm / 10 == 9 || sm / 10 == 10) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "the default on sm_%d", sm);
}

static fw_status open_found(fw_cudnn *api, fw_cudnn_target *target, int gpu, int sm) {
    FW_TRY(fw_cudnn_open(api));
    return fw_cudnn_target_of_gpu(target, api, gpu, sm);
}

static fw_status check(const cudnn_library *l, const fw_device_limits *limits, const fw_cudnn_attention *a) {
    FW_TRY(check_shape(a, limits->N, limits->attention.t));
    if (limits->attention.choice != FW_ATTENTION_AUTO) return FW_OK;
    FW_TRY(check_architecture(l->sm));
    return check_packing(a, limits->N);
}

/* Now rather than in the first step: what cuDNN takes of the GPU for itself is gone before the plan asks what is free. */
static fw_status make_handle(cudnn_library *l, const fw_cuda *d) {
    if (l->handle != NULL) return FW_OK;
    cudnnStatus_t answer = l->api.Create(&l->handle);
    if (answer == CUDNN_STATUS_SUCCESS) answer = l->api.SetStream(l->handle, (cudaStream_t)d->launch.stream);
    return fw_cudnn_status(&l->api, "start on the GPU", answer);
}

static fw_status make_plan(cudnn_library *l, const fw_cuda *d, const fw_cudnn_attention *a, int direction) {
    if (l->target.api == NULL) FW_TRY(l->open(&l->api, &l->target, l->gpu, l->sm));
    FW_TRY(make_handle(l, d));
    fw_cudnn_plan *plan;
    FW_TRY(FW_NEW(plan));
    const fw_status status = fw_cudnn_plan_make(plan, &l->target, a);
    if (status == FW_OK)
        l->plan[direction] = plan;
    else
        fw_free(plan);
    return status;
}

/* A plan takes a second, and the same shape comes again when the memory plan becomes an allocation. */
static int has_plan(const cudnn_library *l, const fw_cudnn_attention *a, int direction) {
    if (l->plan[direction] == NULL) return 0;
    fw_cudnn_attention same = *a;
    same.whole_sums = l->plan[direction]->attention.whole_sums;
    return memcmp(&l->plan[direction]->attention, &same, sizeof same) == 0;
}

static fw_status choose_direction(cudnn_library *l, const fw_cuda *d, const fw_device_limits *limits, int direction) {
    const fw_cudnn_attention a = shape_of(limits, direction);
    fw_status status = check(l, limits, &a);
    if (status == FW_OK && has_plan(l, &a, direction)) return FW_OK;
    drop_plan(l, direction);
    if (status == FW_OK) status = make_plan(l, d, &a, direction);
    if (status == FW_ERR_NOMEM) return status;
    snprintf(l->why_not[direction], sizeof l->why_not[direction], "%s", status == FW_OK ? "" : fw_trail_message());
    return FW_OK;
}

static void describe(const cudnn_library *l, fw_cuda *d, int with_backward) {
    char *text = d->base.attention;
    const size_t bytes = sizeof d->base.attention;
    const int major = (int)(l->api.version / 10000), minor = (int)(l->api.version / 100 % 100);
    if (l->plan[FORWARD] == NULL)
        snprintf(text, bytes, "own kernels (%s)", l->why_not[FORWARD]);
    else if (!with_backward)
        snprintf(text, bytes, "cuDNN %d.%d, engine %lld", major, minor, (long long)l->plan[FORWARD]->engine);
    else if (l->plan[BACKWARD] != NULL)
        snprintf(text, bytes, "cuDNN %d.%d, engines %lld and %lld", major, minor, (long long)l->plan[FORWARD]->engine,
                 (long long)l->plan[BACKWARD]->engine);
    else
        snprintf(text, bytes, "forward cuDNN %d.%d, engine %lld; backward own kernels (%s)", major, minor,
                 (long long)l->plan[FORWARD]->engine, l->why_not[BACKWARD]);
}

static fw_status choose(fw_cuda_library *base, fw_cuda *d, const fw_device_limits *limits, size_t *scratch_bytes) {
    cudnn_library *l = library_of(base);
    const fw_attention_limits *a = &limits->attention;
    *scratch_bytes = 0;
    if (a->choice == FW_ATTENTION_OWN || a->q_stride == 0) {
        for (int i = 0; i < DIRECTIONS; i++) drop_plan(l, i);
        snprintf(d->base.attention, sizeof d->base.attention, "own kernels");
        return FW_OK;
    }
    FW_TRY(choose_direction(l, d, limits, FORWARD));
    if (a->backward && l->plan[FORWARD] != NULL)
        FW_TRY(choose_direction(l, d, limits, BACKWARD));
    else
        drop_plan(l, BACKWARD);
    if (a->choice == FW_ATTENTION_CUDNN && l->plan[FORWARD] == NULL)
        return fw_fail(FW_ERR_OPTION, "--attn_implementation cudnn: %s; use finewire or auto", l->why_not[FORWARD]);
    l->N = limits->N;
    l->t = a->t;
    describe(l, d, a->backward);
    for (int i = 0; i < DIRECTIONS; i++) {
        const size_t bytes = l->plan[i] != NULL ? lay_out(l->plan[i], l->N).bytes : 0;
        if (bytes > *scratch_bytes) *scratch_bytes = bytes;
    }
    return FW_OK;
}

/* ---- a run */

/* The plan for this call; NULL: it is for the own kernels. A run has one shape, so another one in what cuDNN was chosen for
 * is a bug, and not to be covered up. */
static fw_status find_plan(const cudnn_library *l, const char *op, const fw_cuda_attention_call *c,
                           const fw_cudnn_plan **out) {
    const fw_cudnn_plan *plan = l->plan[c->d_o != NULL ? BACKWARD : FORWARD];
    *out = NULL;
    if (plan == NULL || c->t != l->t || c->q_offset != 0) return FW_OK;
    const fw_cudnn_attention *a = &plan->attention;
    if (c->N > l->N || c->H != a->H || c->K != a->K || c->D != a->D || c->q_stride != a->q_stride ||
        c->k_stride != a->k_stride || c->v_stride != a->v_stride || (a->backward && c->dq_stride != a->dq_stride))
        return fw_fail(
            FW_ERR_INTERNAL,
            "%s of %lld rows, %lld and %lld heads of %lld, rows %lld, %lld, %lld apart: cuDNN was chosen for "
            "another shape",
            op, (long long)c->N, (long long)c->H, (long long)c->K, (long long)c->D, (long long)c->q_stride,
            (long long)c->k_stride, (long long)c->v_stride);
    const void *const memory[] = {c->q, c->k, c->v, c->o, c->lse, c->d_o, c->dq};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if ((uintptr_t)memory[i] % 16 != 0)
            return fw_fail(FW_ERR_INTERNAL, "%s: tensor %zu is not aligned to 16 bytes, as cuDNN wants it", op, i);
    *out = plan;
    return FW_OK;
}

typedef struct arguments {
    int64_t number[FW_CUDNN_NUMBERS];
    void *pointer[FW_CUDNN_NUMBERS];
    int n;
    float scale, minus, one;
} arguments;

static void give(arguments *g, int64_t number, const void *pointer) {
    FW_ASSERT(g->n < FW_CUDNN_NUMBERS);
    g->number[g->n] = number;
    g->pointer[g->n++] = (void *)(uintptr_t)pointer;
}

static void give_documents(arguments *g, const fw_cudnn_attention *a, const int32_t *table) {
    static const int offsets[] = {FW_CUDNN_OFFSETS_Q,   FW_CUDNN_OFFSETS_K,  FW_CUDNN_OFFSETS_V,  FW_CUDNN_OFFSETS_O,
                                  FW_CUDNN_OFFSETS_LSE, FW_CUDNN_OFFSETS_DQ, FW_CUDNN_OFFSETS_DKV};
    const int64_t pitch = fw_cuda_documents_pitch(a->document_n);
    const int n = a->backward ? FW_CUDA_DOCUMENT_STRIDES : FW_CUDA_DOCUMENT_STRIDES - 2;
    for (int i = 0; i < n; i++) give(g, offsets[i], table + (1 + i) * pitch);
    give(g, FW_CUDNN_LENGTHS_Q, table + (FW_CUDA_DOCUMENT_ROWS - 1) * pitch);
    give(g, FW_CUDNN_LENGTHS_KV, table + (FW_CUDA_DOCUMENT_ROWS - 1) * pitch);
}

static void give_tensors(arguments *g, const fw_cudnn_attention *a, const fw_cuda_attention_call *c, const scratch *s,
                         char *memory) {
    give(g, FW_CUDNN_Q, c->q);
    give(g, FW_CUDNN_K, c->k);
    give(g, FW_CUDNN_V, c->v);
    give(g, FW_CUDNN_O, c->o);
    give(g, FW_CUDNN_LSE, c->lse != NULL ? (void *)c->lse : memory + s->lse);
    give(g, FW_CUDNN_SCALE, &g->scale);
    give(g, FW_CUDNN_MINUS, &g->minus);
    if (!a->backward) return;
    give(g, FW_CUDNN_ONE, &g->one);
    give(g, FW_CUDNN_D_O, c->d_o);
    give(g, FW_CUDNN_DQ, c->dq);
    give(g, FW_CUDNN_DK, memory + s->dk);
    give(g, FW_CUDNN_DV, memory + s->dv);
    give(g, FW_CUDNN_DELTA, memory + s->delta);
    if (!a->whole_sums) give(g, FW_CUDNN_DQ_SUM, memory + s->dq_sum);
    if (a->H == a->K) return;
    give(g, FW_CUDNN_DK_HEADS, memory + s->dk_heads);
    give(g, FW_CUDNN_DV_HEADS, memory + s->dv_heads);
}

static fw_status execute(cudnn_library *l, const fw_cudnn_plan *plan, const arguments *g, void *workspace) {
    const fw_cudnn *api = &l->api;
    fw_cudnn_descriptor pack;
    FW_TRY(
        fw_cudnn_status(api, "arguments", api->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)));
    cudnnStatus_t answer =
        api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->n, g->number);
    if (answer == CUDNN_STATUS_SUCCESS)
        answer = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->n,
                                          g->pointer);
    if (answer == CUDNN_STATUS_SUCCESS)
        answer = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (answer == CUDNN_STATUS_SUCCESS) answer = api->BackendFinalize(pack);
    if (answer == CUDNN_STATUS_SUCCESS) answer = api->BackendExecute(l->handle, plan->executable, pack);
    const fw_status status =
        fw_cudnn_status(api, plan->attention.backward ? "attention_backward" : "attention_forward", answer);
    api->BackendDestroyDescriptor(pack);
    return status;
}

static fw_status attend(fw_cuda_library *base, fw_cuda *d, const char *op, const fw_cuda_attention_call *c,
                        int *taken) {
    cudnn_library *l = library_of(base);
    const fw_cudnn_plan *plan;
    FW_TRY(find_plan(l, op, c, &plan));
    *taken = plan != NULL;
    if (plan == NULL) return FW_OK;
    const fw_cudnn_attention *a = &plan->attention;
    const int64_t stride[FW_CUDA_DOCUMENT_STRIDES] = {a->q_stride, a->k_stride,  a->v_stride, a->H * a->D,
                                                      a->H,        a->dq_stride, a->K * a->D};
    const scratch s = lay_out(plan, c->N);
    FW_TRY(fw_cuda_need(d, op, s.bytes));
    char *memory = d->launch.scratch;
    int32_t *table = (int32_t *)(void *)(memory + s.table);
    FW_TRY(fw_cuda_status(d, op,
                          fw_cuda_documents(&d->launch, table, c->first_N, c->N, a->document_n, a->longest_n, stride)));
    arguments g = {.scale = c->scale, .minus = -INFINITY, .one = 1};
    give_documents(&g, a, table);
    give_tensors(&g, a, c, &s, memory);
    FW_TRY(execute(l, plan, &g, memory + s.workspace));
    if (!a->backward) return FW_OK;
    const int64_t row = a->K * a->D;
    FW_TRY(
        fw_cuda_status(d, op, fw_cuda_spread_rows(&d->launch, c->dk, c->dkv_stride, memory + s.dk, c->N, row, c->t)));
    return fw_cuda_status(d, op, fw_cuda_spread_rows(&d->launch, c->dv, c->dkv_stride, memory + s.dv, c->N, row, c->t));
}

fw_status fw_cudnn_library_create(fw_cuda *d, int gpu, int sm, fw_cudnn_opener open) {
    cudnn_library *l;
    FW_TRY(FW_NEW(l));
    l->base = (fw_cuda_library){.choose = choose, .attend = attend, .destroy = destroy};
    l->open = open != NULL ? open : open_found;
    l->gpu = gpu;
    l->sm = sm;
    d->library = &l->base;
    return FW_OK;
}
