/* Transport "shm": opening, small exchanges, and the vtable. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/shm/shm_internal.h"

#include <stdio.h>
#include <string.h>

static fw_shm_small *small_of(const fw_comm *c, uint64_t turn, int rank) {
    return &fw_shm_of(c)->host->small[(turn & 1) * (uint64_t)c->options.world + (uint64_t)rank];
}

/* Two places in turn: a rank can write turn k + 2 only after all have come to k + 1, and so have read k. */
static fw_status exchange(fw_comm *c, void *all, const void *mine, size_t bytes, const char *call) {
    if (fw_comm_is_group(c)) { /* comm.h allows a barrier only */
        uint64_t number = 1 + atomic_load(&fw_shm_of(c)->barrier_n[FW_SHM_SMALL]);
        return fw_shm_barrier(c, FW_SHM_SMALL, &(fw_shm_call){call, NULL, number});
    }
    uint64_t turn = fw_shm_of(c)->host->exchange_n++;
    fw_shm_small *own = small_of(c, turn, c->options.rank);
    snprintf(own->call, sizeof own->call, "%s", call);
    own->bytes = bytes;
    if (bytes > 0) memcpy(own->data, mine, bytes);
    FW_TRY(fw_shm_barrier(c, FW_SHM_SMALL, &(fw_shm_call){call, NULL, turn + 1}));
    for (int r = 0; r < c->options.world; r++) {
        const fw_shm_small *other = small_of(c, turn, r);
        if (other->bytes != bytes || strcmp(other->call, own->call) != 0)
            return fw_fail(
                FW_ERR_RANK,
                "the ranks have diverged: rank %d called %s with %zu bytes while rank %d called %.31s with %llu",
                c->options.rank, call, bytes, r, other->call, (unsigned long long)other->bytes);
        if (bytes > 0) memcpy((char *)all + (size_t)r * bytes, other->data, bytes);
    }
    return FW_OK;
}

static void set_host_work(fw_comm *c, const char *what) {
    fw_shm_presence *own = fw_shm_presence_of(c, c->options.rank);
    if (what != NULL) snprintf(own->last_work, sizeof own->last_work, "%s", what);
    atomic_store(&own->host_work, what != NULL);
}

static const fw_transport transport = {
    .name = "shm",
    .alloc = fw_shm_alloc,
    .run = fw_shm_run,
    .exchange = exchange,
    .set_host_work = set_host_work,
    .open_group = fw_shm_open_group,
    .wake = fw_shm_wake,
    .destroy = fw_shm_leave,
};

fw_status fw_comm_open_shm(fw_comm *c, uint64_t deadline_ns) {
    fw_shm *s;
    FW_TRY(FW_NEW(s));
    c->transport = &transport;
    c->state = s;
    FW_TRY(FW_NEW(s->host));
    s->host->memory_fd = -1;
    FW_TRY(fw_shm_join(c, s, deadline_ns));
    /* The first barrier is part of the meeting. */
    uint64_t now_ns = fw_host_now_ns();
    s->host->timeout_ns = (now_ns < deadline_ns ? deadline_ns - now_ns : 0) + 1000000000ull;
    FW_TRY(fw_shm_barrier(c, FW_SHM_SMALL, &(fw_shm_call){"start", NULL, 0}));
    s->host->timeout_ns = (uint64_t)(c->options.timeout_s * 1e9);
    return FW_OK;
}
