/* Creation of the cuda device: which GPU, its streams, memory. */
#include "base/alloc.h"
#include "device/cuda/host/cuda_host.h"
#ifdef FW_HAS_CUDNN
#include "device/cuda/cudnn/cudnn_library.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels are loaded when they are first used, and that takes memory: not to be planned away. */
static const size_t spare_bytes = (size_t)256 << 20;

/* ---- the backend ---- */

static int alloc(fw_cuda *base, void **out, size_t bytes) {
    fw_cuda_host *d = fw_cuda_host_of(base);
    if (bytes == 0) bytes = 1;
    cudaError_t error = cudaMalloc(out, bytes);
    if (error == cudaSuccess) error = cudaMemsetAsync(*out, 0, bytes, d->compute);
    if (error != cudaSuccess) cudaGetLastError(); /* it is told; later calls start afresh */
    return (int)error;
}

static void release(fw_cuda *base, void *block) {
    if (block == NULL) return;
    cudaStreamSynchronize(fw_cuda_host_of(base)->compute);
    cudaFree(block);
}

static int zero(fw_cuda *base, void *x, size_t bytes) {
    return (int)cudaMemsetAsync(x, 0, bytes, fw_cuda_host_of(base)->compute);
}

static int synchronize(fw_cuda *base) { return (int)cudaStreamSynchronize(fw_cuda_host_of(base)->compute); }

static const char *error_text(int error) { return cudaGetErrorString((cudaError_t)error); }

static void destroy(fw_cuda *base) {
    fw_cuda_host *d = fw_cuda_host_of(base);
    fw_cuda_products_fini(d);
    for (int i = 0; i < FW_CUDA_STAGE_N; i++) {
        if (d->stage[i] != NULL) cudaFreeHost(d->stage[i]);
        if (d->copy_done[i] != NULL) cudaEventDestroy(d->copy_done[i]);
    }
    if (d->compute_done != NULL) cudaEventDestroy(d->compute_done);
    if (d->copy != NULL) cudaStreamDestroy(d->copy);
    if (d->comm != NULL) cudaStreamDestroy(d->comm);
    if (d->compute != NULL) cudaStreamDestroy(d->compute);
    fw_free(d);
}

static const fw_cuda_backend backend = {.alloc = alloc,
                                        .free = release,
                                        .copy = fw_cuda_copy,
                                        .zero = zero,
                                        .synchronize = synchronize,
                                        .matmul_forward = fw_cuda_matmul_forward,
                                        .matmul_backward_input = fw_cuda_matmul_backward_input,
                                        .matmul_backward_weight = fw_cuda_matmul_backward_weight,
                                        .lora_expand = fw_cuda_lora_expand,
                                        .lora_reduce = fw_cuda_lora_reduce,
                                        .lora_backward_b = fw_cuda_lora_backward_b,
                                        .lora_backward_input = fw_cuda_lora_backward_input,
                                        .error_text = error_text,
                                        .destroy = destroy};

static fw_status memory(fw_device *base, uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t available = 0, all = 0;
    FW_TRY(fw_cuda_status((fw_cuda *)(void *)base, "free memory", (int)cudaMemGetInfo(&available, &all)));
    *free_bytes = available > spare_bytes ? available - spare_bytes : 0;
    *total_bytes = all;
    return FW_OK;
}

/* ---- creation ---- */

fw_status fw_cuda_count(int *gpu_n) {
    *gpu_n = 0;
    cudaError_t error = cudaGetDeviceCount(gpu_n);
    if (error == cudaSuccess || error == cudaErrorNoDevice) return FW_OK;
    cudaGetLastError();
    return fw_fail(FW_ERR_OPTION,
                   "the NVIDIA driver does not work: %s (error %d); look at nvidia-smi, or use --device "
                   "cpu",
                   cudaGetErrorString(error), (int)error);
}

