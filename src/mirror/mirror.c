#include "mirror/mirror.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "mirror/mirror_links.h"
#include "mirror/mirror_target.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* At the end of a run nobody wants to wait for ever: what has failed four times has failed. */
enum { END_ATTEMPTS = 4, LONGEST_PAUSE_S = 300, NICE = 10 };
static const int64_t none = -1;

struct fw_mirror {
    fw_mirror_options options;
    fw_mirror_target target;
    fw_mirror_work work;
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t lock; /* of all below; the thread does not hold it while it works */
    pthread_cond_t changed;
    int64_t waiting;    /* step of the checkpoint that is to be copied next; none */
    bool model_waiting; /* the model is to be copied */
    int64_t copying;    /* step of what the thread works on, with pauses between attempts; none */
    bool copying_model;
    bool working;                     /* an attempt is running */
    bool lets_go;                     /* it is to be given up, because it holds files that are not there otherwise */
    bool stops;                       /* nothing will come any more: end when nothing is left */
    bool leaves;                      /* end now */
    bool ended;                       /* the thread has */
    int failure_n;                    /* of what is copied, one after the other */
    int end_failure_n;                /* of them since stops */
    int64_t copied;                   /* step of the newest that the mirror has; none */
    int64_t passed_n;                 /* checkpoints that a newer one overtook */
    char why[FW_TRAIL_MESSAGE_BYTES]; /* of the last failure; "" when there was none */
    char attempt_why[FW_TRAIL_MESSAGE_BYTES]; /* the thread's own */
};

static void step_name(char name[32], int64_t step) { snprintf(name, 32, "step-%08" PRId64, step); }

/* ---- the thread */

/* Wait for a change, at most until end_ns (0: without end). The lock is held. */
static void wait_for_change(fw_mirror *m, uint64_t end_ns) {
    if (end_ns == 0) {
        pthread_cond_wait(&m->changed, &m->lock);
        return;
    }
    const struct timespec end = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
    pthread_cond_timedwait(&m->changed, &m->lock, &end);
}

/* Between two attempts. Not cut short by a newer checkpoint: whatever is wrong, it is not the checkpoint. */
static void pause_after_failure(fw_mirror *m) {
    double pause_s = 1;
    for (int i = 1; i < m->failure_n && pause_s < LONGEST_PAUSE_S; i++) pause_s *= 2;
    if (pause_s > LONGEST_PAUSE_S) pause_s = LONGEST_PAUSE_S;
    fw_log_warning("mirror: %s; trying again in %g s", m->why, pause_s);
    const uint64_t end_ns = fw_host_now_ns() + (uint64_t)(pause_s * 1e9);
    const bool stopped = m->stops;
    while (fw_host_now_ns() < end_ns && !m->leaves && m->stops == stopped) /* the end of the run: at once */
        wait_for_change(m, end_ns);
}

/* The next thing to do, if there is one: what has failed again, unless a newer one has come. */
static bool choose(fw_mirror *m) {
    if (m->waiting != none) {
        if (m->copying != none) m->passed_n++;
        m->copying = m->waiting;
        m->waiting = none;
    }
    if (m->copying == none && m->model_waiting) m->copying_model = true;
    return m->copying != none || m->copying_model;
}

/* Without the lock. step none: the model. *gone: the checkpoint is not there any more, and nothing was done. */
static fw_status attempt(fw_mirror *m, int64_t step, bool *gone) {
    const char *output_dir = m->options.output_dir;
    char name[32] = "final", *dir = NULL;
    bool held = false;
    fw_status status;
    *gone = false;
    fw_mirror_work_begin(&m->work, m->options.timeout_s);
    if (step == none) {
        FW_TRY_OR(fw_path_join(&dir, output_dir, name), done);
    } else {
        step_name(name, step);
        FW_TRY_OR(fw_mirror_links_make(&dir, &held, gone, output_dir, name), done);
        if (*gone) goto done;
    }
    const fw_mirror_item item = {dir, name, step == none};
    const uint64_t start_ns = fw_host_now_ns();
    FW_TRY_OR(fw_mirror_target_copy(&m->target, &item, &m->work), done);
    fw_log_info("mirrored %s to %s in %.1f s", name, m->options.to, (double)(fw_host_now_ns() - start_ns) * 1e-9);
done:
    if (status != FW_OK && status != FW_ERR_INTERRUPTED) fw_fail_context(status, "copying %s has failed: ", name);
    if (status != FW_OK) snprintf(m->attempt_why, sizeof m->attempt_why, "%s", fw_trail_message());
    if (step != none)
        fw_mirror_links_remove(output_dir); /* what stays is removed before the next, or by the next run */
    fw_free(dir);
    return status;
}

