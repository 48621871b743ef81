#include "device/cpu/cpu_onednn.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { KEPT = 64 }; /* primitives a thread keeps; a model has about a dozen shapes */

/* A primitive and the shape it was made for. */
typedef struct product {
    int64_t M, N, K, a_row, a_k, b_k, b_col, c_row;
    int t_c, add, has_bias, used;
    float factor;
    int unused;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, bias, c;
} product;

typedef struct thread_state {
    dnnl_stream_t stream;
    product kept[KEPT];
    int next; /* the one to replace when all are taken */
    fw_status status;
    fw_trail trail;
} thread_state;

struct fw_onednn {
    dnnl_engine_t engine;
    int thread_n;
    thread_state *threads;
};

/* ---- what the CPU has ---- */

int fw_onednn_has_amx(void) {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!(d & (1u << 22)) || !(d & (1u << 24))) return 0;   /* amx_bf16, amx_tile */
    const long request_permission = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, arch_prctl(2) */
    if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0) return 0;
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
#else
    return 0;
#endif
}

const char *fw_onednn_version(void) {
    static char text[32];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", version->major, version->minor, version->patch);
    return text;
}

/* ---- making ---- */

static fw_status explain(dnnl_status_t reason, const char *what) {
    if (reason == dnnl_success) return FW_OK;
    if (reason == dnnl_out_of_memory) return fw_fail(FW_ERR_NOMEM, "oneDNN is out of memory: %s", what);
    return fw_fail(FW_ERR_INTERNAL, "oneDNN says status %d: %s", (int)reason, what);
}
#define TRY_DNNL(call) FW_TRY(explain((call), #call))

/* Debian's oneDNN is built on OpenMP, whose number of threads is a setting of each thread. */
static void one_thread_each(void *context, int index, int thread_n) {
    (void)index;
    (void)thread_n;
    void (*set_num_threads)(int);
    memcpy(&set_num_threads, context, sizeof set_num_threads);
    set_num_threads(1);
}

fw_status fw_onednn_create(fw_onednn **out, fw_threads *threads) {
    *out = NULL;
    fw_onednn *o;
    fw_status status;
    FW_TRY(FW_NEW(o));
    o->thread_n = fw_threads_n(threads);
    FW_TRY_OR(FW_NEW_ARRAY(o->threads, (size_t)o->thread_n), fail);
    FW_TRY_OR(explain(dnnl_engine_create(&o->engine, dnnl_cpu, 0), "dnnl_engine_create"), fail);
    for (int i = 0; i < o->thread_n; i++)
        FW_TRY_OR(explain(dnnl_stream_create(&o->threads[i].stream, o->engine, dnnl_stream_default_flags),
                          "dnnl_stream_create"),
                  fail);
    void *set_num_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set_num_threads != NULL) fw_threads_run(threads, one_thread_each, &set_num_threads);
    *out = o;
    return FW_OK;
fail:
    fw_onednn_destroy(o);
    return status;
}

static void drop(product *p) {
    if (p->primitive != NULL) dnnl_primitive_destroy(p->primitive);
    if (p->a != NULL) dnnl_memory_destroy(p->a);
    if (p->b != NULL) dnnl_memory_destroy(p->b);
    if (p->bias != NULL) dnnl_memory_destroy(p->bias);
    if (p->c != NULL) dnnl_memory_destroy(p->c);
    memset(p, 0, sizeof *p);
}

void fw_onednn_destroy(fw_onednn *o) {
    if (o == NULL) return;
    for (int i = 0; o->threads != NULL && i < o->thread_n; i++) {
        for (int j = 0; j < KEPT; j++) drop(&o->threads[i].kept[j]);
        if (o->threads[i].stream != NULL) dnnl_stream_destroy(o->threads[i].stream);
    }
    if (o->engine != NULL) dnnl_engine_destroy(o->engine);
    fw_free(o->threads);
    fw_free(o);
}

