/* The vtable: collectives handed over to NCCL, memory, groups. */
#include "comm/nccl/nccl_internal.h"

#include "base/alloc.h"
#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- waiting for NCCL itself ---- */

static fw_status check_link(fw_nccl *n, fw_nccl_link *link, int *busy) {
    pthread_mutex_lock(&n->lock);
    fw_status status = n->plugin->check(link, busy);
    pthread_mutex_unlock(&n->lock);
    return status;
}

/* A failure of the job is the reason of what NCCL says afterwards. */
static fw_status first_reason(fw_comm *c, fw_status status) {
    return fw_failure_is_set(&c->job->failure) ? fw_comm_report_failure(c) : status;
}

fw_status fw_nccl_settle(fw_comm *c, fw_nccl_link *link, const char *what, double timeout_s) {
    const uint64_t end_ns = fw_host_now_ns() + (uint64_t)(timeout_s * 1e9);
    for (uint32_t look_n = 0;; look_n++) {
        int busy;
        fw_status status = check_link(fw_nccl_of(c), link, &busy);
        if (status != FW_OK) return first_reason(c, status);
        if (!busy) return FW_OK;
        if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
        if (fw_host_now_ns() > end_ns)
            return fw_fail(FW_ERR_RANK,
                           "nccl: %s: not done after %.0f s; a rank has not come, or the GPUs cannot reach each other "
                           "(NCCL_DEBUG=INFO in the environment tells more)",
                           what, timeout_s);
        if (look_n > 1000) nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
    }
}

/* ---- collectives ---- */

/* A few bytes of the host, such as what rank 0 asks the others for: by the way of small messages. */
static fw_status broadcast_on_host(fw_comm *c, const fw_comm_op *op) {
    enum { STEP_BYTES = 1024 };
    char all[FW_COMM_MAX_WORLD * STEP_BYTES];
    char *data = op->buffer;
    if (op->kind != FW_COMM_BROADCAST || fw_comm_is_group(c))
        return fw_fail(FW_ERR_INTERNAL, "%s of memory that no GPU can reach", fw_comm_kind_name(op->kind));
    for (size_t at = 0, bytes = (size_t)op->n; at < bytes; at += STEP_BYTES) {
        const size_t now = bytes - at < STEP_BYTES ? bytes - at : STEP_BYTES;
        FW_TRY(fw_nccl_of(c)->host->exchange(c, all, data + at, now, "broadcast"));
        memcpy(data + at, all + (size_t)op->root * now, now);
    }
    return FW_OK;
}

/* Kept for messages: what this rank is at, for itself and for the others. */
static void note(fw_comm *c, const fw_comm_op *op, uint64_t ticket, int is_issue) {
    fw_nccl *n = fw_nccl_of(c);
    char title[FW_COMM_TITLE_BYTES];
    fw_comm_title(title, c, fw_comm_kind_name(op->kind), fw_comm_op_label(op), op->number);
    fw_nccl_progress *own = fw_nccl_progress_of(n, c->job->all->options.rank);
    memcpy(own->title, title, sizeof title);
    atomic_store(&own->started_n, ticket);
    if (!is_issue) return;
    fw_nccl_issue *issue = &n->issue[n->issue_n % FW_NCCL_MARK_N];
    issue->ticket = ticket;
    issue->start_ns = fw_host_now_ns();
    memcpy(issue->title, title, sizeof title);
}

static fw_status hand_over(fw_comm *c, const fw_comm_op *op, uint64_t ticket) {
    static const fw_nccl_kind kinds[FW_COMM_KIND_N] = {[FW_COMM_ALL_REDUCE] = FW_NCCL_ALL_REDUCE,
                                                       [FW_COMM_REDUCE_SCATTER] = FW_NCCL_REDUCE_SCATTER,
                                                       [FW_COMM_ALL_GATHER] = FW_NCCL_ALL_GATHER,
                                                       [FW_COMM_BROADCAST] = FW_NCCL_BROADCAST,
                                                       [FW_COMM_ALL_TO_ALL] = FW_NCCL_ALL_TO_ALL};
    fw_nccl *n = fw_nccl_of(c);
    fw_nccl_link *link = fw_nccl_part_of(c)->link;
    const fw_nccl_call call = {.kind = kinds[op->kind],
                               .dtype = op->dtype,
                               .root = op->root,
                               .n = op->n,
                               .buffer = op->buffer,
                               .part = op->part};
    pthread_mutex_lock(&n->lock);
    note(c, op, ticket, 1);
    fw_status status = n->plugin->start(link, &call);
    pthread_mutex_unlock(&n->lock);
    if (status != FW_OK) return status;
    /* The first call of a kind makes connections in the background; the mark comes after it on the stream. */
    FW_TRY(fw_nccl_settle(c, link, fw_comm_kind_name(op->kind), c->options.timeout_s));
    pthread_mutex_lock(&n->lock);
    status = n->plugin->mark(n->gpu, (int)(n->issue_n % FW_NCCL_MARK_N));
    if (status == FW_OK) n->issue_n++;
    pthread_mutex_unlock(&n->lock);
    return status;
}

