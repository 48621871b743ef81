/* A group: making and closing it, its failure, its counters. */
#include "comm/comm.h"

#include "base/alloc.h"
#include "base/host.h"
#include "comm/comm_internal.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static fw_status check_options(const fw_comm_options *o) {
    if (o->world < 1 || o->world > FW_COMM_MAX_WORLD)
        return fw_fail(FW_ERR_OPTION, "a world of %d ranks: must be from 1 to %d", o->world, FW_COMM_MAX_WORLD);
    if (o->rank < 0 || o->rank >= o->world)
        return fw_fail(FW_ERR_OPTION, "rank %d of a world of %d: must be from 0 to %d", o->rank, o->world,
                       o->world - 1);
    if (o->world > 1 && (o->master_address[0] == 0 || o->master_port < 1 || o->master_port > 65535))
        return fw_fail(FW_ERR_OPTION,
                       "a world of %d ranks needs a master address and a port from 1 to 65535, not %s:%d", o->world,
                       o->master_address, o->master_port);
    if (o->timeout_s < 0 || o->connect_timeout_s < 0 || o->heartbeat_s < 0 || o->timeout_s > 1e9 ||
        o->connect_timeout_s > 1e9 || o->heartbeat_s > 1e9)
        return fw_fail(FW_ERR_OPTION, "a timeout below 0 or above 1e9 s makes no sense");
    return FW_OK;
}

/* Ranks of a foreign launcher share no secret; what they do share keeps neighbouring jobs apart. FNV-1a. */
static void derive_secret(fw_comm_options *o) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *p = o->master_address; *p != 0; p++) hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    hash = (hash ^ (uint64_t)o->master_port) * 0x100000001b3u;
    snprintf(o->secret, sizeof o->secret, "foreign-%016llx", (unsigned long long)hash);
}

/* Looking often before sleeping pays only where a CPU has nothing else to do. */
static int choose_spin(const fw_comm_options *o) {
    int cpus[1024], cpu_n = fw_host_cpus(cpus, 1024), ranks_n = o->local_world > 0 ? o->local_world : o->world;
    return cpu_n >= 2 * ranks_n ? 4000 : cpu_n >= ranks_n ? 200 : 0;
}

static void take_options(fw_comm *c, const fw_comm_options *options) {
    c->options = *options;
    if (c->options.timeout_s == 0) c->options.timeout_s = 1800;
    if (c->options.connect_timeout_s == 0) c->options.connect_timeout_s = 60;
    if (c->options.heartbeat_s == 0) c->options.heartbeat_s = 60;
    /* Secrets are compared whole: nothing may lie behind the end of the text. */
    memset(c->options.secret, 0, sizeof c->options.secret);
    snprintf(c->options.secret, sizeof c->options.secret, "%s", options->secret);
    if (c->options.secret[0] == 0) derive_secret(&c->options);
}

static void on_failed(void *context, int origin, int told, fw_status status, const char *message) {
    fw_comm *c = context;
    fw_failure_set(&c->failure, origin, told, status, message);
    if (atomic_load(&c->awake)) c->transport->wake(c);
}

static void on_left(void *context, int rank) {
    fw_comm *c = context;
    atomic_store(&c->left[rank], 1);
    if (atomic_load(&c->awake)) c->transport->wake(c);
}

fw_status fw_comm_watch(fw_comm *c) { return fw_control_watch(c->control, &(fw_control_hooks){on_failed, on_left, c}); }

static fw_status open_group(fw_comm *c) {
    if (c->options.world == 1) {
        if (c->options.listen_fd > 0) close(c->options.listen_fd);
        return fw_comm_open_self(c);
    }
    uint64_t deadline_ns = fw_host_now_ns() + (uint64_t)(c->options.connect_timeout_s * 1e9);
    FW_TRY(fw_control_meet(&c->control, &c->options, deadline_ns, &c->blame));
    /* Rank 0 alone decides that time is up; the others get its word a little later. */
    FW_TRY(fw_comm_open_shm(c, deadline_ns + 10000000000ull));
    atomic_store(&c->awake, 1);
    return fw_progress_start(c);
}

/* Of this thread's last fw_comm_create that failed: the group it would be asked of is gone. */
static _Thread_local int create_reports = 1;

