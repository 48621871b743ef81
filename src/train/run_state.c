#include "train/run_state.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/trace.h"
#include "config/options_saving.h"
#include "store/checkpoint_tools.h"
#include "store/stale.h"
#include "train/job_adapter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_writer(const fw_run_state *s) { return fw_comm_rank(s->job->comm) == 0; }

/* Of tokenizer.json; "" for a model that has none. */
static fw_status hash_tokenizer(char text[32], const char *model_dir) {
    char *path;
    uint64_t hash = 0, bytes;
    text[0] = 0;
    FW_TRY(fw_path_join(&path, model_dir, "tokenizer.json"));
    fw_status status = FW_OK;
    if (fw_file_exists(path)) {
        status = fw_hash_file(&hash, &bytes, path);
        snprintf(text, 32, "%016llx", (unsigned long long)hash);
    }
    fw_free(path);
    return status;
}

/* What the adapter is, as one text. Not where its base lies: weights_hash says which that is. */
static fw_status name_adapter(json_t *identity, const json_t *config) {
    json_t *copy = json_copy((json_t *)(uintptr_t)config);
    fw_strbuf text = {0};
    fw_status status = copy == NULL ? fw_fail(FW_ERR_NOMEM, "out of memory while naming the run") : FW_OK;
    FW_TRY_OR(status, done);
    json_object_del(copy, "base_model_name_or_path");
    FW_TRY_OR(fw_json_dump(&text, copy, JSON_COMPACT | JSON_SORT_KEYS), done);
    if (json_object_set_new(identity, "adapter", json_string(fw_strbuf_text(&text))) != 0)
        status = fw_fail(FW_ERR_NOMEM, "out of memory while naming the run");
done:
    fw_strbuf_fini(&text);
    json_decref(copy);
    return status;
}

/* What must be the same for a resume to make sense. */
static fw_status make_identity(json_t **out, const fw_run_state *s) {
    char data_hash[32], weights_hash[32], tokenizer_hash[32];
    const fw_model_config *g = &s->job->model.config;
    const fw_options *o = s->options;
    snprintf(data_hash, sizeof data_hash, "%016llx", (unsigned long long)s->dataset->hash);
    FW_TRY(hash_tokenizer(tokenizer_hash, s->job->model_dir));
    snprintf(weights_hash, sizeof weights_hash, "%016llx", (unsigned long long)s->job->weights_hash);
    *out = json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:I, s:b}", "architecture",
                     fw_architecture_class(g->architecture), "parameters", (json_int_t)s->job->model.table.parameter_n,
                     "layers", (json_int_t)g->L, "vocab_size", (json_int_t)g->V, "weights_hash", weights_hash,
                     "tokenizer_hash", tokenizer_hash, "data_hash", data_hash, "data_seed", (json_int_t)o->data_seed,
                     "packing", (int)o->packing);
    const int64_t batch_n =
        o->per_device_train_batch_size * o->gradient_accumulation_steps * fw_comm_world(s->job->comm);
    bool named = *out != NULL;
    /* Only where they are not the default: runs that were begun before there was a choice go on. */
    if (o->packing && o->packing_strategy != FW_PACKING_BFD)
        named = named && json_object_set_new(*out, "packing_strategy",
                                             json_string(fw_packing_strategy_words[o->packing_strategy])) == 0;
    if (o->group_by_length && !o->packing) /* its order follows from the batch */
        named = named && json_object_set_new(*out, "group_by_length", json_integer(batch_n)) == 0;
    if (fw_job_quantization(s->job) != NULL)
        named = named && json_object_set_new(*out, "base_quantization", json_string(fw_job_quantization(s->job))) == 0;
    if (named && s->job->adapter_config != NULL) return name_adapter(*out, s->job->adapter_config);
    return named ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while naming the run");
}

