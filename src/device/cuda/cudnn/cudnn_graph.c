#include "device/cuda/cudnn/cudnn_graph.h"

#include <stdbool.h>

fw_cudnn_shape fw_cudnn_packed(int64_t a, int64_t b, int64_t c, int64_t d) {
    return (fw_cudnn_shape){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

void fw_cudnn_graph_init(fw_cudnn_graph *g, const fw_cudnn *api) { *g = (fw_cudnn_graph){.api = api}; }

void fw_cudnn_graph_fini(fw_cudnn_graph *g) {
    while (g->made_n > 0) g->api->BackendDestroyDescriptor(g->made[--g->made_n]);
}

static void note(fw_cudnn_graph *g, const char *what, cudnnStatus_t answer) {
    if (g->status == FW_OK) g->status = fw_cudnn_status(g->api, what, answer);
}

fw_cudnn_descriptor fw_cudnn_make(fw_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    fw_cudnn_descriptor d = NULL;
    if (g->status != FW_OK) return NULL;
    FW_ASSERT(g->made_n < FW_CUDNN_DESCRIPTORS_MAX);
    note(g, "a descriptor", g->api->BackendCreateDescriptor(type, &d));
    if (g->status != FW_OK) return NULL;
    g->made[g->made_n++] = d;
    return d;
}

void fw_cudnn_set(fw_cudnn_graph *g, fw_cudnn_descriptor d, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, int64_t n, const void *values) {
    if (g->status != FW_OK) return;
    const cudnnStatus_t answer = g->api->BackendSetAttribute(d, name, type, n, values);
    if (answer == CUDNN_STATUS_SUCCESS) return;
    note(g, "an attribute", answer);
    g->status = fw_fail_context(g->status, "attribute %d: ", (int)name);
}

void fw_cudnn_set_descriptor(fw_cudnn_graph *g, fw_cudnn_descriptor d, cudnnBackendAttributeName_t name,
                             fw_cudnn_descriptor value) {
    fw_cudnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void fw_cudnn_finalize(fw_cudnn_graph *g, fw_cudnn_descriptor d, const char *what) {
    if (g->status == FW_OK) note(g, what, g->api->BackendFinalize(d));
}

/* ---- tensors */

enum { FIRST_VIRTUAL = 1000, ALIGNMENT = 16 };

static fw_cudnn_descriptor tensor(fw_cudnn_graph *g, int64_t number, const fw_cudnn_shape *shape, cudnnDataType_t type,
                                  fw_cudnn_descriptor ragged, bool is_virtual, bool by_value) {
    const int64_t alignment = ALIGNMENT;
    fw_cudnn_descriptor t = fw_cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->dim);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    fw_cudnn_set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    if (ragged != NULL) fw_cudnn_set_descriptor(g, t, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, ragged);
    fw_cudnn_finalize(g, t, "a tensor");
    return t;
}

fw_cudnn_descriptor fw_cudnn_tensor(fw_cudnn_graph *g, int64_t number, fw_cudnn_shape shape, cudnnDataType_t type,
                                    fw_cudnn_descriptor ragged) {
    return tensor(g, number, &shape, type, ragged, false, false);
}

fw_cudnn_descriptor fw_cudnn_scalar(fw_cudnn_graph *g, int64_t number, cudnnDataType_t type) {
    const fw_cudnn_shape one = fw_cudnn_packed(1, 1, 1, 1);
    return tensor(g, number, &one, type, NULL, false, true);
}

fw_cudnn_descriptor fw_cudnn_virtual(fw_cudnn_graph *g, fw_cudnn_shape shape, cudnnDataType_t type,
                                     fw_cudnn_descriptor ragged) {
    return tensor(g, FIRST_VIRTUAL + g->virtual_n++, &shape, type, ragged, true, false);
}

/* ---- operations */

static fw_cudnn_descriptor operation(fw_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    fw_cudnn_descriptor op = fw_cudnn_make(g, type);
    FW_ASSERT(g->operation_n < FW_CUDNN_OPERATIONS_MAX);
    if (op != NULL) g->operation[g->operation_n++] = op;
    return op;
}

static void set_optional(fw_cudnn_graph *g, fw_cudnn_descriptor op, cudnnBackendAttributeName_t name,
                         fw_cudnn_descriptor value) {
    if (value != NULL) fw_cudnn_set_descriptor(g, op, name, value);
}

void fw_cudnn_pointwise(fw_cudnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                        fw_cudnn_descriptor x, fw_cudnn_descriptor b, fw_cudnn_descriptor chosen,
                        fw_cudnn_descriptor y) {
    fw_cudnn_descriptor how = fw_cudnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    fw_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    fw_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis >= 0) fw_cudnn_set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    fw_cudnn_finalize(g, how, "a pointwise operation's mode");
    fw_cudnn_descriptor op = operation(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_optional(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_optional(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, chosen);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    fw_cudnn_finalize(g, op, "a pointwise operation");
}

void fw_cudnn_reduce(fw_cudnn_graph *g, cudnnReduceTensorOp_t how, fw_cudnn_descriptor x, fw_cudnn_descriptor y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    fw_cudnn_descriptor mode = fw_cudnn_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    fw_cudnn_set(g, mode, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    fw_cudnn_set(g, mode, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    fw_cudnn_finalize(g, mode, "a reduction's mode");
    fw_cudnn_descriptor op = operation(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, mode);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    fw_cudnn_finalize(g, op, "a reduction");
}

void fw_cudnn_multiply(fw_cudnn_graph *g, fw_cudnn_descriptor a, fw_cudnn_descriptor b, fw_cudnn_descriptor c,
                       fw_cudnn_lengths lengths) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const double padding = 0;
    fw_cudnn_descriptor how = fw_cudnn_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    fw_cudnn_set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (lengths.padding) fw_cudnn_set(g, how, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &padding);
    fw_cudnn_finalize(g, how, "a product's mode");
    fw_cudnn_descriptor op = operation(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_optional(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.m);
    set_optional(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.n);
    set_optional(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.k);
    fw_cudnn_finalize(g, op, "a product");
}

void fw_cudnn_reshape(fw_cudnn_graph *g, fw_cudnn_descriptor x, fw_cudnn_descriptor y) {
    fw_cudnn_descriptor op = operation(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    fw_cudnn_set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    fw_cudnn_finalize(g, op, "a change of shape");
}

fw_status fw_cudnn_graph_finish(fw_cudnn_graph *g) {
    fw_cudnn_descriptor all = fw_cudnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    fw_cudnn_set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operation_n, g->operation);
    fw_cudnn_finalize(g, all, "the graph");
    g->all = all;
    return g->status;
}
