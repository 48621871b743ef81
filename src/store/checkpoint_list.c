/* The checkpoints of an output folder: which are there, which is the newest good one, which may go. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint_names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t fw_checkpoint_step_of(const char *name) {
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 13 || strspn(name + 5, "0123456789") != strlen(name + 5))
        return -1;
    errno = 0;
    long long step = strtoll(name + 5, NULL, 10);
    return errno == 0 ? step : -1;
}

static int compare_steps(const void *a, const void *b) {
    const fw_checkpoint_entry *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* Is the folder a checkpoint of its step? FW_ERR_INPUT when it is not. */
static fw_status check_entry(fw_checkpoint_entry *entry) {
    fw_checkpoint_state state;
    FW_TRY(fw_checkpoint_load_state(&state, entry->path));
    int64_t found = state.step;
    const json_t *eval_loss = json_object_get(state.metrics, "eval_loss");
    entry->eval_loss = json_is_number(eval_loss) ? json_number_value(eval_loss) : (double)NAN;
    fw_checkpoint_state_fini(&state);
    if (found == entry->step) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s: the manifest is that of step %" PRId64, entry->path, found);
}

/* All folders with a checkpoint's name, complete or not. */
static fw_status list_names(fw_checkpoint_list *out, const char *output_dir) {
    *out = (fw_checkpoint_list){0};
    if (!fw_dir_exists(output_dir)) return FW_OK;
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, output_dir));
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(out->entry, name_n), done);
    for (size_t i = 0; i < name_n; i++) {
        int64_t step = fw_checkpoint_step_of(names[i]);
        if (step < 0) continue;
        char *path;
        FW_TRY_OR(fw_path_join(&path, output_dir, names[i]), done);
        if (fw_dir_exists(path))
            out->entry[out->entry_n++] = (fw_checkpoint_entry){path, step, NAN};
        else
            fw_free(path);
    }
    if (out->entry_n > 1) qsort(out->entry, out->entry_n, sizeof *out->entry, compare_steps);
done:
    fw_dir_list_free(names, name_n);
    if (status != FW_OK) fw_checkpoint_list_fini(out);
    return status;
}

fw_status fw_checkpoint_list_init(fw_checkpoint_list *out, const char *output_dir) {
    FW_TRY(list_names(out, output_dir));
    size_t kept = 0;
    for (size_t i = 0; i < out->entry_n; i++) {
        fw_checkpoint_entry entry = out->entry[i];
        out->entry[i].path = NULL;
        fw_status status = check_entry(&entry);
        if (status == FW_OK) {
            out->entry[kept++] = entry;
            continue;
        }
        if (status == FW_ERR_NOMEM) {
            fw_free(entry.path);
            fw_checkpoint_list_fini(out);
            return status;
        }
        fw_log_warning("checkpoint %s does not count: %s", entry.path, fw_trail_message());
        fw_free(entry.path);
    }
    out->entry_n = kept;
    return FW_OK;
}

void fw_checkpoint_list_fini(fw_checkpoint_list *list) {
    for (size_t i = 0; i < list->entry_n; i++) fw_free(list->entry[i].path);
    fw_free(list->entry);
    *list = (fw_checkpoint_list){0};
}

/* May we not read it, or a file of it? Then it need not be damaged. */
static bool is_closed_to_us(const char *path) {
    char **names;
    size_t name_n;
    if (faccessat(AT_FDCWD, path, R_OK | X_OK, AT_EACCESS) != 0) return errno == EACCES || errno == EPERM;
    if (fw_dir_list(&names, &name_n, path) != FW_OK) return false;
    bool closed = false;
    for (size_t i = 0; i < name_n && !closed; i++) {
        char *file;
        if (fw_path_join(&file, path, names[i]) != FW_OK) break;
        closed = faccessat(AT_FDCWD, file, R_OK, AT_EACCESS) != 0 && (errno == EACCES || errno == EPERM);
        fw_free(file);
    }
    fw_dir_list_free(names, name_n);
    return closed;
}

/* Does it count, as far as can be said without reading tensors? FW_ERR_INPUT: it is damaged; any other error: that cannot be
 * said here, and it must not be passed over. */
static fw_status check_frame(fw_checkpoint_entry *entry) {
    fw_status status = check_entry(entry);
    if (status == FW_OK) status = fw_checkpoint_verify_with(NULL, entry->path, FW_CHECKPOINT_SMALL_FILES);
    if (status == FW_OK || status == FW_ERR_NOMEM) return status;
    fw_trail trail;
    fw_trail_copy(&trail);
    const bool closed = status == FW_ERR_INPUT && is_closed_to_us(entry->path);
    fw_trail_restore(&trail);
    if (status == FW_ERR_INPUT && !closed) return status;
    return fw_fail(closed ? FW_ERR_IO : status,
                   "%s; that is no damage, and no older checkpoint is taken in its place: mend it, or name the "
                   "checkpoint to take",
                   fw_trail_message());
}

/* --resume_strict: the last message says what is damaged. */
static fw_status refuse_damaged(const char *output_dir, bool older) {
    if (older)
        return fw_fail(FW_ERR_INPUT, "%s; without --resume_strict the checkpoint before it would be taken",
                       fw_trail_message());
    return fw_fail(FW_ERR_INPUT, "%s; there is no checkpoint before it in %s", fw_trail_message(), output_dir);
}

