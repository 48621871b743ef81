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
#include "train/resume_source.h"

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
    if (free_bytes < needed)
        return fw_fail(
            FW_ERR_IO,
            "%s has %.2f GiB free; a checkpoint and the final model need %.2f GiB: free some space or choose "
            "another --output_dir (--save_strategy no writes no checkpoints)",
            s->options->output_dir, (double)free_bytes / 1073741824.0, (double)needed / 1073741824.0);
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

typedef struct saved_array {
    const fw_checkpoint_files *files;
    fw_checkpoint_array array;
} saved_array;
static fw_status read_saved(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const saved_array *from = context;
    return fw_checkpoint_read(from->files, from->array, unit, first_n, n, out);
}

static fw_status read_saved_state(void *context, int32_t param, int k, int64_t first_n, int64_t n, void *out) {
    return fw_checkpoint_read_values(context, (fw_checkpoint_array)(1 + k), param, first_n, n, out);
}

/* The arrays of one optimizer say nothing to another. */
static fw_status check_optimizer(const fw_run_state *s, const fw_checkpoint_files *files, const char *path) {
    const fw_optimizer mine = fw_shard_layout_of(s->job->shard)->options.optimizer;
    if (files->optimizer == mine) return FW_OK;
    return fw_fail(
        FW_ERR_OPTION,
        "%s has the state of optimizer %s, and this run's is %s: go on with --optim %s, or start anew from its "
        "weights (finewire ckpt export) with another --output_dir",
        path, fw_optimizer_name(files->optimizer), fw_optimizer_name(mine), fw_optimizer_name(files->optimizer));
}

/* Every rank reads what it owns, weights and, with_state, the optimizer's arrays, and checks it: FW_ERR_INPUT on all when one has found damage. */
static fw_status load(fw_run_state *s, fw_checkpoint_files *files, bool with_state) {
    const fw_shard_layout *l = fw_shard_layout_of(s->job->shard);
    const int array_n = 1 + (with_state ? l->array_n : 0);
    files->threads = s->job->threads;
    fw_status status = FW_OK;
    fw_comm_host_work_begin(s->job->comm, "loading a checkpoint");
    for (int k = 0; k < array_n && status == FW_OK; k++) {
        saved_array from = {files, (fw_checkpoint_array)k};
        status = fw_shard_load(s->job->shard, (fw_shard_array)k, read_saved, &from);
    }
    if (status == FW_OK && with_state && l->by_tensor)
        status = fw_shard_load_state(s->job->shard, read_saved_state, files);
    fw_comm_host_work_end(s->job->comm);
    return status;
}

