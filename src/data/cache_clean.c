/* One at a time, and not for ever: locks, and the files that go. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"
#include "data/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 20, SAY_AFTER_MS = 1000 };

static fw_status lock_name(fw_strbuf *out, const char *path) { return fw_strbuf_printf(out, "%s.lock", path); }

/* The lock file may have been removed between open and flock: then it locks nothing. */
static int is_still_there(int fd, const char *name) {
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && stat(name, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

fw_status fw_cache_lock(int *fd, const char *path, int (*stop)(void)) {
    fw_strbuf name = {0};
    fw_status status;
    int64_t waited_ms = 0;
    *fd = -1;
    FW_TRY_OR(lock_name(&name, path), done);
    for (;;) {
        *fd = open(name.data, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (*fd < 0) {
            status = fw_fail(FW_ERR_IO, "cannot make %s: %s", name.data, strerror(errno));
            goto done;
        }
        while (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR) {
                status = fw_fail(FW_ERR_IO, "cannot lock %s: %s", name.data, strerror(errno));
                goto done;
            }
            FW_TRY_OR(fw_dataset_check_stop(stop), done);
            const struct timespec pause = {.tv_nsec = POLL_MS * 1000000l};
            nanosleep(&pause, NULL);
            waited_ms += POLL_MS;
            if (waited_ms == SAY_AFTER_MS)
                fw_log_info("another process tokenises the same conversations; waiting for it");
        }
        if (is_still_there(*fd, name.data)) break;
        close(*fd);
    }
done:
    fw_strbuf_fini(&name);
    if (status != FW_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

void fw_cache_unlock(int fd, const char *path) {
    fw_strbuf name = {0};
    if (fd < 0) return;
    if (lock_name(&name, path) == FW_OK) unlink(name.data); /* while it is locked: who waits for it makes a new one */
    fw_strbuf_fini(&name);
    close(fd);
}

/* Is the lock of a path free? Then nobody is writing for it. *fd: hold it meanwhile. */
static fw_status try_lock(int *fd, const char *path) {
    fw_strbuf name = {0};
    fw_status status;
    *fd = -1;
    FW_TRY_OR(lock_name(&name, path), done);
    *fd = open(name.data, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0 && (flock(*fd, LOCK_EX | LOCK_NB) != 0 || !is_still_there(*fd, name.data))) {
        close(*fd);
        *fd = -1;
    }
done:
    fw_strbuf_fini(&name);
    return status;
}

/* names[i]: a lock, or a file that was being written: "KEY.fwdata.tmp-PID", "KEY.fwdata.tmp-flags-PID". */
static fw_status remove_leftover(const char *dir, const char *name, const char *held) {
    char *leftover, *path = NULL;
    const char *rest = strstr(name, ".fwdata.");
    int fd = -1;
    if (rest == NULL) return FW_OK;
    rest += strlen(".fwdata");
    const int is_lock = strcmp(rest, ".lock") == 0;
    if (!is_lock && strncmp(rest, ".tmp-", 5) != 0) return FW_OK;
    fw_status status;
    FW_TRY(fw_path_join(&leftover, dir, name));
    FW_TRY_OR(fw_strndup(&path, leftover, strlen(leftover) - strlen(rest)), done);
    const int is_ours = held != NULL && strcmp(path, held) == 0;
    if (!is_ours) FW_TRY_OR(try_lock(&fd, path), done);
    if (!is_lock && (is_ours || fd >= 0) && unlink(leftover) == 0)
        fw_log_info("removed %s: the process that wrote it was killed", leftover);
    fw_cache_unlock(fd, path); /* with its file */
done:
    fw_free(path);
    fw_free(leftover);
    return status;
}

fw_status fw_cache_remove_leftovers(const char *dir, const char *held) {
    char **names = NULL;
    size_t n = 0;
    fw_status status = FW_OK;
    FW_TRY(fw_dir_list(&names, &n, dir));
    for (size_t i = 0; i < n && status == FW_OK; i++) status = remove_leftover(dir, names[i], held);
    fw_dir_list_free(names, n);
    return status;
}

typedef struct entry {
    char *path;
    int64_t bytes, used_s;
} entry;

static int compare_used(const void *a, const void *b) {
    const int64_t x = ((const entry *)a)->used_s, y = ((const entry *)b)->used_s;
    return (x > y) - (x < y);
}

static int ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static fw_status remove_oldest(entry *entries, size_t n, int64_t limit_bytes, const char *keep) {
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += entries[i].bytes;
    qsort(entries, n, sizeof *entries, compare_used);
    for (size_t i = 0; i < n && bytes > limit_bytes; i++) {
        if (keep != NULL && strcmp(entries[i].path, keep) == 0) continue;
        if (unlink(entries[i].path) == 0)
            fw_log_debug("removed %s from the cache of data sets: not used for the longest time", entries[i].path);
        bytes -= entries[i].bytes;
    }
    return FW_OK;
}

fw_status fw_cache_clean(const char *dir, int64_t limit_bytes, const char *keep) {
    char **names = NULL;
    size_t name_n = 0, n = 0;
    entry *entries = NULL;
    fw_status status;
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    FW_TRY_OR(FW_NEW_ARRAY(entries, name_n), done);
    for (size_t i = 0; i < name_n; i++) {
        struct stat info;
        char *path;
        FW_TRY_OR(fw_path_join(&path, dir, names[i]), done);
        if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
            if (ends_with(names[i], ".fwdata")) {
                entries[n++] = (entry){path, info.st_size, (int64_t)info.st_mtim.tv_sec};
                continue;
            }
        }
        fw_free(path);
    }
    FW_TRY_OR(remove_oldest(entries, n, limit_bytes, keep), done);
done:
    for (size_t i = 0; i < n; i++) fw_free(entries[i].path);
    fw_free(entries);
    fw_dir_list_free(names, name_n);
    return status;
}
