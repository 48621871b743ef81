#include "support/world.h"

#include "base/host.h"
#include "comm/mpi/mpi_start.h"
#include "support/fake_mpi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_GROUP = 251, TOO_LATE = 252 };

int fw_test_listen(int *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        if (fd >= 0) close(fd);
        return -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

/* FW_TEST_TRANSPORT=mpi: the same tests by messages, through a stand-in for MPI. */
static int is_by_mpi(void) {
    const char *asked = getenv("FW_TEST_TRANSPORT");
    return asked != NULL && strcmp(asked, "mpi") == 0;
}

static int run_rank(const fw_comm_options *options, fw_test_rank_fn fn, void *context) {
    fw_comm *c;
    if (options->link == FW_COMM_LINK_MPI) fw_mpi_replace_plugin(fw_fake_mpi(options->rank));
    if (fw_comm_create(&c, options) != FW_OK) {
        fprintf(stderr, "rank %d of %d: no group: %s\n", options->rank, options->world, fw_trail_message());
        return NO_GROUP;
    }
    int result = fn(c, context);
    fw_comm_destroy(c);
    return result;
}

/* Waits for all children; kills what is left at the deadline. */
static void collect(int n, const pid_t *pids, fw_test_rank_result *results, double deadline_s) {
    uint64_t start = fw_host_now_ns();
    int left = n, killed = 0;
    while (left > 0) {
        int idle = 1;
        for (int r = 0; r < n; r++) {
            if (results[r].seconds >= 0) continue;
            int state;
            if (waitpid(pids[r], &state, WNOHANG) != pids[r]) continue;
            results[r].seconds = (double)(fw_host_now_ns() - start) * 1e-9;
            results[r].signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
            results[r].exit_code = killed ? TOO_LATE : WIFEXITED(state) ? WEXITSTATUS(state) : 0;
            left--;
            idle = 0;
        }
        if (!killed && (double)(fw_host_now_ns() - start) * 1e-9 > deadline_s) {
            killed = 1;
            for (int r = 0; r < n; r++)
                if (results[r].seconds < 0) {
                    fprintf(stderr, "rank %d of %d was still there after %.0f s\n", r, n, deadline_s);
                    kill(pids[r], SIGKILL);
                }
        }
        if (idle) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

int fw_test_world_run(int n, fw_test_rank_fn fn, void *context, const fw_comm_options *options, double deadline_s,
                      fw_test_rank_result *results) {
    fw_test_rank_result own[FW_COMM_MAX_WORLD];
    pid_t pids[FW_COMM_MAX_WORLD];
    if (results == NULL) results = own;
    int port, listener = fw_test_listen(&port);
    if (n > FW_COMM_MAX_WORLD || listener < 0) return 1;
    if (is_by_mpi() && fw_fake_mpi_reset(n) != 0) return 1;
    fflush(stdout);
    fflush(stderr);
    pid_t parent = getpid();
    for (int r = 0; r < n; r++) {
        results[r] = (fw_test_rank_result){.seconds = -1};
        pids[r] = fork();
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(1);
            fw_comm_options mine = options ? *options : (fw_comm_options){.timeout_s = 60, .connect_timeout_s = 60};
            mine.rank = mine.local_rank = r;
            mine.world = mine.local_world = n;
            mine.master_port = port;
            if (is_by_mpi()) mine.link = FW_COMM_LINK_MPI;
            mine.listen_fd = r == 0 ? listener : 0;
            snprintf(mine.master_address, sizeof mine.master_address, "127.0.0.1");
            if (mine.secret[0] == 0) snprintf(mine.secret, sizeof mine.secret, "test-%d-%d", (int)parent, port);
            if (r != 0) close(listener);
            exit(run_rank(&mine, fn, context));
        }
        if (pids[r] < 0) {
            for (int q = 0; q < r; q++) kill(pids[q], SIGKILL);
            n = r;
            break;
        }
    }
    close(listener);
    collect(n, pids, results, deadline_s > 0 ? deadline_s : 120);
    int bad = 0;
    for (int r = 0; r < n; r++) bad |= results[r].exit_code != 0 || results[r].signal != 0;
    return bad;
}

int fw_test_world(int n, fw_test_rank_fn fn, void *context) { return fw_test_world_run(n, fn, context, NULL, 0, NULL); }
