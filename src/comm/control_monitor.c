/* The monitor thread: hears failures, ends, silence and good-byes, and passes them on. Rank 0 watches every rank and
 * tells the others; they watch rank 0. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/control_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

void fw_control_send_all(fw_control *control, int except, fw_frame_kind kind, int rank, fw_status status, int told,
                         const void *payload, size_t bytes) {
    pthread_mutex_lock(&control->send_lock);
    for (int r = 0; r < control->options.world; r++)
        if (r != except) fw_frame_send(control->peer[r].fd, kind, rank, status, told, payload, bytes);
    pthread_mutex_unlock(&control->send_lock);
}

/* Pass it on first, then tell our own rank: it may end the process. */
static void note_failure(fw_control *control, int from, int origin, int told, fw_status status, const char *message) {
    if (control->failed) return; /* what follows a failure is not news */
    control->failed = 1;
    if (control->options.rank == 0)
        fw_control_send_all(control, from, FW_FRAME_ABORT, origin, status, told, message, strlen(message));
    control->hooks.failed(control->hooks.context, origin, told, status, message);
}

static void note_end(fw_control *control, int r, const char *message) {
    fw_control_peer *peer = &control->peer[r];
    pthread_mutex_lock(&control->send_lock);
    close(peer->fd);
    peer->fd = -1;
    pthread_mutex_unlock(&control->send_lock);
    if (!peer->left) note_failure(control, r, r, 0, FW_ERR_RANK, message);
}

static void note_frame(fw_control *control, int r, const fw_frame *f) {
    /* Rank 0 believes a rank only about itself. */
    int about = control->options.rank == 0 ? r : f->head.rank;
    if (about < 0 || about >= control->options.world) return;
    if (f->head.kind == FW_FRAME_ABORT) {
        fw_status status =
            f->head.status > FW_OK && f->head.status <= FW_ERR_INTERNAL ? (fw_status)f->head.status : FW_ERR_RANK;
        note_failure(control, r, about, f->head.told != 0, status, f->payload);
    } else if (f->head.kind == FW_FRAME_LEAVE) {
        if (about == r) control->peer[r].left = 1;
        if (control->options.rank == 0) fw_control_send_all(control, r, FW_FRAME_LEAVE, about, FW_OK, 0, NULL, 0);
        control->hooks.left(control->hooks.context, about);
    }
}

static void look_at_peer(fw_control *control, int r, uint64_t now_ns, uint64_t silence_ns) {
    fw_control_peer *peer = &control->peer[r];
    for (int k = 0; k < 64; k++) { /* bounded: one rank must not keep us from the others */
        fw_read_result result = fw_frame_read(peer->fd, &peer->reader);
        if (result == FW_READ_NOTHING) break;
        if (result != FW_READ_FRAME) {
            note_end(control, r, result == FW_READ_END ? "died (connection closed)" : "died (its connection broke)");
            return;
        }
        peer->heard_ns = now_ns;
        note_frame(control, r, &peer->reader.frame);
    }
    if (!peer->left && now_ns > peer->heard_ns && now_ns - peer->heard_ns > silence_ns) {
        char text[160];
        snprintf(text, sizeof text,
                 "gives no sign of life (nothing heard for %.4g s; is it stopped, is its host down?)",
                 (double)silence_ns * 1e-9);
        peer->heard_ns = now_ns;
        note_failure(control, -1, r, 0, FW_ERR_RANK, text);
    }
}

/* A late rank, or one of another job: the door stays open to tell it why it cannot come in. */
static void greet_late(void *context, int fd, const fw_hello *hello) {
    fw_control *control = context;
    char text[256];
    if (hello->rank < 0) { /* our launcher: we know already */
        close(fd);
        return;
    }
    int same = strncmp(hello->secret, control->options.secret, sizeof hello->secret) == 0;
    if (same)
        snprintf(text, sizeof text, "rank %d is there twice (all %d ranks have come); give every rank its own RANK",
                 hello->rank, control->options.world);
    else
        snprintf(text, sizeof text,
                 "another job is at this address (its job secret differs); choose another MASTER_PORT");
    fw_frame_send(fd, FW_FRAME_REJECT, 0, same ? FW_ERR_RANK : FW_OK, 1, text, strlen(text));
    close(fd);
}

