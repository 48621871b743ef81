#include "support/model_lab.h"

#include "base/alloc.h"
#include "base/file.h"
#include "shard/rank_memory.h"
#include "support/tiny_model.h"
#include "train/adapter_start.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const float *fw_test_lab_reference(const fw_test_lab *lab, const char *name, int64_t *n) {
    const fw_stored_tensor *t = fw_safetensors_find(&lab->reference, name);
    if (t == NULL) return NULL;
    if (n != NULL) *n = t->n;
    return (const float *)(const void *)(lab->reference.mapping.data + t->offset_bytes);
}

static const int32_t *reference_ints(const fw_test_lab *lab, const char *name, int64_t *n) {
    return (const int32_t *)(const void *)fw_test_lab_reference(lab, name, n);
}

/* With the weights that the options want. */
static fw_status add(fw_test_lab *lab, int64_t s, const int32_t *id, uint8_t *trained, int32_t n) {
    fw_loss_weight weight[64];
    for (int32_t i = 0; i < n && lab->options.weight != NULL; i++) {
        weight[i] = lab->options.weight(s, i);
        trained[i] = trained[i] && weight[i] > 0;
    }
    return fw_dataset_add_weighted(lab->dataset, id, trained, lab->options.weight != NULL ? weight : NULL, n, 1, s + 1);
}

/* A document of n tokens, all but the first of which are learnt. */
static fw_status add_document(fw_test_lab *lab, int64_t s, int32_t n) {
    int32_t id[64];
    uint8_t trained[64];
    FW_ASSERT(n <= 64);
    for (int32_t i = 0; i < n; i++) {
        id[i] = (int32_t)((37 * s + 11 * i * i + 3) % lab->model.config.V);
        trained[i] = i > 0;
    }
    return add(lab, s, id, trained, n);
}

static fw_status add_reference_documents(fw_test_lab *lab) {
    int64_t sample_n, token_n, at = 0;
    const int32_t *id = reference_ints(lab, "tokens", &token_n), *target = reference_ints(lab, "is_target", NULL);
    const int32_t *length = reference_ints(lab, "document_lengths", &sample_n);
    int64_t first = lab->options.sample_first, last = lab->options.sample_n ? first + lab->options.sample_n : sample_n;
    for (int64_t s = 0; s < sample_n; at += length[s], s++) {
        uint8_t trained[64];
        FW_ASSERT(length[s] <= 64 && at + length[s] <= token_n);
        for (int32_t i = 0; i < length[s]; i++) trained[i] = (uint8_t)target[at + i];
        if (s >= first && s < last) FW_TRY(add(lab, s, id + at, trained, length[s]));
    }
    return FW_OK;
}

static fw_status load_documents(fw_test_lab *lab) {
    fw_dataset_options options = {.vocab_size = lab->model.config.V};
    FW_TRY(fw_dataset_create(&lab->dataset, "documents of a test", &options));
    if (lab->options.lengths == NULL) FW_TRY(add_reference_documents(lab));
    for (int64_t s = 0; lab->options.lengths != NULL && s < lab->options.sample_n; s++)
        FW_TRY(add_document(lab, s, lab->options.lengths[s]));
    FW_TRY(fw_dataset_finish(lab->dataset));
    fw_batcher_options order = {.micro = lab->options.micro,
                                .accumulation = lab->options.accumulation,
                                .world = fw_comm_world(lab->comm),
                                .max_length = lab->options.pack_length,
                                .packing = lab->options.pack_length > 0,
                                .shuffle = lab->options.shuffle,
                                .data_seed = 42};
    return fw_batcher_create(&lab->batcher, lab->dataset, &order);
}

/* Two labs of one process, and the ranks of one world, each write a folder of their own; it is mapped, so it can go
 * as soon as it is open. */
static fw_status open_model(fw_test_lab *lab) {
    static atomic_int count;
    char dir[64];
    snprintf(dir, sizeof dir, "/tmp/fw_lab_%d_%d", (int)getpid(), atomic_fetch_add(&count, 1));
    fw_model_config config;
    fw_status status;
    FW_TRY_OR(fw_test_write_model(dir, lab->options.shape != NULL ? lab->options.shape : lab->options.variant, 0),
              done);
    FW_TRY_OR(fw_model_config_load(&config, dir), done);
    if (lab->options.untie) config.tied = false;
    FW_TRY_OR(fw_model_init_adapted(&lab->model, &config, lab->options.t, lab->options.adapter), done);
    FW_TRY_OR(fw_model_folder_open(&lab->folder, dir), done);
    if (!lab->options.untie) FW_TRY_OR(fw_model_folder_check(&lab->folder, &lab->model.table, &config), done);
    if (lab->options.packed == NULL) goto done;
    FW_TRY_OR(fw_packed_table_init(&lab->packed, &lab->model.frozen, lab->options.packed, NULL, lab->options.t), done);
    fw_packed_weights_init(&lab->packed_weights, &lab->folder, &lab->packed);
done:
    fw_dir_remove(dir);
    return status;
}

