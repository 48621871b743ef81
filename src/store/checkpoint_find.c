/* The list that people see: every folder with a checkpoint's name, and what is wrong with it. */
#include "store/checkpoint_tools.h"

#include "base/alloc.h"
#include "store/checkpoint_names.h"
#include "store/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static fw_status add_bytes(uint64_t *bytes, const char *dir) {
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    fw_status status = FW_OK;
    for (size_t i = 0; i < name_n && status == FW_OK; i++) {
        char *path;
        struct stat info;
        status = fw_path_join(&path, dir, names[i]);
        if (status != FW_OK) break;
        if (stat(path, &info) == 0) *bytes += (uint64_t)info.st_size;
        fw_free(path);
    }
    fw_dir_list_free(names, name_n);
    return status;
}

/* Everything but the weights' bytes: manifest, sizes, headers, and that the name is right. */
static fw_status look(fw_checkpoint_found *f, const char *name) {
    json_t *manifest = NULL;
    fw_status status;
    FW_TRY_OR(fw_checkpoint_verify(f->path, false), done);
    FW_TRY_OR(fw_manifest_load(&manifest, f->path), done);
    FW_TRY_OR(fw_manifest_state(&f->state, manifest, f->path), done);
    f->adapter = json_object_get(json_object_get(manifest, "files"), "adapter_config.json") != NULL;
    const char *saved_at = json_string_value(json_object_get(manifest, "saved_at"));
    FW_TRY_OR(fw_strdup(&f->saved_at, saved_at == NULL ? "" : saved_at), done);
    int64_t step = fw_checkpoint_step_of(name);
    if (step >= 0 && step != f->state.step)
        status = fw_fail(FW_ERR_INPUT, "%s: the manifest is that of step %" PRId64, f->path, f->state.step);
done:
    json_decref(manifest);
    return status;
}

static fw_status fill(fw_checkpoint_found *f, const char *name) {
    FW_TRY(add_bytes(&f->bytes, f->path));
    f->step = fw_checkpoint_step_of(name);
    fw_status status = look(f, name);
    if (status == FW_ERR_NOMEM) return status;
    if (status != FW_OK) {
        fw_checkpoint_state_fini(&f->state);
        f->status = status;
        return fw_strdup(&f->why, fw_trail_message());
    }
    f->step = f->state.step;
    return FW_OK;
}

static fw_status add(fw_checkpoint_found_list *list, const char *dir, const char *name) {
    FW_TRY(FW_GROW_ARRAY(list->found, list->found_n + 1));
    fw_checkpoint_found *f = &list->found[list->found_n++];
    *f = (fw_checkpoint_found){0};
    if (dir == NULL)
        FW_TRY(fw_strdup(&f->path, name));
    else
        FW_TRY(fw_path_join(&f->path, dir, name));
    const char *slash = strrchr(f->path, '/');
    return fill(f, slash == NULL ? f->path : slash + 1);
}

static int by_step(const void *a, const void *b) {
    const fw_checkpoint_found *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

fw_status fw_checkpoint_find_all(fw_checkpoint_found_list *out, const char *given) {
    *out = (fw_checkpoint_found_list){0};
    char **names = NULL, *manifest = NULL;
    size_t name_n = 0;
    fw_status status;
    FW_TRY_OR(fw_path_join(&manifest, given, "manifest.json"), done);
    if (fw_file_exists(manifest)) {
        FW_TRY_OR(add(out, NULL, given), done);
        goto done;
    }
    FW_TRY_OR(fw_dir_list(&names, &name_n, given), done);
    for (size_t i = 0; i < name_n; i++) {
        char *path;
        if (fw_checkpoint_step_of(names[i]) < 0) continue;
        FW_TRY_OR(fw_path_join(&path, given, names[i]), done);
        bool is_dir = fw_dir_exists(path);
        fw_free(path);
        if (is_dir) FW_TRY_OR(add(out, given, names[i]), done);
    }
    if (out->found_n == 0) FW_TRY_OR(fw_checkpoint_refuse_foreign(given), done);
    if (out->found_n > 1) qsort(out->found, out->found_n, sizeof *out->found, by_step);
done:
    fw_free(manifest);
    fw_dir_list_free(names, name_n);
    if (status != FW_OK) fw_checkpoint_found_list_fini(out);
    return status;
}

void fw_checkpoint_found_list_fini(fw_checkpoint_found_list *list) {
    for (size_t i = 0; i < list->found_n; i++) {
        fw_checkpoint_found *f = &list->found[i];
        fw_checkpoint_state_fini(&f->state);
        fw_free(f->path);
        fw_free(f->why);
        fw_free(f->saved_at);
    }
    fw_free(list->found);
    *list = (fw_checkpoint_found_list){0};
}
