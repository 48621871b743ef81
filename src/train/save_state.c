/* Writing a checkpoint: every rank its own part, rank 0 what makes them one. */
#include "train/run_state.h"

#include "base/alloc.h"
#include "store/small_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_writer(const fw_run_state *s) { return fw_comm_rank(s->job->comm) == 0; }

static fw_status read_own(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                          void *out) {
    const int32_t param = (int32_t)(p - fw_shard_layout_of(context)->table->param);
    if (array == FW_CHECKPOINT_WEIGHT)
        return fw_shard_read_own(context, FW_SHARD_WEIGHT, p->unit, p->offset_n + first_n, n, out);
    return fw_shard_read_state(context, param, (int)array - 1, first_n, n, out);
}

static const void *view_own(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n) {
    if (fw_shard_layout_of(context)->by_tensor && array != FW_CHECKPOINT_WEIGHT) return NULL;
    return fw_shard_own_in_place(context, (fw_shard_array)array, p->unit, p->offset_n + first_n);
}

static fw_status write_part(fw_run_state *s, json_t **part, const char *dir) {
    const fw_param_table *table = fw_model_trained(&s->job->model);
    const fw_shard_layout *layout = fw_shard_layout_of(s->job->shard);
    const int rank = fw_comm_rank(s->job->comm);
    fw_checkpoint_range *range;
    FW_TRY(FW_NEW_ARRAY(range, (size_t)table->unit_n));
    for (int32_t unit = 0; unit < table->unit_n; unit++)
        fw_shard_saved_range(layout, rank, unit, &range[unit].first_n, &range[unit].n);
    const fw_checkpoint_share share = {
        fw_shard_saved_place(layout, rank), fw_comm_world(s->job->comm), range, read_own, s->job->shard, view_own,
        layout->options.optimizer};
    fw_status status = fw_checkpoint_write_part(part, dir, table, &share);
    fw_free(range);
    return status;
}

/* Every rank's text comes to rank 0, one after the other: part[place] is what it says. */
static fw_status gather_parts(fw_run_state *s, json_t **part, const char *mine) {
    fw_comm *comm = s->job->comm;
    const int world = fw_comm_world(comm);
    int64_t bytes = (int64_t)strlen(mine), all[FW_COMM_MAX_WORLD], most = 0;
    char *text = NULL;
    fw_status status;
    FW_TRY_OR(fw_comm_exchange(comm, all, &bytes, sizeof bytes), done);
    for (int rank = 0; rank < world; rank++) most = all[rank] > most ? all[rank] : most;
    FW_TRY_OR(fw_comm_agree(comm, FW_NEW_ARRAY(text, (size_t)most)), done);
    for (int rank = 0; rank < world; rank++) {
        if (rank == fw_comm_rank(comm)) memcpy(text, mine, (size_t)bytes);
        fw_comm_request request = {.label = "parts of a checkpoint"};
        FW_TRY_OR(fw_comm_broadcast(comm, text, (size_t)all[rank], rank, &request), done);
        FW_TRY_OR(fw_comm_wait(comm, &request), done);
        int place = fw_shard_saved_place(fw_shard_layout_of(s->job->shard), rank);
        if (is_writer(s) && status == FW_OK)
            status = fw_json_parse(&part[place], text, (size_t)all[rank], "the part of a rank", 1);
    }
    status = fw_comm_agree(comm, status);
done:
    fw_free(text);
    return status;
}

static fw_status describe(fw_run_state *s, const fw_run_progress *p, fw_checkpoint_state *state) {
    const fw_options *o = s->options;
    const fw_shard_options *shard = &fw_shard_layout_of(s->job->shard)->options;
    *state = (fw_checkpoint_state){.step = p->step,
                                   .epoch = p->epoch,
                                   .epoch_i = p->epoch_i,
                                   .position = p->position,
                                   .seed = (uint64_t)o->seed,
                                   .data_seed = (uint64_t)o->data_seed,
                                   .world_size = fw_comm_world(s->job->comm),
                                   .data_hash = s->dataset->hash,
                                   .optimizer = shard->optimizer,
                                   .optimizer_step = p->step,
                                   .run = json_incref(s->identity),
                                   .adapter = json_incref(s->job->adapter_config)};
    snprintf(state->strategy, sizeof state->strategy, "%s", fw_shard_strategy_name(shard->strategy));
    FW_TRY(fw_options_to_json(&state->options, o));
    state->schedule = json_pack("{s:s, s:f, s:I, s:I}", "lr_scheduler_type", fw_lr_schedule_words[o->lr_scheduler_type],
                                "peak", p->schedule->peak, "warmup_steps", (json_int_t)p->schedule->warmup_n,
                                "total_steps", (json_int_t)p->schedule->total_n);
    state->metrics =
        json_pack("{s:o, s:o}", "loss", fw_json_number(p->loss), "eval_loss", fw_json_number(p->eval_loss));
    if (state->schedule != NULL && state->metrics != NULL) return FW_OK;
    return fw_fail(FW_ERR_NOMEM, "out of memory while describing a checkpoint");
}

