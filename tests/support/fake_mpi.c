#include "support/fake_mpi.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANK_N = 8, RING_BYTES = 32 << 10, REQUEST_N = 4096 };

/* From one rank to another. */
typedef struct ring {
    _Atomic uint64_t written, read;
    char data[RING_BYTES];
} ring;
static struct board {
    int world;
    ring ring[RANK_N][RANK_N]; /* [from][to] */
} * board;

typedef struct header {
    uint64_t bytes;
    int64_t tag;
} header;

/* A message to send, one asked for, or one that came before it was asked for. */
typedef struct item {
    struct item *next;
    char *data;
    char *to; /* asked for while it came into memory of its own: where it is copied once it is all there */
    uint64_t bytes, done;
    int tag, slot; /* of the request; -1: nobody has asked yet */
    int head_done;
} item;

static int me;
static struct peer {
    item *outgoing, *wanted, *early; /* in order */
    item *coming;                    /* the message whose bytes are next in the ring */
    header head;
    uint64_t head_got;
} peer[RANK_N];
static char is_done[REQUEST_N];
static char is_used[REQUEST_N];

int fw_fake_mpi_reset(int world) {
    if (board != NULL) munmap(board, sizeof *board);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || world > RANK_N) return 1;
    board->world = world;
    return 0;
}

/* ---- rings ---- */

static uint64_t put(ring *r, const void *from, uint64_t bytes) {
    uint64_t written = atomic_load(&r->written), room = RING_BYTES - (written - atomic_load(&r->read));
    if (bytes > room) bytes = room;
    for (uint64_t i = 0; i < bytes; i++) r->data[(written + i) % RING_BYTES] = ((const char *)from)[i];
    atomic_store(&r->written, written + bytes);
    return bytes;
}

static uint64_t get(ring *r, void *to, uint64_t bytes) {
    uint64_t read = atomic_load(&r->read), there = atomic_load(&r->written) - read;
    if (bytes > there) bytes = there;
    for (uint64_t i = 0; i < bytes; i++) ((char *)to)[i] = r->data[(read + i) % RING_BYTES];
    atomic_store(&r->read, read + bytes);
    return bytes;
}

/* ---- lists ---- */

static void append(item **list, item *i) {
    while (*list != NULL) list = &(*list)->next;
    i->next = NULL;
    *list = i;
}

static item *take_tag(item **list, int tag) {
    for (; *list != NULL; list = &(*list)->next)
        if ((*list)->tag == tag) {
            item *found = *list;
            *list = found->next;
            return found;
        }
    return NULL;
}

static void finish(item *i) {
    if (i->to != NULL) {
        memcpy(i->to, i->data, i->bytes);
        free(i->data);
    }
    if (i->slot >= 0) is_done[i->slot] = 1;
    free(i);
}

static item *make(int tag, uint64_t bytes) {
    item *i = calloc(1, sizeof *i);
    if (i == NULL) abort();
    i->tag = tag;
    i->bytes = bytes;
    i->slot = -1;
    return i;
}

/* ---- progress ---- */

static void send_more(int to) {
    ring *r = &board->ring[me][to];
    for (item *i; (i = peer[to].outgoing) != NULL;) {
        const header head = {i->bytes, i->tag};
        if (!i->head_done) {
            if (RING_BYTES - (atomic_load(&r->written) - atomic_load(&r->read)) < sizeof head) return;
            put(r, &head, sizeof head);
            i->head_done = 1;
        }
        i->done += put(r, i->data + i->done, i->bytes - i->done);
        if (i->done < i->bytes) return;
        peer[to].outgoing = i->next;
        finish(i);
    }
}

/* The message's bytes are all there: it waits, or is what somebody asked for. */
static void arrived(struct peer *p) {
    item *i = p->coming;
    p->coming = NULL;
    if (i->slot >= 0)
        finish(i);
    else
        append(&p->early, i);
}

