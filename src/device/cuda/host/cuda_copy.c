/* Copies between host and GPU. What lies in ordinary memory goes through pinned buffers: the driver would do the same, but
 * with buffers and waits of its own. */
#include "device/cuda/host/cuda_host.h"

#include <string.h>

#define TRY_CUDA(call)                                                                                                 \
    do {                                                                                                               \
        cudaError_t try_error_ = (call);                                                                               \
        if (try_error_ != cudaSuccess) return (int)try_error_;                                                         \
    } while (0)

enum place { PAGEABLE, PINNED, ON_GPU };

static int place_of(enum place *out, const void *p) {
    struct cudaPointerAttributes about;
    TRY_CUDA(cudaPointerGetAttributes(&about, p));
    *out = about.type == cudaMemoryTypeDevice || about.type == cudaMemoryTypeManaged ? ON_GPU
           : about.type == cudaMemoryTypeHost                                        ? PINNED
                                                                                     : PAGEABLE;
    return 0;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* What fits into one buffer stays on the compute stream: nothing to overlap, and one wait less. */
static int copy_small(fw_cuda_host *d, void *y, const void *x, size_t bytes, int to_gpu) {
    if (to_gpu) memcpy(d->stage[0], x, bytes);
    TRY_CUDA(cudaMemcpyAsync(to_gpu ? y : d->stage[0], to_gpu ? d->stage[0] : x, bytes, cudaMemcpyDefault, d->compute));
    TRY_CUDA(cudaStreamSynchronize(d->compute));
    if (!to_gpu) memcpy(y, d->stage[0], bytes);
    return 0;
}

/* The buffers in turn: one is filled while the other is on its way. */
static int copy_to_gpu(fw_cuda_host *d, char *y, const char *x, size_t bytes) {
    size_t chunk_n = (bytes + FW_CUDA_STAGE_BYTES - 1) / FW_CUDA_STAGE_BYTES;
    for (size_t i = 0; i < chunk_n; i++) {
        const size_t k = i % FW_CUDA_STAGE_N, at = i * FW_CUDA_STAGE_BYTES;
        const size_t now = least(bytes - at, FW_CUDA_STAGE_BYTES);
        if (i >= FW_CUDA_STAGE_N) TRY_CUDA(cudaEventSynchronize(d->copy_done[k]));
        memcpy(d->stage[k], x + at, now);
        TRY_CUDA(cudaMemcpyAsync(y + at, d->stage[k], now, cudaMemcpyHostToDevice, d->copy));
        TRY_CUDA(cudaEventRecord(d->copy_done[k], d->copy));
    }
    return 0;
}

/* Chunk i is taken out of its buffer when chunk i + 1 is on its way into the other one. */
static int copy_from_gpu(fw_cuda_host *d, char *y, const char *x, size_t bytes) {
    size_t chunk_n = (bytes + FW_CUDA_STAGE_BYTES - 1) / FW_CUDA_STAGE_BYTES;
    for (size_t i = 0; i <= chunk_n; i++) {
        if (i < chunk_n) {
            const size_t k = i % FW_CUDA_STAGE_N, at = i * FW_CUDA_STAGE_BYTES;
            TRY_CUDA(cudaMemcpyAsync(d->stage[k], x + at, least(bytes - at, FW_CUDA_STAGE_BYTES),
                                     cudaMemcpyDeviceToHost, d->copy));
            TRY_CUDA(cudaEventRecord(d->copy_done[k], d->copy));
        }
        if (i > 0) {
            const size_t k = (i - 1) % FW_CUDA_STAGE_N, at = (i - 1) * FW_CUDA_STAGE_BYTES;
            TRY_CUDA(cudaEventSynchronize(d->copy_done[k]));
            memcpy(y + at, d->stage[k], least(bytes - at, FW_CUDA_STAGE_BYTES));
        }
    }
    return 0;
}

int fw_cuda_copy(fw_cuda *base, void *y, const void *x, size_t bytes) {
    fw_cuda_host *d = fw_cuda_host_of(base);
    enum place to, from;
    if (place_of(&to, y) != 0 || place_of(&from, x) != 0) return (int)cudaGetLastError();
    if (to == ON_GPU && from == PAGEABLE && bytes <= FW_CUDA_STAGE_BYTES) return copy_small(d, y, x, bytes, 1);
    if (from == ON_GPU && to == PAGEABLE && bytes <= FW_CUDA_STAGE_BYTES) return copy_small(d, y, x, bytes, 0);
    if (to != ON_GPU && from != ON_GPU) {
        TRY_CUDA(cudaStreamSynchronize(d->compute));
        memmove(y, x, bytes);
        return 0;
    }
    if (to != PAGEABLE && from != PAGEABLE) {
        TRY_CUDA(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDefault, d->compute));
        return (int)cudaStreamSynchronize(d->compute);
    }
    /* Operations issued before may still use y or write x. */
    TRY_CUDA(cudaEventRecord(d->compute_done, d->compute));
    TRY_CUDA(cudaStreamWaitEvent(d->copy, d->compute_done, 0));
    int error = to == ON_GPU ? copy_to_gpu(d, y, x, bytes) : copy_from_gpu(d, y, x, bytes);
    int end = (int)cudaStreamSynchronize(d->copy);
    return error != 0 ? error : end;
}
