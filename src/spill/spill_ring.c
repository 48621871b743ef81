/* io_uring by its system calls: one thread keeps FW_SPILL_LANES pieces on their way.
 *
 * Two rings are shared with the kernel. We write entries at the tail of the submission ring, the kernel writes results at
 * the tail of the completion ring; each side reads up to the other's tail and moves its own head. Source: io_uring(7),
 * io_uring_setup(2), io_uring_enter(2). */
#include "spill/spill_internal.h"

#if defined(__has_include)
#if __has_include(<linux/io_uring.h>)
#define HAS_RING 1
#endif
#endif

#ifndef HAS_RING

fw_status fw_spill_ring_start(fw_spill *s, const char **why) {
    (void)s;
    *why = "finewire was built without io_uring";
    return FW_OK;
}

void fw_spill_ring_free(struct fw_spill_ring *ring) { (void)ring; }

#else

#include "base/alloc.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct fw_spill_ring {
    int fd;
    void *sq_map, *cq_map; /* the same where the kernel has both in one */
    size_t sq_map_bytes, cq_map_bytes, entry_bytes;
    struct io_uring_sqe *entry;
    struct io_uring_cqe *result;
    unsigned *sq_head, *sq_tail, *sq_array, *cq_head, *cq_tail;
    unsigned sq_mask, cq_mask;
    unsigned unsent_n; /* entries that the kernel has not been told of */
    fw_spill_piece lane[FW_SPILL_LANES];
    bool busy[FW_SPILL_LANES];
    int busy_n;
} fw_spill_ring;

/* ---- the rings */

static int enter(const fw_spill_ring *r, unsigned submit_n, unsigned wait_n) {
    const unsigned flags = wait_n > 0 ? IORING_ENTER_GETEVENTS : 0;
    const long result = syscall(__NR_io_uring_enter, r->fd, submit_n, wait_n, flags, NULL, 0);
    return result < 0 ? -errno : (int)result;
}

static void *map(const fw_spill_ring *r, size_t bytes, off_t what) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, what);
    return at == MAP_FAILED ? NULL : at;
}

static unsigned *word(void *base, unsigned offset) { return (unsigned *)(void *)((char *)base + offset); }

static bool map_rings(fw_spill_ring *r, const struct io_uring_params *p) {
    r->sq_map_bytes = p->sq_off.array + p->sq_entries * sizeof(unsigned);
    r->cq_map_bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    const bool one = (p->features & IORING_FEAT_SINGLE_MMAP) != 0;
    if (one && r->cq_map_bytes > r->sq_map_bytes) r->sq_map_bytes = r->cq_map_bytes;
    r->sq_map = map(r, r->sq_map_bytes, IORING_OFF_SQ_RING);
    r->cq_map = one ? r->sq_map : map(r, r->cq_map_bytes, IORING_OFF_CQ_RING);
    r->entry_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
    r->entry = map(r, r->entry_bytes, IORING_OFF_SQES);
    if (r->sq_map == NULL || r->cq_map == NULL || r->entry == NULL) return false;
    r->sq_head = word(r->sq_map, p->sq_off.head);
    r->sq_tail = word(r->sq_map, p->sq_off.tail);
    r->sq_array = word(r->sq_map, p->sq_off.array);
    r->sq_mask = *word(r->sq_map, p->sq_off.ring_mask);
    r->cq_head = word(r->cq_map, p->cq_off.head);
    r->cq_tail = word(r->cq_map, p->cq_off.tail);
    r->cq_mask = *word(r->cq_map, p->cq_off.ring_mask);
    r->result = (struct io_uring_cqe *)(void *)((char *)r->cq_map + p->cq_off.cqes);
    return true;
}

void fw_spill_ring_free(fw_spill_ring *r) {
    if (r == NULL) return;
    if (r->entry != NULL) munmap(r->entry, r->entry_bytes);
    if (r->cq_map != NULL && r->cq_map != r->sq_map) munmap(r->cq_map, r->cq_map_bytes);
    if (r->sq_map != NULL) munmap(r->sq_map, r->sq_map_bytes);
    if (r->fd >= 0) close(r->fd);
    fw_free(r);
}

/* There is room: the ring has as many entries as there are lanes, and a lane has one at most. */
static void put(fw_spill_ring *r, int fd, int lane) {
    const fw_spill_piece *p = &r->lane[lane];
    const unsigned tail = *r->sq_tail, slot = tail & r->sq_mask; /* ours to write */
    r->entry[slot] = (struct io_uring_sqe){.opcode = p->write ? IORING_OP_WRITE : IORING_OP_READ,
                                           .fd = fd,
                                           .addr = (uint64_t)(uintptr_t)(p->data + p->done_bytes),
                                           .len = (uint32_t)(p->io_bytes - p->done_bytes),
                                           .off = p->at + p->done_bytes,
                                           .user_data = (unsigned)lane};
    r->sq_array[slot] = slot;
    __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
    r->unsent_n++;
}

