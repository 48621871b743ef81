/* Going on from a checkpoint. The weights are read before the first step begins, the optimizer's state behind its gradients:
 * nothing uses it before the update, and it is two thirds of what there is. So it may be found late that a checkpoint is
 * damaged; until then nobody is told of it, and nothing is written that rests on it. */
#include "train/run_state.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/trace.h"
#include "store/checkpoint_tools.h"

#include <stdio.h>
#include <string.h>

static bool is_writer(const fw_run_state *s) { return fw_comm_rank(s->job->comm) == 0; }

/* ---- reading */

typedef struct saved {
    const fw_checkpoint_files *files;
    fw_checkpoint_array array;
    fw_checkpoint_later *later; /* what is asked for is noted there; NULL: it is read */
    fw_threads *threads;
} saved;

static fw_status read_saved(void *context, int32_t unit, int64_t first_n, int64_t n, float *out) {
    const saved *from = context;
    if (from->later != NULL)
        return fw_checkpoint_later_add(from->later, from->files, from->array, unit, first_n, n, out);
    return fw_checkpoint_read(from->files, from->array, unit, first_n, n, out);
}

static fw_status read_saved_state(void *context, int32_t param, int k, int64_t first_n, int64_t n, void *out) {
    const saved *from = context;
    const fw_checkpoint_array array = (fw_checkpoint_array)(1 + k);
    if (from->later != NULL)
        return fw_checkpoint_later_add_values(from->later, from->files, array, param, first_n, n, out);
    return fw_checkpoint_read_values(from->files, array, param, first_n, n, out);
}

static fw_status read_noted(void *context) {
    const saved *from = context;
    return fw_checkpoint_later_finish(from->later, from->threads);
}

/* Every rank reads what it owns, and checks it: FW_ERR_INPUT on all when one has found damage. */
static fw_status load_weights(fw_run_state *s, fw_checkpoint_files *files) {
    fw_shard *shard = s->job->shard;
    fw_checkpoint_later whole = {0}; /* in one go: threads do not wait for each other after every unit */
    saved at_once = {.files = files, .array = FW_CHECKPOINT_WEIGHT},
          noted = {files, FW_CHECKPOINT_WEIGHT, &whole, s->job->threads};
    files->threads = s->job->threads;
    uint64_t start_ns = fw_trace_now();
    fw_comm_host_work_begin(s->job->comm, "loading a checkpoint");
    const fw_status status = fw_shard_state_stays(shard)
                                 ? fw_shard_load_whole(shard, FW_SHARD_WEIGHT, read_saved, read_noted, &noted)
                                 : fw_shard_load(shard, FW_SHARD_WEIGHT, read_saved, &at_once);
    fw_comm_host_work_end(s->job->comm);
    fw_checkpoint_later_stop(&whole); /* had it not come to reading */
    fw_trace_since(FW_TRACE_HOST, "read the weights", start_ns);
    return status;
}

/* The same of the optimizer's arrays; with `later` it is only found what to read, and where to. */
static fw_status load_state(fw_run_state *s, const fw_checkpoint_files *files, fw_checkpoint_later *later) {
    const fw_shard_layout *l = fw_shard_layout_of(s->job->shard);
    fw_status status = FW_OK;
    uint64_t start_ns = fw_trace_now();
    fw_comm_host_work_begin(s->job->comm, "loading a checkpoint");
    for (int k = 1; k <= l->array_n && status == FW_OK; k++) {
        saved from = {.files = files, .array = (fw_checkpoint_array)k, .later = later};
        status = fw_shard_load(s->job->shard, (fw_shard_array)k, read_saved, &from);
    }
    saved from = {.files = files, .later = later};
    if (status == FW_OK && l->by_tensor) status = fw_shard_load_state(s->job->shard, read_saved_state, &from);
    fw_comm_host_work_end(s->job->comm);
    if (later == NULL) fw_trace_since(FW_TRACE_HOST, "read the optimizer's state", start_ns);
    return status;
}

/* ---- what it is of */

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

/* ---- which one, and how far */

static void close_loading(fw_run_state *s) {
    fw_checkpoint_later_stop(&s->loading.later);
    fw_checkpoint_close(&s->loading.files);
    json_decref(s->loading.was);
    s->loading.was = NULL;
}

/* *damaged: it could be opened, and then bytes of it were not what they had been. The same on all ranks. */
static fw_status try_one(fw_run_state *s, bool behind, bool *damaged) {
    fw_loading *g = &s->loading;
    fw_checkpoint_later *later = behind && fw_shard_state_stays(s->job->shard) ? &g->later : NULL;
    *damaged = false;
    FW_TRY(fw_comm_agree(s->job->comm, open_checkpoint(s, g->path, &g->files, &g->place, &g->was)));
    fw_status status = load_weights(s, &g->files);
    if (status == FW_OK) status = load_state(s, &g->files, later);
    *damaged = status == FW_ERR_INPUT;
    if (status != FW_OK || later == NULL) return status;
    g->files.threads = NULL; /* they train */
    fw_checkpoint_later_start(later, s->job->threads);
    return FW_OK;
}

