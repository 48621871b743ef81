/* Transport "mpi": CPU ranks on one host or on several, by the messages of an MPI library.
 *
 * The control plane stays what it is: it tells of failures, deaths and good-byes. Everything else is messages between two
 * ranks. A collective begins when every rank has sent every other a card that says what it is about to do; then each knows
 * who is late, and compares before any data is touched. Sums are made as in shared memory: slices go to the rank that
 * owns them, are added there in the order of ranks, and come back, so the bits are the same.
 *
 * Two threads use it, the caller's (small exchanges) and the one of the queue (collectives); MPI is called under one lock
 * and never asked to wait. Who waits also reads the notices of other ranks: that one is at long work of its own, or sleeps
 * in a collective to which this one does not come. */
#ifndef FW_COMM_MPI_MPI_INTERNAL_H
#define FW_COMM_MPI_MPI_INTERNAL_H

#include "comm/comm_internal.h"
#include "comm/mpi/mpi_plugin.h"

typedef enum fw_mpi_lane { FW_MPI_DATA, FW_MPI_SMALL, FW_MPI_LANE_N } fw_mpi_lane;

/* Of messages: a card of each lane, then these. */
enum { FW_MPI_TAG_PARTS = FW_MPI_LANE_N, FW_MPI_TAG_NOTICE, FW_MPI_TAG_START };

/* What a rank is about to do. */
typedef struct fw_mpi_card {
    int32_t group, first, stride, world; /* fw_comm.id, and which ranks that is */
    int32_t kind, dtype, root;
    int64_t n;
    uint64_t number;
    uint64_t bytes;                  /* of a small message, which follows the card */
    char call[32];                   /* "exchange", ...; a collective's name */
    char label[FW_COMM_LABEL_BYTES]; /* zero-filled */
} fw_mpi_card;

typedef struct fw_mpi_small {
    fw_mpi_card card;
    char data[FW_COMM_EXCHANGE_BYTES];
} fw_mpi_small;

typedef enum fw_mpi_notice_kind {
    FW_MPI_WORK_BEGINS,
    FW_MPI_WORK_ENDS,
    FW_MPI_ASLEEP,
    FW_MPI_AWAKE
} fw_mpi_notice_kind;

typedef struct fw_mpi_notice {
    int32_t kind;
    int32_t blocks_caller; /* ASLEEP: its caller's thread waits too, it will come to nothing else */
    uint64_t card_n;       /* ASLEEP: the cards of collectives it has sent to the reader: the last is not answered */
    char text[FW_COMM_TITLE_BYTES]; /* the work; what it sleeps in */
} fw_mpi_notice;

/* A notice on its way. */
typedef struct fw_mpi_letter {
    struct fw_mpi_letter *next;
    fw_mpi_request request;
    fw_mpi_notice notice;
} fw_mpi_letter;

/* What is known of another rank of the job. */
typedef struct fw_mpi_peer {
    int works; /* at long work of its own */
    char last_work[60];
    fw_mpi_notice sleep; /* the last ASLEEP; kind AWAKE: it is not */
    uint64_t card_n;     /* cards of collectives sent to it */
} fw_mpi_peer;

/* Memory of fw_comm_alloc. */
typedef struct fw_mpi_block {
    struct fw_mpi_block *next;
    void *memory;
    size_t bytes;
} fw_mpi_block;

/* Of the job; the state of the group of all ranks and of all groups. */
typedef struct fw_mpi {
    const fw_mpi_plugin *plugin;
    pthread_mutex_t lock; /* of the plugin, the peers and the letters */
    fw_mpi_peer peer[FW_COMM_MAX_WORLD];
    fw_mpi_letter *letter;
    uint64_t timeout_ns;
    uint64_t small_n;                      /* small exchanges of all ranks so far */
    fw_mpi_card card[FW_COMM_MAX_WORLD];   /* of the collective at work */
    fw_mpi_small small[FW_COMM_MAX_WORLD]; /* of the exchange at work */
    char *stage;                           /* FW_MPI_STAGE_BYTES for each rank: parts that are to be added */
    fw_mpi_block *block;
} fw_mpi;

/* A piece of a rank's slice that is added at a time: divides by every element's size. */
enum { FW_MPI_STAGE_BYTES = 256 << 10 };

static inline fw_mpi *fw_mpi_of(const fw_comm *c) { return c->state; }

/* ---- waiting (mpi_wait.c) ---- */

/* Messages that are waited for together. */
enum { FW_MPI_BATCH_N = 4 * FW_COMM_MAX_WORLD };
typedef struct fw_mpi_batch {
    fw_comm *c;
    fw_mpi_lane lane;
    const char *call, *label; /* for messages; label may be NULL */
    uint64_t number;
    int n;
    struct {
        fw_mpi_request request;
        int rank; /* in the group; -1: a message to somebody, whom nobody can blame */
    } item[FW_MPI_BATCH_N];
} fw_mpi_batch;

/* Begin; bytes may be 0: no message. rank: in the group. */
fw_status fw_mpi_send(fw_mpi_batch *b, const void *data, size_t bytes, int rank, int tag);
fw_status fw_mpi_receive(fw_mpi_batch *b, void *data, size_t bytes, int rank, int tag);
/* All of the batch is done; it is empty then. Errors: FW_ERR_RANK: a rank failed, left, did not come in time, or waits
 * elsewhere for this one; messages may still be on their way then, and the job is over. */
fw_status fw_mpi_finish(fw_mpi_batch *b);
/* Tell every rank of the job. Never waits. */
void fw_mpi_tell(fw_comm *all, const fw_mpi_notice *notice);

/* ---- cards (mpi_card.c) ---- */

/* Of this call, the rest zero. label may be NULL. */
void fw_mpi_fill_card(fw_mpi_card *card, const fw_comm *c, const char *call, const char *label, uint64_t number);
/* FW_ERR_RANK when the card of rank r (of the group c) belongs to a call of another group: each waits for the other. Ends
 * the texts of `other` with a zero. */
fw_status fw_mpi_check_group(const fw_comm *c, const fw_mpi_card *own, fw_mpi_card *other, int r);

/* ---- the rest ---- */

fw_status fw_mpi_run(fw_comm *c, const fw_comm_op *op);

/* An empty state, without a plugin; c's transport from now on. */
fw_status fw_mpi_make(fw_comm *c);

#endif
