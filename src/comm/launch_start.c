/* Starting one rank: its environment, its process group, its death with the launcher. */
#include "base/alloc.h"
#include "comm/launch_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { VARIABLE_N = 8, VARIABLE_BYTES = 128 };

/* What a rank must not inherit from a job around this one. */
static const char *const replaced[] = {"RANK=",
                                       "WORLD_SIZE=",
                                       "LOCAL_RANK=",
                                       "LOCAL_WORLD_SIZE=",
                                       "MASTER_ADDR=",
                                       "MASTER_PORT=",
                                       "FINEWIRE_JOB_SECRET=",
                                       "FINEWIRE_LISTEN_FD=",
                                       "TORCHELASTIC_USE_AGENT_STORE="};

typedef struct rank_environment {
    char text[VARIABLE_N][VARIABLE_BYTES];
    char **list; /* NULL-terminated */
} rank_environment;

static int is_replaced(const char *variable) {
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        if (strncmp(variable, replaced[i], strlen(replaced[i])) == 0) return 1;
    return 0;
}

static fw_status fill_environment(rank_environment *e, const fw_launch_job *job, int rank) {
    int n = 0, world = job->options->process_n;
    size_t all_n = 0, kept_n = 0;
    snprintf(e->text[n++], VARIABLE_BYTES, "RANK=%d", rank);
    snprintf(e->text[n++], VARIABLE_BYTES, "WORLD_SIZE=%d", world);
    snprintf(e->text[n++], VARIABLE_BYTES, "LOCAL_RANK=%d", rank);
    snprintf(e->text[n++], VARIABLE_BYTES, "LOCAL_WORLD_SIZE=%d", world);
    snprintf(e->text[n++], VARIABLE_BYTES, "MASTER_ADDR=127.0.0.1");
    snprintf(e->text[n++], VARIABLE_BYTES, "MASTER_PORT=%d", job->port);
    snprintf(e->text[n++], VARIABLE_BYTES, "FINEWIRE_JOB_SECRET=%s", job->secret);
    if (rank == 0) snprintf(e->text[n++], VARIABLE_BYTES, "FINEWIRE_LISTEN_FD=%d", job->listen_fd);
    while (environ != NULL && environ[all_n] != NULL) all_n++;
    FW_TRY(FW_NEW_ARRAY(e->list, all_n + VARIABLE_N + 1));
    for (size_t i = 0; i < all_n; i++)
        if (!is_replaced(environ[i])) e->list[kept_n++] = environ[i];
    for (int i = 0; i < n; i++) e->list[kept_n++] = e->text[i];
    return FW_OK;
}

fw_status fw_launch_prepare(fw_launch_job *job) {
    unsigned char random[24];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    job->listen_fd = job->null_fd = -1;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fw_fail(FW_ERR_IO, "no random numbers from the kernel: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(job->secret + 2 * i, 3, "%02x", random[i]);
    job->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (job->null_fd < 0) return fw_fail(FW_ERR_IO, "cannot open /dev/null: %s", strerror(errno));
    job->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (job->listen_fd < 0 || bind(job->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(job->listen_fd, 128) != 0 || getsockname(job->listen_fd, (struct sockaddr *)&address, &bytes) != 0)
        return fw_fail(FW_ERR_IO, "cannot listen on 127.0.0.1 for the ranks to meet: %s", strerror(errno));
    job->port = ntohs(address.sin_port);
    return FW_OK;
}

void fw_launch_release(fw_launch_job *job) {
    if (job->listen_fd >= 0) close(job->listen_fd);
    if (job->null_fd >= 0) close(job->null_fd);
    job->listen_fd = job->null_fd = -1;
}

/* In the child, between fork and exec: only calls that are safe there. */
static _Noreturn void become_rank(const fw_launch_job *job, int rank, char **environment, pid_t parent, int report_fd) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); /* it died before prctl */
    int failed = dup2(job->null_fd, STDIN_FILENO) < 0;
    if (rank == 0) failed |= fcntl(job->listen_fd, F_SETFD, 0) != 0;
    signal(SIGCHLD, SIG_DFL);
    signal(SIGINT, SIG_DFL);  /* ignored by what a script starts with &, and handed on by us all the same */
    signal(SIGTTOU, SIG_IGN); /* being no foreground group must not stop its lines on a terminal */
    sigprocmask(SIG_SETMASK, &job->outer_mask, NULL);
    if (!failed) execvpe(job->argv[0], job->argv, environment);
    int reason = errno;
    if (write(report_fd, &reason, sizeof reason) < 0) { /* the launcher is gone: so are we */
    }
    _exit(127);
}

fw_status fw_launch_start_rank(fw_launch_job *job, int rank) {
    rank_environment e = {.list = NULL};
    int report[2], reason = 0;
    FW_TRY(fill_environment(&e, job, rank));
    if (pipe2(report, O_CLOEXEC) != 0) {
        fw_free(e.list);
        return fw_fail(FW_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become_rank(job, rank, e.list, parent, report[1]);
    int fork_reason = errno;
    close(report[1]);
    fw_free(e.list);
    ssize_t n = 0;
    if (pid > 0) {
        setpgid(pid, pid); /* here too: whoever comes first */
        do n = read(report[0], &reason, sizeof reason);
        while (n < 0 && errno == EINTR);
    }
    close(report[0]);
    if (pid < 0) return fw_fail(FW_ERR_IO, "cannot start rank %d: %s", rank, strerror(fork_reason));
    if (n == (ssize_t)sizeof reason) {
        waitpid(pid, NULL, 0);
        return fw_fail(FW_ERR_OPTION, "cannot start %s: %s", job->argv[0], strerror(reason));
    }
    job->rank[rank].pid = pid;
    job->alive_n++;
    return FW_OK;
}
