#include "base/file.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { WRITER_BUFFER_BYTES = 1 << 20 };

static _Atomic uint64_t write_countdown, sync_countdown, slow_countdown;
static _Atomic unsigned slow_s;

void fw_file_fail_write_at(uint64_t n) { atomic_store(&write_countdown, n); }
void fw_file_fail_sync_at(uint64_t n) { atomic_store(&sync_countdown, n); }
void fw_file_slow_write_at(uint64_t n, unsigned seconds) {
    atomic_store(&slow_s, seconds);
    atomic_store(&slow_countdown, n);
}

static int sync_file(int fd) {
    if (atomic_load(&sync_countdown) != 0 && atomic_fetch_sub(&sync_countdown, 1) == 1) {
        errno = EIO;
        return -1;
    }
    return fsync(fd);
}

/* write() until all is out; the one place where bytes leave for the disk. */
static fw_status write_all(int fd, const char *path, const uint8_t *bytes, size_t n_bytes) {
    if (atomic_load(&write_countdown) != 0 && atomic_fetch_sub(&write_countdown, 1) == 1)
        return fw_fail(FW_ERR_IO, "writing %s: %s", path, strerror(ENOSPC));
    if (atomic_load(&slow_countdown) != 0 && atomic_fetch_sub(&slow_countdown, 1) == 1) sleep(atomic_load(&slow_s));
    while (n_bytes > 0) {
        ssize_t n = write(fd, bytes, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            return fw_fail(FW_ERR_IO, "writing %s: %s%s", path, strerror(errno),
                           errno == ENOSPC || errno == EDQUOT ? "; free some space or choose another place to write to"
                                                              : "");
        }
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return FW_OK;
}

/* What is wrong with the machine is not wrong with the file. */
static fw_status input_error(int reason) {
    if (reason == ENOMEM) return FW_ERR_NOMEM;
    return reason == EIO || reason == EMFILE || reason == ENFILE ? FW_ERR_IO : FW_ERR_INPUT;
}

static fw_status open_input(int *fd, struct stat *info, const char *path) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would wait for ever */
    if (*fd < 0) return fw_fail(input_error(errno), "cannot open %s: %s", path, strerror(errno));
    if (fstat(*fd, info) != 0 || !S_ISREG(info->st_mode)) {
        close(*fd);
        return fw_fail(FW_ERR_INPUT, "cannot read %s: %s", path,
                       S_ISDIR(info->st_mode) ? "it is a folder" : "it is not a plain file");
    }
    return FW_OK;
}

fw_status fw_file_map(fw_mapping *out, const char *path) {
    *out = (fw_mapping){0};
    int fd;
    struct stat info;
    FW_TRY(open_input(&fd, &info, path));
    if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            int reason = errno;
            close(fd);
            return fw_fail(input_error(reason), "cannot map %s: %s", path, strerror(reason));
        }
        out->data = data;
        out->bytes = (size_t)info.st_size;
    }
    close(fd);
    return FW_OK;
}

fw_status fw_file_open(int *fd, const char *path) {
    struct stat info;
    return open_input(fd, &info, path);
}

