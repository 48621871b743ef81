/* The vtable of a device that runs the kernels of cuda_kernels.h, without the memory and the matrix products: those are
 * a backend's. Two backends share it: NVIDIA GPUs, and the emulation on the CPU (device/simt), so what is tested there is
 * what runs on a GPU but for the backend.
 *
 * Each operation checks the shapes that a launcher relies on, sees to scratch memory, launches, and turns what the
 * runtime answers into a status: FW_ERR_FIT when memory runs out, FW_ERR_INTERNAL for a launch that no GPU takes,
 * FW_ERR_RANK for anything else (a GPU that fails takes its rank with it). Messages name device and operation. */
#ifndef FW_DEVICE_CUDA_CUDA_OPS_H
#define FW_DEVICE_CUDA_CUDA_OPS_H

#include "device/cuda/cuda_kernels.h"
#include "device/device.h"

typedef struct fw_cuda fw_cuda;

/* Functions that return int give a cudaError_t; 0 is success. All work of a device is in order on one stream. */
typedef struct fw_cuda_backend {
    int (*alloc)(fw_cuda *d, void **out, size_t bytes);            /* 256-byte aligned, zeroed */
    void (*free)(fw_cuda *d, void *block);                         /* waits for work that may use it; takes NULL */
    int (*copy)(fw_cuda *d, void *y, const void *x, size_t bytes); /* any of host and device; done when it returns */
    int (*zero)(fw_cuda *d, void *x, size_t bytes);                /* device memory, in stream order */
    int (*synchronize)(fw_cuda *d);                                /* also tells of errors of work before */
    /* As in device/device.h, shapes checked and none of the sizes 0. */
    fw_status (*matmul_forward)(fw_cuda *d, void *y_NO, const void *x_NI, const void *w_OI, const void *b_O, int64_t N,
                                int64_t O, int64_t I, fw_dtype t, fw_dtype t_y);
    fw_status (*matmul_backward_input)(fw_cuda *d, void *dx_NI, const void *dy_NO, const void *w_OI, int64_t N,
                                       int64_t O, int64_t I, fw_dtype t);
    fw_status (*matmul_backward_weight)(fw_cuda *d, float *dw_OI, const void *dy_NO, const void *x_NI, int64_t N,
                                        int64_t O, int64_t I, fw_dtype t);
    fw_status (*lora_expand)(fw_cuda *d, void *y, int64_t y_stride, const void *u_NR, const void *b_OR, float scale,
                             int64_t N, int64_t O, int64_t R, fw_dtype t);
    fw_status (*lora_reduce)(fw_cuda *d, void *du_NR, const void *dy, int64_t dy_stride, const void *b_OR, float scale,
                             int64_t N, int64_t O, int64_t R, fw_dtype t);
    fw_status (*lora_backward_b)(fw_cuda *d, float *db_OR, const void *dy, int64_t dy_stride, const void *u_NR,
                                 float scale, int64_t N, int64_t O, int64_t R, fw_dtype t);
    fw_status (*lora_backward_input)(fw_cuda *d, void *dx_NI, const void *du_NR, const void *a_RI, int64_t N, int64_t I,
                                     int64_t R, fw_dtype t);
    const char *(*error_text)(int error);
    void (*destroy)(fw_cuda *d); /* what the backend made, and d itself; d may be half made */
} fw_cuda_backend;

/* A call of attention as in device/device.h; backward has d_o. */
typedef struct fw_cuda_attention_call {
    const void *q, *k, *v;
    int64_t q_stride, k_stride, v_stride;
    const int32_t *first_N;
    int64_t N, q_offset, H, K, D;
    float scale;
    fw_dtype t;
    void *o; /* forward writes, backward reads: also lse, which forward may lack */
    float *lse;
    const void *d_o;
    void *dq, *dk, *dv;
    int64_t dq_stride, dkv_stride;
} fw_cuda_attention_call;

/* A library that computes attention instead of the kernels, where it was chosen for. */
typedef struct fw_cuda_library fw_cuda_library;
struct fw_cuda_library {
    /* Chooses for the limits, sets d->base.attention, and tells what it takes of the scratch. Error: FW_ERR_OPTION. */
    fw_status (*choose)(fw_cuda_library *l, fw_cuda *d, const fw_device_limits *limits, size_t *scratch_bytes);
    /* *taken 0: not its call, nothing was done. */
    fw_status (*attend)(fw_cuda_library *l, fw_cuda *d, const char *op, const fw_cuda_attention_call *call, int *taken);
    void (*destroy)(fw_cuda_library *l);
};

/* The first member of a backend's own struct. */
struct fw_cuda {
    fw_device base;
    const fw_cuda_backend *backend;
    fw_cuda_launch launch;    /* stream and sm_n are the backend's; scratch is kept here */
    double *partial;          /* host: parts of a sum of squares on their way */
    fw_cuda_library *library; /* owned; NULL: there is none, and no_library says why */
    char no_library[160];
};

/* Fills in everything of *d but base.description, which stays the backend's. *d is zeroed, with room for `stream`
 * known. On an error the caller destroys what it made; after success base.ops->destroy (fw_device_destroy) does all. */
fw_status fw_cuda_init(fw_cuda *d, const fw_cuda_backend *backend, const char *name, void *stream, int sm_n);
/* Scratch of so many bytes for one operation, at d->launch.scratch. After fw_device_reserve with limits that hold there is
 * nothing left to do; else it grows, which is refused once memory is frozen: FW_ERR_FIT. */
fw_status fw_cuda_need(fw_cuda *d, const char *op, size_t bytes);
/* The status of a cudaError_t with a message: "cuda: rmsnorm_forward: an illegal memory access ..."; FW_OK for 0. */
fw_status fw_cuda_status(const fw_cuda *d, const char *what, int error);

#endif
