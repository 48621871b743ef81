#include "train/job.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/plural.h"
#include "comm/launcher.h"
#include "config/options_sharding.h"
#include "model/wrap_class.h"
#include "plan/job_input.h"
#include "shard/rank_memory.h"
#include "train/adapter_start.h"
#include "train/interrupt.h"
#include "train/job_adapter.h"

/* MEETING_S: ranks wait that long for each other at the start, or ddp_timeout when it is shorter. */
enum { MEETING_S = 60, CPU_CAP = 4096 };

/* Meet the other ranks, then take an even share of the cores. */
fw_status fw_job_open_place(fw_job *job, const fw_options *o) {
    fw_comm_options place;
    *job = (fw_job){0};
    int found;
    FW_TRY(fw_comm_options_from_environment(&place, &found));
    place.timeout_s = (double)o->ddp_timeout;
    if (o->ddp_timeout < MEETING_S) place.connect_timeout_s = (double)o->ddp_timeout;
    static const fw_comm_link links[] = {[FW_TRANSPORT_AUTO] = FW_COMM_LINK_AUTO,
                                         [FW_TRANSPORT_SHM] = FW_COMM_LINK_SHM,
                                         [FW_TRANSPORT_MPI] = FW_COMM_LINK_MPI};
    place.link = links[o->transport];
    FW_TRY(fw_comm_create(&job->comm, &place));
    if (found && !place.own_launcher)
        fw_log_info(
            "rank %d of %d was started by another launcher; ranks know each other by MASTER_ADDR and MASTER_PORT only",
            place.rank, place.world);

    int *cpus;
    FW_TRY(FW_NEW_ARRAY(cpus, CPU_CAP));
    int cpu_n = fw_host_cpus(cpus, CPU_CAP);
    job->local_rank = place.local_rank;
    job->machine_cpu_n = cpu_n;
    fw_comm_cpu_share(place.local_rank, place.local_world, cpu_n, &job->cpu_first, &job->cpu_n);
    job->thread_n = o->num_threads > 0 ? (int)o->num_threads : job->cpu_n;
    /* Threads are pinned only when each has a core to itself, and the ranks together do not ask for more than there
     * are. */
    bool pin = job->thread_n <= job->cpu_n && place.local_world <= cpu_n;
    fw_comm_set_cpus(job->comm, cpus + job->cpu_first, job->cpu_n);
    fw_status status = fw_threads_create(&job->threads, job->thread_n, pin ? cpus + job->cpu_first : NULL);
    fw_free(cpus);
    FW_TRY(status);
    const fw_device_place on_machine = {.local_rank = place.local_rank, .local_world = place.local_world};
    status = fw_device_create_at(&job->device, fw_device_choice_words[o->device], job->threads, &on_machine);
    FW_TRY(fw_comm_agree(job->comm, status)); /* what is missing on one rank is missing on all: one of them says so */
    return fw_comm_use_device(job->comm, job->device);
}

/* One thread reads the tokenizer, the others hash this rank's part of the weights meanwhile; a pool of one does both. */
typedef struct opening {
    fw_job *job;
    fw_status tokenizer_status;
    int64_t first_block, block_n; /* of this rank */
    _Atomic uint64_t hash;
} opening;

static void open_part(void *context, int index, int thread_n) {
    opening *p = context;
    fw_job *job = p->job;
    if (index == 0) p->tokenizer_status = fw_tokenizer_load(&job->tokenizer, job->model_dir);
    int helper_n = thread_n > 1 ? thread_n - 1 : 1, helper = thread_n > 1 ? index - 1 : 0;
    if (helper < 0 || p->block_n == 0) return;
    int64_t first, last;
    fw_threads_split(&first, &last, p->block_n, 1, helper, helper_n);
    p->hash += fw_model_folder_hash(&job->folder, &job->model.table, p->first_block + first, p->first_block + last);
}

static fw_status open_tokenizer(fw_job *job, bool hash_weights) {
    opening p = {.job = job};
    if (hash_weights) {
        int64_t last, block_n = fw_model_folder_blocks(&job->folder, &job->model.table);
        fw_threads_split(&p.first_block, &last, block_n, 1, fw_comm_rank(job->comm), fw_comm_world(job->comm));
        p.block_n = last - p.first_block;
    }
    fw_threads_run(job->threads, open_part, &p);
    job->weights_hash = p.hash;
    return p.tokenizer_status;
}