static fw_status run(fw_comm *c, const fw_comm_op *op) {
    fw_nccl *n = fw_nccl_of(c);
    const uint64_t ticket = atomic_load(&c->job->progress.started_n) + 1;
    if (op->n == 0) return FW_OK;
    if (!n->plugin->on_gpu(n->gpu, op->buffer)) {
        note(c, op, ticket, 0);
        return broadcast_on_host(c, op);
    }
    fw_status status = hand_over(c, op, ticket);
    if (status == FW_OK) return FW_OK;
    char title[FW_COMM_TITLE_BYTES];
    fw_comm_title(title, c, fw_comm_kind_name(op->kind), fw_comm_op_label(op), op->number);
    if (fw_failure_is_set(&c->job->failure)) return fw_comm_report_failure(c);
    return fw_fail_context(status, "rank %d, %s: ", c->job->all->options.rank, title);
}

/* The newest mark up to this ticket; where that was used again, the oldest there is, which is later. */
static fw_status await(fw_comm *c, uint64_t ticket) {
    fw_nccl *n = fw_nccl_of(c);
    fw_status status = FW_OK;
    pthread_mutex_lock(&n->lock);
    const uint64_t oldest = n->issue_n > FW_NCCL_MARK_N ? n->issue_n - FW_NCCL_MARK_N : 0;
    uint64_t at = n->issue_n; /* the wanted one follows */
    while (at > oldest && n->issue[(at - 1) % FW_NCCL_MARK_N].ticket > ticket) at--;
    if (at == oldest && oldest > 0) at++;
    if (at > n->passed_n) status = n->plugin->await(n->gpu, (int)((at - 1) % FW_NCCL_MARK_N));
    pthread_mutex_unlock(&n->lock);
    return status;
}

/* ---- memory ---- */

/* One block with one group's communicator. Collective over the group. */
static fw_status enlist(fw_comm *c, fw_nccl_part *part, int b) {
    fw_nccl *n = fw_nccl_of(c);
    pthread_mutex_lock(&n->lock);
    fw_status status = n->plugin->enlist(part->link, n->block[b].memory, n->block[b].bytes, &part->window[b]);
    pthread_mutex_unlock(&n->lock);
    if (status != FW_OK) return status;
    return fw_nccl_settle(c, part->link, "registering memory", c->options.timeout_s);
}

fw_status fw_nccl_add_part(fw_comm *c, fw_nccl_part *part) {
    fw_nccl *n = fw_nccl_of(c);
    pthread_mutex_lock(&n->lock);
    part->next = n->part;
    n->part = part;
    pthread_mutex_unlock(&n->lock);
    c->gpu_part = part;
    for (int b = 0; b < n->block_n; b++) FW_TRY(enlist(c, part, b));
    return FW_OK;
}

static fw_status alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    fw_nccl *n = fw_nccl_of(c);
    if (n->block_n == FW_NCCL_BLOCK_N)
        return fw_fail(FW_ERR_FIT, "%s: a job has at most %d blocks for collectives; put several into one", what,
                       FW_NCCL_BLOCK_N);
    void *memory = NULL;
    fw_status status = n->plugin->alloc(n->gpu, &memory, bytes);
    if (status != FW_OK) fw_fail_context(status, "%s (%zu bytes): ", what, bytes);
    status = fw_comm_agree(c, status);
    if (status != FW_OK) {
        n->plugin->release(n->gpu, memory);
        return status;
    }
    n->block[n->block_n].memory = memory;
    n->block[n->block_n++].bytes = bytes;
    *out = memory;
    return enlist(c, fw_nccl_part_of(c), n->block_n - 1);
}