/* To give back the pages and blocks of a large file takes the system as long as a step of a small model. */
static fw_status prune(void *context) {
    const fw_run_state *s = context;
    const fw_checkpoint_rules rules = {s->options->save_total_limit, s->options->save_keep_every,
                                       s->options->load_best_model_at_end};
    return fw_checkpoint_prune(s->options->output_dir, &rules);
}

/* Rank 0: all parts are there; the folder gets its name, and older ones begin to go. */
static fw_status commit(fw_run_state *s, fw_checkpoint_writer *w, json_t *const *part, const fw_run_progress *p) {
    fw_checkpoint_state state = {0};
    fw_status status;
    FW_TRY_OR(describe(s, p, &state), done);
    FW_TRY_OR(fw_checkpoint_commit(w, fw_model_trained(&s->job->model), part, fw_comm_world(s->job->comm), &state),
              done);
    fw_free(s->last_checkpoint);
    s->last_checkpoint = w->staged.path;
    w->staged.path = NULL;
    fw_mirror_offer(s->mirror, p->step);
    fw_behind_start(&s->pruning, prune, s, s->job->threads);
done:
    fw_checkpoint_state_fini(&state);
    return status;
}

fw_status fw_run_state_check_folder(const fw_run_state *s) {
    return is_writer(s) ? fw_output_lock_check(&s->lock, s->options->output_dir) : FW_OK;
}

/* What the mirror still copies of a checkpoint that was removed must not be in the way of the next. What the disk has is
 * looked at again where it is decided. */
static void make_room(const fw_run_state *s) {
    uint64_t free_bytes, need_bytes = fw_checkpoint_bytes(fw_model_trained(&s->job->model),
                                                          fw_shard_layout_of(s->job->shard)->options.optimizer,
                                                          fw_comm_world(s->job->comm));
    if (s->mirror != NULL && fw_small_files_bytes(&need_bytes, s->job->model_dir) == FW_OK &&
        fw_disk_free(&free_bytes, s->options->output_dir) == FW_OK && free_bytes < need_bytes)
        fw_mirror_let_go(s->mirror);
}

/* Rank 0 makes the folder; all learn its name. */
static fw_status begin(fw_run_state *s, fw_checkpoint_writer *w, int64_t step, char dir[FW_COMM_EXCHANGE_BYTES]) {
    fw_comm *comm = s->job->comm;
    fw_status status = FW_OK;
    dir[0] = 0;
    if (is_writer(s)) {
        status = fw_behind_wait(&s->pruning); /* its room is counted on */
        if (status == FW_OK) status = fw_run_state_check_folder(s);
        if (status == FW_OK) make_room(s);
        if (status == FW_OK)
            status =
                fw_checkpoint_begin(w, s->options->output_dir, s->job->model_dir, fw_model_trained(&s->job->model),
                                    fw_shard_layout_of(s->job->shard)->options.optimizer, step, fw_comm_world(comm));
        if (status == FW_OK && strlen(w->staged.path_tmp) >= FW_COMM_EXCHANGE_BYTES)
            status = fw_fail(FW_ERR_OPTION, "the path %.64s... is longer than %d bytes", w->staged.path_tmp,
                             FW_COMM_EXCHANGE_BYTES);
        if (status == FW_OK) strcpy(dir, w->staged.path_tmp);
    }
    FW_TRY(fw_comm_agree(comm, status));
    fw_comm_request request = {.label = "folder of a checkpoint"};
    FW_TRY(fw_comm_broadcast(comm, dir, FW_COMM_EXCHANGE_BYTES, 0, &request));
    return fw_comm_wait(comm, &request);
}

/* What is not a part of any rank: rank 0's, like the folder. */
static fw_status write_small_files(fw_run_state *s, fw_checkpoint_writer *w) {
    return is_writer(s) ? fw_checkpoint_write_small_files(w, s->job->model_dir) : FW_OK;
}

