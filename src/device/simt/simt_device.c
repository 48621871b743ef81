/* The backend of the emulation: host memory. Matrix products are the ref device's, since they are cuBLASLt's on a GPU and
 * no kernel of ours: fp64 sums rounded once, which is within any bound that holds for cuBLASLt. */
#include "device/simt/simt_device.h"

#include "base/alloc.h"
#include "device/cuda/cuda_ops.h"
#include "device/ref/ref_ops.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#define FW_SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FW_SIMT_ASAN 1
#endif
#endif
#ifdef FW_SIMT_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif

/* A few multiprocessors, so that kernels which walk over rows by the grid's size do walk. */
enum { ALIGNMENT = 256, SM_N = 3, ERROR_MEMORY = 2 };

/* The block that came from the allocator is remembered in the bytes before the aligned one. What is left of it before
 * and behind is closed to kernels, so that the address sanitizer sees the first byte outside. */
static int alloc_block(fw_cuda *d, void **out, size_t bytes) {
    (void)d;
    const size_t extra = ALIGNMENT + sizeof(void *);
    char *block;
    *out = NULL;
    if (bytes > SIZE_MAX - extra || fw_calloc((void **)&block, 1, bytes + extra) != FW_OK) return ERROR_MEMORY;
    char *aligned = block + sizeof(void *);
    aligned += (ALIGNMENT - (uintptr_t)aligned % ALIGNMENT) % ALIGNMENT;
    memcpy(aligned - sizeof(void *), &block, sizeof block);
    ASAN_POISON_MEMORY_REGION(block, (size_t)(aligned - block));
    ASAN_POISON_MEMORY_REGION(aligned + bytes, (size_t)(block + extra - aligned));
    *out = aligned;
    return 0;
}

static void free_block(fw_cuda *d, void *block) {
    (void)d;
    if (block == NULL) return;
    void *start;
    ASAN_UNPOISON_MEMORY_REGION((char *)block - sizeof(void *), sizeof start);
    memcpy(&start, (char *)block - sizeof(void *), sizeof start);
    fw_free(start);
}

static int copy(fw_cuda *d, void *y, const void *x, size_t bytes) {
    (void)d;
    memcpy(y, x, bytes);
    return 0;
}

static int zero(fw_cuda *d, void *x, size_t bytes) {
    (void)d;
    memset(x, 0, bytes);
    return 0;
}

static int synchronize(fw_cuda *d) {
    (void)d; /* a launch is over when it returns */
    return 0;
}

static fw_status matmul_forward(fw_cuda *d, void *y, const void *x, const void *w, const void *b, int64_t N, int64_t O,
                                int64_t I, fw_dtype t, fw_dtype t_y) {
    return fw_ref_matmul_forward(&d->base, y, x, w, b, N, O, I, t, t_y);
}
static fw_status matmul_backward_input(fw_cuda *d, void *dx, const void *dy, const void *w, int64_t N, int64_t O,
                                       int64_t I, fw_dtype t) {
    return fw_ref_matmul_backward_input(&d->base, dx, dy, w, N, O, I, t);
}
static fw_status matmul_backward_weight(fw_cuda *d, float *dw, const void *dy, const void *x, int64_t N, int64_t O,
                                        int64_t I, fw_dtype t) {
    return fw_ref_matmul_backward_weight(&d->base, dw, dy, x, N, O, I, t);
}

static fw_status lora_expand(fw_cuda *d, void *y, int64_t y_stride, const void *u, const void *b, float scale,
                             int64_t N, int64_t O, int64_t R, fw_dtype t) {
    return fw_ref_lora_expand(&d->base, y, y_stride, u, b, scale, N, O, R, t);
}
static fw_status lora_reduce(fw_cuda *d, void *du, const void *dy, int64_t dy_stride, const void *b, float scale,
                             int64_t N, int64_t O, int64_t R, fw_dtype t) {
    return fw_ref_lora_reduce(&d->base, du, dy, dy_stride, b, scale, N, O, R, t);
}
static fw_status lora_backward_b(fw_cuda *d, float *db, const void *dy, int64_t dy_stride, const void *u, float scale,
                                 int64_t N, int64_t O, int64_t R, fw_dtype t) {
    return fw_ref_lora_backward_b(&d->base, db, dy, dy_stride, u, scale, N, O, R, t);
}
static fw_status lora_backward_input(fw_cuda *d, void *dx, const void *du, const void *a, int64_t N, int64_t I,
                                     int64_t R, fw_dtype t) {
    return fw_ref_lora_backward_input(&d->base, dx, du, a, N, I, R, t);
}

static const char *error_text(int error) {
    return error == ERROR_MEMORY ? "out of memory" : "the launcher refuses these arguments";
}

static void destroy(fw_cuda *d) { fw_free(d); }

static const fw_cuda_backend backend = {
    .alloc = alloc_block,
    .free = free_block,
    .copy = copy,
    .zero = zero,
    .synchronize = synchronize,
    .matmul_forward = matmul_forward,
    .matmul_backward_input = matmul_backward_input,
    .matmul_backward_weight = matmul_backward_weight,
    .lora_expand = lora_expand,
    .lora_reduce = lora_reduce,
    .lora_backward_b = lora_backward_b,
    .lora_backward_input = lora_backward_input,
    .error_text = error_text,
    .destroy = destroy,
};

fw_status fw_device_create_simt(fw_device **out) {
    fw_cuda *d;
    *out = NULL;
    FW_TRY(FW_NEW(d));
    const fw_status status = fw_cuda_init(d, &backend, "simt", NULL, SM_N);
    if (status != FW_OK) {
        fw_free(d);
        return status;
    }
    snprintf(d->base.description, sizeof d->base.description,
             "simt: GPU kernels on the CPU, a fiber for each thread; products by ref");
    *out = &d->base;
    return FW_OK;
}