static fw_status read_unit(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    fw_test_lab *lab = context;
    const fw_param_table *table = &lab->model.table;
    if (!lab->options.untie) return fw_model_folder_read(&lab->folder, table, unit, first_n, n, out);
    memset(out, 0, (size_t)n * sizeof *out);
    for (int32_t p = table->unit_first[unit]; p < table->unit_first[unit + 1]; p++) {
        const fw_param *param = &table->param[p];
        const char *name = strcmp(param->name, "lm_head.weight") == 0 ? "model.embed_tokens.weight" : param->name;
        for (int64_t i = 0; i < param->n; i++) {
            int64_t at = param->offset_n + i - first_n;
            if (at >= 0 && at < n) out[at] = fw_test_weight(name, i);
        }
    }
    return FW_OK;
}

static fw_status read_frozen(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    fw_test_lab *lab = context;
    return fw_model_folder_read(&lab->folder, &lab->model.frozen, unit, first_n, n, out);
}

static fw_status load_trained(fw_test_lab *lab) {
    fw_adapter_start start = {.model = &lab->model,
                              .folder = &lab->folder,
                              .packed = lab->options.packed != NULL ? &lab->packed_weights : NULL,
                              .seed = 42};
    if (!lab->model.adapted) return fw_shard_load(lab->shard, FW_SHARD_WEIGHT, read_unit, lab);
    return fw_shard_load(lab->shard, FW_SHARD_WEIGHT, fw_adapter_read_start, &start);
}

static fw_status take_memory(fw_test_lab *lab) {
    int64_t N = fw_batcher_max_tokens(lab->batcher);
    const fw_packed_table *packed = lab->options.packed != NULL ? &lab->packed : NULL;
    fw_plan_input input = {.model = &lab->model,
                           .packed = packed,
                           .activations = {.mode = lab->options.mode,
                                           .recompute_every = lab->options.recompute_every,
                                           .N_max = N,
                                           .n_max = N,
                                           .chunk_n = lab->options.chunk_n ? lab->options.chunk_n : N,
                                           .P = 64,
                                           .document_n = fw_batcher_max_documents(lab->batcher),
                                           .longest_n = 64,
                                           .attention = lab->options.attention},
                           .shard = lab->options.shard,
                           .world = fw_comm_world(lab->comm),
                           .micro_n = lab->options.accumulation,
                           .token_bytes = fw_micro_batch_bytes(N, fw_model_drops(&lab->model))};
    input.shard.t = lab->options.t;
    input.shard.training = true;
    fw_memory_budget all = {.ranks = 1, .available_bytes = UINT64_MAX};
    FW_TRY(fw_job_plan_make(&lab->plan, &input, &all));
    fw_arena *arena = &lab->plan.arena;
    FW_TRY(fw_rank_memory_take(arena, lab->device, lab->comm));
    FW_TRY(fw_activations_init(&lab->activations, &lab->model, &input.activations,
                               fw_arena_at(arena, lab->plan.activation_block)));
    fw_device_limits limits = fw_activations_limits(&lab->activations, &lab->model);
    FW_TRY(fw_device_reserve(lab->device, &limits));
    FW_TRY(fw_token_buffers_init(&lab->tokens, lab->device, fw_arena_at(arena, lab->plan.token_block), N,
                                 fw_model_drops(&lab->model), 42));
    FW_TRY(fw_activations_fill_rope(&lab->activations, &lab->model, lab->device));
    FW_TRY(fw_shard_create(&lab->shard, &lab->plan.layout, arena, lab->device, lab->comm));
    if (lab->model.adapted) FW_TRY(fw_shard_create(&lab->frozen, &lab->plan.frozen, arena, lab->device, lab->comm));
    fw_device_freeze(lab->device, FW_FROZEN_STRICT); /* a step that allocates is an error */
    if (packed != NULL)
        FW_TRY(fw_shard_load_words(lab->frozen, fw_packed_read_words, &lab->packed_weights));
    else if (lab->model.adapted)
        FW_TRY(fw_shard_load(lab->frozen, FW_SHARD_WEIGHT, read_frozen, lab));
    return load_trained(lab);
}

