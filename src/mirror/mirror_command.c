/* A mirror that only a command reaches. What it does is the user's; we say what to copy, and believe its exit code. */
#include "base/alloc.h"
#include "mirror/mirror_run.h"
#include "mirror/mirror_target.h"

static fw_status run_filled(const fw_mirror_target *t, const fw_mirror_form *form, const char *dir, const char *name,
                            fw_mirror_work *work) {
    const fw_mirror_values values = {"source", dir, name};
    char **argv;
    FW_TRY(fw_mirror_form_fill(&argv, form, &values));
    fw_status status = fw_mirror_run(argv, t->log_path, work);
    fw_mirror_words_free(argv);
    return status;
}

fw_status fw_mirror_command_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    FW_TRY(run_filled(t, &t->form, item->dir, item->name, work));
    if (t->check.word_n > 0) {
        fw_status status = run_filled(t, &t->check, item->dir, item->name, work);
        if (status != FW_OK) return fw_fail_context(status, "it was copied, but --mirror_check says otherwise: ");
    }
    if (item->is_model || !fw_mirror_form_has(&t->form, "name")) return FW_OK;
    char *dir;
    FW_TRY(fw_mirror_pointer_write(&dir, t, item));
    fw_status status = run_filled(t, &t->form, dir, FW_MIRROR_POINTER_NAME, work);
    fw_free(dir);
    return status;
}
