/* The cpu device: creation, memory, scratch, and the split of work over threads. */
#include "base/alloc.h"
#include "base/host.h"
#include "device/cpu/cpu.h"
#include "device/device_kinds.h"

#include <stdio.h>

enum { ALIGNMENT = 64, PIECE_WORK = 1 << 14, PAGE = 4096 };

/* ---- memory ---- */

/* Memory that is read first, such as sums, would otherwise get its pages twice: the shared zero page by the read, and a
 * page of its own by the write, with all threads interrupted in between. */
typedef struct page_block {
    char *base;
    size_t bytes;
} page_block;
static void take_part(void *context, int index, int thread_n) {
    const page_block *b = context;
    int64_t first, last;
    fw_threads_split(&first, &last, (int64_t)b->bytes, PAGE, index, thread_n);
    fw_host_take_pages(b->base + first, (size_t)(last - first));
}
static void take_pages(fw_device *d, void *block, size_t bytes) {
    page_block b = {block, bytes};
    fw_threads_run(d->threads, take_part, &b);
}

/* The block that came from the allocator is remembered in the bytes before the aligned one. Huge pages are not asked
 * for: measured side by side, steps were as fast without them, and on a virtual machine they took several times as long
 * to be cleared. */
static fw_status alloc_block(fw_device *d, void **out, size_t bytes, int lazy) {
    const size_t extra = ALIGNMENT + sizeof(void *);
    if (bytes > SIZE_MAX - extra) return fw_fail(FW_ERR_NOMEM, "%zu bytes are more than an address can hold", bytes);
    char *block;
    FW_TRY(fw_calloc((void **)&block, 1, bytes + extra));
    char *aligned = block + sizeof(void *);
    aligned += (ALIGNMENT - (uintptr_t)aligned % ALIGNMENT) % ALIGNMENT;
    memcpy(aligned - sizeof(void *), &block, sizeof block);
    if (!lazy) take_pages(d, aligned, bytes);
    *out = aligned;
    return FW_OK;
}

static void free_block(fw_device *d, void *block, size_t bytes) {
    (void)d;
    (void)bytes;
    if (block == NULL) return;
    void *start;
    memcpy(&start, (char *)block - sizeof(void *), sizeof start);
    fw_free(start);
}

/* ---- scratch ---- */

static size_t scratch_bytes(const fw_cpu *d, size_t n) {
    return n * sizeof(float) * (size_t)fw_threads_n(d->base.threads);
}

static fw_status set_scratch(fw_cpu *d, size_t n) {
    void *block = NULL; /* for gcc 14, which does not see that it is set */
    const size_t bytes = scratch_bytes(d, n);
    fw_status status = alloc_block(&d->base, &block, bytes, 0);
    if (status != FW_OK) return fw_fail_context(status, "scratch of the cpu device (%zu bytes): ", bytes);
    free_block(&d->base, d->scratch, 0);
    d->scratch = block;
    d->scratch_n = n;
    return FW_OK;
}

fw_status fw_cpu_need(fw_cpu *d, size_t n) {
    if (n <= d->scratch_n) return FW_OK;
    FW_TRY(fw_device_check_frozen(&d->base, "scratch of an operation", scratch_bytes(d, n)));
    const size_t before = scratch_bytes(d, d->scratch_n);
    FW_TRY(set_scratch(d, (n + 15) / 16 * 16));
    d->base.allocated_bytes += scratch_bytes(d, d->scratch_n) - before;
    if (d->base.allocated_bytes > d->base.peak_bytes) d->base.peak_bytes = d->base.allocated_bytes;
    return FW_OK;
}

static fw_status reserve(fw_device *base, const fw_device_limits *limits, int dry, size_t *bytes) {
    fw_cpu *d = (fw_cpu *)base;
    const size_t thread_n = (size_t)fw_threads_n(base->threads);
    size_t n = fw_cpu_matmul_scratch_n(d, limits);
    const size_t attention = fw_cpu_attention_scratch_n(d, limits->N, limits->H, limits->D);
    const size_t norm = (FW_CPU_NORM_BLOCKS * (size_t)limits->matmul_dim + thread_n - 1) / thread_n;
    n = attention > n ? attention : n;
    n = norm > n ? norm : n;
    n = (n + 15) / 16 * 16;
    const size_t before = scratch_bytes(d, d->scratch_n);
    if (n < d->scratch_n) n = d->scratch_n;
    *bytes = scratch_bytes(d, n) - before;
    return dry || n == d->scratch_n ? FW_OK : set_scratch(d, n);
}

