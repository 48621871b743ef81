/* Rank 0's side of the meeting: open the door, let the other ranks in, refuse everybody else by name. */
#include "base/alloc.h"
#include "base/host.h"
#include "base/plural.h"
#include "comm/control_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct meeting {
    fw_control *control;
    fw_hello own;
    int here_n, wrong_secret_n;
    char trouble[512]; /* not empty: the job is set up wrongly, stop */
} meeting;

/* The secret is compared without an early end, so that its bytes cannot be guessed one by one. */
static int same_secret(const fw_hello *a, const fw_hello *b) {
    unsigned char difference = 0;
    for (size_t i = 0; i < sizeof a->secret; i++) difference |= (unsigned char)(a->secret[i] ^ b->secret[i]);
    return difference == 0;
}

/* Why `hello` cannot be a rank of this job: text in m->trouble, which ends the meeting. */
static void find_trouble(meeting *m, const fw_hello *hello) {
    fw_control *control = m->control;
    size_t n = sizeof m->trouble;
    if (strcmp(hello->version, m->own.version) != 0)
        snprintf(m->trouble, n, "rank %d runs finewire %s and rank 0 runs %s; run the same version on every rank",
                 hello->rank, hello->version, m->own.version);
    else if (hello->world != m->own.world)
        snprintf(m->trouble, n, "rank %d was started with WORLD_SIZE=%d and rank 0 with %d; give every rank the same",
                 hello->rank, hello->world, m->own.world);
    else if (hello->rank < 1 || hello->rank >= m->own.world || control->peer[hello->rank].fd >= 0)
        snprintf(m->trouble, n,
                 "rank %d is there twice (process %d on %s came second); give every rank its own RANK below %d",
                 hello->rank, hello->pid, hello->host_name, m->own.world);
}

/* Our launcher says that a rank has ended. One that has come says so itself by its connection. */
static void note_gone(meeting *m, int32_t r) {
    if (r < 1 || r >= m->own.world || m->control->peer[r].fd >= 0 || m->trouble[0] != 0) return;
    *m->control->blame = (fw_control_blame){.rank = r};
    snprintf(m->trouble, sizeof m->trouble, "rank %d ended before the ranks had met", r);
}

static void greet(void *context, int fd, const fw_hello *hello) {
    meeting *m = context;
    if (!same_secret(hello, &m->own)) {
        static const char text[] =
            "another job is at this address (its job secret differs); choose another MASTER_PORT";
        fw_frame_send(fd, FW_FRAME_REJECT, 0, FW_OK, 1, text, sizeof text - 1);
        close(fd);
        m->wrong_secret_n++;
        return;
    }
    if (hello->rank < 0) {
        close(fd);
        note_gone(m, fw_hello_gone(hello->rank));
        return;
    }
    if (m->trouble[0] == 0) find_trouble(m, hello);
    if (m->trouble[0] != 0) {
        /* another rank's end is not this one's fault, which it would report as its own */
        fw_frame_kind kind = m->control->blame->rank >= 0 ? FW_FRAME_ABORT : FW_FRAME_REJECT;
        fw_frame_send(fd, kind, 0, FW_ERR_RANK, 1, m->trouble, strlen(m->trouble));
        close(fd);
        return;
    }
    fw_control_peer *peer = &m->control->peer[hello->rank];
    peer->fd = fd;
    peer->pid = hello->pid;
    memcpy(peer->host_id, hello->host_id, sizeof peer->host_id);
    memcpy(peer->host_name, hello->host_name, sizeof peer->host_name);
    m->here_n++;
    fw_frame_send(fd, FW_FRAME_WELCOME, 0, FW_OK, 0, NULL, 0);
}

/* A rank that has come may fail or die while the others are awaited. */
static void look_at_peers(meeting *m) {
    for (int r = 1; r < m->own.world; r++) {
        fw_control_peer *peer = &m->control->peer[r];
        if (peer->fd < 0) continue;
        fw_read_result result = fw_frame_read(peer->fd, &peer->reader);
        if (result == FW_READ_NOTHING) continue;
        const fw_frame *f = &peer->reader.frame;
        *m->control->blame = (fw_control_blame){r, result == FW_READ_FRAME && f->head.kind == FW_FRAME_ABORT};
        if (m->control->blame->told)
            snprintf(m->trouble, sizeof m->trouble, "rank %d failed: %.400s", r, f->payload);
        else
            snprintf(m->trouble, sizeof m->trouble, "rank %d died (connection closed) while the ranks were meeting", r);
        return;
    }
}

static fw_status say_missing(const meeting *m, double waited_s) {
    char missing[256] = "";
    for (int r = 1, n = 0, shown = 0; r < m->own.world; r++) {
        if (m->control->peer[r].fd >= 0) continue;
        if (++shown > 16) {
            snprintf(missing + n, sizeof missing - (size_t)n, ", ...");
            break;
        }
        n += snprintf(missing + n, sizeof missing - (size_t)n, "%s%d", shown > 1 ? ", " : "", r);
    }
    char strangers[160] = "";
    if (m->wrong_secret_n > 0)
        snprintf(strangers, sizeof strangers, "; %d connection%s of another job turned away", m->wrong_secret_n,
                 fw_plural(m->wrong_secret_n));
    else if (m->control->door.stranger_n > 0)
        snprintf(strangers, sizeof strangers, "; %d connection%s that came from no rank turned away",
                 m->control->door.stranger_n, fw_plural(m->control->door.stranger_n));
    return fw_fail(FW_ERR_RANK,
                   "rank %s did not come to %s port %d within %.3g s, %d of %d are here%s; see whether every rank was "
                   "started and reaches that address",
                   missing, m->control->options.master_address, m->control->options.master_port, waited_s, m->here_n,
                   m->own.world, strangers);
}