static fw_status open_lab(fw_test_lab *lab) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/parity/reference/%s.safetensors", FW_SOURCE_DIR, lab->options.variant);
    FW_TRY(fw_safetensors_open(&lab->reference, path));
    if (lab->options.comm == NULL) {
        fw_comm_options alone = {.world = 1, .local_world = 1};
        FW_TRY(fw_comm_create(&lab->comm, &alone));
    } else {
        lab->comm = lab->options.comm;
    }
    if (lab->options.thread_n > 0) FW_TRY(fw_threads_create(&lab->threads, lab->options.thread_n, NULL));
    if (lab->device == NULL) FW_TRY(fw_device_create(&lab->device, lab->options.device, lab->threads));
    if (lab->options.comm == NULL) FW_TRY(fw_comm_use_device(lab->comm, lab->device));
    FW_TRY(open_model(lab));
    FW_TRY(load_documents(lab));
    FW_TRY(take_memory(lab));
    lab->step = (fw_step){
        .model = &lab->model,
        .device = lab->device,
        .comm = lab->comm,
        .units = {.frozen = lab->frozen, .trained = lab->shard, .device = lab->device},
        .activations = &lab->activations,
        .tokens = &lab->tokens,
        .batcher = lab->batcher,
        .optim = fw_optim_settings_default(),
        .adamw = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.1f},
    };
    if (lab->options.packed == NULL) return FW_OK;
    lab->step.units.packed = &lab->packed;
    lab->step.units.unpacked = fw_arena_at(&lab->plan.arena, lab->plan.unpacked_block);
    return FW_OK;
}

fw_status fw_test_lab_open(fw_test_lab *lab, const fw_test_lab_options *options) {
    *lab = (fw_test_lab){.options = *options, .device = options->made_device};
    fw_status status = open_lab(lab);
    if (status != FW_OK) {
        fprintf(stderr, "model lab %s: %s\n", options->variant, fw_trail_message());
        fw_test_lab_close(lab);
    }
    return status;
}

void fw_test_lab_close(fw_test_lab *lab) {
    fw_shard_destroy(lab->shard);
    fw_shard_destroy(lab->frozen);
    fw_token_buffers_fini(&lab->tokens);
    fw_activations_fini(&lab->activations);
    fw_rank_memory_free(&lab->plan.arena, lab->device);
    fw_job_plan_fini(&lab->plan);
    fw_free(lab->flat);
    fw_batcher_destroy(lab->batcher);
    fw_dataset_destroy(lab->dataset);
    fw_packed_weights_fini(&lab->packed_weights);
    fw_packed_table_fini(&lab->packed);
    fw_model_folder_close(&lab->folder);
    fw_model_fini(&lab->model);
    if (lab->options.comm == NULL) fw_comm_destroy(lab->comm); /* its memory may be the device's */
    fw_device_destroy(lab->device);
    fw_threads_destroy(lab->threads);
    fw_safetensors_close(&lab->reference);
    *lab = (fw_test_lab){0};
}

fw_status fw_test_lab_gradient(fw_test_lab *lab, int64_t step_in_epoch, fw_step_result *result) {
    fw_adamw_options kept = lab->step.adamw;
    lab->step.adamw.beta1 = 0;
    lab->step.adamw.weight_decay = 0;
    fw_status status = fw_step_run(&lab->step, 1, 0, step_in_epoch, 0.0, result);
    lab->step.adamw = kept;
    return status;
}

static fw_status read_all(fw_test_lab *lab, fw_shard_array array) {
    const fw_param_table *table = fw_model_trained(&lab->model);
    if (lab->flat == NULL) FW_TRY(FW_NEW_ARRAY(lab->flat, (size_t)table->total_n));
    for (int32_t unit = 0; unit < table->unit_n; unit++)
        FW_TRY(fw_shard_read(lab->shard, array, unit, 0, table->unit_size_n[unit],
                             lab->flat + table->unit_offset_n[unit]));
    return fw_shard_read_end(lab->shard);
}

fw_status fw_test_lab_state(fw_test_lab *lab, fw_shard_array array, const float **flat) {
    *flat = NULL;
    if (fw_comm_rank(lab->comm) != 0) return fw_shard_serve(lab->shard);
    FW_TRY(read_all(lab, array));
    *flat = lab->flat;
    return FW_OK;
}

