#include "mirror/mirror_run.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A guard between us and the command, since only a process can look after processes when we are killed. Its standard input
 * is a pipe that we hold open and never write to: when it ends, we are gone. Everything is in the guard's process group. */
static const char guard[] = "exec 3<&0 </dev/null\n"
                            "{ read -r line <&3; trap '' TERM; kill -s TERM 0; sleep 2; kill -s KILL 0; } >&- 2>&- &\n"
                            "exec 3<&-\n"
                            "\"$@\"\n"; /* no exec: the guard stays for as long as the command */

enum { LINE_BYTES = 200 };

typedef struct running {
    pid_t pid;
    int alive_fd; /* ours of the pipe that says we live */
    int out_fd, log_fd;
    char line[LINE_BYTES]; /* the last that is not empty */
    size_t line_bytes;
    bool line_ended;
    enum { NO_ESCAPE, ESCAPE, ESCAPE_PARAMETERS } escape; /* colours of a terminal are not part of a message */
    char error[LINE_BYTES];                               /* the last that says so: advice may follow it */
} running;

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* The first two are the child's. */
static fw_status spawn(running *r, int in_fd, int out_fd, char *const *argv) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, in_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
    posix_spawnattr_setsigdefault(&attributes, &all); /* we ignore SIGPIPE */
    posix_spawnattr_setsigmask(&attributes, &none);   /* and block what the training thread is to get */
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int reason = posix_spawn(&r->pid, "/bin/sh", &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return reason == 0 ? FW_OK : fw_fail(FW_ERR_IO, "cannot start %s: %s", argv[4], strerror(reason));
}

static fw_status start(running *r, char *const *argv) {
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    size_t n = 0;
    char **guarded = NULL;
    fw_status status;
    while (argv[n] != NULL) n++;
    FW_TRY_OR(FW_NEW_ARRAY(guarded, n + 5), done);
    guarded[0] = guarded[3] = "sh";
    guarded[1] = "-c";
    guarded[2] = (char *)(uintptr_t)guard;
    for (size_t i = 0; i < n; i++) guarded[4 + i] = argv[i];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) != 0) {
        status = fw_fail(FW_ERR_IO, "cannot make a pipe: %s", strerror(errno));
        goto done;
    }
    FW_TRY_OR(spawn(r, in[0], out[1], guarded), done);
    r->alive_fd = in[1];
    r->out_fd = out[0];
    in[1] = out[0] = -1;
done:
    for (int i = 0; i < 2; i++) {
        close_fd(&in[i]);
        close_fd(&out[i]);
    }
    fw_free(guarded);
    return status;
}

/* Is the character part of "ESC [ parameters letter"? */
static bool is_escape(running *r, char c) {
    if (r->escape == NO_ESCAPE && c != '\033') return false;
    if (r->escape == NO_ESCAPE)
        r->escape = ESCAPE;
    else if (r->escape == ESCAPE && c == '[')
        r->escape = ESCAPE_PARAMETERS;
    else if (r->escape == ESCAPE || (c >= '@' && c <= '~'))
        r->escape = NO_ESCAPE;
    return true;
}

static void note_error(running *r) {
    r->line[r->line_bytes] = 0;
    if (strncasecmp(r->line, "error", 5) == 0) strcpy(r->error, r->line);
}

static void keep_line(running *r, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            if (!r->line_ended) note_error(r);
            r->line_ended = true;
            r->escape = NO_ESCAPE;
            continue;
        }
        if (is_escape(r, text[i])) continue;
        if (r->line_ended) r->line_bytes = 0;
        r->line_ended = false;
        if (r->line_bytes + 1 < LINE_BYTES) r->line[r->line_bytes++] = text[i];
    }
    if (!r->line_ended) note_error(r);
}

