#include "spill/spill.h"

#include "base/alloc.h"
#include "base/host.h"
#include "spill/spill_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- failures made for tests */

static _Atomic uint64_t fail_read_in, fail_write_in;
void fw_spill_fail_read_at(uint64_t n) { atomic_store(&fail_read_in, n); }
void fw_spill_fail_write_at(uint64_t n) { atomic_store(&fail_write_in, n); }

static bool is_the_one(_Atomic uint64_t *in) {
    uint64_t left = atomic_load(in);
    while (left > 0 && !atomic_compare_exchange_weak(in, &left, left - 1)) {
    }
    return left == 1;
}

/* ---- pieces */

char *fw_spill_lane_buffer(const fw_spill *s, int lane) { return s->buffers + (size_t)lane * FW_SPILL_PIECE_BYTES; }

bool fw_spill_take(fw_spill *s, fw_spill_piece *out, char *buffer) {
    if (s->queue_n == 0) return false;
    fw_spill_range *range = &s->queue[s->queue_first];
    const size_t left = range->bytes - range->taken_bytes,
                 bytes = left < FW_SPILL_PIECE_BYTES ? left : FW_SPILL_PIECE_BYTES;
    char *memory = range->memory + range->taken_bytes;
    const bool whole = bytes % FW_SPILL_ALIGN == 0 && (uintptr_t)memory % FW_SPILL_ALIGN == 0;
    *out = (fw_spill_piece){.move = range->move,
                            .memory = memory,
                            .data = whole ? memory : buffer,
                            .at = range->at + range->taken_bytes,
                            .bytes = bytes,
                            .io_bytes = (size_t)fw_spill_round(bytes),
                            .write = range->write};
    range->taken_bytes += bytes;
    if (range->taken_bytes == range->bytes) {
        s->queue_first = (s->queue_first + 1) % FW_SPILL_QUEUE;
        s->queue_n--;
        pthread_cond_broadcast(&s->moved);
    }
    return true;
}

void fw_spill_before(const fw_spill_piece *p) {
    if (!p->write || p->data == p->memory) return;
    memcpy(p->data, p->memory, p->bytes);
    memset(p->data + p->bytes, 0, p->io_bytes - p->bytes);
}

void fw_spill_after(const fw_spill_piece *p) {
    if (!p->write && p->data != p->memory) memcpy(p->memory, p->data, p->bytes);
}

/* Under the lock. The first failure is the one that is told. */
static void note_failure(fw_spill *s, const fw_spill_piece *p, int error) {
    if (s->status != FW_OK) return;
    const char *advice = error == ENOSPC ? "; free some of it, or name another with --offload_dir" : "";
    s->status = fw_fail(FW_ERR_IO, "could not %s offloaded state %s %s: %s%s", p->write ? "write" : "read",
                        p->write ? "to" : "from", s->folder, error == 0 ? "the file ends" : strerror(error), advice);
    fw_trail_copy(&s->trail);
}

bool fw_spill_advance(fw_spill *s, fw_spill_piece *p, long result) {
    if (result == -EINTR || result == -EAGAIN) return false;
    if (p->done_bytes == 0 && is_the_one(p->write ? &fail_write_in : &fail_read_in)) result = p->write ? -ENOSPC : -EIO;
    if (result > 0) {
        p->done_bytes += (size_t)result;
        if (p->done_bytes < p->io_bytes) return false;
        fw_spill_after(p);
    }
    pthread_mutex_lock(&s->mutex);
    if (result <= 0)
        note_failure(s, p, (int)-result);
    else if (p->write)
        s->counters.written_bytes += p->io_bytes;
    else
        s->counters.read_bytes += p->io_bytes;
    p->move->piece_n--;
    pthread_cond_broadcast(&s->moved);
    pthread_mutex_unlock(&s->mutex);
    return true;
}

/* ---- making it */

static fw_status start(fw_spill *s, const fw_spill_options *o) {
    const char *why = o->no_ring ? "tests" : NULL;
    if (!o->no_ring) FW_TRY(fw_spill_ring_start(s, &why));
    if (why != NULL) FW_TRY(fw_spill_threads_start(s));
    const char *how = s->direct ? "direct I/O" : "the page cache";
    char notes[128] = "";
    if (why != NULL || !s->direct)
        snprintf(notes, sizeof notes, " (%s%s%s)", why != NULL ? why : "", why != NULL && !s->direct ? "; " : "",
                 s->direct ? "" : "the file system takes no direct I/O");
    if (why == NULL)
        snprintf(s->way, sizeof s->way, "io_uring, %s%s", how, notes);
    else
        snprintf(s->way, sizeof s->way, "%d threads, %s%s", FW_SPILL_THREADS, how, notes);
    return FW_OK;
}

