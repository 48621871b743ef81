#include "train/token_buffers.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>

fw_status fw_token_buffers_init(fw_token_buffers *t, fw_device *device, void *memory, int64_t cap_n, bool keys,
                                uint64_t seed) {
    *t = (fw_token_buffers){.device = device, .cap_n = cap_n, .seed = seed};
    fw_status status;
    FW_TRY_OR(fw_batch_init(&t->host, cap_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->row, (size_t)cap_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->label, (size_t)cap_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->weight, (size_t)cap_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(t->loss_n, (size_t)cap_n), fail);
    int32_t **array[FW_MICRO_BATCH_ARRAYS] = {&t->id_N, &t->position_N, &t->first_N, &t->row_n, &t->label_n};
    for (int i = 0; i < FW_MICRO_BATCH_ARRAYS; i++)
        *array[i] = (int32_t *)((char *)memory + (size_t)i * fw_micro_batch_array_bytes(cap_n));
    if (!keys) return FW_OK;
    FW_TRY_OR(FW_NEW_ARRAY(t->key, (size_t)cap_n), fail);
    t->key_N = (uint64_t *)(void *)((char *)memory + fw_micro_batch_bytes(cap_n, false));
    return FW_OK;
fail:
    fw_token_buffers_fini(t);
    return status;
}

void fw_token_buffers_fini(fw_token_buffers *t) {
    if (t->device == NULL) return;
    fw_batch_fini(&t->host);
    fw_free(t->row);
    fw_free(t->label);
    fw_free(t->weight);
    fw_free(t->loss_n);
    fw_free(t->key);
    *t = (fw_token_buffers){0};
}

static fw_status upload_keys(fw_token_buffers *t, int64_t step) {
    const fw_batch *h = &t->host;
    for (int64_t i = 0; i < h->n; i++)
        t->key[i] = fw_rng_bits(t->seed, (uint64_t)step, (uint64_t)h->sample_N[i] << 32 | (uint32_t)h->position_N[i]);
    return fw_copy(t->device, t->key_N, t->key, (size_t)h->n * sizeof *t->key);
}

fw_status fw_token_buffers_upload(fw_token_buffers *t, int64_t step, fw_micro_batch *out) {
    const fw_batch *h = &t->host;
    int64_t n = 0;
    for (int64_t i = 0; i < h->n; i++) {
        if (h->target_N[i] < 0) continue;
        t->row[n] = (int32_t)i;
        t->label[n] = h->target_N[i];
        if (h->is_weighted) t->weight[n] = h->weight_N[i];
        n++;
    }
    size_t N_bytes = (size_t)h->n * sizeof(int32_t), n_bytes = (size_t)n * sizeof(int32_t);
    FW_TRY(fw_copy(t->device, t->id_N, h->id_N, N_bytes));
    FW_TRY(fw_copy(t->device, t->position_N, h->position_N, N_bytes));
    FW_TRY(fw_copy(t->device, t->first_N, h->first_N, N_bytes));
    FW_TRY(fw_copy(t->device, t->row_n, t->row, n_bytes));
    FW_TRY(fw_copy(t->device, t->label_n, t->label, n_bytes));
    *out = (fw_micro_batch){.N = h->n,
                            .id_N = t->id_N,
                            .position_N = t->position_N,
                            .first_N = t->first_N,
                            .n = n,
                            .row_n = t->row_n,
                            .label_n = t->label_n,
                            .weight_n = h->is_weighted ? t->weight : NULL};
    if (t->key == NULL || step == 0) return FW_OK;
    out->key_N = t->key_N;
    return upload_keys(t, step);
}

fw_status fw_token_buffers_add_losses(fw_token_buffers *t, fw_loss_sum *sum, const float *loss_n,
                                      const fw_loss_weight *weight_n, int64_t n) {
    FW_TRY(fw_copy(t->device, t->loss_n, loss_n, (size_t)n * sizeof(float)));
    for (int64_t i = 0; i < n; i++) {
        const fw_loss_weight weight = weight_n != NULL ? weight_n[i] : FW_LOSS_WEIGHT_ONE;
        const double loss = (double)t->loss_n[i] * fw_loss_weight_value(weight);
        if (isfinite(loss) && loss < 1e9)
            sum->fixed += llrint(loss * 0x1p24);
        else
            sum->not_finite++;
        sum->weight += weight;
    }
    sum->target_n += n;
    return FW_OK;
}

double fw_loss_mean(const fw_loss_sum *sum) {
    if (sum->not_finite > 0 || sum->weight == 0) return NAN;
    return (double)sum->fixed * 0x1p-24 / fw_loss_weight_value(sum->weight);
}
