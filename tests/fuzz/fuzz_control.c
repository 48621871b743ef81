/* Bytes from the network: the first byte chooses who reads them, the frame reader of a joined rank or rank 0's door. */
#include "comm/control_door.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void greet(void *context, int fd, const fw_hello *hello) {
    (void)context;
    /* what comes through has ends on all its texts */
    if (strlen(hello->version) >= sizeof hello->version || strlen(hello->secret) >= sizeof hello->secret ||
        strlen(hello->host_id) >= sizeof hello->host_id || strlen(hello->host_name) >= sizeof hello->host_name)
        __builtin_trap();
    close(fd);
}

static void read_frames(int fd) {
    static fw_frame_reader reader;
    memset(&reader, 0xee, sizeof reader);
    reader.got = 0;
    fw_read_result result;
    while ((result = fw_frame_read(fd, &reader)) == FW_READ_FRAME)
        if (reader.frame.head.bytes > FW_FRAME_PAYLOAD || reader.frame.payload[reader.frame.head.bytes] != 0)
            __builtin_trap();
    close(fd);
}

static void enter_door(int fd) {
    static fw_door door;
    door.listen_fd = -1;
    for (int i = 0; i < FW_DOOR_WAITING_N; i++) door.waiting[i].fd = -1;
    door.waiting[0].fd = fd;
    door.waiting[0].got = 0;
    for (int k = 0; k < 3; k++) fw_door_look(&door, greet, NULL);
    fw_door_close(&door);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd[2];
    if (size == 0 || size > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0) return 0;
    ssize_t n = send(fd[0], data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd[0], SHUT_WR);
    if (n >= 0 && data[0] % 2 == 0)
        read_frames(fd[1]);
    else
        enter_door(fd[1]);
    close(fd[0]);
    return 0;
}
