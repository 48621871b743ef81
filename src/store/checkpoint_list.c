/* The checkpoints of an output folder: which are there, which is the newest good one, which may go. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Is the folder a checkpoint of that step? FW_ERR_INPUT when it is not. */
static fw_status check_entry(const char *path, int64_t step) {
    fw_checkpoint_state state;
    FW_TRY(fw_checkpoint_load_state(&state, path));
    int64_t found = state.step;
    fw_checkpoint_state_fini(&state);
    if (found != step) return fw_fail(FW_ERR_INPUT, "%s: the manifest is that of step %" PRId64, path, found);
    return FW_OK;
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
            out->entry[out->entry_n++] = (fw_checkpoint_entry){path, step};
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
        fw_status status = check_entry(entry.path, entry.step);
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

/* Does it count, to the last byte? */
static fw_status check_bytes(const fw_checkpoint_entry *entry) {
    FW_TRY(check_entry(entry->path, entry->step));
    return fw_checkpoint_verify(entry->path, true);
}

fw_status fw_checkpoint_newest(char **path, const char *output_dir, bool strict) {
    *path = NULL;
    fw_checkpoint_list list;
    FW_TRY(list_names(&list, output_dir));
    fw_status status = FW_OK;
    for (size_t i = list.entry_n; i > 0; i--) {
        status = check_bytes(&list.entry[i - 1]);
        if (status == FW_OK) {
            *path = list.entry[i - 1].path;
            list.entry[i - 1].path = NULL;
            break;
        }
        if (status == FW_ERR_NOMEM) break;
        if (strict) {
            status = fw_fail(FW_ERR_INPUT, "%s; without --resume_strict the checkpoint before it would be taken",
                             fw_trail_message());
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
        fw_strbuf aside = {0};
        FW_TRY_OR(fw_strbuf_printf(&aside, "%s/set-aside-step-%08" PRId64, output_dir, list.entry[i].step), done);
        status = fw_dir_remove(aside.data); /* of an earlier time */
        if (status == FW_OK && rename(list.entry[i].path, aside.data) != 0)
            status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", list.entry[i].path, aside.data, strerror(errno));
        if (status == FW_OK)
            fw_log_warning("the run goes on from step %" PRId64 ": %s is now %s", step, list.entry[i].path, aside.data);
        fw_strbuf_fini(&aside);
        moved = true;
    }
    if (moved && status == FW_OK) status = fw_dir_sync(output_dir);
done:
    fw_checkpoint_list_fini(&list);
    return status;
}

fw_status fw_checkpoint_prune(const char *output_dir, int64_t keep_n) {
    if (keep_n <= 0) return FW_OK;
    fw_checkpoint_list list;
    FW_TRY(fw_checkpoint_list_init(&list, output_dir));
    fw_status status = FW_OK;
    for (size_t i = 0; i + (size_t)keep_n < list.entry_n && status == FW_OK; i++)
        status = fw_dir_remove(list.entry[i].path);
    fw_checkpoint_list_fini(&list);
    return status;
}