/* ---- products ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout;
static dnnl_status_t set_layout(layout *out, const dnnl_dims_t size, dnnl_data_type_t type, const dnnl_dims_t stride) {
    return dnnl_memory_desc_create_with_strides(out, 2, size, type, stride);
}
static void forget(layout *l) {
    if (*l != NULL) dnnl_memory_desc_destroy(*l);
}
#define LAYOUT_IN(l) (l)
#else
typedef dnnl_memory_desc_t layout;
static dnnl_status_t set_layout(layout *out, const dnnl_dims_t size, dnnl_data_type_t type, const dnnl_dims_t stride) {
    return dnnl_memory_desc_init_by_strides(out, 2, size, type, stride);
}
static void forget(layout *l) { (void)l; }
#define LAYOUT_IN(l) (&(l))
#endif

typedef struct layouts {
    layout a, b, bias, c;
} layouts;

static fw_status describe(layout *out, int64_t rows, int64_t columns, fw_dtype t, int64_t row_stride, int64_t stride) {
    const dnnl_dims_t size = {rows, columns}, strides = {row_stride, stride};
    TRY_DNNL(set_layout(out, size, t == FW_BF16 ? dnnl_bf16 : dnnl_f32, strides));
    return FW_OK;
}
static fw_status describe_all(layouts *l, const product *p) {
    FW_TRY(describe(&l->a, p->M, p->K, FW_BF16, p->a_row, p->a_k));
    FW_TRY(describe(&l->b, p->K, p->N, FW_BF16, p->b_k, p->b_col));
    FW_TRY(describe(&l->bias, 1, p->N, FW_BF16, p->N, 1));
    FW_TRY(describe(&l->c, p->M, p->N, (fw_dtype)p->t_c, p->c_row, 1));
    return FW_OK;
}

static dnnl_status_t make_primitive(product *p, layouts *l, dnnl_engine_t engine) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post_ops = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t reason = dnnl_primitive_attr_create(&attr);
    if (reason == dnnl_success) reason = dnnl_post_ops_create(&post_ops);
#if DNNL_VERSION_MAJOR >= 3
    if (reason == dnnl_success && p->factor != 1)
        reason = dnnl_post_ops_append_eltwise(post_ops, dnnl_eltwise_linear, p->factor, 0);
    if (reason == dnnl_success && p->add) reason = dnnl_post_ops_append_sum(post_ops, 1, 0, dnnl_data_type_undef);
    if (reason == dnnl_success) reason = dnnl_primitive_attr_set_post_ops(attr, post_ops);
    if (reason == dnnl_success)
        reason = dnnl_matmul_primitive_desc_create(&description, engine, l->a, l->b, p->has_bias ? l->bias : NULL, l->c,
                                                   attr);
#else
    dnnl_matmul_desc_t matmul;
    if (reason == dnnl_success && p->factor != 1)
        reason = dnnl_post_ops_append_eltwise(post_ops, 1, dnnl_eltwise_linear, p->factor, 0);
    if (reason == dnnl_success && p->add) reason = dnnl_post_ops_append_sum(post_ops, 1);
    if (reason == dnnl_success) reason = dnnl_primitive_attr_set_post_ops(attr, post_ops);
    if (reason == dnnl_success)
        reason = dnnl_matmul_desc_init(&matmul, &l->a, &l->b, p->has_bias ? &l->bias : NULL, &l->c);
    if (reason == dnnl_success) reason = dnnl_primitive_desc_create(&description, &matmul, attr, engine, NULL);
#endif
    if (reason == dnnl_success) reason = dnnl_primitive_create(&p->primitive, description);
    if (description != NULL) dnnl_primitive_desc_destroy(description);
    if (post_ops != NULL) dnnl_post_ops_destroy(post_ops);
    if (attr != NULL) dnnl_primitive_attr_destroy(attr);
    return reason;
}

static fw_status make_memories(product *p, layouts *l, dnnl_engine_t engine) {
    TRY_DNNL(dnnl_memory_create(&p->a, LAYOUT_IN(l->a), engine, NULL));
    TRY_DNNL(dnnl_memory_create(&p->b, LAYOUT_IN(l->b), engine, NULL));
    TRY_DNNL(dnnl_memory_create(&p->c, LAYOUT_IN(l->c), engine, NULL));
    if (p->has_bias) TRY_DNNL(dnnl_memory_create(&p->bias, LAYOUT_IN(l->bias), engine, NULL));
    return FW_OK;
}

static fw_status find(product **out, fw_onednn *o, thread_state *t, const product *wanted) {
    const size_t key_bytes = offsetof(product, primitive);
    for (int i = 0; i < KEPT && t->kept[i].used; i++)
        if (memcmp(&t->kept[i], wanted, key_bytes) == 0) {
            *out = &t->kept[i];
            return FW_OK;
        }
    product *p = &t->kept[t->next];
    t->next = (t->next + 1) % KEPT;
    drop(p);
    memcpy(p, wanted, key_bytes);
    layouts l;
    memset(&l, 0, sizeof l);
    fw_status status = describe_all(&l, p);
    if (status == FW_OK) status = explain(make_primitive(p, &l, o->engine), "making a matrix product");
    if (status == FW_OK) status = make_memories(p, &l, o->engine);
    forget(&l.a), forget(&l.b), forget(&l.bias), forget(&l.c);
    if (status != FW_OK) p->M = -1; /* matches nothing */
    *out = p;
    return status;
}

