/* Attention of a cuda device by cuDNN, as a library of cuda_ops.h.
 *
 * What is chosen, at fw_device_reserve, for the one shape that the limits name (a run has one): forward by cuDNN where it
 * has an engine; backward by cuDNN where it has one with equal bits (cudnn_plan.h); else by the own kernels, which take
 * the same statistics. With FW_ATTENTION_AUTO only on architectures 9.0 and 10.x, whose newer tensor cores the own
 * kernels do not use, and not where packing would leave cuDNN with blocks of threads that mostly have nothing to do (it
 * starts them for every document as if it were the longest). FW_ATTENTION_CUDNN: on any GPU that has an engine for
 * forward, and an error elsewhere. Calls of another shape, type or q_offset are the own kernels'. */
#ifndef FW_DEVICE_CUDA_CUDNN_CUDNN_LIBRARY_H
#define FW_DEVICE_CUDA_CUDNN_CUDNN_LIBRARY_H

#include "device/cuda/cuda_ops.h"
#include "device/cuda/cudnn/cudnn_plan.h"

/* How the library is found and asked about the GPU: for tests. */
typedef fw_status (*fw_cudnn_opener)(fw_cudnn *api, fw_cudnn_target *target, int gpu, int sm);
/* Sets d->library, which belongs to d. cuDNN is loaded (`open` NULL: as fw_cudnn_open does) when a choice needs it. gpu: the
 * number of the GPU in this process; sm: 90 for architecture 9.0. */
fw_status fw_cudnn_library_create(fw_cuda *d, int gpu, int sm, fw_cudnn_opener open);

#endif
