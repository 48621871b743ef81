#include "mirror/mirror_fetch.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "mirror/mirror_hub.h"
#include "mirror/mirror_links.h"
#include "mirror/mirror_run.h"
#include "mirror/mirror_target.h"
#include "store/staged_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { POINTER_LIMIT_BYTES = 1 << 16 };
static const char option[] = "--resume_from_checkpoint";

typedef struct fetching {
    fw_mirror_form form;
    const char *output_dir;
    char *log_path, *place; /* place: OUTPUT_DIR/.tmp-mirror-PID */
    fw_mirror_work work;
} fetching;

bool fw_mirror_must_fetch(const char *from) {
    fw_mirror_form f;
    if (fw_mirror_form_read(&f, from, "target", option) != FW_OK) return false;
    const bool must = f.kind != FW_MIRROR_FOLDER;
    fw_mirror_form_fini(&f);
    return must;
}

/* The Hub's program makes NAME below the folder that it is given. */
static fw_status get_from_hub(fetching *f, const char *name, const char *to) {
    char *dir = NULL, *from = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&dir, f->place, "hub"), done);
    FW_TRY_OR(fw_path_join(&from, dir, name), done);
    FW_TRY_OR(fw_mirror_hub_get(&f->form, name, dir, f->log_path, &f->work), done);
    if (rename(from, to) != 0) /* over an empty folder */
        status = fw_fail(FW_ERR_INPUT, "%s has no %s: %s", f->form.text, name, strerror(errno));
done:
    fw_free(dir);
    fw_free(from);
    return status;
}

/* One thing of that name, into an empty folder. */
static fw_status get(fetching *f, const char *name, const char *to) {
    if (f->form.kind == FW_MIRROR_HUB) return get_from_hub(f, name, to);
    const fw_mirror_values values = {"target", to, name};
    char **argv;
    FW_TRY(fw_mirror_form_fill(&argv, &f->form, &values));
    fw_status status = fw_mirror_run(argv, f->log_path, &f->work);
    fw_mirror_words_free(argv);
    if (status == FW_ERR_IO) fw_fail_context(status, "fetching %s has failed: ", name);
    return status;
}

/* Which is the newest? */
static fw_status get_name(char **name, fetching *f) {
    char *dir = NULL, *file = NULL;
    json_t *pointer = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&dir, f->place, FW_MIRROR_POINTER_NAME), done);
    FW_TRY_OR(fw_path_join(&file, dir, FW_MIRROR_POINTER), done);
    FW_TRY_OR(fw_dir_make(dir), done);
    FW_TRY_OR(get(f, FW_MIRROR_POINTER_NAME, dir), done);
    FW_TRY_OR(fw_json_load(&pointer, file, POINTER_LIMIT_BYTES), done);
    FW_TRY_OR(fw_mirror_pointer_read(name, pointer, file), done);
done:
    json_decref(pointer);
    fw_free(dir);
    fw_free(file);
    return status;
}

static fw_status name_of(char **name, const char *dir) {
    fw_checkpoint_state state;
    char text[32];
    FW_TRY(fw_checkpoint_load_state(&state, dir));
    snprintf(text, sizeof text, "step-%08" PRId64, state.step);
    fw_checkpoint_state_fini(&state);
    return fw_strdup(name, text);
}