/* Machine code for X.Y runs on X.Z, Z >= Y. */
static fw_status check_architecture(const char *name, int major, int minor) {
    for (const char *p = FW_CUDA_ARCHITECTURES; *p != 0;) {
        const int built = atoi(p);
        if (built / 10 == major && built % 10 <= minor) return FW_OK;
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    return fw_fail(FW_ERR_OPTION,
                   "%s is of architecture %d%d, and the plugin was built for %s; build it with make cuda "
                   "CUDA_ARCHITECTURES=%d%d, or use --device cpu",
                   name, major, minor, FW_CUDA_ARCHITECTURES, major, minor);
}

static int make_streams(fw_cuda_host *d) {
    int lowest, highest;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&d->compute, cudaStreamNonBlocking, lowest);
    if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&d->comm, cudaStreamNonBlocking, highest);
    if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&d->copy, cudaStreamNonBlocking, lowest);
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&d->compute_done, cudaEventDisableTiming);
    for (int i = 0; i < FW_CUDA_STAGE_N && error == cudaSuccess; i++) {
        error = cudaEventCreateWithFlags(&d->copy_done[i], cudaEventDisableTiming);
        if (error == cudaSuccess)
            error = cudaHostAlloc((void **)&d->stage[i], FW_CUDA_STAGE_BYTES, cudaHostAllocDefault);
    }
    return (int)error;
}

/* What may compute attention beside the kernels; the choice comes with the limits. */
static fw_status add_library(fw_cuda_host *d, int sm) {
#ifdef FW_HAS_CUDNN
    return fw_cudnn_library_create(&d->base, d->gpu.index, sm, NULL);
#else
    (void)sm;
    snprintf(d->base.no_library, sizeof d->base.no_library, "the plugin was built without cuDNN's headers");
    return FW_OK;
#endif
}

static fw_status open_gpu(fw_cuda_host *d, const fw_device_place *place) {
    struct cudaDeviceProp about;
    FW_TRY(fw_cuda_count(&d->gpu.gpu_n));
    if (d->gpu.gpu_n == 0) return fw_fail(FW_ERR_OPTION, "the NVIDIA driver shows no GPU; use --device cpu");
    /* Ranks that come to share a GPU in this way find out when they meet (fw_comm_use_device). */
    d->gpu.index = place->local_rank % d->gpu.gpu_n;
    FW_TRY(fw_cuda_status(&d->base, "properties of the GPU", (int)cudaGetDeviceProperties(&about, d->gpu.index)));
    snprintf(d->gpu.name, sizeof d->gpu.name, "%.63s", about.name);
    for (size_t i = 0; i < sizeof about.uuid.bytes; i++)
        snprintf(d->gpu.id + 2 * i, 3, "%02x", (unsigned char)about.uuid.bytes[i]);
    if (cudaDeviceGetPCIBusId(d->gpu.pci_id, (int)sizeof d->gpu.pci_id, d->gpu.index) != cudaSuccess)
        d->gpu.pci_id[0] = 0; /* only for messages */
    FW_TRY(check_architecture(d->gpu.name, about.major, about.minor));
    FW_TRY(fw_cuda_status(&d->base, "context on the GPU", (int)cudaSetDevice(d->gpu.index)));
    FW_TRY(fw_cuda_status(&d->base, "streams and pinned memory", make_streams(d)));
    FW_TRY(fw_cuda_products_init(d));
    FW_TRY(fw_cuda_init(&d->base, &backend, "cuda", d->compute, about.multiProcessorCount));
    FW_TRY(add_library(d, 10 * about.major + about.minor));
    d->gpu.compute_stream = d->compute;
    d->gpu.comm_stream = d->comm;
    const size_t lt = cublasLtGetVersion();
    snprintf(d->base.base.description, sizeof d->base.base.description,
             "cuda: GPU %d of %d, %s (sm_%d%d, %.1f GiB), CUDA %d.%d, products by cuBLASLt %zu.%zu", d->gpu.index,
             d->gpu.gpu_n, d->gpu.name, about.major, about.minor, (double)about.totalGlobalMem / 1073741824.0,
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, lt / 10000, lt / 100 % 100);
    return FW_OK;
}

fw_status fw_cuda_create(fw_device **out, fw_threads *threads, const fw_device_place *place) {
    fw_cuda_host *d;
    *out = NULL;
    FW_TRY(FW_NEW(d));
    d->base.backend = &backend; /* for messages, from the first call on */
    d->base.base.name = "cuda";
    fw_status status = open_gpu(d, place);
    if (status != FW_OK) {
        if (d->base.library != NULL) d->base.library->destroy(d->base.library);
        fw_free(d->base.partial);
        destroy(&d->base);
        return status;
    }
    d->ops = *d->base.base.ops;
    d->ops.memory = memory;
    d->base.base.ops = &d->ops;
    d->base.base.threads = threads;
    d->base.base.gpu = &d->gpu;
    *out = &d->base.base;
    return FW_OK;
}