static int receive_more(int from) {
    struct peer *p = &peer[from];
    ring *r = &board->ring[from][me];
    if (p->coming == NULL) {
        p->head_got += get(r, (char *)&p->head + p->head_got, sizeof p->head - p->head_got);
        if (p->head_got < sizeof p->head) return 0;
        p->head_got = 0;
        p->coming = take_tag(&p->wanted, (int)p->head.tag);
        if (p->coming != NULL && p->coming->bytes < p->head.bytes) abort(); /* MPI calls it truncated */
        if (p->coming == NULL) {
            p->coming = make((int)p->head.tag, p->head.bytes);
            p->coming->data = malloc(p->head.bytes + 1);
        }
        p->coming->bytes = p->head.bytes;
    }
    item *i = p->coming;
    i->done += get(r, i->data + i->done, i->bytes - i->done);
    if (i->done < i->bytes) return 0;
    arrived(p);
    return 1;
}

static void progress(void) {
    for (int r = 0; r < board->world; r++) {
        send_more(r);
        while (receive_more(r)) {
        }
    }
}

/* ---- the table ---- */

static int new_slot(fw_mpi_request *r) {
    int s = 0;
    while (s < REQUEST_N && is_used[s]) s++;
    if (s == REQUEST_N) abort();
    is_used[s] = 1;
    is_done[s] = 0;
    *r = (fw_mpi_request){.handle = (uint64_t)s, .pending = 1};
    return s;
}

static fw_status start(int *rank, int *world) {
    *rank = me;
    *world = board->world;
    return FW_OK;
}

static void describe(char *text, size_t bytes) { strncpy(text, "fake MPI", bytes); }

static fw_status send_message(fw_mpi_request *r, const void *data, size_t bytes, int to, int tag) {
    item *i = make(tag, bytes);
    i->data = (char *)(uintptr_t)data;
    i->slot = new_slot(r);
    append(&peer[to].outgoing, i);
    progress();
    return FW_OK;
}

static fw_status receive(fw_mpi_request *r, void *data, size_t bytes, int from, int tag) {
    struct peer *p = &peer[from];
    item *early = take_tag(&p->early, tag);
    const int slot = new_slot(r);
    if (early != NULL) {
        if (early->bytes > bytes) abort();
        memcpy(data, early->data, early->bytes);
        free(early->data);
        free(early);
        is_done[slot] = 1;
        return FW_OK;
    }
    /* Half of it may be here already; the other half never comes when its sender has died, so it is not waited for. */
    if (p->coming != NULL && p->coming->slot < 0 && p->coming->tag == tag) {
        if (p->coming->bytes > bytes) abort();
        p->coming->to = data;
        p->coming->slot = slot;
        return FW_OK;
    }
    item *i = make(tag, bytes);
    i->data = data;
    i->slot = slot;
    append(&p->wanted, i);
    return FW_OK;
}

static fw_status test(fw_mpi_request *r) {
    if (!r->pending) return FW_OK;
    progress();
    if (!is_done[r->handle]) return FW_OK;
    is_used[r->handle] = 0;
    r->pending = 0;
    return FW_OK;
}

static fw_status probe(int tag, int *from) {
    progress();
    *from = -1;
    for (int r = 0; r < board->world; r++)
        for (const item *i = peer[r].early; i != NULL; i = i->next)
            if (i->tag == tag) *from = r;
    return FW_OK;
}

/* What was sent goes out; unlike MPI's own end this does not wait for ranks that never come to it. */
static void stop(void) {
    for (int r = 0; r < board->world; r++)
        for (int k = 0; k < 2000 && peer[r].outgoing != NULL; k++) {
            progress();
            usleep(1000);
        }
}

const fw_mpi_plugin *fw_fake_mpi(int rank) {
    static const fw_mpi_plugin plugin = {.start = start,
                                         .describe = describe,
                                         .send = send_message,
                                         .receive = receive,
                                         .test = test,
                                         .probe = probe,
                                         .stop = stop};
    me = rank;
    return &plugin;
}
