#include "cli/terminal.h"

#include "base/log.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, BAR_BYTES = 512 };

static const char reader_gone[] = "nobody reads the standard output any more";
static const char clear_line[] = "\r\x1b[K";

/* The standard error belongs to whoever holds the lock: a message and the bar are not mixed. */
static pthread_mutex_t screen = PTHREAD_MUTEX_INITIALIZER;
static char bar[BAR_BYTES];
static int rank_here, world_here = 1;

/* 0, or the errno of the failure. */
static int write_all(int fd, const char *bytes, size_t n_bytes) {
    while (n_bytes > 0) {
        ssize_t n = write(fd, bytes, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) { /* somebody made the terminal non-blocking */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000);
            continue;
        }
        if (n < 0) return errno;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

/* Copy with control characters written as \x1b: C0 and DEL, and C1 in its UTF-8 form. Returns the length. */
static size_t escape(char *out, size_t bytes, const char *text) {
    size_t used = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s != 0 && used + 5 < bytes; s++) {
        if (*s == '\n')
            used += (size_t)snprintf(out + used, bytes - used, "\\n");
        else if ((*s < 0x20 && *s != '\t') || *s == 0x7f)
            used += (size_t)snprintf(out + used, bytes - used, "\\x%02x", *s);
        else if (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0)
            used += (size_t)snprintf(out + used, bytes - used, "\\x%02x", *++s);
        else
            out[used++] = (char)*s;
    }
    out[used] = 0;
    return used;
}

/* One line on the standard error, above the bar if there is one. kind: "error: ", "" ... */
static void print_line(const char *kind, const char *message) {
    char line[LINE_BYTES];
    size_t used = 0;
    pthread_mutex_lock(&screen);
    bool bar_of_rank_0 = world_here > 1 && rank_here != 0 && fw_terminal_stderr_is_tty();
    if (bar[0] != 0 || bar_of_rank_0) used += (size_t)snprintf(line, sizeof line, "%s", clear_line);
    if (kind[0] != 0) {
        used += (size_t)snprintf(line + used, sizeof line - used, "finewire: ");
        if (world_here > 1 && rank_here >= 0)
            used += (size_t)snprintf(line + used, sizeof line - used, "rank %d: ", rank_here);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s", kind);
    }
    used += escape(line + used, sizeof line - used - BAR_BYTES - 8, message);
    used += (size_t)snprintf(line + used, sizeof line - used, "\n%s", bar);
    write_all(STDERR_FILENO, line, used); /* a lost message cannot be told to anybody */
    pthread_mutex_unlock(&screen);
}

static void log_sink(fw_log_level level, const char *line, void *context) {
    (void)context;
    switch (level) {
    case FW_LOG_DEBUG: print_line("debug: ", line); break;
    case FW_LOG_INFO:
        if (rank_here <= 0) print_line("", line);
        break;
    case FW_LOG_WARNING: print_line("warning: ", line); break;
    case FW_LOG_ERROR: print_line("error: ", line); break;
    }
}

static bool tracing(void) {
    const char *trace = getenv("FINEWIRE_TRACE");
    return trace != NULL && strcmp(trace, "1") == 0;
}

/* A rank started by a launcher knows its place before it has read its options. */
static void rank_from_environment(void) {
    const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");
    if (rank == NULL || world == NULL) return;
    int r = atoi(rank), w = atoi(world);
    if (w > 1 && r >= 0 && r < w) fw_terminal_set_rank(r, w);
}

/* Started with a standard file closed (`2>&-`, some daemons): the next file opened would take its number, and what is
 * meant for the terminal would end in a model file. */
static void fill_standard_files(void) {
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);
}

void fw_terminal_start(void) {
    fill_standard_files();
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a file above `ulimit -f` is then an error of write, with its path */
    rank_from_environment();
    fw_log_set_sink(log_sink, NULL, tracing() ? FW_LOG_DEBUG : FW_LOG_INFO);
}

void fw_terminal_set_rank(int rank, int world) {
    rank_here = rank;
    world_here = world;
}

int fw_terminal_rank(void) { return rank_here; }

bool fw_terminal_stdout_is_tty(void) { return isatty(STDOUT_FILENO) == 1; }

bool fw_terminal_stderr_is_tty(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

int fw_terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

fw_status fw_terminal_write(const char *text, size_t text_bytes) {
    int reason = write_all(STDOUT_FILENO, text, text_bytes);
    if (reason == 0) return FW_OK;
    if (reason == EPIPE) return fw_fail(FW_ERR_IO, "%s", reader_gone);
    return fw_fail(FW_ERR_IO, "writing to the standard output: %s", strerror(reason));
}

fw_status fw_terminal_printf(const char *format, ...) {
    fw_strbuf text = {0};
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0) return fw_fail(FW_ERR_INTERNAL, "bad format string \"%s\"", format);
    FW_TRY(fw_strbuf_reserve(&text, (size_t)n));
    va_start(arguments, format);
    vsnprintf(text.data, (size_t)n + 1, format, arguments);
    va_end(arguments);
    fw_status status = fw_terminal_write(text.data, (size_t)n);
    fw_strbuf_fini(&text);
    return status;
}

void fw_terminal_show_bar(const char *text) {
    char out[BAR_BYTES + 8];
    pthread_mutex_lock(&screen);
    if (bar[0] != 0 || text[0] != 0) {
        snprintf(bar, sizeof bar, "%s", text);
        int n = snprintf(out, sizeof out, "%s%s", clear_line, bar);
        write_all(STDERR_FILENO, out, (size_t)n);
    }
    pthread_mutex_unlock(&screen);
}

static bool error_was_shown;

void fw_terminal_error_was_shown(void) { error_was_shown = true; }

int fw_terminal_report(fw_status status) {
    const char *message = fw_trail_message();
    bool quiet = status == FW_OK || status == FW_ERR_INTERRUPTED || error_was_shown;
    if (status == FW_ERR_IO && strcmp(message, reader_gone) == 0) quiet = true;
    if (quiet) return fw_status_exit_code(status);
    print_line("error: ", message);
    if (tracing()) {
        fw_trail trail;
        char frame[512];
        fw_trail_copy(&trail);
        for (int i = 0; i < trail.frame_n; i++) {
            snprintf(frame, sizeof frame, "    %s at %s:%d", trail.frame[i].function, trail.frame[i].file,
                     trail.frame[i].line);
            print_line("", frame);
        }
    }
    return fw_status_exit_code(status);
}