fw_status fw_checkpoint_refuse_damaged(const char *output_dir, int64_t step) {
    fw_trail trail;
    fw_trail_copy(&trail);
    fw_checkpoint_list list;
    FW_TRY(list_names(&list, output_dir));
    const bool older = list.entry_n > 0 && list.entry[0].step < step;
    fw_checkpoint_list_fini(&list);
    fw_trail_restore(&trail);
    return refuse_damaged(output_dir, older);
}

fw_status fw_checkpoint_newest(char **path, const char *output_dir, int64_t before_step, bool strict) {
    *path = NULL;
    fw_checkpoint_list list;
    FW_TRY(list_names(&list, output_dir));
    fw_status status = FW_OK;
    for (size_t i = list.entry_n; i > 0; i--) {
        if (list.entry[i - 1].step >= before_step) continue;
        status = check_frame(&list.entry[i - 1]);
        if (status == FW_OK) {
            *path = list.entry[i - 1].path;
            list.entry[i - 1].path = NULL;
            break;
        }
        if (status != FW_ERR_INPUT) break;
        if (strict) {
            status = refuse_damaged(output_dir, i > 1);
            break;
        }
        fw_log_warning("checkpoint %s does not count: %s", list.entry[i - 1].path, fw_trail_message());
        status = FW_OK;
    }
    fw_checkpoint_list_fini(&list);
    return status;
}

fw_status fw_checkpoint_set_aside_after(const char *output_dir, int64_t step) {
    fw_checkpoint_list list;
    FW_TRY(list_names(&list, output_dir));
    fw_status status = FW_OK;
    bool moved = false;
    for (size_t i = 0; i < list.entry_n && status == FW_OK; i++) {
        if (list.entry[i].step <= step) continue;
        if (step == 0 && !moved) fw_log_warning("the run starts anew: no checkpoint of %s is sound", output_dir);
        fw_strbuf aside = {0};
        FW_TRY_OR(fw_strbuf_printf(&aside, "%s/" FW_CHECKPOINT_ASIDE "step-%08" PRId64, output_dir, list.entry[i].step),
                  done);
        status = fw_dir_remove(aside.data); /* of an earlier time */
        if (status == FW_OK && rename(list.entry[i].path, aside.data) != 0)
            status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", list.entry[i].path, aside.data, strerror(errno));
        if (status == FW_OK && step == 0) fw_log_warning("%s is now %s", list.entry[i].path, aside.data);
        if (status == FW_OK && step > 0)
            fw_log_warning("the run goes on from step %" PRId64 ": %s is now %s", step, list.entry[i].path, aside.data);
        fw_strbuf_fini(&aside);
        moved = true;
    }
    if (moved && status == FW_OK) status = fw_dir_sync(output_dir);
done:
    fw_checkpoint_list_fini(&list);
    return status;
}

fw_status fw_checkpoint_take_away(const char *parent, const char *name) {
    char *from = NULL;
    fw_strbuf aside = {0};
    fw_status status;
    FW_TRY_OR(fw_path_join(&from, parent, name), done);
    FW_TRY_OR(fw_strbuf_printf(&aside, "%s/.tmp-%s-%ld", parent, name, (long)getpid()), done);
    FW_TRY_OR(fw_dir_remove(aside.data), done);
    if (rename(from, aside.data) != 0) {
        status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", from, aside.data, strerror(errno));
        goto done;
    }
    FW_TRY_OR(fw_dir_sync(parent), done);
    FW_TRY_OR(fw_dir_remove(aside.data), done);
done:
    fw_free(from);
    fw_strbuf_fini(&aside);
    return status;
}

/* Index of the first with the least eval_loss; -1: none has one. */
static int64_t best_of(const fw_checkpoint_list *list) {
    int64_t best = -1;
    for (size_t i = 0; i < list->entry_n; i++)
        if (isfinite(list->entry[i].eval_loss) && (best < 0 || list->entry[i].eval_loss < list->entry[best].eval_loss))
            best = (int64_t)i;
    return best;
}

fw_status fw_checkpoint_best(char **path, double *eval_loss, const char *output_dir) {
    fw_checkpoint_list list;
    *path = NULL;
    FW_TRY(fw_checkpoint_list_init(&list, output_dir));
    int64_t best = best_of(&list);
    if (best >= 0) {
        *path = list.entry[best].path;
        *eval_loss = list.entry[best].eval_loss;
        list.entry[best].path = NULL;
    }
    fw_checkpoint_list_fini(&list);
    return FW_OK;
}

fw_status fw_checkpoint_prune(const char *output_dir, const fw_checkpoint_rules *rules) {
    if (rules->keep_n <= 0) return FW_OK;
    fw_checkpoint_list list;
    FW_TRY(fw_checkpoint_list_init(&list, output_dir));
    fw_status status = FW_OK;
    const int64_t best = rules->keep_best ? best_of(&list) : -1;
    for (size_t i = 0; i + (size_t)rules->keep_n < list.entry_n && status == FW_OK; i++) {
        if ((int64_t)i == best || (rules->keep_every > 0 && list.entry[i].step % rules->keep_every == 0)) continue;
        status = fw_checkpoint_take_away(output_dir, strrchr(list.entry[i].path, '/') + 1);
    }
    fw_checkpoint_list_fini(&list);
    return status;
}