/* Room for one checkpoint and the final model, before any work is done. */
static fw_status check_space(const fw_run_state *s) {
    const fw_model *m = &s->job->model;
    const uint64_t final_bytes = m->adapted ? 4 * (uint64_t)m->trained.parameter_n : 2 * (uint64_t)m->table.parameter_n;
    uint64_t free_bytes, needed = final_bytes;
    if (s->options->save_strategy != FW_WHEN_NO)
        needed += fw_checkpoint_bytes(fw_model_trained(m), fw_shard_layout_of(s->job->shard)->options.optimizer,
                                      fw_comm_world(s->job->comm));
    FW_TRY(fw_disk_free(&free_bytes, s->options->output_dir));
    if (free_bytes < needed) {
        char have[FW_PLAN_SIZE_BYTES], need[FW_PLAN_SIZE_BYTES];
        return fw_fail(FW_ERR_IO,
                       "%s has %s free; a checkpoint and the final model need %s: free some space or choose another "
                       "--output_dir (--save_strategy no writes no checkpoints)",
                       s->options->output_dir, fw_plan_size(have, free_bytes), fw_plan_size(need, needed));
    }
    return FW_OK;
}

/* What another program has left in a folder that is new to us looks as if it were gone on from, and is not. */
static fw_status warn_of_foreign(const char *output_dir) {
    bool is_run;
    FW_TRY(fw_dir_has_file(&is_run, output_dir, "run.json"));
    if (is_run) return FW_OK;
    const fw_status status = fw_checkpoint_refuse_foreign(output_dir);
    if (status != FW_ERR_INPUT) return status;
    fw_log_warning("--output_dir holds what is not gone on from: %s", fw_trail_message());
    return FW_OK;
}

/* Rank 0: the folder is ours. */
static fw_status claim_folder(fw_run_state *s, const fw_resume_source *from) {
    const fw_options *o = s->options;
    const char *resume = o->resume_from_checkpoint;
    char *final = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&final, o->output_dir, "final"), done);
    FW_TRY_OR(fw_output_lock_take(&s->lock, o->output_dir), done);
    FW_TRY_OR(fw_stale_remove(o->output_dir, &s->lock), done); /* first: it may be the room that is lacking */
    FW_TRY_OR(make_identity(&s->identity, s), done);

    fw_run_mode mode = strcmp(resume, "never") == 0 ? FW_RUN_FRESH : FW_RUN_RESUME;
    if (o->overwrite_output_dir) mode = FW_RUN_OVERWRITE;
    /* Before anything is written or removed. The folder is there: the trace may be in it. */
    FW_TRY_OR(fw_export_check_target(final, s->job->model_dir), done);
    if (o->trace != NULL) FW_TRY_OR(fw_trace_file_check(o->trace), done);
    if (o->mirror != NULL) FW_TRY_OR(fw_mirror_check_place(o->mirror, o->output_dir, s->identity), done);
    /* What fails from here on must not leave a folder that counts as a run. Overwriting makes room first. */
    FW_TRY_OR(fw_resume_source_check(from), done);
    FW_TRY_OR(warn_of_foreign(o->output_dir), done);
    if (mode != FW_RUN_OVERWRITE) FW_TRY_OR(check_space(s), done);
    FW_TRY_OR(fw_run_begin(o->output_dir, s->identity, mode), done);
    if (mode == FW_RUN_OVERWRITE) FW_TRY_OR(check_space(s), done);
done:
    fw_free(final);
    return status;
}

static fw_status take_copy(fw_run_state *s) {
    if (!s->options->save_async || s->options->save_strategy == FW_WHEN_NO) return FW_OK;
    return fw_save_async_create(&s->async, s->job->shard, fw_model_trained(&s->job->model), fw_comm_rank(s->job->comm),
                                fw_comm_world(s->job->comm), s->job->threads);
}

fw_status fw_run_state_claim(fw_run_state *s) {
    fw_status status = FW_OK;
    FW_TRY(fw_comm_agree(s->job->comm, take_copy(s)));
    fw_resume_source_init(&s->loading.from, s->options);
    if (is_writer(s)) {
        fw_comm_host_work_begin(s->job->comm, "looking at the output folder");
        status = claim_folder(s, &s->loading.from);
        fw_comm_host_work_end(s->job->comm);
    }
    return fw_comm_agree(s->job->comm, status);
}

/* ---- the final model: rank 0 writes, and asks the owners for what it does not have */

static fw_status read_weight(void *context, const fw_param *p, int64_t first_n, int64_t n, float *out) {
    return fw_shard_read(context, FW_SHARD_WEIGHT, p->unit, p->offset_n + first_n, n, out);
}