/* All parts are written, or have failed to be: `status` and `mine` are this rank's. Releases `mine`. */
static fw_status unite(fw_run_state *s, fw_checkpoint_writer *w, fw_status status, json_t *mine,
                       const fw_run_progress *p) {
    fw_comm *comm = s->job->comm;
    json_t *part[FW_COMM_MAX_WORLD] = {0};
    fw_strbuf text = {0};
    const fw_status place = fw_run_state_check_folder(s); /* why all else has failed, if it has */
    if (place != FW_OK)
        status = place;
    else if (status == FW_OK)
        status = fw_json_dump(&text, mine, JSON_COMPACT);
    json_decref(mine);
    status = fw_comm_agree(comm, status);
    if (status == FW_OK) status = gather_parts(s, part, fw_strbuf_text(&text));
    fw_strbuf_fini(&text);
    if (status == FW_OK) status = fw_comm_agree(comm, is_writer(s) ? commit(s, w, part, p) : FW_OK);
    for (int i = 0; i < fw_comm_world(comm); i++) json_decref(part[i]);
    if (status == FW_OK) s->last_saved_step = p->step;
    return status;
}

static fw_status save_now(fw_run_state *s, const fw_run_progress *p) {
    char dir[FW_COMM_EXCHANGE_BYTES];
    fw_checkpoint_writer w = {0};
    json_t *mine = NULL;
    fw_comm_host_work_begin(s->job->comm, "writing a checkpoint");
    fw_status status = begin(s, &w, p->step, dir);
    if (status == FW_OK) {
        status = write_small_files(s, &w);
        if (status == FW_OK) status = write_part(s, &mine, dir);
        status = unite(s, &w, status, mine, p);
    }
    fw_comm_host_work_end(s->job->comm);
    fw_checkpoint_writer_close(&w);
    return status;
}

/* ---- behind the training */

/* By the thread that writes. */
static fw_status write_small_files_behind(void *context) {
    fw_run_state *s = context;
    return write_small_files(s, &s->behind.writer);
}

static fw_status save_behind(fw_run_state *s, const fw_run_progress *p) {
    FW_TRY(fw_run_state_finish_save(s)); /* one at a time */
    FW_TRY(begin(s, &s->behind.writer, p->step, s->behind.dir));
    s->behind.progress = *p;
    return fw_comm_agree(s->job->comm, fw_save_async_start(s->async, s->behind.dir, write_small_files_behind, s));
}

fw_status fw_run_state_save(fw_run_state *s, const fw_run_progress *progress) {
    return s->async != NULL ? save_behind(s, progress) : save_now(s, progress);
}

bool fw_run_state_is_saving(const fw_run_state *s) { return s->async != NULL && fw_save_async_is_running(s->async); }
bool fw_run_state_has_written(const fw_run_state *s) { return s->async == NULL || fw_save_async_is_done(s->async); }

fw_status fw_run_state_finish_save(fw_run_state *s) {
    if (!fw_run_state_is_saving(s)) return FW_OK;
    json_t *mine = NULL;
    fw_comm_host_work_begin(s->job->comm, "writing a checkpoint");
    fw_status status = fw_save_async_wait(s->async, &mine);
    status = unite(s, &s->behind.writer, status, mine, &s->behind.progress);
    fw_comm_host_work_end(s->job->comm);
    fw_checkpoint_writer_close(&s->behind.writer);
    return status;
}

/* ---- before the first step */

/* What is wrong with the place for one rank may be right for another: each writes, rank 0 looks. */
static fw_status see_all(const fw_run_state *s, const char *dir) {
    for (int rank = 0; rank < fw_comm_world(s->job->comm); rank++) {
        char name[32], *path;
        snprintf(name, sizeof name, "rank-%d", rank);
        FW_TRY(fw_path_join(&path, dir, name));
        bool there = fw_file_exists(path);
        fw_free(path);
        if (!there)
            return fw_fail(FW_ERR_IO,
                           "rank %d has written a file into %s, and rank 0 does not see it there: all ranks must write "
                           "to the same file system; choose another --output_dir",
                           rank, s->options->output_dir);
    }
    return FW_OK;
}

static fw_status write_trial(const fw_run_state *s, const char *dir) {
    char name[32], *path;
    snprintf(name, sizeof name, "rank-%d", fw_comm_rank(s->job->comm));
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status = fw_file_write(path, name, strlen(name));
    fw_free(path);
    return status;
}

fw_status fw_run_state_try_saving(fw_run_state *s) {
    char dir[FW_COMM_EXCHANGE_BYTES];
    fw_checkpoint_writer w = {0};
    fw_status status;
    if (s->options->save_strategy == FW_WHEN_NO) return FW_OK;
    FW_TRY_OR(begin(s, &w, 0, dir), done);
    FW_TRY_OR(fw_comm_agree(s->job->comm, write_small_files(s, &w)), done);
    FW_TRY_OR(fw_comm_agree(s->job->comm, write_trial(s, dir)), done);
    FW_TRY_OR(fw_comm_agree(s->job->comm, is_writer(s) ? see_all(s, dir) : FW_OK), done);
done:
    fw_checkpoint_writer_close(&w);
    return status;
}
