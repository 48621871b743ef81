/* The operations of adapters, and of weights in 4 bits. */
#include "device/cuda/cuda_check.h"

static fw_status check_thin(fw_device *d, const char *op, int64_t N, int64_t O, int64_t R, int64_t stride, fw_dtype t) {
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, O);
    CHECK_ROWS(op, N, R);
    CHECK_STRIDE(op, stride, O);
    return FW_OK;
}

fw_status fw_cuda_op_lora_expand(fw_device *d, void *y, int64_t y_stride, const void *u, const void *b, float scale,
                                 int64_t N, int64_t O, int64_t R, fw_dtype t) {
    FW_TRY(check_thin(d, "lora_expand", N, O, R, y_stride, t));
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->lora_expand(fw_cuda_of(d), y, y_stride, u, b, scale, N, O, R, t);
}

fw_status fw_cuda_op_lora_reduce(fw_device *d, void *du, const void *dy, int64_t dy_stride, const void *b, float scale,
                                 int64_t N, int64_t O, int64_t R, fw_dtype t) {
    FW_TRY(check_thin(d, "lora_reduce", N, O, R, dy_stride, t));
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->lora_reduce(fw_cuda_of(d), du, dy, dy_stride, b, scale, N, O, R, t);
}

fw_status fw_cuda_op_lora_backward_b(fw_device *d, float *db, const void *dy, int64_t dy_stride, const void *u,
                                     float scale, int64_t N, int64_t O, int64_t R, fw_dtype t) {
    FW_TRY(check_thin(d, "lora_backward_b", N, O, R, dy_stride, t));
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->lora_backward_b(fw_cuda_of(d), db, dy, dy_stride, u, scale, N, O, R, t);
}

fw_status fw_cuda_op_lora_backward_input(fw_device *d, void *dx, const void *du, const void *a, int64_t N, int64_t I,
                                         int64_t R, fw_dtype t) {
    FW_TRY(check_thin(d, "lora_backward_input", N, I, R, I, t));
    if (N == 0) return FW_OK;
    return fw_cuda_of(d)->backend->lora_backward_input(fw_cuda_of(d), dx, du, a, N, I, R, t);
}

fw_status fw_cuda_op_dropout(fw_device *d, void *y, const void *x, int add, const uint64_t *key, uint64_t salt, float p,
                             int64_t N, int64_t C, fw_dtype t) {
    static const char op[] = "dropout";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, C);
    CHECK(p >= 0 && p < 1, op, "the probability (in 1/1000)", (int64_t)((double)p * 1000), 0);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_dropout(&fw_cuda_of(d)->launch, y, x, add, key, salt, p, N, C, t));
}

fw_status fw_cuda_op_dora_norm(fw_device *d, float *norm, const void *w, const void *a, const void *b, float scale,
                               int64_t O, int64_t I, int64_t R, fw_dtype t) {
    static const char op[] = "dora_norm";
    CHECK_TYPE(op, t);
    CHECK(O > 0 && I > 0, op, "outputs, inputs", O, I);
    CHECK(R > 0, op, "the rank", R, 0);
    return fw_cuda_launched(d, op, fw_cuda_dora_norm(&fw_cuda_of(d)->launch, norm, w, a, b, scale, O, I, R, t));
}

fw_status fw_cuda_op_dora_scale(fw_device *d, void *y, int64_t y_stride, float keep, const void *x, int64_t x_stride,
                                float factor, const void *m, const float *norm, const void *b, int64_t N, int64_t O,
                                fw_dtype t) {
    static const char op[] = "dora_scale";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, O);
    CHECK_STRIDE(op, y_stride, O);
    CHECK_STRIDE(op, x_stride, O);
    CHECK((m == NULL) == (norm == NULL), op, "one of magnitude and norm", m != NULL, norm != NULL);
    if (N == 0) return FW_OK;
    return fw_cuda_launched(
        d, op, fw_cuda_dora_scale(&fw_cuda_of(d)->launch, y, y_stride, keep, x, x_stride, factor, m, norm, b, N, O, t));
}

fw_status fw_cuda_op_dora_backward_m(fw_device *d, float *dm, const void *dy, int64_t dy_stride, const void *z,
                                     int64_t z_stride, const float *norm, int64_t N, int64_t O, fw_dtype t) {
    static const char op[] = "dora_backward_m";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, N, O);
    CHECK_STRIDE(op, dy_stride, O);
    CHECK_STRIDE(op, z_stride, O);
    if (N == 0) return FW_OK;
    FW_TRY(fw_cuda_need_for(d, op, fw_cuda_scratch_dora_backward_m, (fw_cuda_limits){.N = N, .dim = O}));
    return fw_cuda_launched(
        d, op, fw_cuda_dora_backward_m(&fw_cuda_of(d)->launch, dm, dy, dy_stride, z, z_stride, norm, N, O, t));
}

fw_status fw_cuda_op_unpack_4bit(fw_device *d, void *y, const uint8_t *code, const float *map_16,
                                 const fw_quant_scales *scales, int64_t n, fw_dtype t) {
    static const char op[] = "unpack_4bit";
    CHECK_TYPE(op, t);
    CHECK_ROWS(op, n, 1);
    CHECK(scales->block > 0 && scales->block % 2 == 0, op, "the block, which must be even,", scales->block, 0);
    if (n == 0) return FW_OK;
    return fw_cuda_launched(d, op, fw_cuda_unpack_4bit(&fw_cuda_of(d)->launch, y, code, map_16, scales, n, t));
}
