/* A graph of cuDNN's backend descriptors, built line by line. Every function takes what the last ones gave; after the first
 * failure nothing more is done, and fw_cudnn_graph_finish tells of it. Tensors have four dimensions. */
#ifndef FW_DEVICE_CUDA_CUDNN_CUDNN_GRAPH_H
#define FW_DEVICE_CUDA_CUDNN_CUDNN_GRAPH_H

#include "device/cuda/cudnn/cudnn_api.h"

#include <stdint.h>

enum { FW_CUDNN_DESCRIPTORS_MAX = 160, FW_CUDNN_OPERATIONS_MAX = 40 };

typedef cudnnBackendDescriptor_t fw_cudnn_descriptor;

typedef struct fw_cudnn_graph {
    const fw_cudnn *api;
    fw_cudnn_descriptor made[FW_CUDNN_DESCRIPTORS_MAX]; /* in the order they were made */
    int made_n;
    fw_cudnn_descriptor operation[FW_CUDNN_OPERATIONS_MAX];
    int operation_n;
    int64_t virtual_n;       /* tensors between operations: they get numbers of their own */
    fw_cudnn_descriptor all; /* the operation graph, once finished */
    fw_status status;
} fw_cudnn_graph;

typedef struct fw_cudnn_shape {
    int64_t dim[4], stride[4]; /* elements */
} fw_cudnn_shape;
/* Without gaps, the last dimension fastest. */
fw_cudnn_shape fw_cudnn_packed(int64_t a, int64_t b, int64_t c, int64_t d);

void fw_cudnn_graph_init(fw_cudnn_graph *g, const fw_cudnn *api);
void fw_cudnn_graph_fini(fw_cudnn_graph *g);
/* A descriptor that lives as long as the graph; NULL after a failure. */
fw_cudnn_descriptor fw_cudnn_make(fw_cudnn_graph *g, cudnnBackendDescriptorType_t type);
void fw_cudnn_set(fw_cudnn_graph *g, fw_cudnn_descriptor d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t n, const void *values);
void fw_cudnn_set_descriptor(fw_cudnn_graph *g, fw_cudnn_descriptor d, cudnnBackendAttributeName_t name,
                             fw_cudnn_descriptor value);
void fw_cudnn_finalize(fw_cudnn_graph *g, fw_cudnn_descriptor d, const char *what);

/* Memory of the caller, known by its number (> 0) when the graph runs. ragged: NULL, or a tensor of b + 1 offsets in
 * elements: batch i begins at its i-th one and the batch stride counts for nothing. */
fw_cudnn_descriptor fw_cudnn_tensor(fw_cudnn_graph *g, int64_t number, fw_cudnn_shape shape, cudnnDataType_t type,
                                    fw_cudnn_descriptor ragged);
/* One number on the host. */
fw_cudnn_descriptor fw_cudnn_scalar(fw_cudnn_graph *g, int64_t number, cudnnDataType_t type);
/* A result that only the next operations see. */
fw_cudnn_descriptor fw_cudnn_virtual(fw_cudnn_graph *g, fw_cudnn_shape shape, cudnnDataType_t type,
                                     fw_cudnn_descriptor ragged);

/* y = mode(x, b); b NULL for one operand. BINARY_SELECT: y = chosen ? x : b. axis: GEN_INDEX only, else -1. */
void fw_cudnn_pointwise(fw_cudnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                        fw_cudnn_descriptor x, fw_cudnn_descriptor b, fw_cudnn_descriptor chosen,
                        fw_cudnn_descriptor y);
/* Over the dimensions where y has 1. */
void fw_cudnn_reduce(fw_cudnn_graph *g, cudnnReduceTensorOp_t how, fw_cudnn_descriptor x, fw_cudnn_descriptor y);
/* c = a b for each of the first two dimensions; m, n, k: NULL, or tensors of b lengths that count instead of the
 * dimensions'. padding: give 0 beyond them. */
typedef struct fw_cudnn_lengths {
    fw_cudnn_descriptor m, n, k;
    int padding;
} fw_cudnn_lengths;
void fw_cudnn_multiply(fw_cudnn_graph *g, fw_cudnn_descriptor a, fw_cudnn_descriptor b, fw_cudnn_descriptor c,
                       fw_cudnn_lengths lengths);
/* The same elements in another shape. */
void fw_cudnn_reshape(fw_cudnn_graph *g, fw_cudnn_descriptor x, fw_cudnn_descriptor y);

/* Makes g->all of the operations. The status of the first failure, if there was one. */
fw_status fw_cudnn_graph_finish(fw_cudnn_graph *g);

#endif
