#include "store/stale.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint_names.h"
#include "store/export.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A temporary's name, taken apart. */
typedef struct parts {
    char final[256]; /* the name it was to get */
    long pid;
    bool hidden; /* ".tmp-NAME-PID" */
    bool aside;  /* it had the name before, and "-old" says so */
} parts;

static bool take_apart(parts *p, const char *name) {
    *p = (parts){0};
    size_t n = strlen(name);
    if (n >= sizeof p->final) return false;
    p->aside = n > 4 && strcmp(name + n - 4, "-old") == 0;
    if (p->aside) n -= 4;
    size_t digits = n;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
    if (digits == n || n - digits > 10 || digits < 2 || name[digits - 1] != '-') return false;
    p->pid = strtol(name + digits, NULL, 10);
    n = digits - 1; /* before "-PID" */
    p->hidden = strncmp(name, ".tmp-", 5) == 0;
    if (!p->hidden && (n < 5 || strncmp(name + n - 4, ".tmp", 4) != 0)) return false;
    const char *from = p->hidden ? name + 5 : name;
    size_t final_n = p->hidden ? n - 5 : n - 4;
    if ((p->hidden && n <= 5) || p->pid <= 0 || p->pid > INT_MAX) return false;
    memcpy(p->final, from, final_n);
    return true;
}

/* It has ended, and whoever should take note of it does not: the first process of many containers. */
static bool is_zombie(long pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL) return false;
    const bool known = fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
    fclose(f);
    return known && state == 'Z';
}

static bool is_gone(long pid) {
    return pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH) || is_zombie(pid);
}

/* Is it one that a run of ours makes? `path` is where it is. */
static fw_status is_ours(bool *ours, const parts *p, const char *path) {
    struct stat info;
    *ours = false;
    if (lstat(path, &info) != 0) return FW_OK;
    if (p->hidden) /* a checkpoint, or the files of one that was being mirrored (mirror_links.h) */
        *ours = S_ISDIR(info.st_mode) && (fw_checkpoint_step_of(p->final) >= 0 || strcmp(p->final, "mirror") == 0);
    else if (strcmp(p->final, "run.json") == 0)
        *ours = S_ISREG(info.st_mode) && !p->aside;
    else if (strcmp(p->final, "final") == 0 && S_ISDIR(info.st_mode))
        return fw_export_holds_only_known(ours, path);
    return FW_OK;
}

static fw_status remove_one(const char *output_dir, const char *name) {
    parts p;
    if (!take_apart(&p, name) || !is_gone(p.pid)) return FW_OK;
    char *path = NULL, *final = NULL;
    bool ours;
    struct stat info;
    fw_status status;
    FW_TRY_OR(fw_path_join(&path, output_dir, name), done);
    FW_TRY_OR(fw_path_join(&final, output_dir, p.final), done);
    FW_TRY_OR(is_ours(&ours, &p, path), done);
    if (!ours || (p.aside && lstat(final, &info) != 0)) goto done;
    if (fw_dir_remove(path) == FW_OK)
        fw_log_info("removed %s: process %ld left it half-written", path, p.pid);
    else
        fw_log_warning("%s is left from a process that is gone: %s", path, fw_trail_message());
done:
    fw_free(path);
    fw_free(final);
    return status;
}

fw_status fw_stale_remove(const char *output_dir, const fw_output_lock *lock) {
    if (lock->fd < 0 || !lock->exclusive) return FW_OK;
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, output_dir));
    fw_status status = FW_OK;
    for (size_t i = 0; i < name_n && status == FW_OK; i++) status = remove_one(output_dir, names[i]);
    fw_dir_list_free(names, name_n);
    return status;
}
