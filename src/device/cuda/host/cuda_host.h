/* The cuda device's host side: a backend of cuda_ops.h on the CUDA runtime and cuBLASLt. C17; in the plugin only.
 *
 * One GPU a process, and one context: cudaSetDevice comes before anything that would make a context on GPU 0. Three
 * streams: operations in order on `compute`; collectives on `comm`, which has priority (comm/nccl); large copies between
 * host and GPU on `copy`, through two pinned buffers in turn, so that the processor and the GPU work at the same time. */
#ifndef FW_DEVICE_CUDA_HOST_CUDA_HOST_H
#define FW_DEVICE_CUDA_HOST_CUDA_HOST_H

#include "device/cuda/cuda_ops.h"
#include "device/gpu.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

enum { FW_CUDA_STAGE_N = 2, FW_CUDA_STAGE_BYTES = 8 << 20, FW_CUDA_WORKSPACE_BYTES = 32 << 20 };

/* A product's shape and everything else that the choice of its algorithm depends on. */
typedef struct fw_cuda_product {
    uint64_t m, n, k;          /* column-major, as cuBLASLt counts: D[m, n] = op(A) op(B) */
    uint64_t ld_a, ld_b, ld_d; /* from column to column; 0: what the shape has */
    int32_t transpose_a, transpose_b;
    int32_t type_ab, type_d;            /* cudaDataType_t */
    int32_t accumulate, with_bias;      /* D += ...; D = ... + bias of length m */
    uint32_t align_a, align_b, align_d; /* bytes, a power of two up to 256 */
    uint32_t unused;
} fw_cuda_product;

/* An algorithm, chosen once by cuBLASLt's heuristic and kept: equal shapes give equal bits for as long as the run
 * lasts. */
typedef struct fw_cuda_choice {
    fw_cuda_product product;
    int used;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
} fw_cuda_choice;

enum { FW_CUDA_CHOICE_N = 1024 }; /* a power of two; when three quarters are used it starts anew */

typedef struct fw_cuda_host {
    fw_cuda base;
    fw_device_ops ops; /* those of cuda_ops.c and `memory` */
    fw_gpu gpu;
    cudaStream_t compute, comm, copy;
    cudaEvent_t compute_done, copy_done[FW_CUDA_STAGE_N];
    char *stage[FW_CUDA_STAGE_N]; /* pinned */
    cublasLtHandle_t cublas;
    void *workspace;
    fw_cuda_choice *choice;
    int choice_n;
} fw_cuda_host;

static inline fw_cuda_host *fw_cuda_host_of(fw_cuda *d) { return (fw_cuda_host *)(void *)d; }

/* Products: cuda_products.c. */
fw_status fw_cuda_products_init(fw_cuda_host *d);
void fw_cuda_products_fini(fw_cuda_host *d);
fw_status fw_cuda_matmul_forward(fw_cuda *d, void *y_NO, const void *x_NI, const void *w_OI, const void *b_O, int64_t N,
                                 int64_t O, int64_t I, fw_dtype t, fw_dtype t_y);
fw_status fw_cuda_matmul_backward_input(fw_cuda *d, void *dx_NI, const void *dy_NO, const void *w_OI, int64_t N,
                                        int64_t O, int64_t I, fw_dtype t);
fw_status fw_cuda_matmul_backward_weight(fw_cuda *d, float *dw_OI, const void *dy_NO, const void *x_NI, int64_t N,
                                         int64_t O, int64_t I, fw_dtype t);
fw_status fw_cuda_lora_expand(fw_cuda *d, void *y, int64_t y_stride, const void *u_NR, const void *b_OR, float scale,
                              int64_t N, int64_t O, int64_t R, fw_dtype t);
fw_status fw_cuda_lora_reduce(fw_cuda *d, void *du_NR, const void *dy, int64_t dy_stride, const void *b_OR, float scale,
                              int64_t N, int64_t O, int64_t R, fw_dtype t);
fw_status fw_cuda_lora_backward_b(fw_cuda *d, float *db_OR, const void *dy, int64_t dy_stride, const void *u_NR,
                                  float scale, int64_t N, int64_t O, int64_t R, fw_dtype t);
fw_status fw_cuda_lora_backward_input(fw_cuda *d, void *dx_NI, const void *du_NR, const void *a_RI, int64_t N,
                                      int64_t I, int64_t R, fw_dtype t);

/* Copies between any of host and device; done when it returns: cuda_copy.c. Returns a cudaError_t. */
int fw_cuda_copy(fw_cuda *d, void *y, const void *x, size_t bytes);

/* Device creation: cuda_device.c. */
fw_status fw_cuda_create(fw_device **out, fw_threads *threads, const fw_device_place *place);
fw_status fw_cuda_count(int *gpu_n);

#endif
