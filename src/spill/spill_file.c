/* The file: no name, its blocks taken beforehand, direct I/O where it is possible. */
#include "base/alloc.h"
#include "base/file.h"
#include "spill/spill_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fw_status fail(const fw_spill_options *o, const char *doing) {
    return fw_fail(FW_ERR_IO, "%s a file for offloaded state in %s: %s; name another folder with --offload_dir", doing,
                   o->folder, strerror(errno));
}

static fw_status too_small(const fw_spill_options *o, uint64_t free_bytes) {
    return fw_fail(
        FW_ERR_IO,
        "offloaded state takes %.2f GiB in %s, which has %.2f GiB free; name another folder with --offload_dir, or "
        "use more ranks or --offload_optimizer cpu",
        (double)o->bytes / 1073741824.0, o->folder, (double)free_bytes / 1073741824.0);
}

/* Without a name from the start where the file system can do that; else its name is taken away at once. */
static fw_status open_nameless(int *fd, const fw_spill_options *o) {
    char *path;
    *fd = open(o->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0) return FW_OK;
    FW_TRY(fw_path_join(&path, o->folder, "finewire-offload-XXXXXX"));
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd >= 0) (void)unlink(path);
    fw_free(path);
    return *fd >= 0 ? FW_OK : fail(o, "could not make");
}

static fw_status take_blocks(int fd, const fw_spill_options *o) {
    if (ftruncate(fd, (off_t)o->bytes) != 0) return fail(o, "could not size");
    if (o->bytes == 0) return FW_OK;
    int result;
    do result = fallocate(fd, 0, 0, (off_t)o->bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return FW_OK; /* blocks come as they are written then */
    if (errno == ENOSPC || errno == EDQUOT) {
        uint64_t free_bytes = 0;
        (void)fw_disk_free(&free_bytes, o->folder);
        return too_small(o, free_bytes);
    }
    return fail(o, "could not take the blocks of");
}

/* A page there and back. Some file systems take the flag and refuse the calls. */
static bool takes_direct(int fd, void *page) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
    if (pwrite(fd, page, FW_SPILL_ALIGN, 0) == FW_SPILL_ALIGN && pread(fd, page, FW_SPILL_ALIGN, 0) == FW_SPILL_ALIGN)
        return true;
    (void)fcntl(fd, F_SETFL, flags);
    return false;
}

fw_status fw_spill_file_open(int *fd, bool *direct, const fw_spill_options *o, void *page) {
    uint64_t free_bytes;
    fw_status status;
    *fd = -1;
    FW_TRY(fw_dir_make(o->folder));
    FW_TRY(fw_disk_free(&free_bytes, o->folder));
    if (o->bytes > free_bytes) return too_small(o, free_bytes);
    FW_TRY(open_nameless(fd, o));
    FW_TRY_OR(take_blocks(*fd, o), fail);
    *direct = !o->no_direct && o->bytes > 0 && takes_direct(*fd, page);
    return FW_OK;
fail:
    close(*fd);
    *fd = -1;
    return status;
}