/* Whole, and what its name says: then it gets that name. */
static fw_status accept(char **path, fw_staged_folder *staged, const char *name) {
    char *is = NULL;
    fw_status status;
    FW_TRY_OR(fw_checkpoint_verify(staged->path_tmp, true), done);
    FW_TRY_OR(name_of(&is, staged->path_tmp), done);
    if (strcmp(is, name) != 0) {
        status = fw_fail(FW_ERR_INPUT, "what was fetched as %s is %s", name, is);
        goto done;
    }
    int fd =
        open(staged->path_tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* others wrote it: they need not have synced */
    if (fd < 0 || syncfs(fd) != 0) status = fw_fail(FW_ERR_IO, "cannot sync %s: %s", staged->path_tmp, strerror(errno));
    if (fd >= 0) close(fd);
    FW_TRY_OR(status, done);
    FW_TRY_OR(fw_staged_folder_commit(staged), done);
    *path = staged->path;
    staged->path = NULL;
done:
    fw_free(is);
    return status;
}

static fw_status fetch_named(char **path, fetching *f) {
    char *name = NULL, *local = NULL;
    fw_staged_folder staged = {0};
    fw_status status;
    FW_TRY_OR(get_name(&name, f), done);
    FW_TRY_OR(fw_path_join(&local, f->output_dir, name), done);
    if (fw_dir_exists(local) && fw_checkpoint_verify(local, true) == FW_OK) {
        fw_log_info("%s is here already", local);
        *path = local;
        local = NULL;
        goto done;
    }
    fw_log_info("fetching %s by %s", name, f->form.text);
    FW_TRY_OR(fw_staged_folder_begin(&staged, local, true), done);
    FW_TRY_OR(get(f, name, staged.path_tmp), done);
    FW_TRY_OR(accept(path, &staged, name), done);
done:
    fw_staged_folder_close(&staged);
    fw_free(local);
    fw_free(name);
    return status;
}

/* A checkpoint, or a folder of them: *found is the one to take. */
static fw_status find_fetched(char **found, const char *dir, const char *from) {
    char *manifest;
    FW_TRY(fw_path_join(&manifest, dir, "manifest.json"));
    const bool is_one = fw_file_exists(manifest);
    fw_free(manifest);
    if (is_one) return fw_strdup(found, dir);
    FW_TRY(fw_checkpoint_newest(found, dir, INT64_MAX, false));
    if (*found != NULL) return FW_OK;
    return fw_fail(FW_ERR_INPUT,
                   "%s has fetched no checkpoint: its {target} has neither manifest.json nor a complete step-...",
                   from);
}

static fw_status fetch_once(char **path, fetching *f) {
    char *dir = NULL, *found = NULL, *name = NULL, *local = NULL;
    fw_staged_folder staged = {0};
    fw_status status;
    FW_TRY_OR(fw_path_join(&dir, f->place, "fetched"), done);
    FW_TRY_OR(fw_dir_make(dir), done);
    fw_log_info("fetching by %s", f->form.text);
    FW_TRY_OR(get(f, "a checkpoint", dir), done);
    FW_TRY_OR(find_fetched(&found, dir, f->form.text), done);
    FW_TRY_OR(name_of(&name, found), done);
    FW_TRY_OR(fw_path_join(&local, f->output_dir, name), done);
    FW_TRY_OR(fw_staged_folder_begin(&staged, local, true), done);
    if (rename(found, staged.path_tmp) != 0) { /* over an empty folder */
        status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", found, staged.path_tmp, strerror(errno));
        goto done;
    }
    FW_TRY_OR(accept(path, &staged, name), done);
done:
    fw_staged_folder_close(&staged);
    fw_free(dir);
    fw_free(found);
    fw_free(name);
    fw_free(local);
    return status;
}

fw_status fw_mirror_fetch(char **path, const char *from, const char *output_dir, int (*is_wished)(void)) {
    fetching f = {.output_dir = output_dir, .work = {.is_wished = is_wished}};
    fw_status status;
    *path = NULL;
    FW_TRY_OR(fw_mirror_form_read(&f.form, from, "target", option), done);
    FW_TRY_OR(fw_path_join(&f.log_path, output_dir, "mirror.log"), done);
    FW_TRY_OR(fw_mirror_links_remove(output_dir), done);
    FW_TRY_OR(fw_mirror_links_place(&f.place, output_dir), done);
    const bool is_hub = f.form.kind == FW_MIRROR_HUB;
    if (is_hub) FW_TRY_OR(fw_mirror_hub_find(option), done);
    FW_TRY_OR(is_hub || fw_mirror_form_has(&f.form, "name") ? fetch_named(path, &f) : fetch_once(path, &f), done);
done:
    if (status != FW_OK) { /* keep the message */
        fw_trail trail;
        fw_trail_copy(&trail);
        fw_mirror_links_remove(output_dir);
        fw_trail_restore(&trail);
    } else {
        status = fw_mirror_links_remove(output_dir);
    }
    fw_mirror_form_fini(&f.form);
    fw_free(f.log_path);
    fw_free(f.place);
    return status;
}

static fw_status copy_checkpoint(const char *from, const char *to, int (*is_wished)(void)) {
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, from));
    fw_status status = FW_OK;
    for (size_t i = 0; i < name_n && status == FW_OK; i++) {
        char *a = NULL, *b = NULL;
        status = fw_path_join(&a, from, names[i]);
        if (status == FW_OK) status = fw_path_join(&b, to, names[i]);
        if (status == FW_OK) status = fw_file_copy(a, b);
        fw_free(a);
        fw_free(b);
        if (status == FW_OK && is_wished != NULL && is_wished())
            status = fw_fail(FW_ERR_INTERRUPTED, "interrupted while fetching %s", from);
    }
    fw_dir_list_free(names, name_n);
    return status;
}

fw_status fw_mirror_fetch_checkpoint(char **path, const char *from, const char *output_dir, int (*is_wished)(void)) {
    const char *name = strrchr(from, '/') + 1;
    char *local = NULL;
    fw_staged_folder staged = {0};
    fw_status status;
    *path = NULL;
    FW_TRY_OR(fw_path_join(&local, output_dir, name), done);
    fw_log_info("fetching %s to %s", from, local);
    FW_TRY_OR(fw_staged_folder_begin(&staged, local, true), done);
    FW_TRY_OR(copy_checkpoint(from, staged.path_tmp, is_wished), done);
    FW_TRY_OR(accept(path, &staged, name), done);
done:
    fw_staged_folder_close(&staged);
    fw_free(local);
    return status;
}

fw_status fw_mirror_newest(char **path, const char *to, int64_t before_step) {
    fw_mirror_form f;
    *path = NULL;
    FW_TRY(fw_mirror_form_read(&f, to, "source", "--mirror"));
    fw_status status = FW_OK;
    if (f.kind == FW_MIRROR_FOLDER && fw_dir_exists(f.text))
        status = fw_checkpoint_newest(path, f.text, before_step, false);
    fw_mirror_form_fini(&f);
    return status;
}
