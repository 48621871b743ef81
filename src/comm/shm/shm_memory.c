/* fw_comm_alloc on shared memory: every rank's buffer in one range of the file, mapped by all. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/shm/shm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

typedef struct wish {
    uint64_t bytes;
    char what[64];
} wish;

/* All ranks want the same; rank 0 knows whether the host has it. */
static fw_status agree_on_wish(fw_comm *c, size_t bytes, const char *what) {
    wish mine = {.bytes = bytes}, all[FW_COMM_MAX_WORLD];
    snprintf(mine.what, sizeof mine.what, "%s", what);
    FW_TRY(c->transport->exchange(c, all, &mine, sizeof mine, "alloc"));
    for (int r = 1; r < c->options.world; r++)
        if (all[r].bytes != all[0].bytes)
            return fw_fail(
                FW_ERR_RANK, "rank %d asks for %llu bytes of shared memory for %.60s, rank 0 for %llu for %.60s", r,
                (unsigned long long)all[r].bytes, all[r].what, (unsigned long long)all[0].bytes, all[0].what);
    return FW_OK;
}

static fw_status reserve(fw_comm *c, fw_shm *s, size_t stride, const char *what) {
    size_t all = stride * (size_t)c->options.world;
    uint64_t free_bytes = fw_host_memory_available();
    fw_status status = FW_OK;
    if (c->options.rank == 0) {
        if (free_bytes < all)
            status = fw_fail(FW_ERR_NOMEM,
                             "%s needs %d x %.1f MiB of shared memory and this host has %.1f MiB left; use "
                             "fewer ranks or a smaller model",
                             what, c->options.world, (double)stride / 1048576.0, (double)free_bytes / 1048576.0);
        else if (ftruncate(s->memory_fd, (off_t)(s->file_bytes + all)) != 0)
            status = fw_fail(FW_ERR_NOMEM, "could not grow shared memory by %zu bytes for %s: %s", all, what,
                             strerror(errno));
    }
    return fw_comm_agree(c, status);
}

/* Each rank reserves its own part, so that the pages lie near the CPU it runs on. */
static fw_status take_own_part(fw_comm *c, fw_shm *s, fw_shm_region *region, const char *what) {
    size_t all = region->stride_bytes * (size_t)c->options.world;
    void *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory_fd, (off_t)s->file_bytes);
    if (base == MAP_FAILED)
        return fw_fail(FW_ERR_NOMEM, "could not map %zu bytes of shared memory for %s: %s", all, what, strerror(errno));
    region->base = base;
    madvise(base, all, MADV_HUGEPAGE); /* a wish */
    off_t first = (off_t)(s->file_bytes + (size_t)c->options.rank * region->stride_bytes);
    int reason = posix_fallocate(s->memory_fd, first, (off_t)region->stride_bytes);
    if (reason != 0 && reason != EOPNOTSUPP)
        return fw_fail(FW_ERR_NOMEM,
                       "could not get %zu bytes of shared memory for %s: %s; free memory or use fewer ranks",
                       region->stride_bytes, what, strerror(reason));
    return FW_OK;
}

fw_status fw_shm_alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    fw_shm *s = fw_shm_of(c);
    *out = NULL;
    FW_TRY(agree_on_wish(c, bytes, what));
    int at = atomic_load(&s->region_n);
    if (at == FW_SHM_REGIONS)
        return fw_fail(FW_ERR_FIT, "%s: a group has at most %d shared buffers; put several into one", what,
                       FW_SHM_REGIONS);
    size_t to = bytes >= HUGE_PAGE ? HUGE_PAGE : FW_SHM_PAGE, wanted = bytes ? bytes : 1;
    if (wanted > SIZE_MAX / 2 / FW_COMM_MAX_WORLD)
        return fw_fail(FW_ERR_NOMEM, "%s: %zu bytes for each rank are more than can be addressed", what, bytes);
    fw_shm_region region = {.bytes = bytes, .stride_bytes = (wanted + to - 1) / to * to};
    FW_TRY(reserve(c, s, region.stride_bytes, what));
    fw_status status = fw_comm_agree(c, take_own_part(c, s, &region, what));
    size_t all = region.stride_bytes * (size_t)c->options.world;
    if (status != FW_OK) {
        if (region.base != NULL) munmap(region.base, all);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    s->file_bytes += all;
    s->region[at] = region;
    atomic_store_explicit(&s->region_n, at + 1, memory_order_release);
    *out = region.base + (size_t)c->options.rank * region.stride_bytes;
    return FW_OK;
}

void fw_shm_leave(fw_comm *c) {
    fw_shm *s = fw_shm_of(c);
    if (s == NULL) return;
    for (int i = 0; i < atomic_load(&s->region_n); i++)
        munmap(s->region[i].base, s->region[i].stride_bytes * (size_t)c->options.world);
    if (s->map != NULL) munmap(s->map, s->map_bytes);
    if (s->memory_fd >= 0) close(s->memory_fd);
    c->state = NULL;
    fw_free(s);
}