/* What was tried is damaged, and this thread's message says how: the one before is next. */
static fw_status pass_over(fw_run_state *s) {
    fw_loading *g = &s->loading;
    s->loading.spoilt = true;
    const fw_status status = is_writer(s) ? fw_resume_source_pass_over(&g->from, g->path, g->place.step) : FW_OK;
    FW_TRY(fw_comm_agree(s->job->comm, status));
    close_loading(s);
    return FW_OK;
}

/* From the base's weights; spoilt: a damaged checkpoint has left something in the state, which begins as zeros. What has a
 * checkpoint's name now is damaged (other folders are refused or emptied before) and must not be mixed with what comes. */
static fw_status start_fresh(fw_run_state *s) {
    FW_TRY(
        fw_comm_agree(s->job->comm, is_writer(s) ? fw_checkpoint_set_aside_after(s->options->output_dir, 0) : FW_OK));
    if (s->loading.spoilt) FW_TRY(fw_shard_clear_state(s->job->shard));
    return fw_job_load_weights(s->job);
}

/* All ranks learn what to go on from; path[0] == 0: nothing. Collective. */
static fw_status choose(fw_run_state *s) {
    fw_comm *comm = s->job->comm;
    char *path = s->loading.path;
    fw_status status = FW_OK;
    memset(path, 0, FW_COMM_EXCHANGE_BYTES);
    if (is_writer(s)) {
        char *checkpoint = NULL;
        fw_comm_host_work_begin(comm, "looking for a checkpoint");
        status = fw_resume_source_next(&s->loading.from, &checkpoint);
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

/* The newest that is sound, as far as it has been read; or, with nothing left to try, the start. */
static fw_status find_sound(fw_run_state *s, bool behind) {
    for (;;) {
        bool damaged;
        s->loading.place = (fw_run_place){0};
        uint64_t start_ns = fw_trace_now();
        FW_TRY(choose(s));
        fw_trace_since(FW_TRACE_HOST, "look for a checkpoint", start_ns);
        if (s->loading.path[0] == 0) return start_fresh(s);
        fw_status status = try_one(s, behind, &damaged);
        if (!damaged) return status;
        FW_TRY(pass_over(s));
    }
}

fw_status fw_run_state_load(fw_run_state *s, fw_run_place *place) {
    FW_TRY(find_sound(s, true));
    *place = s->loading.place;
    return FW_OK;
}

bool fw_run_state_is_loading(const fw_run_state *s) { return fw_checkpoint_later_is_started(&s->loading.later); }

/* What was read behind, on all ranks. */
static fw_status wait_for_state(fw_run_state *s) {
    if (!fw_run_state_is_loading(s)) return FW_OK; /* the same on all */
    uint64_t start_ns = fw_trace_now();
    fw_comm_host_work_begin(s->job->comm, "loading a checkpoint");
    fw_status status = fw_checkpoint_later_finish(&s->loading.later, s->job->threads);
    fw_comm_host_work_end(s->job->comm);
    status = fw_comm_agree(s->job->comm, status);
    fw_trace_since(FW_TRACE_HOST, "wait for the optimizer's state", start_ns);
    return status;
}

/* It counts: say so, and what lies after it does not. */
static fw_status settle(fw_run_state *s) {
    fw_loading *g = &s->loading;
    fw_status status = FW_OK;
    if (g->path[0] == 0) return FW_OK;
    if (is_writer(s)) {
        if (g->was != NULL) status = list_changes(s, g->was);
        /* Later checkpoints are of a course that is given up now: they must not count as the newest again. */
        if (status == FW_OK) status = fw_checkpoint_set_aside_after(s->options->output_dir, g->place.step);
    }
    s->last_saved_step = g->place.step;
    return fw_comm_agree(s->job->comm, status);
}

fw_status fw_run_state_finish_load(fw_run_state *s, fw_run_place *place, bool *elsewhere) {
    fw_status status = wait_for_state(s);
    *elsewhere = status == FW_ERR_INPUT;
    if (*elsewhere) {
        FW_TRY(pass_over(s));
        status = find_sound(s, false); /* once was enough */
    }
    FW_TRY(status);
    *place = s->loading.place;
    status = settle(s);
    close_loading(s);
    return status;
}

void fw_run_state_end_load(fw_run_state *s) { close_loading(s); }

/* ---- the best checkpoint, whose weights alone are wanted */

static fw_status take_weights(fw_run_state *s, const char *path, int64_t *step) {
    fw_checkpoint_files files = {0};
    fw_checkpoint_state state = {0};
    fw_status status;
    FW_TRY_OR(fw_comm_agree(s->job->comm, fw_checkpoint_open(&files, path, fw_model_trained(&s->job->model), &state)),
              done);
    *step = state.step;
    if (state.step != s->last_saved_step) FW_TRY_OR(load_weights(s, &files), done);
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
    return path[0] == 0 ? FW_OK : take_weights(s, path, step);
}
