/* What goes over the control connections: one hello per connection, then frames. Little-endian. */
#ifndef FW_COMM_CONTROL_WIRE_H
#define FW_COMM_CONTROL_WIRE_H

#include "comm/comm.h"

/* The first two fields never change, so that any two versions can tell that they differ. */
typedef struct fw_hello {
    char magic[8]; /* FW_HELLO_MAGIC */
    uint32_t protocol;
    int32_t world;
    int32_t rank; /* below 0: no rank, but our launcher, see fw_hello_gone */
    int32_t pid;
    char version[16];
    char secret[FW_COMM_SECRET_BYTES];
    char host_id[48];   /* equal on two ranks when they run on one kernel */
    char host_name[48]; /* for messages */
} fw_hello;

#define FW_HELLO_MAGIC "FWHELLO\n"
enum { FW_CONTROL_PROTOCOL = 1, FW_FRAME_MAGIC = 0x4d4d5746 };

typedef enum fw_frame_kind {
    FW_FRAME_WELCOME = 1, /* rank 0: come in */
    FW_FRAME_REJECT,      /* rank 0: no, and why; status FW_OK: this is not your job, look elsewhere */
    FW_FRAME_TICKET,      /* rank 0: all are here, this leads to the data plane */
    FW_FRAME_PING,        /* I live */
    FW_FRAME_ABORT,       /* `rank` failed; payload: why */
    FW_FRAME_LEAVE,       /* `rank` has closed its group in an orderly way */
} fw_frame_kind;

typedef struct fw_frame_head {
    uint32_t magic;
    uint32_t kind;
    int32_t rank;   /* ABORT and LEAVE: whom it is about */
    int32_t status; /* ABORT, REJECT: fw_status */
    int32_t told;   /* ABORT */
    uint32_t bytes; /* of payload, at most FW_FRAME_PAYLOAD */
} fw_frame_head;

enum { FW_FRAME_PAYLOAD = 1024 };

typedef struct fw_frame {
    fw_frame_head head;
    char payload[FW_FRAME_PAYLOAD + 1]; /* readers find a zero after the payload */
} fw_frame;

/* Frames in the making, one for each connection. */
typedef struct fw_frame_reader {
    fw_frame frame;
    size_t got; /* bytes of head and payload */
} fw_frame_reader;

typedef enum fw_read_result {
    FW_READ_FRAME,   /* reader->frame is whole; the next call starts a new one */
    FW_READ_NOTHING, /* no more bytes for now */
    FW_READ_END,     /* the other side closed, or the connection broke */
    FW_READ_GARBAGE, /* not our protocol */
} fw_read_result;

/* Never blocks. */
fw_read_result fw_frame_read(int fd, fw_frame_reader *reader);
/* Never blocks. A connection whose buffer is full is shut down, since half a frame would be worse. Returns 1 if all
 * went out. */
int fw_frame_send(int fd, fw_frame_kind kind, int rank, fw_status status, int told, const void *payload, size_t bytes);

/* What the launcher says as its rank: rank r has ended; it never comes, or its connection says the same. */
static inline int32_t fw_hello_gone(int32_t r) { return -1 - r; } /* its own inverse */

void fw_hello_fill(fw_hello *hello, const fw_comm_options *options);

/* Non-blocking, close on exec, no delay, and (tcp) keep-alive. Returns 0 on success. */
int fw_socket_prepare(int fd);

#endif
