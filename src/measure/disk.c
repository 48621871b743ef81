#include "measure/disk.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE_BYTES = 8 << 20 };

typedef struct lab {
    const char *folder;
    int fd;
    int64_t bytes;
    char *piece;
    bool (*stop)(void);
} lab;

static fw_status disk_error(const lab *l, const char *doing) {
    return fw_fail(FW_ERR_IO, "%s a file in %s: %s", doing, l->folder, strerror(errno));
}

static fw_status check_stop(const lab *l) {
    return l->stop != NULL && l->stop() ? fw_fail(FW_ERR_INTERRUPTED, "interrupted by a signal") : FW_OK;
}

/* All of it, piece by piece; moves 0: the end came early. */
static fw_status go_through(const lab *l, bool writes) {
    for (int64_t at = 0; at < l->bytes;) {
        const int64_t left = l->bytes - at;
        const size_t now = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
        FW_TRY(check_stop(l));
        const ssize_t moved = writes ? pwrite(l->fd, l->piece, now, at) : pread(l->fd, l->piece, now, at);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return disk_error(l, writes ? "could not write" : "could not read");
        at += moved;
    }
    return FW_OK;
}

static double cached_part(const lab *l) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), page_n = ((size_t)l->bytes + page - 1) / page;
    unsigned char *resident = NULL;
    size_t n = 0;
    void *map = mmap(NULL, (size_t)l->bytes, PROT_READ, MAP_SHARED, l->fd, 0);
    if (map == MAP_FAILED) return 1;
    if (FW_NEW_ARRAY(resident, page_n) == FW_OK && mincore(map, (size_t)l->bytes, resident) == 0)
        for (size_t i = 0; i < page_n; i++) n += resident[i] & 1;
    else
        n = page_n; /* unknown: not to be taken for a good reading */
    fw_free(resident);
    munmap(map, (size_t)l->bytes);
    return (double)n / (double)page_n;
}

static fw_status measure(lab *l, fw_disk_result *out) {
    uint64_t start_ns = fw_host_now_ns();
    FW_TRY(go_through(l, true));
    if (fsync(l->fd) != 0) return disk_error(l, "could not sync");
    out->write_s = (double)(fw_host_now_ns() - start_ns) * 1e-9;
    posix_fadvise(l->fd, 0, 0, POSIX_FADV_DONTNEED);
    out->cached_part = cached_part(l);
    start_ns = fw_host_now_ns();
    FW_TRY(go_through(l, false));
    out->read_s = (double)(fw_host_now_ns() - start_ns) * 1e-9;
    return FW_OK;
}

/* Without a name from the start where the system can do that; else the name is taken away at once. */
static fw_status open_file(lab *l) {
    char path[4096];
    l->fd = open(l->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (l->fd >= 0) return FW_OK;
    snprintf(path, sizeof path, "%s/finewire-bench-%d.tmp", l->folder, (int)getpid());
    l->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (l->fd < 0) return disk_error(l, "could not create");
    unlink(path);
    return FW_OK;
}

static fw_status check_room(const lab *l) {
    uint64_t free_bytes;
    if (!fw_dir_exists(l->folder))
        return fw_fail(FW_ERR_OPTION, "disk_dir is %s, which is not a folder that is there", l->folder);
    FW_TRY(fw_disk_free(&free_bytes, l->folder));
    if (free_bytes < (uint64_t)l->bytes)
        return fw_fail(FW_ERR_IO, "%s has %llu bytes left and the file would be %lld; give a smaller --disk_bytes",
                       l->folder, (unsigned long long)free_bytes, (long long)l->bytes);
    return FW_OK;
}

fw_status fw_disk_measure(fw_disk_result *out, const char *folder, int64_t bytes, bool (*stop)(void)) {
    lab l = {.folder = folder, .fd = -1, .bytes = bytes, .stop = stop};
    fw_status status;
    *out = (fw_disk_result){.bytes = bytes};
    FW_TRY(check_room(&l));
    FW_TRY(FW_NEW_ARRAY(l.piece, PIECE_BYTES));
    /* not all alike: some disks compress */
    for (size_t i = 0; i < PIECE_BYTES; i++) l.piece[i] = (char)((uint32_t)i * 2654435761u >> 24);
    FW_TRY_OR(open_file(&l), done);
    FW_TRY_OR(measure(&l, out), done);
done:
    if (l.fd >= 0) close(l.fd);
    fw_free(l.piece);
    return status;
}
