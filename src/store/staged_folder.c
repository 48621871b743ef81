#include "store/staged_folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/plural.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

fw_status fw_staged_folder_begin(fw_staged_folder *f, const char *path, bool hidden) {
    *f = (fw_staged_folder){0};
    fw_strbuf name = {0};
    fw_status status;
    FW_TRY_OR(fw_path_split(&f->path, &f->parent, path), fail);
    const char *slash = strrchr(f->path, '/'), *last = slash != NULL ? slash + 1 : f->path;
    if (last[0] == 0 || strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
        status = fw_fail(FW_ERR_OPTION, "\"%s\" cannot be the name of a new folder; give it a name of its own", path);
        goto fail;
    }
    if (!hidden) FW_TRY_OR(fw_dir_make(f->parent), fail);
    FW_TRY_OR(hidden ? fw_strbuf_printf(&name, "%s/.tmp-%s-%ld", f->parent, last, (long)getpid())
                     : fw_strbuf_printf(&name, "%s.tmp-%ld", f->path, (long)getpid()),
              fail);
    FW_TRY_OR(fw_dir_remove(name.data), fail); /* left by a process that had our number */
    if (mkdir(name.data, 0777) != 0) {
        status = fw_fail(FW_ERR_IO, "cannot make folder %s: %s", name.data, strerror(errno));
        goto fail;
    }
    f->path_tmp = name.data;
    return FW_OK;
fail:
    fw_strbuf_fini(&name);
    fw_staged_folder_close(f);
    return status;
}

/* Both exist: each gets the other's name. Where the file system cannot do this in one step, the old one is moved
 * aside first and moved back if the second step fails. */
static fw_status swap(const char *tmp, const char *path) {
    if (renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE) == 0) return FW_OK;
    if (errno != EINVAL && errno != ENOSYS)
        return fw_fail(FW_ERR_IO, "renaming %s to %s: %s", tmp, path, strerror(errno));
    fw_strbuf aside = {0};
    FW_TRY(fw_strbuf_printf(&aside, "%s-old", tmp));
    fw_status status = FW_OK;
    if (rename(path, aside.data) != 0)
        status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", path, aside.data, strerror(errno));
    else if (rename(tmp, path) != 0) {
        status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", tmp, path, strerror(errno));
        if (rename(aside.data, path) != 0)
            status = fw_fail_context(status, "what was %s is now %s; ", path, aside.data);
    } else if (rename(aside.data, tmp) != 0)
        status = fw_fail(FW_ERR_IO, "renaming %s to %s: %s", aside.data, tmp, strerror(errno));
    fw_strbuf_fini(&aside);
    return status;
}

fw_status fw_staged_folder_commit(fw_staged_folder *f) {
    FW_TRY(fw_dir_sync(f->path_tmp));
    struct stat info;
    bool replaces = lstat(f->path, &info) == 0;
    if (replaces)
        FW_TRY(swap(f->path_tmp, f->path));
    else if (rename(f->path_tmp, f->path) != 0)
        return fw_fail(FW_ERR_IO, "renaming %s to %s: %s", f->path_tmp, f->path, strerror(errno));
    fw_status status = fw_dir_sync(f->parent);
    if (replaces && status == FW_OK) status = fw_dir_remove(f->path_tmp); /* this is the old one now */
    fw_free(f->path_tmp);
    f->path_tmp = NULL;
    return status;
}

void fw_staged_folder_close(fw_staged_folder *f) {
    if (f->path_tmp != NULL) fw_dir_remove(f->path_tmp); /* the failure that brought us here is what counts */
    fw_free(f->path_tmp);
    fw_free(f->path);
    fw_free(f->parent);
    *f = (fw_staged_folder){0};
}

static void bytes_text(char text[64], uint64_t bytes) {
    if (bytes < 10000000)
        snprintf(text, 64, "%" PRIu64 " byte%s", bytes, fw_plural((int64_t)bytes));
    else
        snprintf(text, 64, "%.2f GB", (double)bytes / 1e9);
}

fw_status fw_store_check_space(const char *path, uint64_t need_bytes, const char *what) {
    char *there;
    FW_TRY(fw_strdup(&there, path));
    while (!fw_dir_exists(there)) { /* up to a folder that exists */
        char *slash = strrchr(there, '/');
        if (slash == NULL)
            strcpy(there, there[0] != 0 ? "." : "");
        else if (slash == there)
            there[1] = 0;
        else
            *slash = 0;
        if (slash == NULL) break;
    }
    uint64_t free_bytes = 0;
    fw_status status = fw_disk_free(&free_bytes, there);
    if (status == FW_OK && free_bytes < need_bytes) {
        char need[64], have[64];
        bytes_text(need, need_bytes);
        bytes_text(have, free_bytes);
        status = fw_fail(FW_ERR_IO,
                         "no space for %s: it needs %s and %s are free at %s; free some or choose another "
                         "folder",
                         what, need, have, there);
    }
    fw_free(there);
    return status;
}
