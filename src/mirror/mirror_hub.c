#include "mirror/mirror_hub.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "mirror/mirror_links.h"
#include "mirror/mirror_run.h"
#include "mirror/mirror_target.h"

#include <stdio.h>
#include <string.h>

/* MEET_S: training waits for that; a Hub that does not answer is one that is out of reach. */
enum { MEET_S = 60, LIMIT_BYTES = 1 << 20 };
static const char run_file[] = "run.json";

fw_status fw_mirror_hub_find(const char *option) {
    if (fw_mirror_can_run("hf")) return FW_OK;
    return fw_fail(
        FW_ERR_OPTION,
        "%s hf://...: the program hf is not in PATH; install it (pip install huggingface_hub), and give it a token "
        "in HF_TOKEN",
        option);
}

/* Its own message says who was refused, and not what helps: a repository that the token does not reach is "not found". */
static fw_status run(const char *const *argv, const char *log_path, fw_mirror_work *work) {
    static const char *const refusals[] = {" 401 ", "'401 ", "403 Forbidden", "' not found"};
    fw_status status = fw_mirror_run((char *const *)(uintptr_t)argv, log_path, work);
    for (size_t i = 0; status == FW_ERR_IO && i < sizeof refusals / sizeof refusals[0]; i++) {
        if (strstr(fw_trail_message(), refusals[i]) == NULL) continue;
        char said[FW_TRAIL_MESSAGE_BYTES];
        snprintf(said, sizeof said, "%s", fw_trail_message());
        return fw_fail(FW_ERR_IO, "%s (is there a token in HF_TOKEN, or from hf auth login, that reaches %s?)", said,
                       argv[2]);
    }
    return status;
}

/* A repository or a branch that is not there yet is made, and nobody but its owner sees it. What is there under the name and
 * matches `replaced` goes, where the folder does not have it. */
static fw_status upload(const fw_mirror_target *t, const char *dir, const char *to, const char *replaced,
                        const char *message, fw_mirror_work *work) {
    const char *argv[] = {
        "hf",     "upload",    t->form.repository, dir,     to,  "--revision", t->form.branch, "--delete",
        replaced, "--private", "--commit-message", message, NULL};
    return run(argv, t->log_path, work);
}

fw_status fw_mirror_hub_get(const fw_mirror_form *f, const char *name, const char *dir, const char *log_path,
                            fw_mirror_work *work) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s/*", name);
    const char *argv[] = {"hf",        "download", f->repository, "--revision", f->branch,
                          "--include", pattern,    "--local-dir", dir,          NULL};
    return run(argv, log_path, work);
}

/* ---- whose it is: NEWEST/run.json, beside the pointer */

/* The pointer's folder, with what says whose it is and, where there is an item, the pointer. */
static fw_status send_pointer(const fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    char *place = NULL, *dir = NULL, *file = NULL, message[64] = "a run begins";
    fw_status status;
    FW_TRY_OR(fw_mirror_links_place(&place, t->options->output_dir), done);
    FW_TRY_OR(fw_path_join(&dir, place, FW_MIRROR_POINTER_NAME), done);
    FW_TRY_OR(fw_path_join(&file, dir, run_file), done);
    FW_TRY_OR(fw_dir_make(dir), done);
    FW_TRY_OR(fw_json_save(t->options->identity, file), done);
    if (item != NULL) {
        char *same = NULL;
        FW_TRY_OR(fw_mirror_pointer_write(&same, t, item), done);
        fw_free(same);
        snprintf(message, sizeof message, "%s is the newest", item->name);
    }
    FW_TRY_OR(upload(t, dir, FW_MIRROR_POINTER_NAME, "*.tmp", message, work), done);
done:
    fw_free(place);
    fw_free(dir);
    fw_free(file);
    return status;
}

static fw_status load(json_t **out, const char *dir, const char *name) {
    char *path;
    *out = NULL;
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status = fw_file_exists(path) ? fw_json_load(out, path, LIMIT_BYTES) : FW_OK;
    fw_free(path);
    return status;
}