/* A folder in 4 bits stays so where it is frozen; another is packed when --load_in_4bit says so. */
static fw_status init_packed(fw_job *job, const fw_options *o) {
    const fw_param_table *frozen = fw_model_frozen(&job->model);
    fw_packed_options how;
    bool *stored = NULL;
    if (frozen == NULL) return FW_OK;
    const bool asked = fw_job_packs(&how, job, o);
    const fw_packed_options wanted = how;
    FW_TRY(fw_packed_find_stored(&stored, &how, &job->folder, frozen));
    if (stored == NULL && !asked) return FW_OK;
    const bool other_kind = how.kind != wanted.kind && fw_options_given(o, FW_OPTION_bnb_4bit_quant_type),
               other_nesting = how.nested != wanted.nested && fw_options_given(o, FW_OPTION_use_bnb_nested_quant);
    if (stored != NULL && (other_kind || other_nesting) && fw_comm_rank(job->comm) == 0)
        fw_log_warning("%s is in 4 bits already, %s%s, and is taken as it is; %s has no effect", job->model_dir,
                       fw_quant_kind_name(how.kind), how.nested ? " nested" : "",
                       other_kind ? "bnb_4bit_quant_type" : "use_bnb_nested_quant");
    job->is_packed = true;
    const fw_status status = fw_packed_table_init(&job->packed, frozen, &how, stored, job->model.t);
    fw_free(stored);
    FW_TRY(status);
    fw_packed_weights_init(&job->packed_weights, &job->folder, &job->packed);
    return FW_OK;
}

static fw_status open_model(fw_job *job, const fw_options *o, fw_job_needs needs) {
    FW_TRY(fw_job_open_folders(job, o));
    fw_model_config config;
    FW_TRY(fw_model_config_load(&config, job->model_dir));
    FW_TRY(fw_job_init_model(job, &config, o));
    FW_TRY(fw_model_folder_open(&job->folder, job->model_dir));
    FW_TRY(fw_model_folder_check(&job->folder, &job->model.table, &config));
    job->folder.threads = job->threads;
    FW_TRY(init_packed(job, o));
    FW_TRY(open_tokenizer(job, needs.weights_hash));
    if (fw_tokenizer_vocab_n(job->tokenizer) > config.V && fw_comm_rank(job->comm) == 0) {
        /* Ids beyond the embedding are refused when they are met; a tokenizer may have tokens that no text gives. */
        fw_log_warning("the tokenizer of %s has %d ids, the model %lld rows: ids beyond them will be refused",
                       job->model_dir, fw_tokenizer_vocab_n(job->tokenizer), (long long)config.V);
    }
    if (!needs.chat) return FW_OK;
    FW_TRY(fw_chat_template_load(&job->chat, job->model_dir));
    return fw_chat_template_set(&job->chat, o->chat_template_kwargs, o->chat_template_date,
                                o->allow_special_in_content);
}

fw_status fw_job_open(fw_job *job, const fw_options *o, fw_job_needs needs) {
    FW_TRY(fw_job_open_place(job, o));
    FW_TRY(fw_comm_agree(job->comm, open_model(job, o, needs)));
    int64_t hash = (int64_t)job->weights_hash; /* so far of this rank's part */
    FW_TRY(fw_comm_sum_i64(job->comm, &hash, 1));
    job->weights_hash = (uint64_t)hash;
    return needs.weights_hash && !needs.any_base ? fw_job_check_base(job) : FW_OK;
}

fw_attention_choice fw_job_attention(const fw_options *o) {
    static const fw_attention_choice choices[] = {
        [FW_ATTN_AUTO] = FW_ATTENTION_AUTO, [FW_ATTN_OWN] = FW_ATTENTION_OWN, [FW_ATTN_CUDNN] = FW_ATTENTION_CUDNN};
    return choices[o->attn_implementation];
}

static fw_status read_unit(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    fw_job *job = context;
    return fw_model_folder_read(&job->folder, &job->model.table, unit, first_n, n, out);
}

static fw_status read_frozen(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    fw_job *job = context;
    return fw_model_folder_read(&job->folder, &job->model.frozen, unit, first_n, n, out);
}

static fw_status read_peft(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    fw_job *job = context;
    return fw_model_folder_read(&job->peft.weights, &job->model.trained, unit, first_n, n, out);
}

