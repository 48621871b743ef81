#include "mirror/mirror_target.h"

#include "base/alloc.h"
#include "base/file.h"
#include "mirror/mirror_links.h"

#include <string.h>

typedef struct kind {
    fw_status (*meet)(fw_mirror_target *t); /* NULL: it cannot be asked */
    fw_status (*copy)(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work);
} kind;

static const kind kinds[] = {
    [FW_MIRROR_FOLDER] = {fw_mirror_folder_meet, fw_mirror_folder_copy},
    [FW_MIRROR_COMMAND] = {NULL, fw_mirror_command_copy},
    [FW_MIRROR_HUB] = {fw_mirror_hub_meet, fw_mirror_hub_copy},
};

static fw_status read_forms(fw_mirror_form *form, fw_mirror_form *check, const char *to, const char *check_text) {
    FW_TRY(fw_mirror_form_read(form, to, "source", "--mirror"));
    if (check_text == NULL) return FW_OK;
    if (form->kind != FW_MIRROR_COMMAND)
        return fw_fail(FW_ERR_OPTION,
                       "--mirror_check is for a --mirror that is a command; others are checked as they are "
                       "copied");
    FW_TRY(fw_mirror_form_read(check, check_text, "source", "--mirror_check"));
    if (check->kind == FW_MIRROR_COMMAND) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "--mirror_check is \"%s\": it needs {source}, the folder that was copied",
                   check_text);
}

fw_status fw_mirror_check_options(const char *to, const char *check, int64_t keep_n) {
    fw_mirror_form a = {0}, b = {0};
    fw_status status = read_forms(&a, &b, to, check);
    if (status == FW_OK && keep_n > 0 && a.kind != FW_MIRROR_FOLDER)
        status = fw_fail(FW_ERR_OPTION,
                         "--mirror_total_limit: finewire removes copies from a folder only, not what %s; leave it "
                         "out",
                         a.kind == FW_MIRROR_HUB ? "the Hub has" : "a command has copied");
    fw_mirror_form_fini(&a);
    fw_mirror_form_fini(&b);
    return status;
}

fw_status fw_mirror_check_place(const char *to, const char *output_dir, const json_t *identity) {
    fw_mirror_form form = {0}, check = {0};
    fw_status status = read_forms(&form, &check, to, NULL);
    if (status == FW_OK && form.kind == FW_MIRROR_FOLDER)
        status = fw_mirror_folder_check(form.text, output_dir, identity);
    fw_mirror_form_fini(&form);
    fw_mirror_form_fini(&check);
    return status;
}

fw_status fw_mirror_target_init(fw_mirror_target *t, const fw_mirror_options *options) {
    *t = (fw_mirror_target){.options = options, .lock.fd = -1};
    fw_status status;
    FW_TRY_OR(read_forms(&t->form, &t->check, options->to, options->check), fail);
    FW_TRY_OR(fw_path_join(&t->log_path, options->output_dir, "mirror.log"), fail);
    return FW_OK;
fail:
    fw_mirror_target_fini(t);
    return status;
}

void fw_mirror_target_fini(fw_mirror_target *t) {
    if (t->options != NULL) fw_output_lock_release(&t->lock);
    fw_mirror_form_fini(&t->form);
    fw_mirror_form_fini(&t->check);
    fw_free(t->log_path);
    *t = (fw_mirror_target){0};
}

fw_status fw_mirror_target_meet(fw_mirror_target *t) {
    const kind *k = &kinds[t->form.kind];
    return k->meet != NULL ? k->meet(t) : FW_OK;
}

fw_status fw_mirror_target_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    return kinds[t->form.kind].copy(t, item, work);
}

/* ---- the pointer */

fw_status fw_mirror_pointer_write(char **dir, const fw_mirror_target *t, const fw_mirror_item *item) {
    char *place = NULL, *file = NULL;
    json_t *pointer = json_pack("{s:s, s:s}", "format", "finewire-mirror", "name", item->name);
    fw_status status = pointer != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory while naming a copy");
    *dir = NULL;
    FW_TRY_OR(status, done);
    FW_TRY_OR(fw_mirror_links_place(&place, t->options->output_dir), done);
    FW_TRY_OR(fw_path_join(dir, place, FW_MIRROR_POINTER_NAME), done);
    FW_TRY_OR(fw_path_join(&file, *dir, FW_MIRROR_POINTER), done);
    FW_TRY_OR(fw_dir_make(*dir), done);
    FW_TRY_OR(fw_json_save(pointer, file), done);
done:
    json_decref(pointer);
    fw_free(place);
    fw_free(file);
    if (status == FW_OK) return FW_OK;
    fw_free(*dir);
    *dir = NULL;
    return status;
}

fw_status fw_mirror_pointer_read(char **name, const json_t *pointer, const char *where) {
    const char *format, *text;
    *name = NULL;
    if (!json_is_object(pointer)) return fw_fail(FW_ERR_INPUT, "%s is not a JSON object", where);
    FW_TRY(fw_json_get_string(&format, pointer, "format", "", where));
    FW_TRY(fw_json_get_string(&text, pointer, "name", "", where));
    const size_t digits = strncmp(text, "step-", 5) == 0 ? strspn(text + 5, "0123456789") : 0;
    if (strcmp(format, "finewire-mirror") != 0 || digits < 8 || digits > 18 || text[5 + digits] != 0)
        return fw_fail(FW_ERR_INPUT, "%s does not name a checkpoint", where);
    return fw_strdup(name, text);
}
