#include "measure/gemm.h"

#include "measure/repeat.h"

typedef struct product {
    fw_device *device;
    int64_t size;
    fw_dtype t;
    void *x, *w, *y; /* dy is y, dx is x */
    float *dw;
} product;

static fw_status forward(void *context) {
    const product *p = context;
    return fw_matmul_forward(p->device, p->y, p->x, p->w, NULL, p->size, p->size, p->size, p->t, p->t);
}

static fw_status backward_input(void *context) {
    const product *p = context;
    return fw_matmul_backward_input(p->device, p->x, p->y, p->w, p->size, p->size, p->size, p->t);
}

static fw_status backward_weight(void *context) {
    const product *p = context;
    return fw_matmul_backward_weight(p->device, p->dw, p->y, p->x, p->size, p->size, p->size, p->t);
}

static fw_status settle(void *context) {
    const product *p = context;
    char first[4];
    return fw_copy(p->device, first, p->dw, sizeof first);
}

/* All of `to`, size x size: small values of both signs, whose products neither grow nor become subnormal. */
static fw_status fill(const product *p, void *to, float scale) {
    enum { STEP_N = 4096 };
    float values[STEP_N];
    fw_bf16 half[STEP_N];
    const int64_t n = p->size * p->size;
    for (int i = 0; i < STEP_N; i++) {
        values[i] = scale * (float)(i * 37 % 101 - 50) / 50;
        half[i] = fw_bf16_from_f32(values[i]);
    }
    for (int64_t at = 0; at < n; at += STEP_N) {
        const size_t now = (size_t)(n - at < STEP_N ? n - at : STEP_N) * fw_dtype_bytes(p->t);
        FW_TRY(fw_copy(p->device, (char *)to + (size_t)at * fw_dtype_bytes(p->t),
                       p->t == FW_F32 ? (void *)values : half, now));
    }
    return FW_OK;
}

static fw_status take(product *p) {
    const size_t n = (size_t)(p->size * p->size), bytes = n * fw_dtype_bytes(p->t);
    const fw_device_limits limits = {.N = p->size, .matmul_dim = p->size, .H = 1, .K = 1, .D = 64};
    FW_TRY(fw_device_reserve(p->device, &limits));
    FW_TRY(fw_device_alloc(p->device, &p->x, bytes, "a matrix"));
    FW_TRY(fw_device_alloc(p->device, &p->w, bytes, "a matrix"));
    FW_TRY(fw_device_alloc(p->device, &p->y, bytes, "a matrix"));
    FW_TRY(fw_device_alloc(p->device, (void **)&p->dw, n * sizeof *p->dw, "a matrix"));
    FW_TRY(fill(p, p->x, 1));
    FW_TRY(fill(p, p->w, 1 / (float)p->size));
    return fill(p, p->y, 1);
}

static void release(product *p) {
    const size_t n = (size_t)(p->size * p->size), bytes = n * fw_dtype_bytes(p->t);
    fw_device_free(p->device, p->x, bytes);
    fw_device_free(p->device, p->w, bytes);
    fw_device_free(p->device, p->y, bytes);
    fw_device_free(p->device, p->dw, n * sizeof *p->dw);
}

static fw_status measure(fw_comm *comm, bool (*stop)(void), product *p, fw_gemm_row *row) {
    fw_repeat repeat = {.comm = comm, .stop = stop, .settle = p->device->on_host ? NULL : settle, .context = p};
    FW_TRY(fw_comm_agree(comm, take(p)));
    repeat.work = backward_weight;
    FW_TRY(fw_repeat_time(&repeat, &row->weight_s));
    repeat.work = forward;
    FW_TRY(fw_repeat_time(&repeat, &row->forward_s));
    repeat.work = backward_input;
    return fw_repeat_time(&repeat, &row->input_s);
}

fw_status fw_gemm_measure(fw_comm *comm, fw_device *device, int64_t most_bytes, bool (*stop)(void),
                          void (*show)(void *context, const fw_gemm_row *row), void *context) {
    static const fw_dtype types[] = {FW_F32, FW_BF16};
    const int64_t most = device->on_host ? 2048 : 8192;
    for (int k = 0; k < 2; k++)
        for (int64_t size = 256; size <= most; size *= 2) {
            if (size > 256 && size * size * (int64_t)fw_dtype_bytes(types[k]) > most_bytes) break;
            product p = {.device = device, .size = size, .t = types[k]};
            fw_gemm_row row = {.size = size, .dtype = types[k]};
            fw_status status = measure(comm, stop, &p, &row);
            release(&p);
            FW_TRY(status);
            show(context, &row);
        }
    return FW_OK;
}