/* What the options say about sharding. Evaluation and generation keep the whole model on every rank. */
static fw_status shard_options(fw_plan_input *in, const fw_job *job, const fw_options *o, bool training) {
    in->shard = (fw_shard_options){.strategy = FW_SHARD_DDP, .t = job->model.t};
    if (!training) return FW_OK;
    FW_TRY(fw_wrap_check_class(o->fsdp_transformer_layer_cls_to_wrap, job->model.config.architecture));
    fw_plan_input_from_options(in, o);
    in->shard.apart = !job->device->on_host;
    int world = fw_comm_world(job->comm);
    return fw_options_shard_group(&in->shard.group_n, o, world, fw_comm_host_ranks(job->comm));
}

/* Every rank of this machine has files of its own in the same folder. */
static fw_status check_disk(const fw_job_plan *p, int rank_n) {
    const fw_shard_layout *l = &p->layout;
    const uint64_t bytes = fw_job_plan_file_bytes(p) * (uint64_t)rank_n;
    uint64_t free_bytes;
    if (bytes == 0) return FW_OK;
    fw_status status = fw_dir_make(l->options.folder);
    if (status == FW_OK) status = fw_disk_free(&free_bytes, l->options.folder);
    if (status != FW_OK) return fw_fail_context(status, "offload_dir: ");
    if (bytes <= free_bytes) return FW_OK;
    char needed[FW_PLAN_SIZE_BYTES], there[FW_PLAN_SIZE_BYTES];
    return fw_fail(FW_ERR_IO,
                   "offloaded state takes %s in %s, which has %s free; name another folder with --offload_dir",
                   fw_plan_size(needed, bytes), l->options.folder, fw_plan_size(there, free_bytes));
}

/* Plan first; nothing is taken unless it fits. */
static fw_status make_plan(fw_job *job, const fw_options *o, const fw_activation_options *a, bool training,
                           size_t host_bytes, size_t copy_bytes) {
    int world = fw_comm_world(job->comm);
    fw_plan_input in = {.model = &job->model,
                        .packed = job->is_packed ? &job->packed : NULL,
                        .activations = *a,
                        .world = world,
                        .micro_n = 1,
                        .token_bytes = fw_micro_batch_bytes(a->N_max, fw_model_drops(&job->model)),
                        .host_bytes = host_bytes,
                        .copy_bytes = copy_bytes};
    FW_TRY(shard_options(&in, job, o, training));
    fw_activations sized;
    FW_TRY(fw_activations_init(&sized, &job->model, a, NULL));
    fw_device_limits limits = fw_activations_limits(&sized, &job->model);
    fw_activations_fini(&sized);
    FW_TRY(fw_device_scratch_bytes(job->device, &limits, &in.scratch_bytes));
    /* Asked once, before any rank has taken anything, so that all compare with the same figures. */
    int64_t negative[2] = {-(int64_t)fw_host_memory_available(), 0};
    uint64_t gpu_bytes = 0, gpu_total_bytes;
    const bool on_gpu = job->device->gpu != NULL;
    if (on_gpu) FW_TRY(fw_device_memory(job->device, &gpu_bytes, &gpu_total_bytes));
    negative[1] = -(int64_t)(gpu_bytes / (uint64_t)fw_comm_ranks_on_gpu(job->comm));
    FW_TRY(fw_comm_max_i64(job->comm, negative, 2));
    fw_memory_budget budget = {.ranks = fw_comm_host_ranks(job->comm),
                               .available_bytes = (uint64_t)-negative[0],
                               .device_bytes = training ? (uint64_t)o->device_memory : 0,
                               .on_gpu = on_gpu,
                               .gpu_bytes = (uint64_t)-negative[1]};
    FW_TRY(fw_job_plan_make(&job->plan, &in, &budget));
    return check_disk(&job->plan, budget.ranks);
}

