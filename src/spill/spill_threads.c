/* Where there is no io_uring: threads, each with one piece at a time. */
#include "spill/spill_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void move(fw_spill *s, fw_spill_piece *p) {
    fw_spill_before(p);
    long result;
    do {
        char *data = p->data + p->done_bytes;
        const size_t left = p->io_bytes - p->done_bytes;
        const off_t at = (off_t)(p->at + p->done_bytes);
        result = p->write ? pwrite(s->fd, data, left, at) : pread(s->fd, data, left, at);
        if (result < 0) result = -errno;
    } while (!fw_spill_advance(s, p, result));
}

static void *work(void *context) {
    fw_spill *s = context;
    pthread_mutex_lock(&s->mutex);
    char *buffer = fw_spill_lane_buffer(s, s->lane_n++);
    for (;;) {
        fw_spill_piece piece;
        if (fw_spill_take(s, &piece, buffer)) {
            pthread_mutex_unlock(&s->mutex);
            move(s, &piece);
            pthread_mutex_lock(&s->mutex);
        } else if (s->ending) {
            break;
        } else {
            pthread_cond_wait(&s->asked, &s->mutex);
        }
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

fw_status fw_spill_threads_start(fw_spill *s) {
    for (; s->thread_n < FW_SPILL_THREADS; s->thread_n++) {
        const int error = pthread_create(&s->thread[s->thread_n], NULL, work, s);
        if (error != 0) return fw_fail(FW_ERR_NOMEM, "could not start a thread for offloading: %s", strerror(error));
    }
    return FW_OK;
}
