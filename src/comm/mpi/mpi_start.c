/* From mpirun to ranks that know where to meet. */
#include "comm/mpi/mpi_start.h"

#include "base/host.h"
#include "comm/control_wire.h"
#include "comm/mpi/mpi_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Where rank 0 listens, and the secret of the job, which travels by MPI. */
enum { ADDRESS_N = 8, ADDRESS_BYTES = 48 };
typedef struct invitation {
    char host_id[48];
    char address[ADDRESS_N][ADDRESS_BYTES]; /* numeric; "": no more */
    int32_t port;
    char secret[FW_COMM_SECRET_BYTES];
} invitation;

static const fw_mpi_plugin *replaced;

void fw_mpi_replace_plugin(const fw_mpi_plugin *plugin) { replaced = plugin; }

static fw_status load(fw_mpi *m) {
    static const fw_plugin_place place = {.name = "libfinewire_mpi.so",
                                          .variable = "FINEWIRE_MPI_PLUGIN",
                                          .symbol = "finewire_mpi_plugin",
                                          .made_by = "make where libopenmpi-dev is installed",
                                          .libraries = "the MPI libraries"};
    char path[4096];
    const fw_plugin_head *head;
    m->plugin = replaced;
    if (replaced != NULL) return FW_OK;
    fw_status status = fw_plugin_open(&head, &place, path, sizeof path);
    if (status != FW_OK) return fw_fail_context(status, "--transport mpi: ");
    m->plugin = (const fw_mpi_plugin *)(const void *)head;
    return FW_OK;
}

static fw_status check_place(const fw_comm *c, int rank, int world) {
    const fw_comm_options *o = &c->options;
    if (world == 1)
        return fw_fail(
            FW_ERR_OPTION,
            "--transport mpi: MPI knows of one rank only; start the ranks with mpirun: mpirun -n %d finewire "
            "...",
            o->world);
    if (rank != o->rank || world != o->world)
        return fw_fail(
            FW_ERR_OPTION,
            "MPI says that this is rank %d of %d and the environment (RANK, WORLD_SIZE) rank %d of %d; unset "
            "those variables",
            rank, world, o->rank, o->world);
    return FW_OK;
}

/* ---- the invitation ---- */

/* A socket that listens at any free port. */
static fw_status listen_anywhere(int *fd, int32_t *port, int only_here) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(only_here ? INADDR_LOOPBACK : INADDR_ANY)};
    socklen_t bytes = sizeof a;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && bind(*fd, (struct sockaddr *)&a, bytes) == 0 && listen(*fd, 128) == 0 &&
        getsockname(*fd, (struct sockaddr *)&a, &bytes) == 0) {
        *port = ntohs(a.sin_port);
        return FW_OK;
    }
    const int reason = errno;
    if (*fd >= 0) close(*fd);
    return fw_fail(FW_ERR_RANK, "rank 0 cannot listen for the others: %s", strerror(reason));
}

/* This host's addresses, those of its own use first: the others try them in this order. */
static void list_addresses(invitation *i) {
    struct ifaddrs *list = NULL;
    int n = 0;
    if (getifaddrs(&list) != 0) return;
    for (const struct ifaddrs *a = list; a != NULL && n < ADDRESS_N; a = a->ifa_next) {
        if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP) ||
            (a->ifa_flags & IFF_LOOPBACK))
            continue;
        struct sockaddr_in in;
        memcpy(&in, a->ifa_addr, sizeof in);
        if (inet_ntop(AF_INET, &in.sin_addr, i->address[n], ADDRESS_BYTES) != NULL) n++;
    }
    freeifaddrs(list);
}

static fw_status make_secret(char out[FW_COMM_SECRET_BYTES]) {
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fw_fail(FW_ERR_IO, "no random numbers from the kernel: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(out + 2 * i, 3, "%02x", random[i]);
    return FW_OK;
}

/* Whether something listens there; what it is, the meeting finds out. */
static int reaches(const char *address, int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &a.sin_addr) != 1) return 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), reason = 0;
    if (fd < 0) return 0;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) reason = errno;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    socklen_t bytes = sizeof reason;
    if (reason == EINPROGRESS && poll(&wait, 1, 2000) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &bytes);
    close(fd);
    return reason == 0;
}