/* What it has written until now. The log is for people: where it cannot be written, copying goes on. */
static void read_output(running *r) {
    char text[4096];
    for (ssize_t n; (n = read(r->out_fd, text, sizeof text)) > 0;) {
        keep_line(r, text, (size_t)n);
        if (r->log_fd >= 0 && write(r->log_fd, text, (size_t)n) < 0) close_fd(&r->log_fd);
    }
}

static bool has_ended(const running *r) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

static void write_begin(running *r, char *const *argv) {
    char when[32];
    time_t now = time(NULL);
    struct tm parts;
    if (r->log_fd < 0 || gmtime_r(&now, &parts) == NULL) return;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    dprintf(r->log_fd, "# %s", when);
    for (size_t i = 0; argv[i] != NULL; i++) dprintf(r->log_fd, " '%s'", argv[i]);
    dprintf(r->log_fd, "\n");
}

/* Until it has ended, or is to be stopped. */
static fw_status watch(running *r, fw_mirror_work *work) {
    fw_status status = FW_OK;
    uint64_t kill_ns = 0;
    while (!has_ended(r)) {
        struct pollfd p = {.fd = r->out_fd, .events = POLLIN};
        poll(&p, 1, 100);
        if ((p.revents & POLLIN) == 0 && (p.revents & (POLLHUP | POLLERR)) != 0) usleep(20000); /* it has closed it */
        read_output(r);
        if (status == FW_OK) {
            status = fw_mirror_work_check(work);
            if (status == FW_OK) continue;
            kill(-r->pid, SIGTERM);
            kill_ns = fw_host_now_ns() + 2000000000u;
        } else if (fw_host_now_ns() > kill_ns) {
            kill(-r->pid, SIGKILL);
        }
    }
    return status;
}

bool fw_mirror_can_run(const char *program) {
    if (strchr(program, '/') != NULL) return fw_file_exists(program) && access(program, X_OK) == 0;
    const char *at = getenv("PATH");
    while (at != NULL && *at != 0) {
        const size_t n = strcspn(at, ":");
        char path[4096];
        const int bytes = snprintf(path, sizeof path, "%.*s/%s", (int)n, at, program);
        if (n > 0 && bytes > 0 && (size_t)bytes < sizeof path && fw_file_exists(path) && access(path, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static fw_status judge(const running *r, int state, const char *command) {
    const char *said = r->error[0] != 0 ? r->error : r->line, *colon = said[0] != 0 ? ": " : "";
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return FW_OK;
    if (WIFSIGNALED(state))
        return fw_fail(FW_ERR_IO, "%s was ended by signal %d%s%s", command, WTERMSIG(state), colon, said);
    const int code = WEXITSTATUS(state); /* the guard's, where it could not start the command */
    if ((code == 126 || code == 127) && !fw_mirror_can_run(command))
        return fw_fail(FW_ERR_IO, "cannot start %s: there is no such program%s, or it may not be run", command,
                       strchr(command, '/') == NULL ? " in PATH" : "");
    return fw_fail(FW_ERR_IO, "%s ended with exit code %d%s%s", command, code, colon, said);
}

fw_status fw_mirror_run(char *const *argv, const char *log_path, fw_mirror_work *work) {
    running r = {.alive_fd = -1, .out_fd = -1, .log_fd = -1};
    FW_TRY(start(&r, argv));
    if (log_path != NULL) r.log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    write_begin(&r, argv);
    fw_status status = watch(&r, work);
    kill(-r.pid,
         SIGKILL); /* the guard's watch, and what the command has left; nobody else's group until it is reaped */
    int state = 0;
    waitpid(r.pid, &state, 0);
    read_output(&r);
    if (status == FW_OK) status = judge(&r, state, argv[0]);
    if (r.log_fd >= 0) dprintf(r.log_fd, "# %s\n", status == FW_OK ? "done" : fw_trail_message());
    close_fd(&r.alive_fd);
    close_fd(&r.out_fd);
    close_fd(&r.log_fd);
    return status;
}
