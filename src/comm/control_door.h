/* Where connections come in: accepts, reads one hello of each, and hands those over that speak our protocol.
 * Everything else is closed: wrong bytes at once, silence after a few seconds, the oldest when too many wait. */
#ifndef FW_COMM_CONTROL_DOOR_H
#define FW_COMM_CONTROL_DOOR_H

#include "comm/control_wire.h"

#include <poll.h>

enum { FW_DOOR_WAITING_N = 96 };

typedef struct fw_door {
    int listen_fd;
    int stranger_n; /* connections closed because they did not speak our protocol */
    struct {
        int fd; /* -1: free */
        size_t got;
        uint64_t since_ns;
        fw_hello hello;
    } waiting[FW_DOOR_WAITING_N];
} fw_door;

/* Open the listening socket of rank 0 (or take options->listen_fd). Retries while the port is busy until deadline_ns.
 * Errors: FW_ERR_RANK, with the address and what to do. */
fw_status fw_door_open(fw_door *door, const fw_comm_options *options, uint64_t deadline_ns);
void fw_door_close(fw_door *door);

/* Fill at most poll_n entries to poll for reading; returns how many. */
int fw_door_poll(const fw_door *door, struct pollfd *polls, int poll_n);

/* Look once. A whole hello goes to greet, which owns fd from then on. Another protocol version is told so here. */
void fw_door_look(fw_door *door, void (*greet)(void *context, int fd, const fw_hello *hello), void *context);

#endif
