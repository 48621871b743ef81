#include "comm/control_door.h"

#include "base/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const uint64_t patience_ns = 10ull * 1000 * 1000 * 1000; /* for a hello to arrive whole */

static int is_loopback(const char *address) {
    return strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* A listening socket at `port`: of the loopback address when the ranks meet there, else of every address, since a
 * name may lead through a proxy. Returns -errno on failure. */
static int listen_at(const char *address, int port) {
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    if (strchr(address, ':') != NULL) hints.ai_family = AF_INET6;
    if (getaddrinfo(is_loopback(address) ? address : NULL, service, &hints, &list) != 0) return -EADDRNOTAVAIL;
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, failed = fd < 0;
    failed = failed || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0;
    failed = failed || bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, 128) != 0;
    int reason = errno;
    freeaddrinfo(list);
    if (!failed) return fd;
    if (fd >= 0) close(fd);
    return -reason;
}

static fw_status take_given(fw_door *door, int fd) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || !listens)
        return fw_fail(FW_ERR_OPTION, "FINEWIRE_LISTEN_FD=%d is not a listening socket; only our launcher sets it", fd);
    door->listen_fd = fd;
    return FW_OK;
}

fw_status fw_door_open(fw_door *door, const fw_comm_options *o, uint64_t deadline_ns) {
    memset(door, 0, sizeof *door);
    door->listen_fd = -1;
    for (int i = 0; i < FW_DOOR_WAITING_N; i++) door->waiting[i].fd = -1;
    int reason = 0;
    if (o->listen_fd > 0) {
        FW_TRY(take_given(door, o->listen_fd));
    } else {
        int tries = o->port_tries > 0 ? o->port_tries : 1;
        for (int t = 0; door->listen_fd < 0; t++) {
            int fd = listen_at(o->master_address, o->master_port + t % tries);
            if (fd >= 0) door->listen_fd = fd;
            reason = -fd;
            if (fd >= 0 || t % tries != tries - 1) continue;
            if (reason != EADDRINUSE || fw_host_now_ns() > deadline_ns) break;
            nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
        }
    }
    if (door->listen_fd < 0)
        return fw_fail(FW_ERR_RANK, "rank 0 cannot listen at %s port %d: %s; choose another MASTER_PORT%s",
                       o->master_address, o->master_port, strerror(reason),
                       reason == EADDRINUSE ? " (another job uses this one)" : "");
    if (fw_socket_prepare(door->listen_fd) != 0)
        return fw_fail(FW_ERR_IO, "cannot use the listening socket: %s", strerror(errno));
    return FW_OK;
}

void fw_door_close(fw_door *door) {
    if (door->listen_fd >= 0) close(door->listen_fd);
    door->listen_fd = -1;
    for (int i = 0; i < FW_DOOR_WAITING_N; i++) {
        if (door->waiting[i].fd >= 0) close(door->waiting[i].fd);
        door->waiting[i].fd = -1;
    }
}

int fw_door_poll(const fw_door *door, struct pollfd *polls, int poll_n) {
    int n = 0;
    if (door->listen_fd >= 0 && n < poll_n) polls[n++] = (struct pollfd){.fd = door->listen_fd, .events = POLLIN};
    for (int i = 0; i < FW_DOOR_WAITING_N && n < poll_n; i++)
        if (door->waiting[i].fd >= 0) polls[n++] = (struct pollfd){.fd = door->waiting[i].fd, .events = POLLIN};
    return n;
}

static void turn_away(fw_door *door, int i) {
    close(door->waiting[i].fd);
    door->waiting[i].fd = -1;
    door->stranger_n++;
}

static void accept_all(fw_door *door, uint64_t now_ns) {
    for (int k = 0; k < FW_DOOR_WAITING_N; k++) { /* bounded: somebody may connect faster than we accept */
        int fd = accept4(door->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        int place = 0;
        for (int i = 0; i < FW_DOOR_WAITING_N && door->waiting[place].fd >= 0; i++)
            if (door->waiting[i].fd < 0 || door->waiting[i].since_ns < door->waiting[place].since_ns) place = i;
        if (door->waiting[place].fd >= 0) turn_away(door, place); /* all taken: the oldest goes */
        fw_socket_prepare(fd);
        door->waiting[place].fd = fd;
        door->waiting[place].got = 0;
        door->waiting[place].since_ns = now_ns;
    }
}

void fw_door_look(fw_door *door, void (*greet)(void *context, int fd, const fw_hello *hello), void *context) {
    static const size_t prefix_bytes = offsetof(fw_hello, world);
    uint64_t now_ns = fw_host_now_ns();
    if (door->listen_fd >= 0) accept_all(door, now_ns);
    for (int i = 0; i < FW_DOOR_WAITING_N; i++) {
        if (door->waiting[i].fd < 0) continue;
        fw_hello *hello = &door->waiting[i].hello;
        size_t got = door->waiting[i].got;
        ssize_t n = recv(door->waiting[i].fd, (char *)hello + got, sizeof *hello - got, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            if (now_ns - door->waiting[i].since_ns > patience_ns) turn_away(door, i);
            continue;
        }
        if (n <= 0) {
            turn_away(door, i);
            continue;
        }
        door->waiting[i].got = got += (size_t)n;
        size_t magic_n = got < sizeof hello->magic ? got : sizeof hello->magic;
        if (memcmp(hello->magic, FW_HELLO_MAGIC, magic_n) != 0) {
            turn_away(door, i);
        } else if (got >= prefix_bytes && hello->protocol != FW_CONTROL_PROTOCOL) {
            char text[200];
            int text_n = snprintf(text, sizeof text,
                                  "this rank speaks control protocol %u, rank 0 (finewire %s) speaks %d; run the same "
                                  "version on every rank",
                                  hello->protocol, FW_VERSION, FW_CONTROL_PROTOCOL);
            fw_frame_send(door->waiting[i].fd, FW_FRAME_REJECT, 0, FW_ERR_RANK, 1, text, (size_t)text_n);
            turn_away(door, i);
        } else if (got == sizeof *hello) {
            int fd = door->waiting[i].fd;
            door->waiting[i].fd = -1;
            /* Texts come from outside: end each. */
            hello->version[sizeof hello->version - 1] = 0;
            hello->secret[sizeof hello->secret - 1] = 0;
            hello->host_id[sizeof hello->host_id - 1] = 0;
            hello->host_name[sizeof hello->host_name - 1] = 0;
            greet(context, fd, hello);
        }
    }
}
