#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Thread_local fw_trail trail_of_thread;

fw_status fw_trail_push(fw_status status, const char *file, const char *function, int line) {
    fw_trail *t = &trail_of_thread;
    if (status == FW_OK || t->frame_n >= FW_TRAIL_FRAMES) return status;
    t->frame[t->frame_n].file = file;
    t->frame[t->frame_n].function = function;
    t->frame[t->frame_n].line = line;
    t->frame_n++;
    return status;
}

fw_status fw_fail_at(fw_status status, const char *file, const char *function, int line, const char *format, ...) {
    fw_trail *t = &trail_of_thread;
    va_list arguments;
    /* Formatted aside first: the new message may quote the old one. */
    char message[FW_TRAIL_MESSAGE_BYTES];
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    memcpy(t->message, message, sizeof message);
    t->status = status;
    t->frame_n = 0;
    return fw_trail_push(status, file, function, line);
}

fw_status fw_fail_context(fw_status status, const char *format, ...) {
    fw_trail *t = &trail_of_thread;
    char message[2 * FW_TRAIL_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(message, FW_TRAIL_MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used >= FW_TRAIL_MESSAGE_BYTES) used = FW_TRAIL_MESSAGE_BYTES - 1;
    memcpy(message + used, t->message, sizeof t->message);
    message[FW_TRAIL_MESSAGE_BYTES - 1] = 0;
    memcpy(t->message, message, FW_TRAIL_MESSAGE_BYTES);
    return status;
}

const char *fw_trail_message(void) { return trail_of_thread.message; }

void fw_trail_copy(fw_trail *out) { *out = trail_of_thread; }

void fw_trail_restore(const fw_trail *trail) { trail_of_thread = *trail; }

const char *fw_status_name(fw_status status) {
    switch (status) {
    case FW_OK: return "ok";
    case FW_ERR_OPTION: return "option";
    case FW_ERR_INPUT: return "input";
    case FW_ERR_FIT: return "does not fit";
    case FW_ERR_RANK: return "rank";
    case FW_ERR_IO: return "io";
    case FW_ERR_NOMEM: return "out of memory";
    case FW_ERR_INTERRUPTED: return "interrupted";
    case FW_ERR_INTERNAL: return "internal";
    }
    return "unknown";
}

int fw_status_exit_code(fw_status status) {
    switch (status) {
    case FW_OK: return 0;
    case FW_ERR_OPTION: return 2;
    case FW_ERR_INPUT: return 3;
    case FW_ERR_FIT:
    case FW_ERR_NOMEM: return 4;
    case FW_ERR_RANK: return 5;
    case FW_ERR_IO: return 6;
    case FW_ERR_INTERRUPTED: return 130;
    case FW_ERR_INTERNAL: return 70;
    }
    return 70;
}

_Noreturn void fw_assert_failed(const char *condition, const char *file, int line) {
    char text[512];
    int n = snprintf(text, sizeof text, "finewire: bug: %s is false at %s:%d\n", condition, file, line);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) { /* nothing left to tell it to */
    }
    __builtin_trap();
}