static fw_status choose_address(fw_comm *c, const invitation *i, const char *own_host) {
    fw_comm_options *o = &c->options;
    o->master_port = i->port;
    o->port_tries = 1;
    memcpy(o->secret, i->secret, sizeof o->secret);
    if (strcmp(i->host_id, own_host) == 0) {
        snprintf(o->master_address, sizeof o->master_address, "127.0.0.1");
        return FW_OK;
    }
    for (int k = 0; k < ADDRESS_N && i->address[k][0] != 0; k++) {
        if (!reaches(i->address[k], i->port)) continue;
        snprintf(o->master_address, sizeof o->master_address, "%s", i->address[k]);
        return FW_OK;
    }
    return fw_fail(
        FW_ERR_RANK,
        "rank %d reaches rank 0 at none of its addresses (%s%s%s ...) port %d; set MASTER_ADDR and MASTER_PORT "
        "for every rank (mpirun -x MASTER_ADDR=...)",
        o->rank, i->address[0], i->address[1][0] ? ", " : "", i->address[1], i->port);
}

/* ---- messages before there is a job that could fail: with a clock of their own ---- */

static fw_status wait_for(const fw_mpi *m, fw_mpi_request *r, uint64_t deadline_ns, int rank) {
    while (r->pending) {
        FW_TRY(m->plugin->test(r));
        if (r->pending && fw_host_now_ns() > deadline_ns)
            return fw_fail(FW_ERR_RANK, "rank %d did not come to the meeting by MPI in time; see what it says", rank);
        if (r->pending) nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
    }
    return FW_OK;
}

static fw_status send_now(const fw_mpi *m, const void *data, size_t bytes, int rank, uint64_t deadline_ns) {
    fw_mpi_request r = {0};
    FW_TRY(m->plugin->send(&r, data, bytes, rank, FW_MPI_TAG_START));
    return wait_for(m, &r, deadline_ns, rank);
}

static fw_status receive_now(const fw_mpi *m, void *data, size_t bytes, int rank, uint64_t deadline_ns) {
    fw_mpi_request r = {0};
    FW_TRY(m->plugin->receive(&r, data, bytes, rank, FW_MPI_TAG_START));
    return wait_for(m, &r, deadline_ns, rank);
}

/* Rank 0 hears where everybody is before it opens a door: one that nobody beyond this host can see, if that will do. */
static fw_status invite(fw_comm *c, const char *own_host, uint64_t deadline_ns) {
    const fw_mpi *m = fw_mpi_of(c);
    invitation i = {0};
    int only_here = 1;
    for (int r = 1; r < c->options.world; r++) {
        char host_id[sizeof i.host_id];
        FW_TRY(receive_now(m, host_id, sizeof host_id, r, deadline_ns));
        only_here &= strncmp(host_id, own_host, sizeof host_id) == 0;
    }
    memcpy(i.host_id, own_host, sizeof i.host_id);
    FW_TRY(make_secret(i.secret));
    FW_TRY(listen_anywhere(&c->options.listen_fd, &i.port, only_here));
    if (!only_here) list_addresses(&i);
    for (int r = 1; r < c->options.world; r++) FW_TRY(send_now(m, &i, sizeof i, r, deadline_ns));
    return choose_address(c, &i, own_host);
}

static fw_status accept_invitation(fw_comm *c, const char own_host[48], uint64_t deadline_ns) {
    const fw_mpi *m = fw_mpi_of(c);
    invitation i;
    FW_TRY(send_now(m, own_host, sizeof i.host_id, 0, deadline_ns));
    FW_TRY(receive_now(m, &i, sizeof i, 0, deadline_ns));
    i.host_id[sizeof i.host_id - 1] = i.secret[sizeof i.secret - 1] = 0;
    for (int k = 0; k < ADDRESS_N; k++) i.address[k][ADDRESS_BYTES - 1] = 0;
    return choose_address(c, &i, own_host);
}

fw_status fw_mpi_begin(fw_comm *c, uint64_t deadline_ns) {
    int rank, world;
    fw_hello own;
    FW_TRY(fw_mpi_make(c));
    fw_mpi *m = fw_mpi_of(c);
    FW_TRY(load(m));
    FW_TRY(m->plugin->start(&rank, &world));
    FW_TRY(check_place(c, rank, world));
    if (!c->options.address_is_guess) return FW_OK;
    fw_hello_fill(&own, &c->options);
    return c->options.rank == 0 ? invite(c, own.host_id, deadline_ns) : accept_invitation(c, own.host_id, deadline_ns);
}
