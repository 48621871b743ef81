/* How the ranks of one host come to share one memfd: rank 0 makes it and hands it out on an abstract Unix socket
 * whose random name travels over the control plane. Only processes of our own user that know the secret get it. */
#include "base/host.h"
#include "comm/control_wire.h"
#include "comm/shm/shm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

typedef struct ticket {
    char socket_name[64]; /* "": rank 0 could not make the memory */
    uint64_t bytes;       /* of the control area */
} ticket;

typedef struct request {
    char secret[FW_COMM_SECRET_BYTES];
    int32_t rank;
} request;

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* Where the parts of the control area lie, in bytes from its start. */
typedef struct layout {
    size_t presence, small, stage, end;
} layout;

static layout layout_for(int world) {
    const size_t n = (size_t)world;
    layout l = {.presence = round_up(sizeof(fw_shm_control), FW_SHM_LINE)};
    l.small = round_up(l.presence + n * sizeof(fw_shm_presence), FW_SHM_LINE);
    l.stage = round_up(l.small + 2 * n * sizeof(fw_shm_small), FW_SHM_PAGE);
    l.end = l.stage + n * fw_shm_stage_bytes(world);
    return l;
}

static socklen_t fill_address(struct sockaddr_un *address, const char *name) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t n = strlen(name);                /* below 64 */
    memcpy(address->sun_path + 1, name, n); /* a leading zero: no file */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static fw_status make_memory(fw_shm_host *s, size_t bytes) {
    s->memory_fd = memfd_create("finewire", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->memory_fd < 0)
        return fw_fail(FW_ERR_IO, "could not make shared memory (memfd_create): %s; Linux 3.17 or later is needed",
                       strerror(errno));
    if (ftruncate(s->memory_fd, (off_t)bytes) != 0)
        return fw_fail(FW_ERR_NOMEM, "could not size shared memory to %zu bytes: %s", bytes, strerror(errno));
    int reason = posix_fallocate(s->memory_fd, 0, (off_t)bytes);
    if (reason != 0 && reason != EOPNOTSUPP)
        return fw_fail(FW_ERR_NOMEM, "could not get %zu bytes of shared memory: %s; free memory or use fewer ranks",
                       bytes, strerror(reason));
    fcntl(s->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK); /* no rank can pull memory away under another */
    return FW_OK;
}

static fw_status open_counter(int *out, char *name, size_t name_bytes) {
    uint64_t random[2];
    struct sockaddr_un address;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fw_fail(FW_ERR_IO, "no random numbers from the kernel: %s", strerror(errno));
    snprintf(name, name_bytes, "finewire-%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    *out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*out >= 0 && bind(*out, (struct sockaddr *)&address, fill_address(&address, name)) == 0 &&
        listen(*out, 128) == 0)
        return FW_OK;
    int reason = errno;
    if (*out >= 0) close(*out);
    *out = -1;
    return fw_fail(FW_ERR_IO, "could not open a Unix socket for the ranks of this host: %s", strerror(reason));
}

/* Give the memory to one customer. Returns its rank, -1 when it was none of ours. */
static int serve(fw_comm *c, int fd, int memory_fd, uint64_t deadline_ns) {
    struct ucred who;
    socklen_t who_bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_bytes) != 0 || who.uid != geteuid()) return -1;
    request asked;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint64_t now_ns = fw_host_now_ns(), left_ms = now_ns < deadline_ns ? (deadline_ns - now_ns) / 1000000 : 0;
    if (poll(&wait, 1, left_ms < 5000 ? (int)left_ms : 5000) != 1) return -1;
    if (recv(fd, &asked, sizeof asked, MSG_DONTWAIT) != (ssize_t)sizeof asked) return -1;
    if (memcmp(asked.secret, c->options.secret, sizeof asked.secret) != 0) return -1;
    if (asked.rank < 1 || asked.rank >= c->options.world) return -1;
    char byte = 1;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } extra;
    memset(&extra, 0, sizeof extra);
    struct iovec body = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &body, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &memory_fd, sizeof memory_fd);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? asked.rank : -1;
}

static fw_status serve_all(fw_comm *c, int counter_fd, int memory_fd, uint64_t deadline_ns) {
    char served[FW_COMM_MAX_WORLD] = {0};
    int served_n = 1;
    while (served_n < c->options.world) {
        struct pollfd wait = {.fd = counter_fd, .events = POLLIN};
        poll(&wait, 1, 50);
        int fd = accept4(counter_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            int rank = serve(c, fd, memory_fd, deadline_ns);
            close(fd);
            if (rank > 0 && !served[rank]) {
                served[rank] = 1;
                served_n++;
            }
        }
        if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
        if (fw_host_now_ns() > deadline_ns)
            return fw_fail(FW_ERR_RANK,
                           "only %d of %d ranks fetched the shared memory in time; do they run in one "
                           "network namespace (container)?",
                           served_n, c->options.world);
    }
    return FW_OK;
}