/* Where offloaded state went, and whether that is what was meant. */
static void tell_places(const fw_job *job) {
    const fw_shard_layout *l = &job->plan.layout;
    const fw_shard_file file = fw_shard_file_of(job->shard);
    char size[FW_PLAN_SIZE_BYTES];
    if (fw_comm_rank(job->comm) != 0) return;
    if (file.way != NULL)
        fw_log_info("offloaded: %s a rank in %s, by %s", fw_plan_size(size, fw_job_plan_file_bytes(&job->plan)),
                    l->options.folder, file.way);
    if (l->options.records != FW_SHARD_HERE && l->bucket_n == 1)
        fw_log_warning("all of the model is one unit (wrap model), whose optimizer state stays: nothing is offloaded");
    else if (l->options.records == FW_SHARD_HOST && !l->options.apart)
        fw_log_warning(
            "a CPU computes in memory of the host: what is offloaded to cpu or paged stays in the same memory");
}

static fw_status take(fw_job *job, const fw_activation_options *a) {
    fw_arena *arena = &job->plan.arena;
    FW_TRY(fw_rank_memory_take(arena, job->device, job->comm));
    FW_TRY(fw_activations_init(&job->activations, &job->model, a, fw_arena_at(arena, job->plan.activation_block)));
    fw_device_limits limits = fw_activations_limits(&job->activations, &job->model);
    FW_TRY(fw_device_reserve(job->device, &limits));
    FW_TRY(fw_token_buffers_init(&job->tokens, job->device, fw_arena_at(arena, job->plan.token_block), a->N_max,
                                 fw_model_drops(&job->model), job->seed));
    FW_TRY(fw_activations_fill_rope(&job->activations, &job->model, job->device));
    if (job->model.adapted) FW_TRY(fw_shard_create(&job->frozen, &job->plan.frozen, arena, job->device, job->comm));
    FW_TRY(fw_shard_create(&job->shard, &job->plan.layout, arena, job->device, job->comm));
    const fw_shard_options *o = &job->plan.layout.options;
    if (o->update_on_host && o->apart) {
        FW_TRY(fw_device_create(&job->update_device, "cpu", job->threads));
        fw_shard_set_update_device(job->shard, job->update_device);
    }
    tell_places(job);
    fw_device_freeze(job->device, FW_FROZEN_WARN);
    if (job->is_packed) return fw_shard_load_words(job->frozen, fw_packed_read_words, &job->packed_weights);
    return job->model.adapted ? fw_shard_load(job->frozen, FW_SHARD_WEIGHT, read_frozen, job) : FW_OK;
}

fw_status fw_job_load_weights(fw_job *job) {
    if (!job->model.adapted) return fw_shard_load(job->shard, FW_SHARD_WEIGHT, read_unit, job);
    if (job->has_peft) return fw_shard_load(job->shard, FW_SHARD_WEIGHT, read_peft, job);
    fw_adapter_start start = {.model = &job->model,
                              .folder = &job->folder,
                              .packed = job->is_packed ? &job->packed_weights : NULL,
                              .seed = job->seed};
    return fw_shard_load(job->shard, FW_SHARD_WEIGHT, fw_adapter_read_start, &start);
}

fw_status fw_job_allocate(fw_job *job, const fw_options *o, const fw_activation_options *a, bool training,
                          size_t host_bytes, size_t copy_bytes) {
    FW_TRY(fw_comm_agree(job->comm, make_plan(job, o, a, training, host_bytes, copy_bytes)));
    /* Taking is collective: a rank that fails in it does not come to an agreement, its caller aborts the job. */
    FW_TRY(take(job, a));
    return fw_comm_barrier(job->comm);
}

void fw_job_close(fw_job *job) {
    fw_shard_destroy(job->shard);
    fw_shard_destroy(job->frozen);
    fw_token_buffers_fini(&job->tokens);
    fw_activations_fini(&job->activations);
    fw_rank_memory_free(&job->plan.arena, job->device);
    fw_job_plan_fini(&job->plan);
    fw_chat_template_fini(&job->chat);
    fw_tokenizer_destroy(job->tokenizer);
    fw_packed_weights_fini(&job->packed_weights);
    fw_packed_table_fini(&job->packed);
    fw_model_folder_close(&job->folder);
    fw_model_fini(&job->model);
    fw_peft_folder_close(&job->peft); /* the model's adapter borrows texts of it */
    json_decref(job->adapter_config);
    fw_comm_destroy(job->comm); /* its memory may be the device's */
    fw_device_destroy(job->update_device);
    fw_device_destroy(job->device);
    fw_threads_destroy(job->threads);
    fw_free(job->model_dir);
    *job = (fw_job){0};
}

/* More positions than the model has learnt: allowed, as long as somebody knows. Packing does not add to it: positions
 * start anew with each conversation. */