/* What says how or where to run rather than what: a change of it is no news. */
static bool is_of_this_start(const char *name) {
    static const char *const names[] = {
        "recipe",        "output_dir", "overwrite_output_dir", "resume_from_checkpoint", "disable_tqdm",  "trace",
        "resume_strict", "mirror",     "mirror_check",         "mirror_total_limit",     "mirror_timeout"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Rank 0: a line for each option that is not what it was when the checkpoint was written. */
static fw_status list_changes(const fw_run_state *s, const json_t *was) {
    json_t *is, *value;
    const char *name;
    fw_status status = FW_OK;
    FW_TRY(fw_options_to_json(&is, s->options));
    json_object_foreach(is, name, value) {
        const json_t *old = json_object_get(was, name);
        if (old == NULL || json_equal(old, value) || is_of_this_start(name)) continue;
        fw_strbuf line = {0};
        status = fw_strbuf_printf(&line, "changed since the checkpoint: %s was ", name);
        if (status == FW_OK) status = fw_json_dump(&line, old, JSON_ENCODE_ANY | JSON_COMPACT);
        if (status == FW_OK) status = fw_strbuf_puts(&line, ", is ");
        if (status == FW_OK) status = fw_json_dump(&line, value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (status == FW_OK) fw_log_info("%s", fw_strbuf_text(&line));
        fw_strbuf_fini(&line);
        if (status != FW_OK) break;
    }
    json_decref(is);
    return status;
}

/* *was (json_decref): the options of the run that wrote it, on rank 0. */
static fw_status open_checkpoint(fw_run_state *s, const char *path, fw_checkpoint_files *files, fw_run_place *place,
                                 json_t **was) {
    fw_checkpoint_state state = {0};
    fw_status status;
    FW_TRY(fw_checkpoint_open(files, path, fw_model_trained(&s->job->model), &state));
    *place = (fw_run_place){state.step, state.epoch_i, state.position};
    FW_TRY_OR(check_optimizer(s, files, path), done);
    if (is_writer(s)) {
        if (state.run != NULL) FW_TRY_OR(fw_run_compare(state.run, s->identity, path), done);
        *was = json_incref(state.options);
    }
    if (state.data_hash != s->dataset->hash || state.position >= fw_batcher_units(s->batcher))
        status = fw_fail(FW_ERR_OPTION,
                         "%s was made from other conversations than %s; give the same file, or start anew with "
                         "--resume_from_checkpoint never and another --output_dir",
                         path, s->options->dataset_name);
done:
    fw_checkpoint_state_fini(&state);
    return status;
}

/* *damaged: it could be opened, and then bytes of it were not what they had been. The same on all ranks. */
static fw_status resume(fw_run_state *s, const char *path, fw_run_place *place, bool *damaged) {
    fw_checkpoint_files files = {0};
    json_t *was = NULL;
    fw_status status;
    *damaged = false;
    FW_TRY_OR(fw_comm_agree(s->job->comm, open_checkpoint(s, path, &files, place, &was)), done);
    status = load(s, &files, true);
    *damaged = status == FW_ERR_INPUT;
    FW_TRY_OR(status, done);
    status = fw_comm_agree(s->job->comm, was == NULL ? FW_OK : list_changes(s, was)); /* of what counts, and no other */
done:
    json_decref(was);
    fw_checkpoint_close(&files);
    return status;
}

/* From the base's weights; spoilt: a damaged checkpoint has left something in the state, which begins as zeros. What has a
 * checkpoint's name now is damaged (other folders are refused or emptied before) and must not be mixed with what comes. */
static fw_status start_fresh(fw_run_state *s, bool spoilt) {
    FW_TRY(
        fw_comm_agree(s->job->comm, is_writer(s) ? fw_checkpoint_set_aside_after(s->options->output_dir, 0) : FW_OK));
    if (spoilt) FW_TRY(fw_shard_clear_state(s->job->shard));
    return fw_job_load_weights(s->job);
}

static fw_status take_copy(fw_run_state *s) {
    if (!s->options->save_async || s->options->save_strategy == FW_WHEN_NO) return FW_OK;
    return fw_save_async_create(&s->async, s->job->shard, fw_model_trained(&s->job->model), fw_comm_rank(s->job->comm),
                                fw_comm_world(s->job->comm), s->job->threads);
}

/* All ranks learn what to go on from; path[0] == 0: nothing. Collective. */
static fw_status choose(fw_run_state *s, fw_resume_source *from, bool first, char path[FW_COMM_EXCHANGE_BYTES]) {
    fw_comm *comm = s->job->comm;
    fw_status status = FW_OK;
    memset(path, 0, FW_COMM_EXCHANGE_BYTES);
    if (is_writer(s)) {
        char *checkpoint = NULL;
        fw_comm_host_work_begin(comm, "looking for a checkpoint");
        if (first) status = claim_folder(s, from);
        if (status == FW_OK) status = fw_resume_source_next(from, &checkpoint);
        fw_comm_host_work_end(comm);
        if (status == FW_OK && checkpoint != NULL && strlen(checkpoint) >= FW_COMM_EXCHANGE_BYTES)
            status = fw_fail(FW_ERR_OPTION, "the path of checkpoint %.64s... is longer than %d bytes", checkpoint,
                             FW_COMM_EXCHANGE_BYTES);
        if (status == FW_OK && checkpoint != NULL) strcpy(path, checkpoint);
        fw_free(checkpoint);
    }
    FW_TRY(fw_comm_agree(comm, status));
    fw_comm_request request = {.label = "checkpoint path"};
    FW_TRY(fw_comm_broadcast(comm, path, FW_COMM_EXCHANGE_BYTES, 0, &request));
    return fw_comm_wait(comm, &request);
}

fw_status fw_run_state_begin(fw_run_state *s, fw_run_place *place) {
    fw_comm *comm = s->job->comm;
    char path[FW_COMM_EXCHANGE_BYTES];
    FW_TRY(fw_comm_agree(comm, take_copy(s)));
    fw_status status = FW_OK;
    bool damaged = false;
    fw_resume_source from;
    fw_resume_source_init(&from, s->options);
    for (bool first = true;; first = false) {
        const bool spoilt = damaged;
        FW_TRY(choose(s, &from, first, path));
        *place = (fw_run_place){0};
        if (path[0] == 0) return start_fresh(s, spoilt);
        status = resume(s, path, place, &damaged);
        if (!damaged) break;
        FW_TRY(fw_comm_agree(comm, is_writer(s) ? fw_resume_source_pass_over(&from, path, place->step) : FW_OK));
    }
    FW_TRY(status);
    /* Later checkpoints are of a course that is given up now: they must not count as the newest again. */
    if (is_writer(s)) status = fw_checkpoint_set_aside_after(s->options->output_dir, place->step);
    FW_TRY(fw_comm_agree(comm, status));
    s->last_saved_step = place->step;
    return FW_OK;
}

/* ---- the best checkpoint, whose weights alone are wanted */

static fw_status load_weights(fw_run_state *s, const char *path, int64_t *step) {
    fw_checkpoint_files files = {0};
    fw_checkpoint_state state = {0};
    fw_status status;
    FW_TRY_OR(fw_comm_agree(s->job->comm, fw_checkpoint_open(&files, path, fw_model_trained(&s->job->model), &state)),
              done);
    *step = state.step;
    if (state.step != s->last_saved_step) FW_TRY_OR(load(s, &files, false), done);
done:
    fw_checkpoint_state_fini(&state);
    fw_checkpoint_close(&files);
    return status;
}

fw_status fw_run_state_load_best(fw_run_state *s, int64_t *step, double *eval_loss) {
    char path[FW_COMM_EXCHANGE_BYTES] = "", *best = NULL;
    fw_status status = FW_OK;
    *step = 0;
    if (is_writer(s)) {
        status = fw_behind_wait(&s->pruning);
        if (status == FW_OK) status = fw_checkpoint_best(&best, eval_loss, s->options->output_dir);
        if (best != NULL) snprintf(path, sizeof path, "%s", best);
        fw_free(best);
    }
    FW_TRY(fw_comm_agree(s->job->comm, status));
    fw_comm_request request = {.label = "best checkpoint"};
    FW_TRY(fw_comm_broadcast(s->job->comm, path, sizeof path, 0, &request));
    FW_TRY(fw_comm_wait(s->job->comm, &request));
    return path[0] == 0 ? FW_OK : load_weights(s, path, step);
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
    fw_save_async_destroy(s->async);
    s->async = NULL;
    fw_checkpoint_writer_close(&s->behind.writer);
    json_decref(s->identity);
    s->identity = NULL;
    fw_free(s->last_checkpoint);
    s->last_checkpoint = NULL;
}
