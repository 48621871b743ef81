/* The group of all ranks: making and closing it, its failure; the counters of any group. */
#include "comm/comm.h"

#include "base/alloc.h"
#include "base/host.h"
#include "comm/comm_internal.h"
#include "comm/mpi/mpi_start.h"

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
static uint32_t choose_spin(const fw_comm_options *o) {
    int cpus[1024], cpu_n = fw_host_cpus(cpus, 1024), ranks_n = o->local_world > 0 ? o->local_world : o->world;
    return cpu_n >= ranks_n ? 100 * 1000 : 0;
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
    if (c->options.link == FW_COMM_LINK_AUTO)
        c->options.link =
            c->options.by_mpirun && c->options.local_world > 0 && c->options.local_world < c->options.world
                ? FW_COMM_LINK_MPI
                : FW_COMM_LINK_SHM;
}

static void on_failed(void *context, int origin, int told, fw_status status, const char *message) {
    fw_job *job = context;
    fw_failure_set(&job->failure, origin, told, status, message);
    fw_comm_wake(job);
}

static void on_left(void *context, int rank) {
    fw_job *job = context;
    atomic_store(&job->left[rank], 1);
    fw_comm_wake(job);
}

fw_status fw_comm_watch(fw_comm *c) {
    return fw_control_watch(c->job->control, &(fw_control_hooks){on_failed, on_left, c->job});
}

static fw_status open_group(fw_comm *c) {
    if (c->options.world == 1) {
        if (c->options.listen_fd > 0) close(c->options.listen_fd);
        return fw_comm_open_self(c);
    }
    uint64_t deadline_ns = fw_host_now_ns() + (uint64_t)(c->options.connect_timeout_s * 1e9);
    const int by_mpi = c->options.link == FW_COMM_LINK_MPI;
    if (by_mpi) FW_TRY(fw_mpi_begin(c, deadline_ns));
    FW_TRY(fw_control_meet(&c->job->control, &c->options, deadline_ns, &c->job->blame));
    /* Rank 0 alone decides that time is up; the others get its word a little later. */
    if (by_mpi) FW_TRY(fw_comm_watch(c));
    FW_TRY(by_mpi ? fw_mpi_open(c, deadline_ns + 10000000000ull) : fw_comm_open_shm(c, deadline_ns + 10000000000ull));
    atomic_store(&c->job->awake, 1);
    return fw_progress_start(c->job);
}

static fw_status create_job(fw_comm *c) {
    fw_job *job;
    FW_TRY(FW_NEW(job));
    job->all = c;
    job->blame.rank = -1;
    fw_failure_init(&job->failure);
    atomic_init(&job->agree_origin, -1);
    pthread_mutex_init(&job->group_lock, NULL);
    pthread_mutex_init(&job->progress.lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&job->progress.work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&job->progress.finished, NULL);
    job->spin_ns = choose_spin(&c->options);
    job->host_ranks = c->options.world;
    c->job = job;
    return FW_OK;
}

static void destroy_job(fw_job *job) {
    pthread_cond_destroy(&job->progress.finished);
    pthread_cond_destroy(&job->progress.work);
    pthread_mutex_destroy(&job->progress.lock);
    pthread_mutex_destroy(&job->group_lock);
    fw_failure_fini(&job->failure);
    fw_free(job);
}

/* Of this thread's last fw_comm_create that failed: the group it would be asked of is gone. */
static _Thread_local int create_reports = 1;