fw_status fw_file_read_at(int fd, void *out, size_t bytes, uint64_t offset, const char *path) {
    uint8_t *to = out;
    while (bytes > 0) {
        ssize_t n = pread(fd, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fw_fail(input_error(errno), "reading %s: %s", path, strerror(errno));
        if (n == 0)
            return fw_fail(FW_ERR_INPUT, "%s ends at byte %llu; it has become shorter", path,
                           (unsigned long long)offset);
        to += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return FW_OK;
}

void fw_file_unmap(fw_mapping *mapping) {
    if (mapping->data != NULL) munmap((void *)(uintptr_t)mapping->data, mapping->bytes);
    *mapping = (fw_mapping){0};
}

void fw_file_unmap_pages(const fw_mapping *mapping, size_t offset, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (offset + page - 1) / page * page, last = (offset + bytes) / page * page;
    if (last > first && last <= mapping->bytes)
        madvise((void *)(uintptr_t)(mapping->data + first), last - first, MADV_DONTNEED);
}

fw_status fw_file_read(fw_strbuf *out, const char *path, size_t limit_bytes) {
    int fd;
    struct stat info;
    FW_TRY(open_input(&fd, &info, path));
    fw_status status = FW_OK;
    if ((uint64_t)info.st_size > limit_bytes) {
        status = fw_fail(FW_ERR_INPUT, "%s has %lld bytes; at most %zu are expected here", path,
                         (long long)info.st_size, limit_bytes);
        goto done;
    }
    FW_TRY_OR(fw_strbuf_reserve(out, (size_t)info.st_size), done);
    size_t left = (size_t)info.st_size;
    while (left > 0) {
        ssize_t n = read(fd, out->data + out->len_bytes, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            status = fw_fail(input_error(errno), "reading %s: %s", path, strerror(errno));
            goto done;
        }
        if (n == 0) break; /* it shrank while we read: take what is there */
        out->len_bytes += (size_t)n;
        left -= (size_t)n;
    }
    out->data[out->len_bytes] = 0;
done:
    close(fd);
    return status;
}

fw_status fw_file_write(const char *path, const void *bytes, size_t n_bytes) {
    fw_file_writer w = {0};
    fw_status status;
    FW_TRY_OR(fw_file_writer_open(&w, path), done);
    FW_TRY_OR(fw_file_writer_write(&w, bytes, n_bytes), done);
    FW_TRY_OR(fw_file_writer_commit(&w), done);
done:
    fw_file_writer_close(&w);
    return status;
}

fw_status fw_file_append(const char *path, const void *bytes, size_t n_bytes) {
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return fw_fail(FW_ERR_IO, "cannot append to %s: %s", path, strerror(errno));
    fw_status status = write_all(fd, path, bytes, n_bytes);
    if (close(fd) != 0 && status == FW_OK) status = fw_fail(FW_ERR_IO, "closing %s: %s", path, strerror(errno));
    return status;
}

fw_status fw_file_copy(const char *from, const char *to) {
    fw_mapping source;
    FW_TRY(fw_file_map(&source, from));
    fw_status status = fw_file_write(to, source.data, source.bytes);
    fw_file_unmap(&source);
    return status;
}

bool fw_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool fw_dir_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool fw_dir_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISDIR(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

fw_status fw_dir_has_file(bool *has, const char *dir, const char *name) {
    char *path;
    *has = false;
    FW_TRY(fw_path_join(&path, dir, name));
    *has = fw_file_exists(path);
    fw_free(path);
    return FW_OK;
}

fw_status fw_dir_make(const char *path) {
    char *partial;
    FW_TRY(fw_strdup(&partial, path));
    fw_status status = FW_OK;
    for (char *c = partial + 1; status == FW_OK; c++) {
        if (*c != '/' && *c != 0) continue;
        char kept = *c;
        *c = 0;
        if (mkdir(partial, 0777) != 0 && (errno != EEXIST || !fw_dir_exists(partial)))
            status = fw_fail(FW_ERR_IO, "cannot make folder %s: %s", partial, strerror(errno));
        *c = kept;
        if (kept == 0) break;
    }
    fw_free(partial);
    return status;
}

static int remove_tree(int parent, const char *name) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return 0;
    if (errno != EISDIR && errno != EPERM) return -1;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return -1;
    }
    int result = 0;
    for (struct dirent *entry; result == 0 && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = remove_tree(fd, entry->d_name);
    closedir(dir);
    return result == 0 ? unlinkat(parent, name, AT_REMOVEDIR) : result;
}

fw_status fw_dir_remove(const char *path) {
    if (remove_tree(AT_FDCWD, path) != 0) return fw_fail(FW_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    return FW_OK;
}

fw_status fw_dir_sync(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fw_fail(FW_ERR_IO, "cannot open folder %s: %s", path, strerror(errno));
    int result = sync_file(fd), reason = errno;
    close(fd);
    /* Some network file systems cannot sync a folder and say EINVAL: there is nothing more to do there. */
    if (result != 0 && reason != EINVAL) return fw_fail(FW_ERR_IO, "cannot sync folder %s: %s", path, strerror(reason));
    return FW_OK;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

fw_status fw_dir_list(char ***names, size_t *name_n, const char *path) {
    *names = NULL;
    *name_n = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) return fw_fail(input_error(errno), "cannot open folder %s: %s", path, strerror(errno));
    fw_status status = FW_OK;
    size_t cap = 0, n = 0;
    char **list = NULL;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            FW_TRY_OR(FW_GROW_ARRAY(list, cap), done);
        }
        FW_TRY_OR(fw_strdup(&list[n], entry->d_name), done);
        n++;
    }
done:
    closedir(dir);
    if (status != FW_OK) {
        fw_dir_list_free(list, n);
        return status;
    }
    if (n > 1) qsort(list, n, sizeof *list, compare_names);
    *names = list;
    *name_n = n;
    return FW_OK;
}

void fw_dir_list_free(char **names, size_t name_n) {
    for (size_t i = 0; i < name_n; i++) fw_free(names[i]);
    fw_free(names);
}

fw_status fw_path_split(char **path, char **parent, const char *given) {
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/') n--;
    *path = *parent = NULL;
    FW_TRY(fw_strndup(path, given, n));
    const char *slash = strrchr(*path, '/');
    if (slash == NULL) return fw_strdup(parent, ".");
    return fw_strndup(parent, *path, slash == *path ? 1 : (size_t)(slash - *path));
}

fw_status fw_path_join(char **out, const char *a, const char *b) {
    fw_strbuf s = {0};
    fw_status status = FW_OK;
    if (b[0] != '/') {
        FW_TRY_OR(fw_strbuf_puts(&s, a), done);
        if (s.len_bytes > 0 && s.data[s.len_bytes - 1] != '/') FW_TRY_OR(fw_strbuf_putc(&s, '/'), done);
    }
    FW_TRY_OR(fw_strbuf_puts(&s, b), done);
    *out = s.data;
    return FW_OK;
done:
    fw_strbuf_fini(&s);
    *out = NULL;
    return status;
}

fw_status fw_disk_free(uint64_t *bytes, const char *path) {
    struct statvfs info;
    if (statvfs(path, &info) != 0)
        return fw_fail(FW_ERR_IO, "cannot ask for free space at %s: %s", path, strerror(errno));
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return FW_OK;
}

/* Is this where standard output goes? Then what is written must follow what stands there already. */
static bool is_standard_output(const struct stat *file) {
    struct stat out;
    return fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == file->st_dev && out.st_ino == file->st_ino;
}

/* What stands at path must stay what it is: w->path becomes the file behind a link, and what is a stream rather than a
 * file is opened as it is. */
static fw_status look_at_place(fw_file_writer *w, const char *path) {
    struct stat info, link;
    if (lstat(path, &link) != 0) return fw_strdup(&w->path, path); /* nothing there, or open says what is wrong */
    if (stat(path, &info) != 0)
        return fw_fail(FW_ERR_IO, "cannot write %s: %s", path,
                       errno == ENOENT ? "it is a link to a file that is not there" : strerror(errno));
    if (S_ISDIR(info.st_mode)) return fw_fail(FW_ERR_IO, "cannot write %s: it is a folder", path);
    if (is_standard_output(&info)) {
        fflush(stdout);
        w->fd = dup(STDOUT_FILENO);
    } else if (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode)) {
        w->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    } else if (!S_ISREG(info.st_mode)) {
        return fw_fail(FW_ERR_IO, "cannot write %s: it is a %s", path,
                       S_ISSOCK(info.st_mode) ? "socket" : "block device");
    } else if (S_ISLNK(link.st_mode)) {
        char *target = realpath(path, NULL);
        if (target == NULL) return fw_fail(FW_ERR_IO, "cannot write %s: %s", path, strerror(errno));
        fw_status status = fw_strdup(&w->path, target);
        free(target);
        return status;
    } else {
        return fw_strdup(&w->path, path);
    }
    if (w->fd < 0) return fw_fail(FW_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return fw_strdup(&w->path, path);
}

fw_status fw_file_writer_open(fw_file_writer *w, const char *path) {
    *w = (fw_file_writer){.fd = -1};
    fw_strbuf name = {0};
    fw_status status;
    FW_TRY_OR(look_at_place(w, path), fail);
    FW_TRY_OR(FW_NEW_ARRAY(w->buffer, WRITER_BUFFER_BYTES), fail);
    if (w->fd >= 0) return FW_OK; /* a stream: there is no second name */
    FW_TRY_OR(fw_strbuf_printf(&name, "%s.tmp-%ld", w->path, (long)getpid()), fail);
    w->path_tmp = name.data;
    w->fd = open(w->path_tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        status = fw_fail(FW_ERR_IO, "cannot create %s: %s", w->path_tmp, strerror(errno));
        goto fail;
    }
    return FW_OK;
fail:
    fw_file_writer_close(w);
    return status;
}

/* The disk begins while the rest is still being made, so that the sync at the end has less to wait for. */
static fw_status give(fw_file_writer *w, const uint8_t *bytes, size_t n_bytes) {
    enum { START_BYTES = 8 << 20 };
    FW_TRY(write_all(w->fd, w->path, bytes, n_bytes));
    w->out_bytes += n_bytes;
#ifdef SYNC_FILE_RANGE_WRITE
    if (w->out_bytes - w->started_bytes >= START_BYTES) {
        sync_file_range(w->fd, (off_t)w->started_bytes, (off_t)(w->out_bytes - w->started_bytes),
                        SYNC_FILE_RANGE_WRITE);
        w->started_bytes = w->out_bytes;
    }
#endif
    return FW_OK;
}

static fw_status flush(fw_file_writer *w) {
    size_t n = w->buffered_bytes;
    w->buffered_bytes = 0;
    return n == 0 ? FW_OK : give(w, w->buffer, n);
}

fw_status fw_file_writer_write(fw_file_writer *w, const void *bytes, size_t n_bytes) {
    w->written_bytes += n_bytes;
    if (n_bytes >= WRITER_BUFFER_BYTES) {
        FW_TRY(flush(w));
        return give(w, bytes, n_bytes);
    }
    if (w->buffered_bytes + n_bytes > WRITER_BUFFER_BYTES) FW_TRY(flush(w));
    if (n_bytes) memcpy(w->buffer + w->buffered_bytes, bytes, n_bytes);
    w->buffered_bytes += n_bytes;
    return FW_OK;
}

fw_status fw_file_writer_commit(fw_file_writer *w) {
    FW_TRY(flush(w));
    const bool renames = w->path_tmp != NULL;
    if (renames && sync_file(w->fd) != 0) return fw_fail(FW_ERR_IO, "syncing %s: %s", w->path, strerror(errno));
    int closed = close(w->fd);
    w->fd = -1;
    if (closed != 0) return fw_fail(FW_ERR_IO, "closing %s: %s", w->path, strerror(errno));
    if (!renames) return FW_OK;
    if (rename(w->path_tmp, w->path) != 0)
        return fw_fail(FW_ERR_IO, "renaming %s to %s: %s", w->path_tmp, w->path, strerror(errno));
    w->path_tmp[0] = 0; /* nothing left to remove */
    char *slash = strrchr(w->path, '/');
    if (slash == NULL) return fw_dir_sync(".");
    if (slash == w->path) return fw_dir_sync("/");
    *slash = 0;
    fw_status status = fw_dir_sync(w->path);
    *slash = '/';
    return status;
}

void fw_file_writer_close(fw_file_writer *w) {
    if (w->path == NULL && w->path_tmp == NULL && w->buffer == NULL && w->fd <= 0) return;
    if (w->fd >= 0) close(w->fd);
    if (w->path_tmp != NULL && w->path_tmp[0] != 0) unlink(w->path_tmp);
    fw_free(w->path);
    fw_free(w->path_tmp);
    fw_free(w->buffer);
    *w = (fw_file_writer){.fd = -1};
}
