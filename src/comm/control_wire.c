#include "comm/control_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

fw_read_result fw_frame_read(int fd, fw_frame_reader *reader) {
    fw_frame *f = &reader->frame;
    if (reader->got >= sizeof f->head && reader->got >= sizeof f->head + f->head.bytes) reader->got = 0;
    for (;;) {
        size_t want = sizeof f->head;
        if (reader->got >= sizeof f->head) {
            if (f->head.magic != FW_FRAME_MAGIC || f->head.bytes > FW_FRAME_PAYLOAD) return FW_READ_GARBAGE;
            want += f->head.bytes;
            if (reader->got == want) {
                f->payload[f->head.bytes] = 0;
                return FW_READ_FRAME;
            }
        }
        /* head and payload lie behind one another, see the assertion below */
        ssize_t n = recv(fd, (char *)f + reader->got, want - reader->got, MSG_DONTWAIT);
        if (n > 0) {
            reader->got += (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? FW_READ_NOTHING : FW_READ_END;
        }
    }
}
_Static_assert(offsetof(fw_frame, payload) == sizeof(fw_frame_head), "a frame is read in one piece");

int fw_frame_send(int fd, fw_frame_kind kind, int rank, fw_status status, int told, const void *payload, size_t bytes) {
    fw_frame f = {
        .head = {.magic = FW_FRAME_MAGIC, .kind = kind, .rank = rank, .status = (int32_t)status, .told = told}};
    if (fd < 0) return 0;
    if (bytes > FW_FRAME_PAYLOAD) bytes = FW_FRAME_PAYLOAD;
    f.head.bytes = (uint32_t)bytes;
    if (bytes > 0) memcpy(f.payload, payload, bytes);
    size_t all = sizeof f.head + bytes;
    ssize_t n;
    do n = send(fd, &f, all, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)all) return 1;
    if (n >= 0) shutdown(fd, SHUT_RDWR);
    return 0;
}

/* One line of a small file, without its newline. */
static int read_word(const char *path, char *out, size_t out_bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, out, out_bytes - 1);
    close(fd);
    if (n <= 0) return 0;
    out[n] = 0;
    out[strcspn(out, "\n")] = 0;
    return out[0] != 0;
}

void fw_hello_fill(fw_hello *hello, const fw_comm_options *options) {
    memset(hello, 0, sizeof *hello);
    memcpy(hello->magic, FW_HELLO_MAGIC, sizeof hello->magic);
    hello->protocol = FW_CONTROL_PROTOCOL;
    hello->world = options->world;
    hello->rank = options->rank;
    hello->pid = (int32_t)getpid();
    snprintf(hello->version, sizeof hello->version, "%s", FW_VERSION);
    snprintf(hello->secret, sizeof hello->secret, "%s", options->secret);
    if (gethostname(hello->host_name, sizeof hello->host_name - 1) != 0 || hello->host_name[0] == 0)
        snprintf(hello->host_name, sizeof hello->host_name, "(unnamed)");
    /* Containers on one host have names of their own but one boot. FINEWIRE_HOST_ID: tests of several hosts. */
    const char *given = getenv("FINEWIRE_HOST_ID");
    if (given != NULL && given[0] != 0)
        snprintf(hello->host_id, sizeof hello->host_id, "%s", given);
    else if (!read_word("/proc/sys/kernel/random/boot_id", hello->host_id, sizeof hello->host_id))
        memcpy(hello->host_id, hello->host_name, sizeof hello->host_id);
}

int fw_socket_prepare(int fd) {
    int flags = fcntl(fd, F_GETFL), on = 1;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* wishes only: a Unix socket refuses them */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return 0;
}
