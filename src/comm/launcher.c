/* Looking after the ranks: ends, signals, the grace period, the exit code of the job. */
#include "comm/launcher.h"

#include "base/host.h"
#include "comm/launch_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* One press of Ctrl-C may arrive twice, by way of a wrapper that signals us and our group: that is no second wish. */
static const uint64_t bounce_ns = 200 * 1000 * 1000;
/* After a failure, all included, a job is gone within 10 s. */
static const double grace_default_s = 5, grace_cut_s = 1;
enum { BY_A_SIGNAL = -1 };

static void tell(const fw_launch_job *job, fw_launch_event event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void tell(const fw_launch_job *job, fw_launch_event event, const char *format, ...) {
    char text[256] = "";
    if (job->options->on_event == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    event.message = text;
    job->options->on_event(job->options->context, &event);
}

static const char *name_of_signal(int number) {
    static _Thread_local char text[32];
    const char *short_name = sigabbrev_np(number);
    if (short_name == NULL)
        snprintf(text, sizeof text, "signal %d", number);
    else
        snprintf(text, sizeof text, "SIG%s", short_name);
    return text;
}

static const char *hint_for_signal(int number) {
    switch (number) {
    case SIGKILL: return "; out of memory is a common reason";
    case SIGBUS: return "; a full disk, or shared memory that ran out, is a common reason";
    case SIGSEGV:
    case SIGABRT:
    case SIGILL:
    case SIGFPE: return "; a bug, please report it";
    default: return "";
    }
}

static void signal_ranks(fw_launch_job *job, int number) {
    for (int r = 0; r < job->options->process_n; r++) {
        if (job->rank[r].pid == 0) continue;
        if (number == SIGKILL) job->rank[r].killed = 1;
        kill(-job->rank[r].pid, number);
    }
}

/* Codes that the ranks of finewire explain themselves. */
static int speaks_for_itself(int code) { return code <= 6 || code == 70 || code == 130; }

static double grace_s(const fw_launch_job *job) {
    return job->options->grace_s > 0 ? job->options->grace_s : grace_default_s;
}

/* `rank` did not end well: the others have to. */
static void start_grace(fw_launch_job *job, int rank, double seconds) {
    uint64_t end_ns = fw_host_now_ns() + (uint64_t)(seconds * 1e9);
    fw_launch_announce_end(job, rank);
    if (job->grace_end_ns == 0) job->failed_rank = rank;
    if (job->grace_end_ns == 0 || end_ns < job->grace_end_ns) job->grace_end_ns = end_ns;
}

/* code: what it returned, or BY_A_SIGNAL. */
static void note_failure(fw_launch_job *job, int rank, int code) {
    if (code == 5) {
        job->any_followed = 1;
    } else if (code == 130) {
        job->any_stopped = 1;
    } else if (job->own_code < 0) {
        job->own_code = code == 2 || code == 3 || code == 4 || code == 6 ? code : 5;
    }
    /* An orderly stop is no reason to hurry the others: they may be saving. */
    if (code != 130 && job->grace_end_ns == 0) start_grace(job, rank, grace_s(job));
}

/* The signal handed on found this rank without a handler, most likely before it had met the others. They cannot go on
 * without it, and those that wait for it would do so for a minute. */
static void note_cut(fw_launch_job *job, int rank) {
    job->any_cut = 1;
    start_grace(job, rank, grace_s(job) < grace_cut_s ? grace_s(job) : grace_cut_s);
}

static void note_end(fw_launch_job *job, int r, int state) {
    fw_launch_event event = {.kind = FW_LAUNCH_EXITED, .rank = r, .pid = (int)job->rank[r].pid};
    int by_us = job->rank[r].killed;
    if (WIFSIGNALED(state)) {
        event.signal = WTERMSIG(state);
        event.exit_code = 128 + event.signal;
        int handed = job->handed_signal != 0 && event.signal == job->handed_signal;
        event.expected = by_us || handed;
        if (!by_us && handed) note_cut(job, r);
        if (!by_us && !handed) note_failure(job, r, BY_A_SIGNAL);
        if (event.expected)
            tell(job, event, "%s", "");
        else
            tell(job, event, "rank %d was killed by signal %d (%s%s)", r, event.signal, name_of_signal(event.signal),
                 hint_for_signal(event.signal));
        return;
    }
    event.exit_code = WEXITSTATUS(state);
    event.expected = by_us || job->grace_end_ns != 0 || (event.exit_code == 130 && job->handed_signal != 0);
    if (event.exit_code != 0) note_failure(job, r, event.exit_code);
    if (speaks_for_itself(event.exit_code))
        tell(job, event, "%s", "");
    else
        tell(job, event, "rank %d ended with exit code %d", r, event.exit_code);
}

static void reap(fw_launch_job *job) {
    for (int r = 0; r < job->options->process_n; r++) {
        siginfo_t info = {.si_pid = 0};
        pid_t pid = job->rank[r].pid;
        if (pid == 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) continue;
        kill(-pid, SIGKILL); /* what it has left behind; its group cannot be somebody else's until it is reaped */
        int state = 0;
        waitpid(pid, &state, 0);
        note_end(job, r, state);
        job->rank[r].pid = 0;
        job->alive_n--;
    }
}

static void take_signal(fw_launch_job *job, int number) {
    const char *stop = job->options->keeps_nothing ? "stop" : "save what they have trained and stop";
    uint64_t now_ns = fw_host_now_ns();
    if (number == SIGUSR1) { /* a batch system's warning: what it sends next is still a first signal */
        if (job->handed_signal != 0) return;
        job->handed_signal = number;
        signal_ranks(job, number);
        tell(job, (fw_launch_event){.kind = FW_LAUNCH_SIGNAL, .rank = -1, .signal = number}, "SIGUSR1: the ranks %s",
             stop);
    } else if (job->handed_signal == 0 || job->handed_signal == SIGUSR1) {
        job->handed_signal = number;
        job->handed_ns = now_ns;
        signal_ranks(job, number);
        tell(job, (fw_launch_event){.kind = FW_LAUNCH_SIGNAL, .rank = -1, .signal = number},
             "%s: the ranks %s; once more stops them at once", name_of_signal(number), stop);
    } else if (number != SIGHUP && now_ns - job->handed_ns > bounce_ns) { /* a closing terminal may say it twice */
        signal_ranks(job, SIGKILL);
        job->hurried = 1;
        tell(job, (fw_launch_event){.kind = FW_LAUNCH_KILLED, .rank = -1, .signal = number},
             "a second signal (%s): the ranks were killed%s", name_of_signal(number),
             job->options->keeps_nothing ? "" : " before they had saved");
    }
}

/* Signals before ends: a rank that ended by a signal that has come to us too is a rank that was stopped. */
static void take_signals(fw_launch_job *job, const sigset_t *signals, const struct timespec *wait) {
    const struct timespec no_wait = {0};
    for (int number; (number = sigtimedwait(signals, NULL, wait)) > 0; wait = &no_wait)
        if (number != SIGCHLD) take_signal(job, number);
}

/* The grace period is over. */
static void kill_rest(fw_launch_job *job) {
    fw_launch_event event = {.kind = FW_LAUNCH_KILLED, .rank = -1};
    if (job->any_cut) { /* the line about the signal has said it */
        tell(job, event, "%s", "");
    } else {
        char who[32];
        snprintf(who, sizeof who, "%d ranks", job->alive_n);
        for (int r = 0; r < job->options->process_n && job->alive_n == 1; r++)
            if (job->rank[r].pid != 0) snprintf(who, sizeof who, "rank %d", r);
        tell(job, event, "%s did not stop within %.3g s after rank %d had ended: killed", who, grace_s(job),
             job->failed_rank);
    }
    signal_ranks(job, SIGKILL);
}

static void supervise(fw_launch_job *job, const sigset_t *signals) {
    const struct timespec look = {.tv_nsec = 100 * 1000 * 1000};
    int killed = 0;
    take_signals(job, signals, &(struct timespec){0});
    for (reap(job); job->alive_n > 0; reap(job)) {
        take_signals(job, signals, &look);
        if (killed || job->grace_end_ns == 0 || fw_host_now_ns() < job->grace_end_ns) continue;
        reap(job);
        if (job->alive_n == 0) return;
        killed = 1;
        kill_rest(job);
    }
}

static void kill_all(fw_launch_job *job) {
    signal_ranks(job, SIGKILL);
    for (int r = 0; r < job->options->process_n; r++)
        if (job->rank[r].pid != 0) waitpid(job->rank[r].pid, NULL, 0);
}

/* Signals that stop the job. One that was ignored when we started (nohup's SIGHUP) stays ignored, but for SIGINT: a script's
 * shell has what it starts with & ignore it, and who sends it to the job, or ends the script by Ctrl-C, means it. */
static void fill_signals(sigset_t *signals) {
    static const int stop[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigemptyset(signals);
    sigaddset(signals, SIGCHLD);
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++) {
        struct sigaction now;
        if (stop[i] != SIGINT && sigaction(stop[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN) continue;
        sigaddset(signals, stop[i]);
    }
}

fw_status fw_launch(const fw_launch_options *options, char *const argv[], int *exit_code) {
    *exit_code = 5;
    if (options->process_n < 1 || options->process_n > FW_COMM_MAX_WORLD)
        return fw_fail(FW_ERR_OPTION, "num_processes is %d: must be from 1 to %d", options->process_n,
                       FW_COMM_MAX_WORLD);
    if (argv[0] == NULL) return fw_fail(FW_ERR_OPTION, "no command to start");
    fw_launch_job job = {.options = options, .argv = argv, .own_code = -1};
    struct sigaction plain = {.sa_handler = SIG_DFL}, child_before;
    sigset_t signals;
    fw_status status = fw_launch_prepare(&job);
    if (status != FW_OK) {
        fw_launch_release(&job);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    fill_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &job.outer_mask);
    sigaction(SIGCHLD, &plain, &child_before); /* ignored, it would reap for us */
    for (int r = 0; r < options->process_n && status == FW_OK; r++) {
        status = fw_launch_start_rank(&job, r);
        if (status != FW_OK) break;
        tell(&job, (fw_launch_event){.kind = FW_LAUNCH_STARTED, .rank = r, .pid = (int)job.rank[r].pid}, "%s", "");
        if (r != 0) continue;
        close(job.listen_fd); /* rank 0's alone: with it, the door closes */
        job.listen_fd = -1;
    }
    if (status == FW_OK)
        supervise(&job, &signals);
    else
        kill_all(&job);
    fw_launch_release(&job);
    sigaction(SIGCHLD, &child_before, NULL);
    sigprocmask(SIG_SETMASK, &job.outer_mask, NULL);
    if (status != FW_OK) return fw_trail_push(status, __FILE__, __func__, __LINE__);
    int was_killed = 0;
    for (int r = 0; r < options->process_n; r++) was_killed |= job.rank[r].killed;
    /* 130 says that what there was to save is saved. Ranks that end because one was cut off had nothing yet. */
    int followed = job.any_followed || was_killed;
    if (job.own_code >= 0)
        *exit_code = job.own_code;
    else if (job.any_cut && !job.hurried)
        *exit_code = 130;
    else
        *exit_code = followed ? 5 : job.any_cut || job.any_stopped ? 130 : 0;
    return FW_OK;
}

void fw_comm_cpu_share(int local_rank, int local_world, int cpu_n, int *first, int *n) {
    int begin = local_rank * cpu_n / local_world, end = (local_rank + 1) * cpu_n / local_world;
    *first = begin;
    *n = end > begin ? end - begin : 1;
}