/* Rank 0 does not serve (any more). When it has failed, or another rank has, the control plane is about to say so: that
 * is the reason, and what became of the socket its consequence. FW_OK: nothing was heard. */
static fw_status hear_why(fw_comm *c) {
    const uint64_t until_ns = fw_host_now_ns() + 2000000000ull;
    while (!fw_failure_is_set(&c->job->failure) && fw_host_now_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    return fw_failure_is_set(&c->job->failure) ? fw_comm_report_failure(c) : FW_OK;
}

static fw_status fetch_memory(fw_comm *c, fw_shm_host *s, const char *name, uint64_t deadline_ns) {
    request mine = {.rank = c->options.rank};
    memcpy(mine.secret, c->options.secret, sizeof mine.secret);
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return fw_fail(FW_ERR_IO, "could not open a Unix socket: %s", strerror(errno));
    fw_status status = FW_OK;
    if (connect(fd, (struct sockaddr *)&address, fill_address(&address, name)) != 0 ||
        send(fd, &mine, sizeof mine, MSG_NOSIGNAL) != (ssize_t)sizeof mine) {
        int reason = errno;
        close(fd);
        FW_TRY(hear_why(c));
        return fw_fail(FW_ERR_RANK,
                       "rank %d cannot reach rank 0's Unix socket (%s); run all ranks in one network namespace "
                       "(container)",
                       c->options.rank, strerror(reason));
    }
    char byte;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } extra;
    struct iovec body = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &body, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra.room};
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 50) == 1) break;
        if (fw_failure_is_set(&c->job->failure))
            status = fw_comm_report_failure(c);
        else if (fw_host_now_ns() > deadline_ns)
            status = fw_fail(FW_ERR_RANK, "rank 0 did not hand over the shared memory in time");
        if (status != FW_OK) break;
    }
    if (status == FW_OK) {
        ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        struct cmsghdr *head = n == 1 ? CMSG_FIRSTHDR(&message) : NULL;
        if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
            head->cmsg_len == CMSG_LEN(sizeof(int)))
            memcpy(&s->memory_fd, CMSG_DATA(head), sizeof s->memory_fd);
        else if ((status = hear_why(c)) == FW_OK)
            status =
                fw_fail(FW_ERR_RANK, "rank 0 did not hand over the shared memory: it runs as another user, or died");
    }
    close(fd);
    return status;
}

static fw_status map_control(fw_comm *c, fw_shm *s, const layout *l) {
    void *map = mmap(NULL, l->end, PROT_READ | PROT_WRITE, MAP_SHARED, s->host->memory_fd, 0);
    if (map == MAP_FAILED)
        return fw_fail(FW_ERR_NOMEM, "could not map %zu bytes of shared memory: %s", l->end, strerror(errno));
    s->map = map;
    s->map_bytes = s->host->file_bytes = l->end;
    s->control = map;
    s->host->presence = (fw_shm_presence *)(s->map + l->presence);
    s->host->small = (fw_shm_small *)(s->map + l->small);
    s->stage = s->map + l->stage;
    s->stage_step_bytes = fw_shm_stage_bytes(c->options.world);
    s->half_bytes = fw_shm_half_bytes(c->options.world);
    return FW_OK;
}

fw_status fw_shm_join(fw_comm *c, fw_shm *s, uint64_t deadline_ns) {
    const layout l = layout_for(c->options.world);
    ticket t = {.bytes = l.end};
    fw_status status = FW_OK;
    int counter_fd = -1;
    if (c->options.rank == 0) {
        FW_TRY(make_memory(s->host, l.end));
        FW_TRY(open_counter(&counter_fd, t.socket_name, sizeof t.socket_name));
    }
    status = fw_control_share_ticket(c->job->control, &t, sizeof t, deadline_ns);
    if (status == FW_OK) status = fw_comm_watch(c);
    if (status == FW_OK && t.bytes != l.end)
        status = fw_fail(FW_ERR_RANK, "rank 0 lays out shared memory in another way; run one build on every rank");
    if (status == FW_OK && c->options.rank == 0) status = serve_all(c, counter_fd, s->host->memory_fd, deadline_ns);
    if (status == FW_OK && c->options.rank != 0) {
        t.socket_name[sizeof t.socket_name - 1] = 0;
        status = fetch_memory(c, s->host, t.socket_name, deadline_ns);
    }
    if (counter_fd >= 0) close(counter_fd);
    if (status == FW_OK) status = map_control(c, s, &l);
    return status;
}