/* The folder that the pointer is in, fetched to dir. A repository that is not there has none. */
static fw_status fetch_pointer(const fw_mirror_target *t, const char *dir, fw_mirror_work *work) {
    static const char *const absent[] = {"Error: Model '", "Error: Revision not found"};
    fw_status status = fw_mirror_hub_get(&t->form, FW_MIRROR_POINTER_NAME, dir, t->log_path, work);
    for (size_t i = 0; status == FW_ERR_IO && i < sizeof absent / sizeof absent[0]; i++)
        if (strstr(fw_trail_message(), absent[i]) != NULL) status = FW_OK;
    return status;
}

/* A run that begins before what the repository has is likely to be one that should have gone on from there. */
static void warn_of_newer(const fw_mirror_target *t, const json_t *pointer) {
    char *name;
    if (pointer == NULL || fw_mirror_pointer_read(&name, pointer, t->form.text) != FW_OK) return;
    if (fw_checkpoint_step_of(name) > t->options->from_step)
        fw_log_warning("%s has %s of this run, which begins anew before that and will replace it; to go on from there: "
                       "--resume_from_checkpoint %s",
                       t->form.text, name, t->form.text);
    fw_free(name);
}

static fw_status see_run(const fw_mirror_target *t, const char *dir, fw_mirror_work *work) {
    json_t *was = NULL, *pointer = NULL;
    char where[256];
    fw_status status;
    snprintf(where, sizeof where, "%s %s/%s", t->form.text, FW_MIRROR_POINTER_NAME, run_file);
    FW_TRY_OR(load(&was, dir, run_file), done);
    FW_TRY_OR(load(&pointer, dir, FW_MIRROR_POINTER), done);
    if (was == NULL) {
        status = send_pointer(t, NULL, work);
        goto done;
    }
    status = json_is_object(was) ? fw_run_compare(was, t->options->identity, where)
                                 : fw_fail(FW_ERR_OPTION, "%s: not a JSON object", where);
    if (status == FW_ERR_OPTION)
        fw_fail_context(status, "--mirror %s holds another run; choose another repository or branch: ", t->form.text);
    if (status == FW_OK) warn_of_newer(t, pointer);
done:
    json_decref(was);
    json_decref(pointer);
    return status;
}

/* Also finds out whether there is a token, and whether it may write, before hours have gone by. */
static fw_status meet(fw_mirror_target *t, fw_mirror_work *work) {
    char *place = NULL, *dir = NULL, *newest = NULL;
    fw_status status;
    if (t->met) return FW_OK;
    FW_TRY_OR(fw_mirror_hub_find("--mirror"), done);
    FW_TRY_OR(fw_mirror_links_place(&place, t->options->output_dir), done);
    FW_TRY_OR(fw_path_join(&dir, place, "hub"), done);
    FW_TRY_OR(fw_path_join(&newest, dir, FW_MIRROR_POINTER_NAME), done);
    FW_TRY_OR(fetch_pointer(t, dir, work), done);
    FW_TRY_OR(see_run(t, newest, work), done);
    t->met = true;
done:
    fw_free(place);
    fw_free(dir);
    fw_free(newest);
    return status;
}

fw_status fw_mirror_hub_meet(fw_mirror_target *t) {
    fw_mirror_work work = {0};
    fw_mirror_work_begin(&work, MEET_S);
    fw_status status = meet(t, &work);
    if (status == FW_OK) return fw_mirror_links_remove(t->options->output_dir);
    fw_trail trail;
    fw_trail_copy(&trail);
    fw_mirror_links_remove(t->options->output_dir);
    fw_trail_restore(&trail);
    return status;
}

/* ---- copying */

/* The model is at the top, beside the checkpoints: of it only what may have another number of files is replaced. */
fw_status fw_mirror_hub_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    FW_TRY(meet(t, work));
    FW_TRY(upload(t, item->dir, item->is_model ? "." : item->name, item->is_model ? "model*" : "*", item->name, work));
    return item->is_model ? FW_OK : send_pointer(t, item, work);
}
