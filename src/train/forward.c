#include "train/forward.h"

static fw_status upload(fw_job *job, const int32_t *id, int64_t n, int64_t position, int64_t logit_n,
                        fw_micro_batch *b) {
    fw_batch *host = &job->tokens.host;
    host->n = n;
    for (int64_t i = 0; i < n; i++) {
        host->id_N[i] = id[i];
        host->position_N[i] = (int32_t)(position + i);
        host->first_N[i] = 0;
        host->target_N[i] = i >= n - logit_n ? 0 : -1; /* marks the rows whose logits are wanted */
    }
    return fw_token_buffers_upload(&job->tokens, 0, b);
}

fw_status fw_forward(fw_job *job, const int32_t *id, int64_t n, const fw_forward_cache *cache, int64_t logit_n,
                     float *logits) {
    fw_micro_batch b;
    FW_TRY(upload(job, id, n, cache->length, logit_n, &b));
    const fw_units units = fw_job_units(job);
    fw_unit_weights w;
    FW_TRY(fw_units_begin(&units, FW_SHARD_PASS_FORWARD, false));
    FW_TRY(fw_units_acquire(&units, 0, FW_SHARD_FORWARD, false, &w));
    FW_TRY(fw_edge_embed(&job->model, job->device, &w, &job->activations, &b));
    FW_TRY(fw_units_release(&units, 0, FW_SHARD_FORWARD));
    for (int32_t l = 0; l < job->model.config.L; l++) {
        fw_block_cache block = {.kv = cache->kv + (size_t)l * cache->block_bytes, .length = cache->length};
        FW_TRY(fw_units_acquire(&units, 1 + l, FW_SHARD_FORWARD, false, &w));
        FW_TRY(fw_block_forward(&job->model, job->device, l, &w, &job->activations, &b,
                                cache->kv != NULL ? &block : NULL));
        FW_TRY(fw_units_release(&units, 1 + l, FW_SHARD_FORWARD));
    }
    FW_TRY(fw_units_acquire(&units, 0, FW_SHARD_LOSS, false, &w));
    FW_TRY(fw_edge_logits(&job->model, job->device, &w, &job->activations, b.row_n, logit_n, logits));
    return fw_units_release(&units, 0, FW_SHARD_LOSS);
}