static void *at(const void *x, int64_t element, fw_dtype t) {
    return (char *)(uintptr_t)x + (size_t)element * fw_dtype_bytes(t);
}

static fw_status multiply(fw_onednn *o, thread_state *t, const fw_cpu_gemm_args *g, int64_t m, int64_t m_last,
                          int64_t n, int64_t n_last) {
    product wanted;
    memset(&wanted, 0, sizeof wanted); /* compared as bytes */
    wanted.M = m_last - m, wanted.N = n_last - n, wanted.K = g->K;
    wanted.a_row = g->a_row, wanted.a_k = g->a_k, wanted.b_k = g->b_k, wanted.b_col = g->b_col, wanted.c_row = g->c_row;
    wanted.t_c = (int)g->t_c, wanted.add = g->add, wanted.has_bias = g->bias != NULL, wanted.used = 1;
    wanted.factor = g->factor;
    product *p;
    FW_TRY(find(&p, o, t, &wanted));
    TRY_DNNL(dnnl_memory_set_data_handle(p->a, at(g->a, m * g->a_row, g->t)));
    TRY_DNNL(dnnl_memory_set_data_handle(p->b, at(g->b, n * g->b_col, g->t)));
    TRY_DNNL(dnnl_memory_set_data_handle(p->c, at(g->c, m * g->c_row + n, g->t_c)));
    dnnl_exec_arg_t arguments[4] = {{DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
    int argument_n = 3;
    if (g->bias != NULL) {
        TRY_DNNL(dnnl_memory_set_data_handle(p->bias, at(g->bias, n, g->t)));
        arguments[argument_n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->bias};
    }
    TRY_DNNL(dnnl_primitive_execute(p->primitive, t->stream, argument_n, arguments));
    TRY_DNNL(dnnl_stream_wait(t->stream));
    return FW_OK;
}

void fw_onednn_gemm(fw_onednn *o, int thread, const fw_cpu_gemm_args *g, int64_t m_first, int64_t m_last,
                    int64_t n_first, int64_t n_last) {
    thread_state *t = &o->threads[thread];
    fw_status status = multiply(o, t, g, m_first, m_last, n_first, n_last);
    if (status == FW_OK || t->status != FW_OK) return;
    t->status = status;
    fw_trail_copy(&t->trail);
}

fw_status fw_onednn_status(fw_onednn *o) {
    for (int i = 0; i < o->thread_n; i++) {
        const fw_status status = o->threads[i].status;
        if (status == FW_OK) continue;
        fw_trail_restore(&o->threads[i].trail);
        o->threads[i].status = FW_OK;
        return status;
    }
    return FW_OK;
}
