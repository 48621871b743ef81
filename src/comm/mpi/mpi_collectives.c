/* The collectives as messages between two ranks. */
#include "comm/comm_sum.h"
#include "comm/mpi/mpi_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct run {
    fw_comm *c;
    const fw_comm_op *op;
    fw_mpi *m;
    int world, me;
    int64_t size; /* bytes of one element */
    fw_mpi_batch batch;
} run;

enum { PIECE_BYTES = 16 << 20, DIRECT_BYTES = 64 << 10 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- the cards ---- */

static const char *describe(char out[160], const fw_mpi_card *card) {
    snprintf(out, 160, "%.31s%s%.39s of %lld %s (root %d)", card->call, card->label[0] ? " " : "", card->label,
             (long long)card->n, card->dtype < FW_DTYPE_N ? fw_dtype_name((fw_dtype)card->dtype) : "unknown",
             card->root);
    return out;
}

static int same(const fw_mpi_card *a, const fw_mpi_card *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->root == b->root && a->n == b->n &&
           memcmp(a->label, b->label, sizeof a->label) == 0;
}

static fw_status compare(const run *u) {
    const fw_mpi_card *zero = &u->m->card[0];
    for (int r = 0; r < u->world; r++) FW_TRY(fw_mpi_check_group(u->c, &u->m->card[u->me], &u->m->card[r], r));
    for (int r = 1; r < u->world; r++) {
        const fw_mpi_card *card = &u->m->card[r];
        if (same(card, zero)) continue;
        char a[160], b[160], name[FW_COMM_TITLE_BYTES];
        return fw_fail(FW_ERR_RANK, "the ranks have diverged: %s is %s on rank %d and %s on rank %d",
                       fw_comm_title(name, u->c, "collective", NULL, u->op->number), describe(a, zero),
                       fw_comm_job_rank(u->c, 0), describe(b, card), fw_comm_job_rank(u->c, r));
    }
    return FW_OK;
}

/* Everybody says what he is about to do, and hears it from everybody. */
static fw_status meet(run *u) {
    const fw_comm_op *op = u->op;
    fw_mpi_card *mine = &u->m->card[u->me];
    fw_mpi_fill_card(mine, u->c, fw_comm_kind_name(op->kind), fw_comm_op_label(op), op->number);
    mine->kind = (int32_t)op->kind;
    mine->dtype = (int32_t)op->dtype;
    mine->root = op->root;
    mine->n = op->n;
    for (int k = 1; k < u->world; k++) {
        const int r = (u->me + k) % u->world;
        FW_TRY(fw_mpi_receive(&u->batch, &u->m->card[r], sizeof *mine, r, FW_MPI_DATA));
        pthread_mutex_lock(&u->m->lock);
        u->m->peer[fw_comm_job_rank(u->c, r)].card_n++;
        pthread_mutex_unlock(&u->m->lock);
        FW_TRY(fw_mpi_send(&u->batch, mine, sizeof *mine, r, FW_MPI_DATA));
    }
    FW_TRY(fw_mpi_finish(&u->batch));
    return compare(u);
}

/* ---- sums ---- */

static char *at(const run *u, void *base, int64_t element) { return (char *)base + element * u->size; }

static char *stage(const run *u, int rank) { return u->m->stage + (size_t)rank * FW_MPI_STAGE_BYTES; }

/* Elements [first, first + n) of rank r's slice that are worked on now. */
typedef struct piece {
    int64_t first, n;
} piece;

static piece piece_of(int64_t slice_first, int64_t slice_last, int64_t done_n, int64_t most_n) {
    const int64_t first = slice_first + done_n;
    return (piece){first, first < slice_last ? smaller(most_n, slice_last - first) : 0};
}

/* Everybody's piece for me comes to the stage; mine for the others goes out. own: of the owner `me`. */
static fw_status bring_pieces(run *u, const piece *of) {
    for (int k = 1; k < u->world; k++) {
        const int r = (u->me + k) % u->world;
        FW_TRY(fw_mpi_receive(&u->batch, stage(u, r), (size_t)(of[u->me].n * u->size), r, FW_MPI_TAG_PARTS));
        FW_TRY(fw_mpi_send(&u->batch, at(u, u->op->buffer, of[r].first), (size_t)(of[r].n * u->size), r,
                           FW_MPI_TAG_PARTS));
    }
    return FW_OK;
}

static void add_pieces(const run *u, piece own, void *to) {
    const void *from[FW_COMM_MAX_WORLD];
    for (int r = 0; r < u->world; r++) from[r] = r == u->me ? at(u, u->op->buffer, own.first) : stage(u, r);
    if (own.n > 0) fw_comm_sum(&to, 1, from, u->world, own.n, u->op->dtype);
}

static fw_status return_sums(run *u, const piece *of) {
    for (int k = 1; k < u->world; k++) {
        const int r = (u->me + k) % u->world;
        FW_TRY(fw_mpi_receive(&u->batch, at(u, u->op->buffer, of[r].first), (size_t)(of[r].n * u->size), r,
                              FW_MPI_TAG_PARTS));
        FW_TRY(fw_mpi_send(&u->batch, at(u, u->op->buffer, of[u->me].first), (size_t)(of[u->me].n * u->size), r,
                           FW_MPI_TAG_PARTS));
    }
    return FW_OK;
}

/* While the sums of one piece go back, the next one is already on its way. */
static fw_status all_reduce(run *u) {
    const int64_t n = u->op->n, most_n = FW_MPI_STAGE_BYTES / u->size;
    int64_t longest = 0;
    piece of[FW_COMM_MAX_WORLD], before[FW_COMM_MAX_WORLD] = {{0}};
    for (int r = 0; r < u->world; r++) {
        const int64_t slice_n = fw_comm_slice_start(n, r + 1, u->world) - fw_comm_slice_start(n, r, u->world);
        if (slice_n > longest) longest = slice_n;
    }
    for (int64_t done_n = 0; done_n < longest + most_n; done_n += most_n) {
        for (int r = 0; r < u->world; r++)
            of[r] =
                piece_of(fw_comm_slice_start(n, r, u->world), fw_comm_slice_start(n, r + 1, u->world), done_n, most_n);
        if (done_n > 0) FW_TRY(return_sums(u, before));
        FW_TRY(bring_pieces(u, of));
        FW_TRY(fw_mpi_finish(&u->batch));
        add_pieces(u, of[u->me], at(u, u->op->buffer, of[u->me].first));
        memcpy(before, of, sizeof before);
    }
    return FW_OK;
}

static fw_status reduce_scatter(run *u) {
    const int64_t part_n = u->op->n / u->world, most_n = FW_MPI_STAGE_BYTES / u->size;
    piece of[FW_COMM_MAX_WORLD];
    for (int64_t done_n = 0; done_n < part_n; done_n += most_n) {
        for (int r = 0; r < u->world; r++) of[r] = piece_of(r * part_n, (r + 1) * part_n, done_n, most_n);
        FW_TRY(bring_pieces(u, of));
        FW_TRY(fw_mpi_finish(&u->batch));
        add_pieces(u, of[u->me], at(u, u->op->part, done_n));
    }
    return FW_OK;
}

/* ---- the others ---- */

static void copy(void *to, const void *from, int64_t bytes) {
    if (to != from && bytes > 0) memmove(to, from, (size_t)bytes);
}

/* Every rank sends `bytes` to every other: to r what lies at send + r * send_step, from r to receive + r * bytes. */
static fw_status swap(run *u, char *receive, const char *send, int64_t send_step, int64_t bytes) {
    copy(receive + u->me * bytes, send + u->me * send_step, bytes);
    for (int64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const int64_t now = smaller(PIECE_BYTES, bytes - done);
        for (int k = 1; k < u->world; k++) {
            const int to = (u->me + k) % u->world, from = (u->me + u->world - k) % u->world;
            FW_TRY(fw_mpi_receive(&u->batch, receive + from * bytes + done, (size_t)now, from, FW_MPI_TAG_PARTS));
            FW_TRY(fw_mpi_send(&u->batch, send + to * send_step + done, (size_t)now, to, FW_MPI_TAG_PARTS));
        }
        FW_TRY(fw_mpi_finish(&u->batch));
    }
    return FW_OK;
}

static fw_status send_piece_to_all(run *u, const char *from, int64_t bytes) {
    for (int k = 1; k < u->world; k++)
        FW_TRY(fw_mpi_send(&u->batch, from, (size_t)bytes, (u->me + k) % u->world, FW_MPI_TAG_PARTS));
    return FW_OK;
}

/* Little, or between two: the root sends it to everybody. */
static fw_status broadcast_directly(run *u) {
    char *data = u->op->buffer;
    for (int64_t done = 0; done < u->op->n; done += PIECE_BYTES) {
        const int64_t now = smaller(PIECE_BYTES, u->op->n - done);
        if (u->me == u->op->root)
            FW_TRY(send_piece_to_all(u, data + done, now));
        else
            FW_TRY(fw_mpi_receive(&u->batch, data + done, (size_t)now, u->op->root, FW_MPI_TAG_PARTS));
        FW_TRY(fw_mpi_finish(&u->batch));
    }
    return FW_OK;
}

/* Much: the root sends every rank a slice, and each sends its own to all the others; no link carries it W times. */
static fw_status broadcast_slices(run *u) {
    const int64_t piece_bytes = (int64_t)PIECE_BYTES;
    char *data = u->op->buffer;
    for (int64_t done = 0; done < u->op->n; done += piece_bytes) {
        const int64_t now = smaller(piece_bytes, u->op->n - done);
        int64_t first[FW_COMM_MAX_WORLD + 1] = {0};
        for (int r = 0; r <= u->world; r++) first[r] = done + fw_comm_slice_start(now, r, u->world);
        const size_t own = (size_t)(first[u->me + 1] - first[u->me]);
        if (u->me != u->op->root)
            FW_TRY(fw_mpi_receive(&u->batch, data + first[u->me], own, u->op->root, FW_MPI_TAG_PARTS));
        for (int r = 0; r < u->world && u->me == u->op->root; r++)
            if (r != u->me)
                FW_TRY(fw_mpi_send(&u->batch, data + first[r], (size_t)(first[r + 1] - first[r]), r, FW_MPI_TAG_PARTS));
        FW_TRY(fw_mpi_finish(&u->batch));
        for (int r = 0; r < u->world; r++) {
            if (r == u->me) continue;
            if (u->me != u->op->root)
                FW_TRY(
                    fw_mpi_receive(&u->batch, data + first[r], (size_t)(first[r + 1] - first[r]), r, FW_MPI_TAG_PARTS));
            if (r != u->op->root) FW_TRY(fw_mpi_send(&u->batch, data + first[u->me], own, r, FW_MPI_TAG_PARTS));
        }
        FW_TRY(fw_mpi_finish(&u->batch));
    }
    return FW_OK;
}

fw_status fw_mpi_run(fw_comm *c, const fw_comm_op *op) {
    run u = {.c = c,
             .op = op,
             .m = fw_mpi_of(c),
             .world = c->options.world,
             .me = c->options.rank,
             .size = (int64_t)fw_dtype_bytes(op->dtype),
             .batch = {.c = c,
                       .lane = FW_MPI_DATA,
                       .call = fw_comm_kind_name(op->kind),
                       .label = fw_comm_op_label(op),
                       .number = op->number}};
    const int64_t part_bytes = op->n / u.world * u.size;
    FW_TRY(meet(&u));
    switch (op->kind) {
    case FW_COMM_ALL_REDUCE: return op->n > 0 ? all_reduce(&u) : FW_OK;
    case FW_COMM_REDUCE_SCATTER: return reduce_scatter(&u);
    case FW_COMM_ALL_GATHER: return swap(&u, op->buffer, op->part, 0, part_bytes);
    case FW_COMM_ALL_TO_ALL: return swap(&u, op->part, op->buffer, part_bytes, part_bytes);
    case FW_COMM_BROADCAST:
        return u.world == 2 || op->n <= DIRECT_BYTES ? broadcast_directly(&u) : broadcast_slices(&u);
    case FW_COMM_KIND_N: break;
    }
    return FW_OK;
}