fw_status fw_comm_create(fw_comm **out, const fw_comm_options *options) {
    *out = NULL;
    create_reports = 1;
    FW_TRY(check_options(options));
    fw_comm *c;
    FW_TRY(FW_NEW(c));
    take_options(c, options);
    c->stride = 1;
    fw_status status = create_job(c);
    if (status == FW_OK) {
        status = open_group(c);
        const fw_control_blame *blame = &c->job->blame;
        if (status != FW_OK && blame->rank >= 0)
            fw_failure_set(&c->job->failure, blame->rank, blame->told, status, fw_trail_message());
        if (status != FW_OK) fw_comm_abort(c, status);
    }
    if (status != FW_OK) {
        create_reports = c->job == NULL || fw_comm_reports_failure(c);
        fw_comm_destroy(c);
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    *out = c;
    return FW_OK;
}

void fw_comm_destroy(fw_comm *c) {
    if (c == NULL) return;
    fw_job *job = c->job;
    if (job != NULL && fw_comm_is_group(c)) {
        fw_comm_close_group(c);
        return;
    }
    if (job != NULL) {
        fw_progress_stop(job);
        fw_comm_drop_groups(job);
        fw_control_close(job->control);
        if (c->transport != NULL) c->transport->destroy(c);
        destroy_job(job);
    }
    fw_free(c);
}

int fw_comm_rank(const fw_comm *c) { return c->options.rank; }

int fw_comm_world(const fw_comm *c) { return c->options.world; }

int fw_comm_host_ranks(const fw_comm *c) { return c->job->host_ranks; }

const char *fw_comm_transport(const fw_comm *c) { return c->transport->name; }

void fw_comm_set_cpus(fw_comm *c, const int *cpus, int cpu_n) {
    FW_ASSERT(!fw_comm_is_group(c));
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < cpu_n; i++)
        if (cpus[i] >= 0 && cpus[i] < CPU_SETSIZE) CPU_SET((size_t)cpus[i], &set);
    fw_progress *p = &c->job->progress;
    if (p->thread_runs) pthread_setaffinity_np(p->thread, sizeof set, &set);
}

fw_status fw_comm_alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    *out = NULL;
    FW_TRY(fw_comm_refuse_group(c, "alloc"));
    fw_status status = c->transport->alloc(c, out, bytes, what);
    if (status == FW_OK) c->allocated_bytes += bytes;
    if (status != FW_OK) fw_comm_abort(c, status);
    return status;
}

size_t fw_comm_allocated_bytes(const fw_comm *c) { return c->allocated_bytes; }

void fw_comm_abort(fw_comm *c, fw_status reason) {
    if (c == NULL || reason == FW_OK) return;
    fw_job *job = c->job;
    /* What was agreed upon is known everywhere, and it began with another rank perhaps: no news for the others. */
    int agreed = atomic_load(&job->agree_origin), me = job->all->options.rank;
    if (!fw_failure_set(&job->failure, agreed >= 0 ? agreed : me, 1, reason, fw_trail_message())) return;
    if (job->control != NULL && agreed < 0) fw_control_abort(job->control, reason, fw_trail_message());
    fw_comm_wake(job);
}

int fw_comm_abort_origin(const fw_comm *c) {
    fw_job *job = c->job;
    int agreed = atomic_load(&job->agree_origin); /* first: what comes after it are its consequences */
    return agreed >= 0 ? agreed : fw_failure_is_set(&job->failure) ? job->failure.origin : -1;
}

int fw_comm_reports_failure(const fw_comm *c) {
    if (c == NULL) return create_reports;
    fw_job *job = c->job;
    const fw_comm_options *o = &job->all->options;
    int origin = fw_comm_abort_origin(c);
    if (origin < 0 || origin == o->rank) return 1;
    int died_silently = atomic_load(&job->agree_origin) < 0 && !job->failure.told;
    if (!died_silently || o->own_launcher) return 0;
    return o->rank == (origin == 0 ? 1 : 0);
}

void fw_comm_host_work_begin(fw_comm *c, const char *what) {
    FW_ASSERT(!fw_comm_is_group(c));
    c->transport->set_host_work(c, what);
}

void fw_comm_host_work_end(fw_comm *c) {
    FW_ASSERT(!fw_comm_is_group(c));
    c->transport->set_host_work(c, NULL);
}

void fw_comm_get_counters(const fw_comm *c, fw_comm_counters *out) {
    fw_comm_traffic of[FW_COMM_KIND_N], total = {0};
    for (int k = 0; k < FW_COMM_KIND_N; k++) {
        of[k] = (fw_comm_traffic){.call_n = atomic_load(&c->tally[k].call_n),
                                  .sent_bytes = atomic_load(&c->tally[k].sent_bytes),
                                  .received_bytes = atomic_load(&c->tally[k].received_bytes)};
        total.call_n += of[k].call_n;
        total.sent_bytes += of[k].sent_bytes;
        total.received_bytes += of[k].received_bytes;
    }
    *out = (fw_comm_counters){.all_reduce = of[FW_COMM_ALL_REDUCE],
                              .reduce_scatter = of[FW_COMM_REDUCE_SCATTER],
                              .all_gather = of[FW_COMM_ALL_GATHER],
                              .broadcast = of[FW_COMM_BROADCAST],
                              .all_to_all = of[FW_COMM_ALL_TO_ALL],
                              .total = total,
                              .wait_ns = atomic_load(&c->wait_ns),
                              .busy_ns = atomic_load(&c->busy_ns)};
}