static void *monitor(void *argument) {
    fw_control *control = argument;
    const uint64_t silence_ns = (uint64_t)(control->options.heartbeat_s * 1e9);
    const uint64_t ping_ns = silence_ns / 6;
    uint64_t last_ns = fw_host_now_ns(), pinged_ns = 0;
    for (int r = 0; r < control->options.world; r++) control->peer[r].heard_ns = last_ns;
    for (;;) {
        struct pollfd polls[1 + FW_COMM_MAX_WORLD + FW_DOOR_WAITING_N + 1];
        int poll_n = 0;
        polls[poll_n++] = (struct pollfd){.fd = control->wake_fd, .events = POLLIN};
        for (int r = 0; r < control->options.world; r++)
            if (control->peer[r].fd >= 0)
                polls[poll_n++] = (struct pollfd){.fd = control->peer[r].fd, .events = POLLIN};
        if (control->options.rank == 0) poll_n += fw_door_poll(&control->door, polls + poll_n, FW_DOOR_WAITING_N + 1);
        poll(polls, (nfds_t)poll_n, (int)(ping_ns / 1000000 / 2 + 1));
        if (polls[0].revents != 0) return NULL;
        uint64_t now_ns = fw_host_now_ns();
        if (now_ns - last_ns > silence_ns / 2) /* we were stopped ourselves: then silence says nothing */
            for (int r = 0; r < control->options.world; r++) control->peer[r].heard_ns = now_ns;
        last_ns = now_ns;
        if (now_ns - pinged_ns >= ping_ns) {
            fw_control_send_all(control, -1, FW_FRAME_PING, control->options.rank, FW_OK, 0, NULL, 0);
            pinged_ns = now_ns;
        }
        for (int r = 0; r < control->options.world; r++)
            if (control->peer[r].fd >= 0) look_at_peer(control, r, now_ns, silence_ns);
        if (control->options.rank == 0) fw_door_look(&control->door, greet_late, control);
    }
}

fw_status fw_control_watch(fw_control *control, const fw_control_hooks *hooks) {
    control->hooks = *hooks;
    control->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control->wake_fd < 0) return fw_fail(FW_ERR_IO, "could not make an eventfd: %s", strerror(errno));
    /* Signals are the main thread's. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(&control->monitor, NULL, monitor, control);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reason != 0) return fw_fail(FW_ERR_NOMEM, "could not start the monitor thread: %s", strerror(reason));
    control->monitor_runs = 1;
    return FW_OK;
}

void fw_control_abort(fw_control *control, fw_status status, const char *message) {
    if (atomic_exchange(&control->aborted, 1)) return;
    fw_control_send_all(control, -1, FW_FRAME_ABORT, control->options.rank, status, 1, message, strlen(message));
}

void fw_control_close(fw_control *control) {
    if (control == NULL) return;
    if (control->monitor_runs) {
        uint64_t one = 1;
        while (write(control->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
        pthread_join(control->monitor, NULL);
    }
    if (!atomic_load(&control->aborted))
        fw_control_send_all(control, -1, FW_FRAME_LEAVE, control->options.rank, FW_OK, 0, NULL, 0);
    for (int r = 0; r < control->options.world; r++) {
        int fd = control->peer[r].fd;
        if (fd < 0) continue;
        /* Read what lies there: closing over unread bytes would reset the connection and could swallow our last word.
         */
        char rest[4096];
        shutdown(fd, SHUT_WR);
        while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0) {
        }
        close(fd);
    }
    fw_door_close(&control->door);
    if (control->wake_fd >= 0) close(control->wake_fd);
    pthread_mutex_destroy(&control->send_lock);
    fw_free(control);
}
