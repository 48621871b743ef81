/* The other ranks' side of the meeting: find rank 0, which may start late, and say hello. */
#include "base/host.h"
#include "comm/control_internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct attempt {
    char why[400];     /* why it did not work, for the message when time is up */
    int final;         /* rank 0 itself said no: trying again is of no use */
    int failed, told;  /* rank 0 has failed; and it said so */
    int door_was_open; /* a refused connection is final */
    uint64_t until_ns;
} attempt;

static int milliseconds_until(uint64_t until_ns) {
    uint64_t now_ns = fw_host_now_ns();
    return now_ns >= until_ns ? 0 : until_ns - now_ns > 200000000 ? 200 : (int)((until_ns - now_ns) / 1000000) + 1;
}

/* A connected socket; -1 with a reason. */
static int connect_to(const struct addrinfo *where, attempt *a) {
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), reason = 0;
    socklen_t bytes = sizeof reason;
    if (fd < 0) {
        snprintf(a->why, sizeof a->why, "%s", strerror(errno));
        return -1;
    }
    fw_socket_prepare(fd);
    uint64_t patience_ns = fw_host_now_ns() + 5000000000ull;
    if (patience_ns > a->until_ns) patience_ns = a->until_ns;
    if (connect(fd, where->ai_addr, where->ai_addrlen) != 0) reason = errno;
    while (reason == EINPROGRESS || reason == EINTR) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        if (poll(&wait, 1, milliseconds_until(patience_ns)) == 1) {
            if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &bytes) != 0) reason = errno;
        } else if (fw_host_now_ns() >= patience_ns) {
            reason = ETIMEDOUT;
        }
    }
    if (reason == 0) return fd;
    snprintf(a->why, sizeof a->why, "%s", strerror(reason));
    /* Our launcher opened the door before it started anybody: it is shut because rank 0 has ended. */
    if (reason == ECONNREFUSED && a->door_was_open) {
        snprintf(a->why, sizeof a->why, "rank 0 has ended already");
        a->final = a->failed = 1;
    }
    close(fd);
    return -1;
}

/* 1 when rank 0 let us in. */
static int wait_for_welcome(int fd, fw_frame_reader *reader, attempt *a) {
    for (;;) {
        fw_read_result result = fw_frame_read(fd, reader);
        const fw_frame *f = &reader->frame;
        if (result == FW_READ_FRAME && f->head.kind == FW_FRAME_WELCOME) return 1;
        if (result == FW_READ_FRAME && (f->head.kind == FW_FRAME_REJECT || f->head.kind == FW_FRAME_ABORT)) {
            a->failed = a->told = f->head.kind == FW_FRAME_ABORT;
            a->final = a->failed || f->head.status != FW_OK;
            snprintf(a->why, sizeof a->why, "%.390s", f->payload);
            return 0;
        }
        if (result == FW_READ_END) snprintf(a->why, sizeof a->why, "it closed the connection");
        if (result == FW_READ_FRAME || result == FW_READ_GARBAGE)
            snprintf(a->why, sizeof a->why, "something that is not finewire answers there");
        if (result != FW_READ_NOTHING) return 0;
        if (fw_host_now_ns() >= a->until_ns) {
            snprintf(a->why, sizeof a->why, "it accepts connections but says nothing");
            return 0;
        }
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        poll(&wait, 1, milliseconds_until(a->until_ns));
    }
}

static int say_hello(fw_control *control, const struct addrinfo *where, attempt *a) {
    fw_hello hello;
    fw_hello_fill(&hello, &control->options);
    int fd = connect_to(where, a);
    if (fd < 0) return 0;
    /* A fresh connection's buffer takes a hello whole. */
    fw_control_peer *peer = &control->peer[0];
    memset(&peer->reader, 0, sizeof peer->reader);
    ssize_t n = send(fd, &hello, sizeof hello, MSG_NOSIGNAL);
    if (n != (ssize_t)sizeof hello) {
        snprintf(a->why, sizeof a->why, "could not send: %s", strerror(errno));
    } else if (wait_for_welcome(fd, &peer->reader, a)) {
        peer->fd = fd;
        return 1;
    }
    close(fd);
    return 0;
}

/* All addresses the name has; the name may become known late. */
static int try_port(fw_control *control, int port, attempt *a) {
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int reason = getaddrinfo(control->options.master_address, service, &hints, &list);
    if (reason != 0) {
        snprintf(a->why, sizeof a->why, "name not found: %s", gai_strerror(reason));
        return 0;
    }
    int found = 0;
    for (const struct addrinfo *where = list; where != NULL && !found && !a->final; where = where->ai_next)
        found = say_hello(control, where, a);
    freeaddrinfo(list);
    return found;
}

fw_status fw_control_join(fw_control *control, uint64_t deadline_ns) {
    const fw_comm_options *o = &control->options;
    attempt a = {.until_ns = deadline_ns, .door_was_open = o->own_launcher};
    int tries = o->port_tries > 0 ? o->port_tries : 1;
    long pause_ns = 10 * 1000 * 1000;
    uint64_t start_ns = fw_host_now_ns();
    for (int t = 0;; t++) {
        /* Where several ports may be the one, a stranger on an early port must not take all the time. */
        if (tries > 1) a.until_ns = fw_host_now_ns() + 3000000000ull;
        if (a.until_ns > deadline_ns) a.until_ns = deadline_ns;
        if (try_port(control, o->master_port + t % tries, &a)) return FW_OK;
        if (a.failed) *control->blame = (fw_control_blame){0, a.told};
        if (a.final || (tries == 1 && strncmp(a.why, "another job", 11) == 0))
            return fw_fail(FW_ERR_RANK, "rank %d was turned away at %s port %d: %s", o->rank, o->master_address,
                           o->master_port + t % tries, a.why);
        if (fw_host_now_ns() > deadline_ns) break;
        if (t % tries != tries - 1) continue;
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = pause_ns < 250 * 1000 * 1000 ? pause_ns * 2 : pause_ns;
    }
    return fw_fail(FW_ERR_RANK,
                   "rank %d could not reach rank 0 at %s port %d within %.3g s: %s; see whether rank 0 runs "
                   "and MASTER_ADDR and MASTER_PORT are right",
                   o->rank, o->master_address, o->master_port, (double)(fw_host_now_ns() - start_ns) * 1e-9, a.why);
}
