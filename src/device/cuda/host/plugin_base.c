/* The functions of room base that plugins use, on top of the program's own (device/plugin_host.h). Compiled into each
 * plugin, hidden there. */
#include "device/cuda/host/plugin_base.h"

#include "base/alloc.h"
#include "base/log.h"
#include "device/device.h"

#include <stdio.h>
#include <unistd.h>

static const fw_plugin_host *program;

void fw_plugin_base_set(const fw_plugin_host *host) { program = host; }

fw_status fw_fail_at(fw_status status, const char *file, const char *function, int line, const char *format, ...) {
    char message[FW_TRAIL_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return program->fail(status, file, function, line, message);
}

fw_status fw_fail_context(fw_status status, const char *format, ...) {
    char context[FW_TRAIL_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
    return program->fail_context(status, context);
}

fw_status fw_trail_push(fw_status status, const char *file, const char *function, int line) {
    return program->push(status, file, function, line);
}

const char *fw_trail_message(void) { return program->message(); }

_Noreturn void fw_assert_failed(const char *condition, const char *file, int line) {
    char text[512];
    int n = snprintf(text, sizeof text, "finewire: bug: %s is false at %s:%d\n", condition, file, line);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) { /* nothing left to tell it to */
    }
    __builtin_trap();
}

void fw_log_line(fw_log_level level, const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    program->log(level, line);
}

fw_status fw_calloc(void **out, size_t n, size_t size) { return program->allocate(out, n, size); }
void fw_free(void *block) { program->release(block); }

fw_status fw_device_check_frozen(const fw_device *d, const char *what, size_t bytes) {
    return program->check_frozen(d, what, bytes);
}