/* shm joins the ranks of one kernel only. */
static fw_status check_hosts(const meeting *m) {
    if (m->control->options.link == FW_COMM_LINK_MPI) return FW_OK;
    for (int r = 1; r < m->own.world; r++) {
        const fw_control_peer *peer = &m->control->peer[r];
        if (strncmp(peer->host_id, m->own.host_id, sizeof peer->host_id) != 0)
            return fw_fail(FW_ERR_RANK,
                           "rank 0 is on host %s and rank %d on %s; this transport (shm) joins ranks of one host only: "
                           "start all ranks on one host, or use --transport mpi",
                           m->own.host_name, r, peer->host_name);
    }
    return FW_OK;
}

static fw_status host(fw_control *control, uint64_t deadline_ns) {
    meeting m = {.control = control, .here_n = 1};
    uint64_t start_ns = fw_host_now_ns();
    fw_hello_fill(&m.own, &control->options);
    FW_TRY(fw_door_open(&control->door, &control->options, deadline_ns));
    while (m.here_n < m.own.world) {
        struct pollfd polls[FW_DOOR_WAITING_N + 1 + FW_COMM_MAX_WORLD];
        int poll_n = fw_door_poll(&control->door, polls, FW_DOOR_WAITING_N + 1);
        for (int r = 1; r < m.own.world; r++)
            if (control->peer[r].fd >= 0)
                polls[poll_n++] = (struct pollfd){.fd = control->peer[r].fd, .events = POLLIN};
        poll(polls, (nfds_t)poll_n, 200);
        fw_door_look(&control->door, greet, &m);
        if (m.trouble[0] == 0) look_at_peers(&m);
        if (m.trouble[0] != 0) return fw_fail(FW_ERR_RANK, "%s", m.trouble);
        uint64_t now_ns = fw_host_now_ns();
        if (m.here_n < m.own.world && now_ns > deadline_ns) return say_missing(&m, (double)(now_ns - start_ns) * 1e-9);
    }
    return check_hosts(&m);
}

fw_status fw_control_meet(fw_control **out, const fw_comm_options *options, uint64_t deadline_ns,
                          fw_control_blame *blame) {
    *out = NULL;
    *blame = (fw_control_blame){.rank = -1};
    fw_control *control;
    FW_TRY(FW_NEW(control));
    control->options = *options;
    control->blame = blame;
    control->wake_fd = control->door.listen_fd = -1;
    for (int i = 0; i < FW_DOOR_WAITING_N; i++) control->door.waiting[i].fd = -1;
    for (int r = 0; r < FW_COMM_MAX_WORLD; r++) control->peer[r].fd = -1;
    pthread_mutex_init(&control->send_lock, NULL);
    fw_status status = options->rank == 0 ? host(control, deadline_ns) : fw_control_join(control, deadline_ns);
    if (status != FW_OK) {
        fw_control_abort(control, status, fw_trail_message());
        fw_control_close(control);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    *out = control;
    return FW_OK;
}

fw_status fw_control_share_ticket(fw_control *control, void *ticket, size_t bytes, uint64_t deadline_ns) {
    FW_ASSERT(bytes <= FW_FRAME_PAYLOAD);
    if (control->options.rank == 0) {
        fw_control_send_all(control, -1, FW_FRAME_TICKET, 0, FW_OK, 0, ticket, bytes);
        return FW_OK;
    }
    fw_control_peer *peer = &control->peer[0];
    for (;;) {
        fw_read_result result = fw_frame_read(peer->fd, &peer->reader);
        const fw_frame *f = &peer->reader.frame;
        if (result == FW_READ_FRAME && f->head.kind == FW_FRAME_TICKET && f->head.bytes == bytes) {
            memcpy(ticket, f->payload, bytes);
            return FW_OK;
        }
        int aborted = result == FW_READ_FRAME && f->head.kind == FW_FRAME_ABORT;
        if (aborted || result == FW_READ_GARBAGE || result == FW_READ_END)
            *control->blame = (fw_control_blame){aborted ? f->head.rank : 0, aborted && f->head.told};
        if (aborted)
            return fw_fail(FW_ERR_RANK, "rank %d %s%s", f->head.rank, f->head.told ? "failed: " : "", f->payload);
        if (result == FW_READ_GARBAGE || result == FW_READ_END)
            return fw_fail(FW_ERR_RANK, "rank 0 died (connection closed) while the ranks were meeting");
        if (fw_host_now_ns() > deadline_ns)
            return fw_fail(FW_ERR_RANK, "rank 0 does not answer any more; see what it says");
        struct pollfd wait = {.fd = peer->fd, .events = POLLIN};
        poll(&wait, 1, 200);
    }
}