/* ---- groups ---- */

static fw_status open_link(fw_comm *parent, fw_comm *group, fw_nccl_part *part) {
    fw_nccl *n = fw_nccl_of(parent);
    fw_nccl_link *from = fw_nccl_part_of(parent)->link;
    pthread_mutex_lock(&n->lock);
    /* The number of a group's first rank is its color: groups of one call partition the ranks. */
    fw_status status = n->plugin->split(&part->link, from, group->first, group->options.rank);
    pthread_mutex_unlock(&n->lock);
    if (status != FW_OK) return status;
    FW_TRY(fw_nccl_settle(parent, from, "making a group", parent->options.timeout_s));
    return fw_nccl_settle(parent, part->link, "making a group", parent->options.timeout_s);
}

static fw_status open_group(fw_comm *parent, fw_comm *group) {
    fw_nccl *n = fw_nccl_of(parent);
    int64_t most = group->options.world;
    FW_TRY(fw_comm_max_i64(parent, &most, 1));
    if (most == 1) return fw_comm_open_self(group);
    FW_TRY(n->host->open_group(parent, group));
    fw_nccl_part *part;
    fw_status status = FW_NEW(part);
    status = fw_comm_agree(parent, status);
    if (status == FW_OK) status = open_link(parent, group, part);
    if (status != FW_OK) {
        if (part != NULL) n->plugin->close(part->link, 0);
        fw_free(part);
        n->host->destroy(group);
        return status;
    }
    group->transport = &fw_nccl_transport; /* of a group of one rank, too */
    status = fw_nccl_add_part(group, part);
    if (status != FW_OK) group->transport->destroy(group);
    return status;
}

/* ---- the rest ---- */

static fw_status exchange(fw_comm *c, void *all, const void *mine, size_t bytes, const char *call) {
    return fw_nccl_of(c)->host->exchange(c, all, mine, bytes, call);
}

static void set_host_work(fw_comm *c, const char *what) { fw_nccl_of(c)->host->set_host_work(c, what); }

static void wake(fw_comm *c) {
    fw_nccl *n = fw_nccl_of(c);
    n->host->wake(c);
    if (fw_comm_is_group(c)) return;
    pthread_mutex_lock(&n->lock);
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void close_part(fw_comm *c) {
    fw_nccl *n = fw_nccl_of(c);
    fw_nccl_part *part = fw_nccl_part_of(c);
    if (part == NULL) return;
    pthread_mutex_lock(&n->lock);
    for (fw_nccl_part **at = &n->part; *at != NULL; at = &(*at)->next)
        if (*at == part) {
            *at = part->next;
            break;
        }
    pthread_mutex_unlock(&n->lock);
    for (int b = 0; b < n->block_n; b++) n->plugin->delist(part->link, part->window[b]);
    n->plugin->close(part->link, !n->aborted && !fw_failure_is_set(&c->job->failure));
    fw_free(part);
    c->gpu_part = NULL;
}

static void destroy(fw_comm *c) {
    fw_nccl *n = fw_nccl_of(c);
    const fw_transport *host = n->host;
    if (!fw_comm_is_group(c)) fw_nccl_stop_watchdog(c);
    close_part(c);
    if (!fw_comm_is_group(c)) {
        for (int b = 0; b < n->block_n; b++) n->plugin->release(n->gpu, n->block[b].memory);
        if (n->gpu != NULL) n->plugin->close_gpu(n->gpu);
        pthread_cond_destroy(&n->changed);
        pthread_mutex_destroy(&n->lock);
        fw_free(n);
        c->job->nccl = NULL;
    }
    if (c->state != NULL) host->destroy(c);
}

const fw_transport fw_nccl_transport = {.name = "nccl",
                                        .runs_inline = 1,
                                        .alloc = alloc,
                                        .run = run,
                                        .await = await,
                                        .exchange = exchange,
                                        .set_host_work = set_host_work,
                                        .open_group = open_group,
                                        .unfinished = fw_nccl_unfinished,
                                        .wake = wake,
                                        .destroy = destroy};