/* ---- threads ---- */

typedef struct split_call {
    int64_t total, grain;
    fw_cpu_range_fn fn;
    void *context;
} split_call;

static void run_part(void *context, int index, int thread_n) {
    const split_call *call = context;
    int64_t first, last;
    fw_threads_split(&first, &last, call->total, call->grain, index, thread_n);
    if (first < last) call->fn(call->context, first, last, index);
}

void fw_cpu_split(fw_cpu *d, int64_t total, int64_t grain, int64_t work, fw_cpu_range_fn fn, void *context) {
    if (total <= 0) return;
    if (fw_threads_n(d->base.threads) == 1 || work < PIECE_WORK || total <= grain) {
        fn(context, 0, total, 0);
        return;
    }
    split_call call = {total, grain, fn, context};
    fw_threads_run(d->base.threads, run_part, &call);
}

/* ---- creation ---- */

static void destroy(fw_device *base) {
    fw_cpu *d = (fw_cpu *)base;
    fw_onednn_destroy(d->onednn);
    free_block(base, d->scratch, 0);
    fw_free(d);
}

static const fw_device_ops cpu_ops = {
#define FW_OP(name, parameters, arguments) .name = fw_cpu_##name,
#include "device/ops.def"
#undef FW_OP
    .alloc = alloc_block,
    .free = free_block,
    .take_pages = take_pages,
    .reserve = reserve,
    .destroy = destroy,
};

/* oneDNN has bf16 products for some CPUs only (x86-64 from AVX-512 on, newer arm64): ask for a small one. */
static fw_status try_onednn(fw_cpu *d) {
    const fw_bf16 x[64] = {0};
    float y[64];
    fw_status status = d->base.ops->matmul_forward(&d->base, y, x, x, NULL, 8, 8, 8, FW_BF16, FW_F32);
    if (status == FW_ERR_INTERNAL)
        return fw_fail(FW_ERR_OPTION, "oneDNN %s has no bf16 products for this CPU", fw_onednn_version());
    return status;
}

fw_status fw_device_create_cpu_as(fw_device **out, fw_threads *threads, const char *variant, fw_cpu_products products) {
    *out = NULL;
    const fw_cpu_kernels *kernels = fw_cpu_variant(variant);
    if (kernels == NULL) return fw_fail(FW_ERR_OPTION, "this CPU does not run the kernel variant %s", variant);
    /* Without AMX, a bf16 dot product instruction does half the multiplications a cycle that fp32 FMA does
     * on the CPUs measured (Sapphire and Emerald Rapids), so widening is both exact and faster. */
    const int with_onednn =
        products == FW_CPU_PRODUCTS_ONEDNN || (products == FW_CPU_PRODUCTS_BEST && fw_onednn_has_amx());
    fw_cpu *d;
    FW_TRY(FW_NEW(d));
    d->base.ops = &cpu_ops;
    d->base.name = "cpu";
    d->base.on_host = 1;
    d->base.threads = threads;
    d->kernels = kernels;
    if (with_onednn) {
        fw_status status = fw_onednn_create(&d->onednn, threads);
        if (status == FW_OK) status = try_onednn(d);
        if (status != FW_OK) {
            destroy(&d->base);
            return status;
        }
    }
    char how[64] = "bf16 products widened to fp32";
    if (with_onednn)
        snprintf(how, sizeof how, "bf16 products by oneDNN %s%s", fw_onednn_version(),
                 fw_onednn_has_amx() ? " on AMX" : "");
    const int thread_n = fw_threads_n(threads);
    snprintf(d->base.description, sizeof d->base.description, "cpu: %s, %s, %d thread%s", fw_cpu_variant_title(kernels),
             how, thread_n, thread_n == 1 ? "" : "s");
    *out = &d->base;
    return FW_OK;
}

fw_status fw_device_create_cpu(fw_device **out, fw_threads *threads) {
    return fw_device_create_cpu_as(out, threads, NULL, FW_CPU_PRODUCTS_BEST);
}
