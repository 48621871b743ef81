#include "mirror/mirror_hub.h"

#include "base/alloc.h"
#include "base/file.h"
#include "mirror/mirror_run.h"
#include "mirror/mirror_target.h"

#include <stdio.h>
#include <string.h>

fw_status fw_mirror_hub_find(const char *option) {
    if (fw_mirror_can_run("hf")) return FW_OK;
    return fw_fail(
        FW_ERR_OPTION,
        "%s hf://...: the program hf is not in PATH; install it (pip install huggingface_hub), and give it a token "
        "in HF_TOKEN",
        option);
}

static fw_status run(const char *const *argv, const char *log_path, fw_mirror_work *work) {
    return fw_mirror_run((char *const *)(uintptr_t)argv, log_path, work);
}

/* A repository that is not there yet is made, and nobody but its owner sees it. */
static fw_status upload(const fw_mirror_target *t, const char *dir, const char *to, const char *message,
                        fw_mirror_work *work) {
    const char *argv[] = {"hf",           "upload",    t->form.repository, dir,     to,  "--revision",
                          t->form.branch, "--private", "--commit-message", message, NULL};
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

fw_status fw_mirror_hub_meet(fw_mirror_target *t) {
    if (!t->met) FW_TRY(fw_mirror_hub_find("--mirror"));
    t->met = true;
    return FW_OK;
}

fw_status fw_mirror_hub_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    FW_TRY(upload(t, item->dir, item->is_model ? "." : item->name, item->name, work));
    if (item->is_model) return FW_OK;
    char *dir, message[64];
    FW_TRY(fw_mirror_pointer_write(&dir, t, item));
    snprintf(message, sizeof message, "%s is the newest", item->name);
    fw_status status = upload(t, dir, FW_MIRROR_POINTER_NAME, message, work);
    fw_free(dir);
    return status;
}
