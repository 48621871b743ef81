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

static fw_status reserve(fw_comm *c, fw_shm_host *s, size_t stride, const char *what) {
    size_t all = stride * (size_t)c->options.world;
    fw_status status = FW_OK;
    if (c->options.rank == 0) {
        status = fw_comm_check_host_memory(stride, c->options.world, what);
        if (status == FW_OK && ftruncate(s->memory_fd, (off_t)(s->file_bytes + all)) != 0)
            status = fw_fail(FW_ERR_NOMEM, "could not grow shared memory by %zu bytes for %s: %s", all, what,
                             strerror(errno));
    }
    return fw_comm_agree(c, status);
}

/* Each rank reserves its own part, so that the pages lie near the CPU it runs on. They are mapped when they are used
 * (fw_device_take_pages does that for many at once). */
static fw_status take_own_part(fw_comm *c, fw_shm_host *s, fw_shm_region *region, const char *what) {
    size_t all = region->stride_bytes * (size_t)c->options.world;
    void *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory_fd, (off_t)s->file_bytes);
    if (base == MAP_FAILED)
        return fw_fail(FW_ERR_NOMEM, "could not map %zu bytes of shared memory for %s: %s", all, what, strerror(errno));
    region->base = base;
    off_t first = (off_t)(s->file_bytes + (size_t)c->options.rank * region->stride_bytes);
    int reason = posix_fallocate(s->memory_fd, first, (off_t)region->stride_bytes);
    if (reason != 0 && reason != EOPNOTSUPP)
        return fw_fail(FW_ERR_NOMEM,
                       "could not get %zu bytes of shared memory for %s: %s; free memory or use fewer ranks",
                       region->stride_bytes, what, strerror(reason));
    return FW_OK;
}

/* A new range of the file, `bytes` a rank, mapped by all of them. Collective over the job. */
static fw_status add_range(fw_comm *c, fw_shm_region *out, size_t bytes, const char *what) {
    fw_shm_host *host = fw_shm_of(c)->host;
    FW_TRY(fw_comm_agree_on_memory(c, bytes, what));
    size_t wanted = bytes ? bytes : 1;
    if (wanted > SIZE_MAX / 2 / FW_COMM_MAX_WORLD)
        return fw_fail(FW_ERR_NOMEM, "%s: %zu bytes for each rank are more than can be addressed", what, bytes);
    fw_shm_region region = {.bytes = bytes, .stride_bytes = (wanted + FW_SHM_PAGE - 1) / FW_SHM_PAGE * FW_SHM_PAGE};
    FW_TRY(reserve(c, host, region.stride_bytes, what));
    fw_status status = fw_comm_agree(c, take_own_part(c, host, &region, what));
    size_t all = region.stride_bytes * (size_t)c->options.world;
    if (status != FW_OK) {
        if (region.base != NULL) munmap(region.base, all);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    host->file_bytes += all;
    *out = region;
    return FW_OK;
}

fw_status fw_shm_alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    fw_shm_host *host = fw_shm_of(c)->host;
    *out = NULL;
    int at = atomic_load(&host->region_n);
    if (at == FW_SHM_REGIONS)
        return fw_fail(FW_ERR_FIT, "%s: a group has at most %d shared buffers; put several into one", what,
                       FW_SHM_REGIONS);
    FW_TRY(add_range(c, &host->region[at], bytes, what));
    atomic_store_explicit(&host->region_n, at + 1, memory_order_release);
    *out = host->region[at].base + (size_t)c->options.rank * host->region[at].stride_bytes;
    return FW_OK;
}

/* Each rank gives room for a control area, of which that of the group's first rank is used, and its staging buffer. */
fw_status fw_shm_open_group(fw_comm *parent, fw_comm *group) {
    int64_t most = group->options.world;
    FW_TRY(fw_comm_max_i64(parent, &most, 1));
    if (most == 1) return fw_comm_open_self(group);
    const size_t control_bytes = (sizeof(fw_shm_control) + FW_SHM_PAGE - 1) / FW_SHM_PAGE * FW_SHM_PAGE;
    fw_shm *s = NULL;
    fw_shm_region range = {0};
    fw_status status = fw_comm_agree(parent, FW_NEW(s));
    if (status == FW_OK)
        status = add_range(parent, &range, control_bytes + fw_shm_stage_bytes((int)most), "a group of ranks");
    if (status != FW_OK) {
        fw_free(s);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    char *first = range.base + (size_t)group->first * range.stride_bytes;
    s->host = fw_shm_of(parent)->host;
    s->map = range.base;
    s->map_bytes = range.stride_bytes * (size_t)parent->options.world;
    s->control = (fw_shm_control *)first;
    s->stage = first + control_bytes;
    s->half_bytes = fw_shm_half_bytes((int)most);
    s->stage_step_bytes = range.stride_bytes * (size_t)group->stride;
    group->transport = parent->transport;
    group->state = s;
    if (group->options.world > 1) return FW_OK;
    fw_shm_leave(group);
    return fw_comm_open_self(group);
}

void fw_shm_leave(fw_comm *c) {
    fw_shm *s = fw_shm_of(c);
    if (s == NULL) return;
    fw_shm_host *host = s->host;
    if (s->map != NULL) munmap(s->map, s->map_bytes);
    c->state = NULL;
    fw_free(s);
    if (host == NULL || fw_comm_is_group(c)) return;
    for (int i = 0; i < atomic_load(&host->region_n); i++)
        munmap(host->region[i].base, host->region[i].stride_bytes * (size_t)c->options.world);
    if (host->memory_fd >= 0) close(host->memory_fd);
    fw_free(host);
}