/* What rank 0 has written, or has failed to; the others have served until then. A failure of the group itself is not
 * agreed upon any more. */
static fw_status end_of_writing(fw_run_state *s, fw_status status) {
    fw_trail trail;
    fw_trail_copy(&trail);
    FW_TRY(is_writer(s) ? fw_shard_read_end(s->job->shard) : FW_OK);
    if (status != FW_OK) fw_trail_restore(&trail);
    return fw_comm_agree(s->job->comm, status);
}

static fw_status write_model(fw_run_state *s, const char *dir) {
    const fw_peft_origin origin = {s->job->model_dir, s->job->adapter_config,
                                   json_string_value(json_object_get(s->identity, "weights_hash")),
                                   fw_job_quantization(s->job)};
    if (origin.config != NULL)
        return fw_peft_folder_write(dir, &origin, &s->job->model.trained, read_weight, s->job->shard);
    fw_export_options options = {.dtype = FW_BF16, .max_shard_bytes = (uint64_t)s->options->max_shard_size};
    return fw_export_model(dir, s->job->model_dir, &s->job->model.table, &options, read_weight, s->job->shard);
}

fw_status fw_run_state_export(fw_run_state *s, char **path) {
    FW_TRY(fw_path_join(path, s->options->output_dir, "final"));
    fw_status status;
    if (is_writer(s)) {
        fw_comm_host_work_begin(s->job->comm, "writing the model");
        status = fw_behind_wait(&s->pruning); /* its room is counted on */
        if (status == FW_OK) status = fw_run_state_check_folder(s);
        if (status == FW_OK) status = write_model(s, *path);
        fw_comm_host_work_end(s->job->comm);
        if (status == FW_OK) fw_mirror_offer_model(s->mirror);
    } else {
        status = fw_shard_serve(s->job->shard);
    }
    return end_of_writing(s, status);
}

/* The checkpoint that the run has gone on from may be lacking in the mirror. A damaged one of that step is not for it: then the
 * run has gone on from another place. */
static bool is_here(const fw_run_state *s, int64_t step) {
    fw_strbuf path = {0};
    const bool sound = fw_strbuf_printf(&path, "%s/step-%08" PRId64, s->options->output_dir, step) == FW_OK &&
                       fw_checkpoint_verify(fw_strbuf_text(&path), false) == FW_OK;
    fw_strbuf_fini(&path);
    return sound;
}

fw_status fw_run_state_start_mirror(fw_run_state *s, int64_t from_step) {
    const fw_options *o = s->options;
    fw_status status = FW_OK;
    if (o->mirror == NULL) return FW_OK;
    if (is_writer(s)) {
        fw_mirror_options m = {.to = o->mirror,
                               .check = o->mirror_check,
                               .output_dir = o->output_dir,
                               .rules = {o->mirror_total_limit, o->save_keep_every, o->load_best_model_at_end},
                               .identity = s->identity,
                               .from_step = from_step,
                               .cpu_first = s->job->cpu_first,
                               .cpu_n = s->job->cpu_n};
        fw_comm_host_work_begin(s->job->comm, "looking at the mirror");
        status = fw_options_read_time(&m.timeout_s, o->mirror_timeout, "mirror_timeout");
        if (status == FW_OK) status = fw_mirror_create(&s->mirror, &m);
        fw_comm_host_work_end(s->job->comm);
        if (status == FW_OK && from_step > 0 && is_here(s, from_step)) fw_mirror_offer(s->mirror, from_step);
    }
    return fw_comm_agree(s->job->comm, status);
}

void fw_run_state_leave_folder(fw_run_state *s) {
    if (fw_behind_wait(&s->pruning) != FW_OK) fw_log_warning("removing an old checkpoint: %s", fw_trail_message());
    fw_mirror_destroy(s->mirror);
    s->mirror = NULL;
    fw_output_lock_release(&s->lock);
}

void fw_run_state_end(fw_run_state *s) {
    fw_run_state_end_load(s);
    fw_save_async_destroy(s->async);
    s->async = NULL;
    fw_checkpoint_writer_close(&s->behind.writer);
    json_decref(s->identity);
    s->identity = NULL;
    fw_free(s->last_checkpoint);
    s->last_checkpoint = NULL;
}
