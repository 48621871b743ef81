#include "support/command.h"

#include "base/host.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int fw_test_command_start(fw_test_command *c, const char *const *argv, const char *const *environment) {
    int out[2], err[2];
    *c = (fw_test_command){0};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return -1;
    c->pid = fork();
    if (c->pid < 0) return -1;
    if (c->pid == 0) {
        setpgid(0, 0); /* a signal to the test's group does not reach it by accident */
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
            putenv((char *)(uintptr_t)environment[i]);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    c->out_fd = out[0];
    c->err_fd = err[0];
    return 0;
}

/* Returns 0 at the end of the stream. */
static int drain(int fd, fw_strbuf *into) {
    char buffer[65536];
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return 0;
    return fw_strbuf_append(into, buffer, (size_t)n) == FW_OK;
}

int fw_test_command_finish(fw_test_command *c, double deadline_s) {
    uint64_t deadline_ns = fw_host_now_ns() + (uint64_t)(deadline_s * 1e9);
    struct pollfd poll_fd[2] = {{.fd = c->out_fd, .events = POLLIN}, {.fd = c->err_fd, .events = POLLIN}};
    int open_n = 2, killed = 0;
    while (open_n > 0) {
        poll(poll_fd, 2, 100);
        for (int i = 0; i < 2; i++) {
            if (poll_fd[i].fd < 0 || poll_fd[i].revents == 0) continue;
            if (drain(poll_fd[i].fd, i == 0 ? &c->out : &c->err)) continue;
            poll_fd[i].fd = -1;
            open_n--;
        }
        if (!killed && fw_host_now_ns() > deadline_ns) {
            fprintf(stderr, "killed after %.0f s\n", deadline_s);
            kill(-c->pid, SIGKILL);
            killed = 1;
        }
    }
    close(c->out_fd);
    close(c->err_fd);
    int status = 0;
    waitpid(c->pid, &status, 0);
    c->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return c->exit_code;
}

int fw_test_command_run(fw_test_command *c, const char *const *argv, int expected, double deadline_s) {
    if (fw_test_command_start(c, argv, NULL) != 0) return -1;
    fw_test_command_finish(c, deadline_s);
    if (c->exit_code != expected) {
        fprintf(stderr, "exit code %d, expected %d:", c->exit_code, expected);
        for (size_t i = 0; argv[i] != NULL; i++) fprintf(stderr, " %s", argv[i]);
        fprintf(stderr, "\n%s%s", fw_strbuf_text(&c->out), fw_strbuf_text(&c->err));
    }
    return c->exit_code;
}

void fw_test_command_fini(fw_test_command *c) {
    fw_strbuf_fini(&c->out);
    fw_strbuf_fini(&c->err);
}