static void warn_of_length(const fw_job *job, const fw_dataset *d) {
    int64_t made_for_n = job->model.config.max_position, longer_n = fw_dataset_longer_than(d, made_for_n);
    if (longer_n == 0 || fw_comm_rank(job->comm) != 0) return;
    fw_log_warning("%s: %lld conversation%s longer than the %lld tokens that the model was made for "
                   "(max_position_embeddings), up to %lld; --max_length %lld cuts %s",
                   d->name, (long long)longer_n, fw_plural_are(longer_n), (long long)made_for_n,
                   (long long)d->stats.longest_n, (long long)made_for_n, longer_n == 1 ? "it" : "them");
}

static fw_status load_dataset(fw_job *job, const fw_options *o, const char *name, bool all_tokens, fw_cache_told *told,
                              fw_dataset **out, fw_dataset **held_out) {
    const fw_prepare p = {.options = o,
                          .name = name,
                          .tokenizer = job->tokenizer,
                          .chat = &job->chat,
                          .vocab_size = job->model.config.V,
                          .threads = job->threads,
                          .machine_thread_n = o->num_threads > 0 ? 0 : job->machine_cpu_n,
                          .told = told,
                          .stop = fw_interrupt_requested,
                          .all_tokens = all_tokens};
    fw_comm_host_work_begin(job->comm, "reading the conversations");
    fw_status status = fw_data_prepare(out, held_out, &p);
    fw_comm_host_work_end(job->comm);
    return status;
}

/* The key of what the first rank of this machine has just loaded. Collective. */
static fw_status tell_key(const fw_job *job, fw_cache_told *told) {
    fw_cache_told all[FW_COMM_MAX_WORLD];
    FW_TRY(fw_comm_exchange(job->comm, all, told, sizeof *told));
    const int first = fw_comm_rank(job->comm) - job->local_rank; /* where ranks of a machine are neighbours */
    if (job->local_rank != 0 && first >= 0) *told = all[first];
    return FW_OK;
}

/* The first rank of a machine reads the files and tokenises on all of its cores; then the others find what it made. */
fw_status fw_job_load_dataset(fw_job *job, const fw_options *o, const char *name, bool all_tokens, fw_dataset **out,
                              fw_dataset **held_out) {
    fw_status status = FW_OK;
    fw_cache_told told = {0};
    if (job->local_rank == 0) status = load_dataset(job, o, name, all_tokens, &told, out, held_out);
    FW_TRY(fw_comm_agree(job->comm, status));
    FW_TRY(tell_key(job, &told));
    if (job->local_rank != 0) status = load_dataset(job, o, name, all_tokens, &told, out, held_out);
    FW_TRY(fw_comm_agree(job->comm, status));
    warn_of_length(job, *out);
    return FW_OK;
}

size_t fw_job_dataset_bytes(const fw_dataset *d) { return d == NULL ? 0 : fw_dataset_bytes(d); }

fw_units fw_job_units(const fw_job *job) {
    return (fw_units){.frozen = job->frozen,
                      .trained = job->shard,
                      .packed = job->is_packed ? &job->packed : NULL,
                      .unpacked = job->is_packed ? fw_arena_at(&job->plan.arena, job->plan.unpacked_block) : NULL,
                      .device = job->device};
}

fw_step fw_job_step(fw_job *job) {
    return (fw_step){.model = &job->model,
                     .device = job->device,
                     .comm = job->comm,
                     .units = fw_job_units(job),
                     .activations = &job->activations,
                     .tokens = &job->tokens};
}

uint64_t fw_job_planned_bytes(const fw_job *job) {
    const fw_memory_plan *m = &job->plan.memory;
    return m->device_bytes + m->shared_bytes + m->away_bytes;
}

uint64_t fw_job_taken_bytes(const fw_job *job) {
    return job->device->peak_bytes + fw_comm_allocated_bytes(job->comm) + job->plan.arena.bytes[FW_MEMORY_HOST];
}

uint64_t fw_job_peak_bytes(const fw_job *job) {
    uint64_t peak = fw_host_peak_resident_bytes(), shared = fw_host_shared_resident_bytes();
    uint64_t own = job->plan.memory.shared_bytes;
    return shared > own && shared - own < peak ? peak - (shared - own) : peak;
}