const float *fw_test_lab_gradient_of(fw_test_lab *lab, const char *name, int64_t *n) {
    const fw_param_table *table = fw_model_trained(&lab->model);
    const float *m;
    FW_ASSERT(fw_test_lab_state(lab, FW_SHARD_EXP_AVG, &m) == FW_OK);
    *n = table->total_n;
    if (name == NULL) return m;
    const fw_param *param = fw_param_table_find(table, name);
    if (param == NULL) return NULL;
    *n = param->n;
    return m + table->unit_offset_n[param->unit] + param->offset_n;
}

double fw_test_relative_l2(const float *a, const float *b, int64_t n) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        error += d * d;
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(error / size);
}

static fw_status read_zeros(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    (void)context;
    (void)unit;
    (void)first_n;
    memset(out, 0, (size_t)n * sizeof *out);
    return FW_OK;
}

fw_status fw_test_lab_reset(fw_test_lab *lab) {
    FW_TRY(fw_shard_load(lab->shard, FW_SHARD_EXP_AVG, read_zeros, NULL));
    FW_TRY(fw_shard_load(lab->shard, FW_SHARD_EXP_AVG_SQ, read_zeros, NULL));
    return load_trained(lab);
}

static fw_status forward(fw_test_lab *lab, const fw_micro_batch *b) {
    fw_unit_weights w;
    FW_TRY(fw_units_begin(&lab->step.units, FW_SHARD_PASS_FORWARD, false));
    FW_TRY(fw_units_acquire(&lab->step.units, 0, FW_SHARD_FORWARD, false, &w));
    FW_TRY(fw_edge_embed(&lab->model, lab->device, &w, &lab->activations, b));
    FW_TRY(fw_units_release(&lab->step.units, 0, FW_SHARD_FORWARD));
    for (int32_t l = 0; l < lab->model.config.L; l++) {
        FW_TRY(fw_units_acquire(&lab->step.units, 1 + l, FW_SHARD_FORWARD, false, &w));
        FW_TRY(fw_block_forward(&lab->model, lab->device, l, &w, &lab->activations, b, NULL));
        FW_TRY(fw_units_release(&lab->step.units, 1 + l, FW_SHARD_FORWARD));
    }
    return FW_OK;
}

fw_status fw_test_lab_logits(fw_test_lab *lab, int64_t sample, float *logits, int64_t cap) {
    const int32_t *id = lab->dataset->id + lab->dataset->sample[sample].first;
    int64_t n = lab->dataset->sample[sample].n, V = lab->model.config.V;
    FW_ASSERT(n * V <= cap);
    fw_batch *host = &lab->tokens.host;
    for (int64_t i = 0; i < n; i++) {
        host->id_N[i] = id[i];
        host->target_N[i] = 0; /* any: every row is asked for */
        host->position_N[i] = (int32_t)i;
        host->first_N[i] = 0;
    }
    host->n = host->target_n = n;
    fw_micro_batch b;
    fw_unit_weights w;
    FW_TRY(fw_token_buffers_upload(&lab->tokens, 0, &b));
    FW_TRY(forward(lab, &b));
    FW_TRY(fw_units_acquire(&lab->step.units, 0, FW_SHARD_LOSS, false, &w));
    FW_TRY(fw_edge_logits(&lab->model, lab->device, &w, &lab->activations, b.row_n, n, logits));
    return fw_units_release(&lab->step.units, 0, FW_SHARD_LOSS);
}

fw_status fw_test_lab_losses(fw_test_lab *lab, int64_t step_in_epoch, int64_t micro_step, float *loss, int64_t cap,
                             int64_t *n) {
    fw_micro_batch b;
    fw_unit_weights w;
    FW_TRY(fw_batcher_fill(lab->batcher, 0, step_in_epoch, micro_step, fw_comm_rank(lab->comm), &lab->tokens.host));
    FW_TRY(fw_token_buffers_upload(&lab->tokens, 0, &b));
    FW_TRY(forward(lab, &b));
    FW_TRY(fw_units_acquire(&lab->step.units, 0, FW_SHARD_LOSS, false, &w));
    FW_TRY(fw_edge_loss(&lab->model, lab->device, &w, &lab->activations, &b, 0));
    FW_TRY(fw_units_release(&lab->step.units, 0, FW_SHARD_LOSS));
    FW_ASSERT(b.n <= cap);
    *n = b.n;
    return fw_copy(lab->device, loss, lab->activations.loss_n, (size_t)b.n * sizeof *loss);
}
