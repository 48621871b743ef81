/* The vtable: memory, small exchanges, groups. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/mpi/mpi_internal.h"
#include "comm/mpi/mpi_start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static fw_status take_block(fw_mpi *m, void **out, size_t bytes, const char *what) {
    fw_mpi_block *block;
    const size_t wanted = bytes > 0 ? bytes : 1;
    FW_TRY(FW_NEW(block));
    block->memory = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->memory == MAP_FAILED) {
        fw_free(block);
        return fw_fail(FW_ERR_NOMEM, "could not get %zu bytes for %s: %s", bytes, what, strerror(errno));
    }
    block->bytes = wanted;
    block->next = m->block;
    m->block = block;
    *out = block->memory;
    return FW_OK;
}

static fw_status alloc(fw_comm *c, void **out, size_t bytes, const char *what) {
    const int on_host = c->options.local_world > 0 ? c->options.local_world : c->options.world;
    *out = NULL;
    FW_TRY(fw_comm_agree_on_memory(c, bytes, what));
    FW_TRY(fw_comm_agree(c, fw_comm_check_host_memory(bytes, on_host, what)));
    return fw_comm_agree(c, take_block(fw_mpi_of(c), out, bytes, what));
}

/* Barriers of a group count apart. */
static uint64_t number_of(fw_comm *c) { return fw_comm_is_group(c) ? ++c->barrier_n : ++fw_mpi_of(c)->small_n; }

static fw_status compare(const fw_comm *c, const fw_mpi_small *own) {
    for (int r = 0; r < c->options.world; r++) {
        fw_mpi_card *other = &fw_mpi_of(c)->small[r].card;
        FW_TRY(fw_mpi_check_group(c, &own->card, other, r));
        if (other->bytes == own->card.bytes && strcmp(other->call, own->card.call) == 0) continue;
        return fw_fail(FW_ERR_RANK,
                       "the ranks have diverged: rank %d called %s with %llu bytes while rank %d called %s with %llu",
                       c->job->all->options.rank, own->card.call, (unsigned long long)own->card.bytes,
                       fw_comm_job_rank(c, r), other->call, (unsigned long long)other->bytes);
    }
    return FW_OK;
}

static fw_status exchange(fw_comm *c, void *all, const void *mine, size_t bytes, const char *call) {
    fw_mpi *m = fw_mpi_of(c);
    const int world = c->options.world, me = c->options.rank;
    fw_mpi_small *own = &m->small[me];
    fw_mpi_batch b = {.c = c, .lane = FW_MPI_SMALL, .call = call, .number = number_of(c)};
    fw_mpi_fill_card(&own->card, c, call, NULL, b.number);
    own->card.bytes = bytes;
    if (bytes > 0) memcpy(own->data, mine, bytes);
    for (int k = 1; k < world; k++) {
        const int r = (me + k) % world;
        FW_TRY(fw_mpi_receive(&b, &m->small[r], sizeof m->small[r], r, FW_MPI_SMALL));
        FW_TRY(fw_mpi_send(&b, own, sizeof own->card + bytes, r, FW_MPI_SMALL));
    }
    FW_TRY(fw_mpi_finish(&b));
    FW_TRY(compare(c, own));
    for (int r = 0; r < world && bytes > 0; r++) memcpy((char *)all + (size_t)r * bytes, m->small[r].data, bytes);
    return FW_OK;
}

static void set_host_work(fw_comm *c, const char *what) {
    fw_mpi_notice notice = {.kind = what != NULL ? FW_MPI_WORK_BEGINS : FW_MPI_WORK_ENDS};
    snprintf(notice.text, sizeof notice.text, "%s", what != NULL ? what : "");
    fw_mpi_tell(c, &notice);
}

/* Messages go between ranks of the job: a group needs nothing of its own. */
static fw_status open_group(fw_comm *parent, fw_comm *group) {
    if (group->options.world == 1) return fw_comm_open_self(group);
    group->transport = parent->transport;
    group->state = parent->state;
    return FW_OK;
}

/* Nobody sleeps for long. */
static void wake(fw_comm *c) { (void)c; }

static void destroy(fw_comm *c) {
    fw_mpi *m = fw_mpi_of(c);
    c->state = NULL;
    if (m == NULL || fw_comm_is_group(c)) return;
    /* After a failure MPI is not asked to end: it would wait for ranks that do not come. mpirun ends what is left. */
    if (m->plugin != NULL && !fw_failure_is_set(&c->job->failure)) m->plugin->stop();
    for (fw_mpi_letter *letter = m->letter, *next; letter != NULL; letter = next) {
        next = letter->next;
        fw_free(letter);
    }
    for (fw_mpi_block *block = m->block, *next; block != NULL; block = next) {
        next = block->next;
        munmap(block->memory, block->bytes);
        fw_free(block);
    }
    pthread_mutex_destroy(&m->lock);
    fw_free(m->stage);
    fw_free(m);
}

static const fw_transport transport = {.name = "mpi",
                                       .alloc = alloc,
                                       .run = fw_mpi_run,
                                       .exchange = exchange,
                                       .set_host_work = set_host_work,
                                       .open_group = open_group,
                                       .wake = wake,
                                       .destroy = destroy};

fw_status fw_mpi_make(fw_comm *c) {
    fw_mpi *m;
    FW_TRY(FW_NEW(m));
    pthread_mutex_init(&m->lock, NULL);
    for (int r = 0; r < FW_COMM_MAX_WORLD; r++) m->peer[r].sleep.kind = FW_MPI_AWAKE;
    c->transport = &transport;
    c->state = m;
    return FW_NEW_ARRAY(m->stage, (size_t)c->options.world * FW_MPI_STAGE_BYTES);
}

fw_status fw_mpi_open(fw_comm *c, uint64_t deadline_ns) {
    fw_mpi *m = fw_mpi_of(c);
    /* The first exchange is part of the meeting. */
    const uint64_t now_ns = fw_host_now_ns();
    m->timeout_ns = (now_ns < deadline_ns ? deadline_ns - now_ns : 0) + 1000000000ull;
    const int32_t mine = c->options.local_world > 0 ? c->options.local_world : c->options.world;
    int32_t all[FW_COMM_MAX_WORLD];
    FW_TRY(exchange(c, all, &mine, sizeof mine, "start"));
    m->small_n = 0; /* what callers start counts from 1 */
    c->job->host_ranks = 1;
    for (int r = 0; r < c->options.world; r++)
        if (all[r] > c->job->host_ranks) c->job->host_ranks = all[r];
    m->timeout_ns = (uint64_t)(c->options.timeout_s * 1e9);
    return FW_OK;
}
