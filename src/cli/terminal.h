/* What people see: the only place that writes to the standard output and the standard error.
 *
 * Results go to the standard output; messages, the progress bar and errors go to the standard error, each
 * line in one write, so that ranks do not cut each other's lines. Control characters in messages are shown
 * escaped: a file name cannot take over the terminal. Rooms below never print; they call fw_log_* or
 * call back. SIGPIPE is ignored from fw_terminal_start on: a reader that went away does not end a training. */
#ifndef FW_CLI_TERMINAL_H
#define FW_CLI_TERMINAL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Install the log sink, ignore SIGPIPE. Call once, first thing. FINEWIRE_TRACE=1: also debug lines, and
 * errors with the functions they went through. */
void fw_terminal_start(void);
/* Messages of a job of several ranks (start reads RANK and WORLD_SIZE, when a launcher has set them): warnings and
 * errors say which rank; other lines come from rank 0 alone. Rank -1 is the launcher of the job: no rank is named. */
void fw_terminal_set_rank(int rank, int world);
int fw_terminal_rank(void);

bool fw_terminal_stdout_is_tty(void);
bool fw_terminal_stderr_is_tty(void);
/* Columns of the terminal behind the standard error: asked anew at each call; 80 when unknown. */
int fw_terminal_width(void);

/* Write to the standard output at once. Errors: FW_ERR_IO; a reader that went away is one too, but is not
 * reported as an error by fw_terminal_report. */
fw_status fw_terminal_write(const char *text, size_t text_bytes);
fw_status fw_terminal_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "finewire: error: MESSAGE" of this thread's trail on the standard error ("finewire: rank 1: error: ..." in a
 * job of several). Returns the exit code for status. FW_OK and FW_ERR_INTERRUPTED print no error. */
int fw_terminal_report(fw_status status);
/* Another process has shown the reason: fw_terminal_report only gives the exit code from now on. */
void fw_terminal_error_was_shown(void);

/* ---- numbers for people; all return `out`, 32 bytes are enough ---- */
enum { FW_HUMAN_BYTES = 32 };
const char *fw_human_size(char *out, uint64_t bytes);     /* 512 B, 1.2 GiB */
const char *fw_human_count(char *out, double count);      /* 950, 134.5 M */
const char *fw_human_duration(char *out, double seconds); /* 4.2 s, 3:07, 1:02:33, 2 d 03:10 */

/* ---- progress ---- */

/* The line that stays at the bottom of a terminal: messages scroll above it. "" takes it away. The caller keeps
 * it narrower than fw_terminal_width. */
void fw_terminal_show_bar(const char *text);

/* What one step gave. NAN where a number is not known yet. */
typedef struct fw_progress_values {
    int64_t step, step_n; /* finished so far, of how many */
    double epoch, loss, learning_rate, grad_norm, tokens_per_s;
    char mirror[32]; /* "": nothing to say */
} fw_progress_values;

typedef struct fw_progress fw_progress;

/* A bar on a terminal, plain lines elsewhere or when `plain`. first_step: finished before this run (a resume), so
 * that the time left is right. Draws nothing on ranks above 0. One at a time. Errors: FW_ERR_NOMEM. */
fw_status fw_progress_create(fw_progress **out, int64_t first_step, bool plain);
/* After every step. The bar is redrawn at most 10 times a second; a plain line comes only when `logged`
 * (every logging_steps). */
void fw_progress_update(fw_progress *p, const fw_progress_values *values, bool logged);
/* Leaves the last state on the screen and destroys; takes NULL. */
void fw_progress_destroy(fw_progress *p);

/* The bar as text of at most `width` columns, without newline; elapsed_s since first_step. Returns its length. */
int fw_progress_bar(char *out, size_t out_bytes, const fw_progress_values *values, int64_t first_step, double elapsed_s,
                    int width);
/* The plain line. */
int fw_progress_line(char *out, size_t out_bytes, const fw_progress_values *values, int64_t first_step,
                     double elapsed_s);

#endif
