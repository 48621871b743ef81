/* What the files of operations share: their names, and checks of the shapes that launchers rely on. */
#ifndef FW_DEVICE_CUDA_CUDA_CHECK_H
#define FW_DEVICE_CUDA_CUDA_CHECK_H

#include "device/cuda/cuda_ops.h"

/* The operations, fw_cuda_op_NAME for every NAME in device/ops.def. */
#define FW_CUDA_OP_PARAMETERS(...) (fw_device * d, __VA_ARGS__)
#define FW_OP(name, parameters, arguments) fw_status fw_cuda_op_##name FW_CUDA_OP_PARAMETERS parameters;
#include "device/ops.def"
#undef FW_OP
#undef FW_CUDA_OP_PARAMETERS

fw_status fw_cuda_bad_shape(const fw_device *d, const char *op, const char *what, int64_t a, int64_t b);

#define CHECK(condition, op, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) return fw_cuda_bad_shape(d, op, __VA_ARGS__);                                                \
    } while (0)
#define CHECK_TYPE(op, t) CHECK((t) == FW_F32 || (t) == FW_BF16, op, "the type (fw_dtype)", (int64_t)(t), 0)
#define CHECK_ROWS(op, N, C) CHECK((N) >= 0 && (C) > 0, op, "rows, columns", N, C)
#define CHECK_STRIDE(op, stride, row) CHECK((stride) >= (row), op, "stride, row", stride, row)

static inline fw_cuda *fw_cuda_of(fw_device *d) { return (fw_cuda *)d; }
static inline fw_status fw_cuda_launched(fw_device *d, const char *op, int error) {
    return error == 0 ? FW_OK : fw_cuda_status(fw_cuda_of(d), op, error);
}
/* Scratch that an operation needs for its own shape. */
fw_status fw_cuda_need_for(fw_device *d, const char *op, size_t (*bytes_of)(const fw_cuda_limits *),
                           fw_cuda_limits limits);

#endif