/* The lock is held. True: it has failed, and is to be tried again. */
static bool note_result(fw_mirror *m, fw_status status, bool gone) {
    if (status != FW_OK && status != FW_ERR_INTERRUPTED) {
        m->failure_n++;
        if (m->stops) m->end_failure_n++;
        snprintf(m->why, sizeof m->why, "%s", m->attempt_why);
        return true;
    }
    if (status == FW_ERR_INTERRUPTED && !m->lets_go) return false; /* the end: it stays to be copied */
    if (status == FW_OK && !gone) {
        if (m->copying != none) m->copied = m->copying;
        m->failure_n = m->end_failure_n = 0;
    } else {
        m->passed_n++; /* a newer one is there, or will be */
    }
    if (m->copying == none) m->model_waiting = m->copying_model = false;
    m->copying = none;
    return false;
}

static void *copy_behind(void *context) {
    fw_mirror *m = context;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread and of the commands that it starts */
    pthread_mutex_lock(&m->lock);
    while (!m->leaves && m->end_failure_n < END_ATTEMPTS) {
        if (!choose(m)) {
            if (m->stops) break;
            wait_for_change(m, 0);
            continue;
        }
        const int64_t step = m->copying;
        bool gone;
        m->working = true;
        pthread_mutex_unlock(&m->lock);
        fw_status status = attempt(m, step, &gone);
        pthread_mutex_lock(&m->lock);
        m->working = false;
        const bool failed = note_result(m, status, gone);
        if (m->lets_go && !m->leaves) atomic_store(&m->work.given_up, false);
        m->lets_go = false;
        pthread_cond_broadcast(&m->changed);
        if (failed && m->end_failure_n < END_ATTEMPTS) pause_after_failure(m);
    }
    m->ended = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- from outside */

static fw_status start_thread(fw_mirror *m) {
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    if (m->options.cpu_n > 0) { /* the caller is pinned to one CPU, where it computes */
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        for (int i = 0; i < m->options.cpu_n; i++) CPU_SET((size_t)(m->options.cpu_first + i), &cpus);
        pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the thread that trains */
    int reason = pthread_create(&m->thread, &attributes, copy_behind, m);
    if (reason != 0) reason = pthread_create(&m->thread, NULL, copy_behind, m); /* the CPUs were not to be had */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (reason != 0) return fw_fail(FW_ERR_NOMEM, "cannot start the thread that mirrors: %s", strerror(reason));
    m->thread_runs = true;
    return FW_OK;
}

/* A thread that is stuck outlives what the caller has. */
static fw_status copy_text(const char **out, const char *text) {
    char *copy = NULL;
    if (text != NULL) FW_TRY(fw_strdup(&copy, text));
    *out = copy;
    return FW_OK;
}

fw_status fw_mirror_create(fw_mirror **out, const fw_mirror_options *options) {
    fw_mirror *m;
    fw_status status;
    *out = NULL;
    FW_TRY(FW_NEW(m));
    m->options = *options;
    m->options.to = m->options.check = m->options.output_dir = NULL;
    m->options.identity = json_incref((json_t *)(uintptr_t)options->identity);
    m->waiting = m->copying = m->copied = none;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, &clock);
    pthread_condattr_destroy(&clock);
    FW_TRY_OR(copy_text(&m->options.to, options->to), fail);
    FW_TRY_OR(copy_text(&m->options.check, options->check), fail);
    FW_TRY_OR(copy_text(&m->options.output_dir, options->output_dir), fail);
    FW_TRY_OR(fw_mirror_target_init(&m->target, &m->options), fail);
    status = fw_mirror_target_meet(&m->target);
    if (status == FW_ERR_OPTION || status == FW_ERR_NOMEM) goto fail;
    if (status != FW_OK)
        fw_log_warning("mirror: %s; the run goes on and tries again with the first checkpoint", fw_trail_message());
    FW_TRY_OR(start_thread(m), fail);
    *out = m;
    return FW_OK;
fail:
    fw_mirror_destroy(m);
    return status;
}

void fw_mirror_offer(fw_mirror *m, int64_t step) {
    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    if (m->waiting != none) m->passed_n++;
    m->waiting = step;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

void fw_mirror_offer_model(fw_mirror *m) {
    if (m == NULL) return;
    pthread_mutex_lock(&m->lock);
    m->model_waiting = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

void fw_mirror_let_go(fw_mirror *m) {
    if (m == NULL) return;
    char name[32], *path = NULL;
    pthread_mutex_lock(&m->lock);
    step_name(name, m->copying);
    const bool only_here = m->working && m->copying != none &&
                           fw_path_join(&path, m->options.output_dir, name) == FW_OK && !fw_dir_exists(path);
    fw_free(path);
    if (only_here) {
        fw_log_warning("mirror: the disk is short: %s, which was removed and is still being copied, is given up", name);
        m->lets_go = true;
        atomic_store(&m->work.given_up, true);
        const uint64_t end_ns = fw_host_now_ns() + 10000000000u;
        while (m->lets_go && fw_host_now_ns() < end_ns) wait_for_change(m, end_ns);
    }
    pthread_mutex_unlock(&m->lock);
}

const char *fw_mirror_tell(fw_mirror *m, char out[FW_MIRROR_TEXT_BYTES]) {
    out[0] = 0;
    if (m == NULL) return out;
    pthread_mutex_lock(&m->lock);
    const uint64_t done = atomic_load(&m->work.done_bytes), total = atomic_load(&m->work.total_bytes);
    if (m->failure_n > 0)
        snprintf(out, FW_MIRROR_TEXT_BYTES, "mirror fails");
    else if (m->working && total > 0)
        snprintf(out, FW_MIRROR_TEXT_BYTES, "mirror %d%%", done < total ? (int)(done * 100 / total) : 100);
    else if (m->working)
        snprintf(out, FW_MIRROR_TEXT_BYTES, "mirror copies");
    else if (m->copied != none)
        snprintf(out, FW_MIRROR_TEXT_BYTES, "mirror step %" PRId64, m->copied);
    pthread_mutex_unlock(&m->lock);
    return out;
}

/* ---- the end */

/* Stop what is running and wait a little; a disk that does not answer must not keep the process. True: the thread has ended. */
static bool leave(fw_mirror *m) {
    const uint64_t end_ns = fw_host_now_ns() + 5000000000u;
    m->leaves = true;
    atomic_store(&m->work.given_up, true);
    pthread_cond_broadcast(&m->changed);
    while (!m->ended && fw_host_now_ns() < end_ns) wait_for_change(m, end_ns);
    return m->ended;
}

static bool is_idle(const fw_mirror *m) {
    return m->waiting == none && m->copying == none && !m->copying_model && !m->model_waiting;
}

static fw_status say_what_lacks(const fw_mirror *m, const char *reason) {
    char step[32] = "", what[96];
    const int64_t newest = m->waiting != none ? m->waiting : m->copying;
    if (newest != none) step_name(step, newest);
    snprintf(what, sizeof what, "%s%s%s", step, newest != none && m->model_waiting ? " and " : "",
             m->model_waiting ? "the final model" : "");
    return fw_fail(FW_ERR_IO,
                   "the mirror %s does not have %s: %s. All of it is in %s, and the same command copies it again",
                   m->options.to, what, reason, m->options.output_dir);
}

fw_status fw_mirror_finish(fw_mirror *m, double wait_s, int (*is_wished)(void)) {
    if (m == NULL) return FW_OK;
    const char *reason = NULL;
    char late[64];
    const uint64_t end_ns = fw_host_now_ns() + (uint64_t)(wait_s * 1e9);
    pthread_mutex_lock(&m->lock);
    m->stops = true;
    pthread_cond_broadcast(&m->changed);
    if (!is_idle(m)) fw_log_info("waiting for the mirror, at most %g s; Ctrl-C leaves it as it is", wait_s);
    while (!m->ended && reason == NULL) {
        wait_for_change(m, fw_host_now_ns() + 100000000u);
        if (m->ended) break;
        snprintf(late, sizeof late, "it was not done within %g s", wait_s);
        if (is_wished != NULL && is_wished()) reason = "nobody wanted to wait for it";
        if (reason == NULL && fw_host_now_ns() >= end_ns) reason = late;
    }
    if (!m->ended) leave(m);
    if (reason == NULL || m->why[0] != 0) reason = m->why;
    const int64_t passed_n = m->passed_n;
    fw_status status = is_idle(m) ? FW_OK : say_what_lacks(m, reason);
    pthread_mutex_unlock(&m->lock);
    if (passed_n > 0)
        fw_log_info("mirror: %" PRId64 " checkpoint%s passed over, because newer ones came before it was done",
                    passed_n, passed_n == 1 ? " was" : "s were");
    return status;
}

void fw_mirror_destroy(fw_mirror *m) {
    if (m == NULL) return;
    if (m->thread_runs) {
        pthread_mutex_lock(&m->lock);
        const bool ended = m->ended || leave(m);
        pthread_mutex_unlock(&m->lock);
        if (!ended) { /* stuck in the system: it ends with the process, and what it uses must last until then */
            fw_log_warning("mirror: %s does not answer; the copy on its way is left as it is", m->options.to);
            pthread_detach(m->thread);
            return;
        }
        pthread_join(m->thread, NULL);
    }
    fw_mirror_target_fini(&m->target);
    fw_free((char *)(uintptr_t)m->options.to);
    fw_free((char *)(uintptr_t)m->options.check);
    fw_free((char *)(uintptr_t)m->options.output_dir);
    json_decref((json_t *)(uintptr_t)m->options.identity);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    fw_free(m);
}
