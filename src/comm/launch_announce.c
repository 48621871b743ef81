/* The launcher's only word to the ranks: that one of them has ended. Ranks that have met hear of it from each other;
 * those that still wait for it would not before their time is up. */
#include "comm/control_wire.h"
#include "comm/launch_internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void fw_launch_announce_end(const fw_launch_job *job, int rank) {
    fw_comm_options as = {.world = job->options->process_n, .rank = fw_hello_gone(rank)};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)job->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fw_hello hello;
    snprintf(as.secret, sizeof as.secret, "%s", job->secret);
    fw_hello_fill(&hello, &as);
    /* A wish, never waited for: on the loopback a connection stands at once, or rank 0 is gone and the door with it. */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    connect(fd, (struct sockaddr *)&address, sizeof address);
    send(fd, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}