fw_status fw_comm_create(fw_comm **out, const fw_comm_options *options) {
    *out = NULL;
    create_reports = 1;
    FW_TRY(check_options(options));
    fw_comm *c;
    FW_TRY(FW_NEW(c));
    c->blame.rank = -1;
    fw_failure_init(&c->failure);
    atomic_init(&c->agree_origin, -1);
    pthread_mutex_init(&c->progress.lock, NULL);
    pthread_cond_init(&c->progress.work, NULL);
    pthread_cond_init(&c->progress.finished, NULL);
    take_options(c, options);
    c->spin_n = choose_spin(&c->options);
    fw_status status = open_group(c);
    if (status != FW_OK) {
        if (c->blame.rank >= 0) fw_failure_set(&c->failure, c->blame.rank, c->blame.told, status, fw_trail_message());
        fw_comm_abort(c, status);
        create_reports = fw_comm_reports_failure(c);
        fw_comm_destroy(c);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    *out = c;
    return FW_OK;
}

void fw_comm_destroy(fw_comm *c) {
    if (c == NULL) return;
    fw_progress_stop(c);
    fw_control_close(c->control);
    if (c->transport != NULL) c->transport->destroy(c);
    pthread_cond_destroy(&c->progress.finished);
    pthread_cond_destroy(&c->progress.work);
    pthread_mutex_destroy(&c->progress.lock);
    fw_failure_fini(&c->failure);
    fw_free(c);
}

int fw_comm_rank(const fw_comm *c) { return c->options.rank; }

int fw_comm_world(const fw_comm *c) { return c->options.world; }

const char *fw_comm_transport(const fw_comm *c) { return c->transport->name; }

void fw_comm_set_cpus(fw_comm *c, const int *cpus, int cpu_n) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < cpu_n; i++)
        if (cpus[i] >= 0 && cpus[i] < CPU_SETSIZE) CPU_SET((size_t)cpus[i], &set);
    if (c->progress.thread_runs) pthread_setaffinity_np(c->progress.thread, sizeof set, &set);
}

fw_status fw_comm_alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    fw_status status = c->transport->alloc(c, out, bytes, what);
    if (status != FW_OK) fw_comm_abort(c, status);
    return status;
}

void fw_comm_abort(fw_comm *c, fw_status reason) {
    if (c == NULL || reason == FW_OK) return;
    /* What was agreed upon is known everywhere, and it began with another rank perhaps: no news for the others. */
    int agreed = atomic_load(&c->agree_origin), me = c->options.rank;
    if (!fw_failure_set(&c->failure, agreed >= 0 ? agreed : me, 1, reason, fw_trail_message())) return;
    if (c->control != NULL && agreed < 0) fw_control_abort(c->control, reason, fw_trail_message());
    if (atomic_load(&c->awake)) c->transport->wake(c);
}

int fw_comm_abort_origin(const fw_comm *c) {
    int agreed = atomic_load(&c->agree_origin); /* first: what comes after it are its consequences */
    return agreed >= 0 ? agreed : fw_failure_is_set(&c->failure) ? c->failure.origin : -1;
}

int fw_comm_reports_failure(const fw_comm *c) {
    if (c == NULL) return create_reports;
    int origin = fw_comm_abort_origin(c);
    if (origin < 0 || origin == c->options.rank) return 1;
    int died_silently = atomic_load(&c->agree_origin) < 0 && !c->failure.told;
    if (!died_silently || c->options.own_launcher) return 0;
    return c->options.rank == (origin == 0 ? 1 : 0);
}

void fw_comm_host_work_begin(fw_comm *c, const char *what) { c->transport->set_host_work(c, what); }

void fw_comm_host_work_end(fw_comm *c) { c->transport->set_host_work(c, NULL); }

void fw_comm_get_counters(const fw_comm *c, fw_comm_counters *out) {
    const fw_progress *p = &c->progress;
    fw_comm_traffic of[FW_COMM_KIND_N], total = {0};
    for (int k = 0; k < FW_COMM_KIND_N; k++) {
        of[k] = (fw_comm_traffic){.call_n = atomic_load(&p->tally[k].call_n),
                                  .sent_bytes = atomic_load(&p->tally[k].sent_bytes),
                                  .received_bytes = atomic_load(&p->tally[k].received_bytes)};
        total.call_n += of[k].call_n;
        total.sent_bytes += of[k].sent_bytes;
        total.received_bytes += of[k].received_bytes;
    }
    *out = (fw_comm_counters){.all_reduce = of[FW_COMM_ALL_REDUCE],
                              .reduce_scatter = of[FW_COMM_REDUCE_SCATTER],
                              .all_gather = of[FW_COMM_ALL_GATHER],
                              .broadcast = of[FW_COMM_BROADCAST],
                              .total = total,
                              .wait_ns = atomic_load(&p->wait_ns),
                              .busy_ns = atomic_load(&p->busy_ns)};
}
