/* Messages for people. Rooms never print: they call fw_log_*, and the command line installs the
 * sink that decides where lines go (rank prefix, terminal or not). Without a sink, lines are dropped,
 * which is what tests want. Thread-safe once the sink is set. */
#ifndef FW_BASE_LOG_H
#define FW_BASE_LOG_H

#include <stdarg.h>

typedef enum fw_log_level { FW_LOG_DEBUG, FW_LOG_INFO, FW_LOG_WARNING, FW_LOG_ERROR } fw_log_level;

/* Called with one complete line, without a newline. */
typedef void (*fw_log_sink)(fw_log_level level, const char *line, void *context);

void fw_log_set_sink(fw_log_sink sink, void *context, fw_log_level lowest);
void fw_log_line(fw_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define fw_log_debug(...) fw_log_line(FW_LOG_DEBUG, __VA_ARGS__)
#define fw_log_info(...) fw_log_line(FW_LOG_INFO, __VA_ARGS__)
#define fw_log_warning(...) fw_log_line(FW_LOG_WARNING, __VA_ARGS__)
#define fw_log_error(...) fw_log_line(FW_LOG_ERROR, __VA_ARGS__)

#endif
