#include "base/log.h"

#include <stddef.h>
#include <stdio.h>

static fw_log_sink sink_installed;
static void *sink_context;
static fw_log_level sink_lowest = FW_LOG_INFO;

void fw_log_set_sink(fw_log_sink sink, void *context, fw_log_level lowest) {
    sink_installed = sink;
    sink_context = context;
    sink_lowest = lowest;
}

void fw_log_line(fw_log_level level, const char *format, ...) {
    if (sink_installed == NULL || level < sink_lowest) return;
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    sink_installed(level, line, sink_context);
}