/* ---- the thread */

/* Results that are there: pieces go on or are done. */
static void collect(fw_spill *s, fw_spill_ring *r) {
    unsigned head = *r->cq_head;
    while (head != __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE)) {
        const struct io_uring_cqe done = r->result[head & r->cq_mask];
        __atomic_store_n(r->cq_head, ++head, __ATOMIC_RELEASE);
        const int lane = (int)done.user_data;
        if (fw_spill_advance(s, &r->lane[lane], done.res)) {
            r->busy[lane] = false;
            r->busy_n--;
        } else {
            put(r, s->fd, lane);
        }
    }
}

static void fill_lanes(fw_spill *s, fw_spill_ring *r) {
    for (int lane = 0; lane < FW_SPILL_LANES; lane++) {
        if (r->busy[lane]) continue;
        pthread_mutex_lock(&s->mutex);
        const bool taken = fw_spill_take(s, &r->lane[lane], fw_spill_lane_buffer(s, lane));
        pthread_mutex_unlock(&s->mutex);
        if (!taken) return;
        fw_spill_before(&r->lane[lane]);
        r->busy[lane] = true;
        r->busy_n++;
        put(r, s->fd, lane);
    }
}

/* The kernel takes no more entries: what it was told of will end, the rest fails. */
static void give_up(fw_spill *s, fw_spill_ring *r, int error) {
    while (r->busy_n > (int)r->unsent_n && enter(r, 0, 1) >= 0) collect(s, r);
    for (int lane = 0; lane < FW_SPILL_LANES; lane++) {
        if (!r->busy[lane]) continue;
        (void)fw_spill_advance(s, &r->lane[lane], error);
        r->busy[lane] = false;
    }
    r->busy_n = 0;
    __atomic_store_n(r->sq_tail, *r->sq_tail - r->unsent_n, __ATOMIC_RELEASE);
    r->unsent_n = 0;
}

static void *work(void *context) {
    fw_spill *s = context;
    fw_spill_ring *r = s->ring;
    for (;;) {
        fill_lanes(s, r);
        if (r->busy_n == 0) {
            pthread_mutex_lock(&s->mutex);
            while (s->queue_n == 0 && !s->ending) pthread_cond_wait(&s->asked, &s->mutex);
            const bool end = s->queue_n == 0;
            pthread_mutex_unlock(&s->mutex);
            if (end) return NULL;
            continue;
        }
        const int result = enter(r, r->unsent_n, 1);
        if (result >= 0)
            r->unsent_n -= (unsigned)result;
        else if (result != -EINTR && result != -EAGAIN && result != -EBUSY)
            give_up(s, r, result);
        collect(s, r);
    }
}

/* One page from the file: a kernel may have rings and refuse reads through them. */
static bool reads(fw_spill *s, fw_spill_ring *r) {
    char *page = fw_spill_lane_buffer(s, 0);
    r->lane[0] = (fw_spill_piece){.data = page, .io_bytes = FW_SPILL_ALIGN};
    put(r, s->fd, 0);
    int result;
    do result = enter(r, r->unsent_n, 1);
    while (result == -EINTR);
    if (result != 1) return false;
    r->unsent_n = 0;
    const unsigned head = *r->cq_head;
    if (head == __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE)) return false;
    const bool good = r->result[head & r->cq_mask].res == FW_SPILL_ALIGN;
    __atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
    return good;
}

static const char *refusal(int error) {
    if (error == ENOSYS) return "this kernel has no io_uring";
    if (error == EPERM || error == EACCES) return "io_uring is not allowed here";
    return "io_uring could not be set up";
}

fw_status fw_spill_ring_start(fw_spill *s, const char **why) {
    struct io_uring_params params = {0};
    fw_spill_ring *r;
    FW_TRY(FW_NEW(r));
    r->fd = (int)syscall(__NR_io_uring_setup, FW_SPILL_LANES, &params);
    if (r->fd < 0) {
        *why = refusal(errno);
    } else if (!map_rings(r, &params)) {
        *why = "the rings of io_uring could not be mapped";
    } else if (!reads(s, r)) {
        *why = "io_uring does not read here";
    } else {
        s->ring = r;
        const int error = pthread_create(&s->thread[0], NULL, work, s);
        if (error != 0) return fw_fail(FW_ERR_NOMEM, "could not start a thread for offloading: %s", strerror(error));
        s->thread_n = 1;
        return FW_OK;
    }
    fw_spill_ring_free(r);
    return FW_OK;
}

#endif
