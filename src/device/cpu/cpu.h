/* Inside the cpu device: its state, and what its files share.
 *
 * Every operation splits its rows over the pool's threads and calls a kernel of the chosen variant
 * (kernels/cpu_kernels.h) on each range. Ranges never change a result: the order of every sum depends on
 * the shape alone, so equal calls give equal bits on any number of threads. */
#ifndef FW_DEVICE_CPU_CPU_H
#define FW_DEVICE_CPU_CPU_H

#include "device/cpu/cpu_onednn.h"
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/device.h"

typedef enum fw_cpu_products {
    FW_CPU_PRODUCTS_BEST, /* what this CPU does fastest */
    FW_CPU_PRODUCTS_OWN,  /* bf16 widened to fp32, kernels/cpu_gemm.c */
    FW_CPU_PRODUCTS_ONEDNN,
} fw_cpu_products;

enum { FW_CPU_SUM_BLOCKS = 1024 };

typedef struct fw_cpu {
    fw_device base;
    const fw_cpu_kernels *kernels;
    fw_onednn *onednn; /* NULL: bf16 products by our own kernels */
    float *scratch;    /* one part per thread */
    size_t scratch_n;  /* floats of a part */
    double sum_blocks[FW_CPU_SUM_BLOCKS];
} fw_cpu;

/* For tests and benchmarks: a named variant ("base", "avx2", "avx512"; NULL: the best) and a choice of products.
 * Errors: FW_ERR_OPTION when this CPU does not run the variant, or oneDNN has no bf16 products for it. */
fw_status fw_device_create_cpu_as(fw_device **out, fw_threads *threads, const char *variant, fw_cpu_products products);

/* The best variant this CPU runs; or the named one, NULL when it does not run. */
const fw_cpu_kernels *fw_cpu_variant(const char *name);
/* "AVX-512", "AVX2", "NEON", ...: for people. */
const char *fw_cpu_variant_title(const fw_cpu_kernels *kernels);

/* Runs fn(context, first, last, thread) over 0..total in multiples of grain; `work` (about the number of
 * elements touched) decides whether waking the pool is worth it. */
typedef void (*fw_cpu_range_fn)(void *context, int64_t first, int64_t last, int thread);
void fw_cpu_split(fw_cpu *d, int64_t total, int64_t grain, int64_t work, fw_cpu_range_fn fn, void *context);

/* Scratch of a thread; fw_cpu_need makes sure of `n` floats each: reserve did that for planned shapes, so it
 * grows only before fw_device_freeze. Errors: FW_ERR_FIT afterwards, FW_ERR_NOMEM. */
fw_status fw_cpu_need(fw_cpu *d, size_t n);
static inline float *fw_cpu_scratch(const fw_cpu *d, int thread) { return d->scratch + d->scratch_n * (size_t)thread; }
/* One product with all threads: cpu_matmul.c. Errors: FW_ERR_FIT, FW_ERR_NOMEM (scratch); FW_ERR_INTERNAL (oneDNN). */
fw_status fw_cpu_multiply(fw_device *d, const fw_cpu_gemm_args *g);
size_t fw_cpu_matmul_scratch_n(const fw_cpu *d, const fw_device_limits *limits);
size_t fw_cpu_attention_scratch_n(const fw_cpu *d, int64_t N, int64_t H, int64_t D);
enum { FW_CPU_NORM_BLOCKS = 32 }; /* partial sums of rmsnorm_backward, over all threads' scratch */

#define FW_CPU_PARAMETERS(...) (fw_device * d, __VA_ARGS__)
#define FW_OP(name, parameters, arguments) fw_status fw_cpu_##name FW_CPU_PARAMETERS parameters;
#include "device/ops.def"
#undef FW_OP
#undef FW_CPU_PARAMETERS

#endif
