/* Groups of some ranks of the job: making and closing them, and how ranks are named in messages. */
#include "base/alloc.h"
#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>

/* A row of ranks: first, first + stride, ... */
typedef struct row {
    int32_t first, stride, n;
} row;

/* The place of `rank` in the row; -1: not there. */
static int place_in(row r, int rank) {
    int at = rank - r.first;
    return at >= 0 && at % r.stride == 0 && at / r.stride < r.n ? at / r.stride : -1;
}

static const char *ranks_text(char *out, size_t bytes, row r) {
    int last = r.first + (r.n - 1) * r.stride;
    if (r.n == 1)
        snprintf(out, bytes, "rank %d", r.first);
    else if (r.n == 2)
        snprintf(out, bytes, "ranks %d, %d", r.first, last);
    else if (r.n == 3)
        snprintf(out, bytes, "ranks %d, %d, %d", r.first, r.first + r.stride, last);
    else
        snprintf(out, bytes, "ranks %d, %d .. %d", r.first, r.first + r.stride, last);
    return out;
}

const char *fw_comm_title(char out[FW_COMM_TITLE_BYTES], const fw_comm *c, const char *call, const char *label,
                          uint64_t number) {
    char ranks[48] = "", name[48] = "";
    if (label != NULL && label[0] != 0) snprintf(name, sizeof name, " (%.39s)", label);
    if (fw_comm_is_group(c)) {
        char text[40];
        snprintf(ranks, sizeof ranks, " [%s]",
                 ranks_text(text, sizeof text, (row){c->first, c->stride, c->options.world}));
    }
    snprintf(out, FW_COMM_TITLE_BYTES, "%.40s %llu%s%s", call, (unsigned long long)number, name, ranks);
    return out;
}

fw_status fw_comm_refuse_group(const fw_comm *c, const char *call) {
    if (!fw_comm_is_group(c)) return FW_OK;
    return fw_fail(FW_ERR_INTERNAL, "%s is for the group of all ranks, not for a group made of it", call);
}

static fw_status check_row(const fw_comm *parent, row r) {
    const int world = parent->options.world, me = parent->options.rank;
    if (r.n < 1 || r.n > world || r.stride < 1 || r.stride > world || r.first < 0 ||
        r.first + (r.n - 1) * r.stride >= world || place_in(r, me) < 0)
        return fw_fail(FW_ERR_INTERNAL,
                       "rank %d of %d wants a group of %d ranks from %d in steps of %d, which does not lie among the "
                       "ranks or does not contain it",
                       me, world, r.n, r.first, r.stride);
    return FW_OK;
}

/* Every rank lies in its own group; so they partition the ranks when all members of a group named the same one. */
static fw_status check_partition(fw_comm *parent, row mine) {
    row all[FW_COMM_MAX_WORLD];
    FW_TRY(parent->transport->exchange(parent, all, &mine, sizeof mine, "group"));
    for (int r = 0; r < parent->options.world; r++)
        for (int k = 0; k < all[r].n; k++) {
            int other = all[r].first + k * all[r].stride;
            if (all[other].first == all[r].first && all[other].n == all[r].n &&
                (all[r].n == 1 || all[other].stride == all[r].stride))
                continue;
            char a[40], b[40];
            return fw_fail(FW_ERR_RANK,
                           "the groups do not fit together: rank %d is in the group of %s, which has rank %d too, but "
                           "that is in the group of %s",
                           r, ranks_text(a, sizeof a, all[r]), other, ranks_text(b, sizeof b, all[other]));
        }
    return FW_OK;
}

static fw_status make_group(fw_comm **out, fw_comm *parent, row mine) {
    FW_TRY(check_row(parent, mine));
    FW_TRY(check_partition(parent, mine));
    fw_comm *group = NULL;
    fw_status status = FW_NEW(group);
    if (status == FW_OK) {
        group->options = parent->options;
        group->options.rank = place_in(mine, parent->options.rank);
        group->options.world = mine.n;
        group->job = parent->job;
        group->first = mine.first;
        group->stride = mine.stride;
        group->id = parent->job->group_n + 1;
    }
    FW_TRY_OR(fw_comm_agree(parent, status), fail);
    FW_TRY_OR(parent->transport->open_group(parent, group), fail);
    *out = group;
    return FW_OK;
fail:
    fw_free(group);
    return status;
}

fw_status fw_comm_group(fw_comm **out, fw_comm *parent, int first, int stride, int n) {
    fw_job *job = parent->job;
    *out = NULL;
    FW_TRY(fw_comm_refuse_group(parent, "fw_comm_group"));
    if (fw_failure_is_set(&job->failure)) return fw_comm_report_failure(parent);
    fw_comm *group = NULL;
    fw_status status = make_group(&group, parent, (row){first, stride, n});
    if (status != FW_OK) {
        fw_comm_abort(parent, status); /* the others may be waiting in here */
        return fw_trail_push(status, __FILE__, __func__, __LINE__);
    }
    job->group_n++;
    pthread_mutex_lock(&job->group_lock);
    group->next = job->group;
    job->group = group;
    pthread_mutex_unlock(&job->group_lock);
    *out = group;
    return FW_OK;
}

void fw_comm_close_group(fw_comm *group) {
    fw_job *job = group->job;
    if (!fw_progress_is_past(job, group->last_ticket)) return; /* fw_comm_drop_groups */
    pthread_mutex_lock(&job->group_lock);
    fw_comm **at = &job->group;
    while (*at != group) at = &(*at)->next;
    *at = group->next;
    pthread_mutex_unlock(&job->group_lock);
    group->transport->destroy(group);
    fw_free(group);
}

void fw_comm_drop_groups(fw_job *job) {
    while (job->group != NULL) {
        fw_comm *group = job->group;
        pthread_mutex_lock(&job->group_lock);
        job->group = group->next;
        pthread_mutex_unlock(&job->group_lock);
        group->transport->destroy(group);
        fw_free(group);
    }
}

void fw_comm_wake(fw_job *job) {
    if (!atomic_load(&job->awake)) return;
    job->all->transport->wake(job->all);
    pthread_mutex_lock(&job->group_lock);
    for (fw_comm *group = job->group; group != NULL; group = group->next) group->transport->wake(group);
    pthread_mutex_unlock(&job->group_lock);
}