fw_status fw_spill_create(fw_spill **out, const fw_spill_options *options) {
    fw_spill *s;
    fw_status status;
    fw_spill_options o = *options;
    *out = NULL;
    o.bytes = fw_spill_round(o.bytes > 0 ? o.bytes : 1);
    FW_TRY(FW_NEW(s));
    s->fd = -1;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->asked, NULL);
    pthread_cond_init(&s->moved, NULL);
    FW_TRY_OR(fw_strdup(&s->folder, o.folder), fail);
    void *buffers = mmap(NULL, FW_SPILL_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers == MAP_FAILED) {
        status = fw_fail(FW_ERR_NOMEM, "out of memory for the buffers of offloaded state");
        goto fail;
    }
    s->buffers = buffers;
    FW_TRY_OR(fw_spill_file_open(&s->fd, &s->direct, &o, s->buffers), fail);
    FW_TRY_OR(start(s, &o), fail);
    *out = s;
    return FW_OK;
fail:
    fw_spill_destroy(s);
    return status;
}

void fw_spill_destroy(fw_spill *s) {
    if (s == NULL) return;
    pthread_mutex_lock(&s->mutex);
    s->ending = true;
    pthread_cond_broadcast(&s->asked);
    pthread_mutex_unlock(&s->mutex);
    for (int i = 0; i < s->thread_n; i++) pthread_join(s->thread[i], NULL);
    fw_spill_ring_free(s->ring);
    if (s->fd >= 0) close(s->fd);
    if (s->buffers != NULL) munmap(s->buffers, FW_SPILL_BUFFER_BYTES);
    fw_free(s->folder);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->asked);
    pthread_cond_destroy(&s->moved);
    fw_free(s);
}

const char *fw_spill_way(const fw_spill *s) { return s->way; }

void fw_spill_get_counters(fw_spill *s, fw_spill_counters *out) {
    pthread_mutex_lock(&s->mutex);
    *out = s->counters;
    pthread_mutex_unlock(&s->mutex);
}

/* ---- the caller's side */

/* Under the lock: what failed, as the caller's own failure. */
static fw_status failed(const fw_spill *s) {
    if (s->status != FW_OK) fw_trail_restore(&s->trail);
    return s->status;
}

static fw_status ask(fw_spill *s, const fw_spill_range *range) {
    FW_ASSERT(range->at % FW_SPILL_ALIGN == 0);
    if (range->bytes == 0) return FW_OK;
    pthread_mutex_lock(&s->mutex);
    while (s->queue_n == FW_SPILL_QUEUE && s->status == FW_OK) pthread_cond_wait(&s->moved, &s->mutex);
    const fw_status status = failed(s);
    if (status == FW_OK) {
        range->move->piece_n += (uint32_t)((range->bytes + FW_SPILL_PIECE_BYTES - 1) / FW_SPILL_PIECE_BYTES);
        s->queue[(s->queue_first + s->queue_n++) % FW_SPILL_QUEUE] = *range;
        pthread_cond_broadcast(&s->asked);
    }
    pthread_mutex_unlock(&s->mutex);
    return status;
}

fw_status fw_spill_write(fw_spill *s, fw_spill_move *move, const void *from, uint64_t at, size_t bytes) {
    char *memory = (char *)(uintptr_t)from; /* only read */
    return ask(s, &(fw_spill_range){.move = move, .memory = memory, .at = at, .bytes = bytes, .write = true});
}

fw_status fw_spill_read(fw_spill *s, fw_spill_move *move, void *to, uint64_t at, size_t bytes) {
    return ask(s, &(fw_spill_range){.move = move, .memory = to, .at = at, .bytes = bytes});
}

fw_status fw_spill_wait(fw_spill *s, fw_spill_move *move) {
    pthread_mutex_lock(&s->mutex);
    if (move->piece_n > 0) {
        const uint64_t began_ns = fw_host_now_ns();
        while (move->piece_n > 0) pthread_cond_wait(&s->moved, &s->mutex);
        s->counters.wait_ns += fw_host_now_ns() - began_ns;
    }
    const fw_status status = failed(s);
    pthread_mutex_unlock(&s->mutex);
    return status;
}
