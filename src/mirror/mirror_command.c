/* A mirror that only a command reaches. What it does is the user's; we say what to copy, and believe its exit code. */
#include "base/alloc.h"
#include "base/file.h"
#include "mirror/mirror_links.h"
#include "mirror/mirror_run.h"
#include "mirror/mirror_target.h"

#include <string.h>

static fw_status run_filled(const fw_mirror_target *t, const fw_mirror_form *form, const char *dir, const char *name,
                            fw_mirror_work *work) {
    const fw_mirror_values values = {"source", dir, name};
    char **argv;
    FW_TRY(fw_mirror_form_fill(&argv, form, &values));
    fw_status status = fw_mirror_run(argv, t->log_path, work);
    fw_mirror_words_free(argv);
    return status;
}

/* A folder "newest" with the pointer in it follows each checkpoint by the same way: who fetches asks for it first. */
static fw_status send_pointer(const fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    char *place = NULL, *dir = NULL, *file = NULL;
    json_t *pointer = NULL;
    fw_status status;
    FW_TRY_OR(fw_mirror_links_place(&place, t->options->output_dir), done);
    FW_TRY_OR(fw_path_join(&dir, place, "newest"), done);
    FW_TRY_OR(fw_path_join(&file, dir, FW_MIRROR_POINTER), done);
    FW_TRY_OR(fw_dir_make(dir), done);
    FW_TRY_OR(fw_mirror_pointer_make(&pointer, item), done);
    FW_TRY_OR(fw_json_save(pointer, file), done);
    FW_TRY_OR(run_filled(t, &t->form, dir, "newest", work), done);
done:
    json_decref(pointer);
    fw_free(place);
    fw_free(dir);
    fw_free(file);
    return status;
}

fw_status fw_mirror_command_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    FW_TRY(run_filled(t, &t->form, item->dir, item->name, work));
    if (t->check.word_n > 0) {
        fw_status status = run_filled(t, &t->check, item->dir, item->name, work);
        if (status != FW_OK) return fw_fail_context(status, "it was copied, but --mirror_check says otherwise: ");
    }
    if (item->is_model || !fw_mirror_form_has(&t->form, "name")) return FW_OK;
    return send_pointer(t, item, work);
}
