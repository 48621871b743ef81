/* Status codes and the error trail.
 *
 * Every function that can fail returns fw_status. The function that notices the failure calls
 * fw_fail() once, with a message that says what, which value, and what to do next; callers pass
 * the status on with FW_TRY or FW_TRY_OR, which add the calling function to the trail.
 * The trail is thread-local: a worker that fails hands its message over with fw_trail_copy and
 * fw_trail_restore. The status also decides the exit code of the command (fw_status_exit_code).
 */
#ifndef FW_BASE_STATUS_H
#define FW_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

typedef enum fw_status {
    FW_OK = 0,
    FW_ERR_OPTION,      /* bad option, recipe or configuration            exit 2   */
    FW_ERR_INPUT,       /* bad input file: model, data, tokenizer         exit 3   */
    FW_ERR_FIT,         /* does not fit into memory or a planned buffer   exit 4   */
    FW_ERR_RANK,        /* a rank failed, died or diverged                exit 5   */
    FW_ERR_IO,          /* disk or network                                exit 6   */
    FW_ERR_NOMEM,       /* the host allocator failed                      exit 4   */
    FW_ERR_INTERRUPTED, /* stopped by a signal after a full save          exit 130 */
    FW_ERR_INTERNAL,    /* a bug of ours                                  exit 70  */
} fw_status;

/* One trail: the message and the functions the failure went through. */
enum { FW_TRAIL_MESSAGE_BYTES = 1024, FW_TRAIL_FRAMES = 16 };
typedef struct fw_trail {
    fw_status status;
    char message[FW_TRAIL_MESSAGE_BYTES];
    int frame_n;
    struct {
        const char *file, *function;
        int line;
    } frame[FW_TRAIL_FRAMES];
} fw_trail;

/* Start a new trail: keeps the message, returns `status`. Usage: return fw_fail(FW_ERR_INPUT, "..."). */
#define fw_fail(status, ...) fw_fail_at((status), __FILE__, __func__, __LINE__, __VA_ARGS__)
fw_status fw_fail_at(fw_status status, const char *file, const char *function, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));

/* Put context before the message of the trail: "reading model.safetensors: " + message. Returns `status`. */
fw_status fw_fail_context(fw_status status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Note that `status` passed through this place. Returns `status`. Used by the macros. */
fw_status fw_trail_push(fw_status status, const char *file, const char *function, int line);

/* Message of this thread's last failure; "" when there was none. Owned by the thread. */
const char *fw_trail_message(void);
void fw_trail_copy(fw_trail *out);
void fw_trail_restore(const fw_trail *trail);

/* "option", "input", ...; never NULL. */
const char *fw_status_name(fw_status status);
int fw_status_exit_code(fw_status status);

#define FW_TRY(call)                                                                                                   \
    do {                                                                                                               \
        fw_status fw_try_status_ = (call);                                                                             \
        if (fw_try_status_ != FW_OK) return fw_trail_push(fw_try_status_, __FILE__, __func__, __LINE__);               \
    } while (0)

/* The same for functions with something to clean up: needs `fw_status status` in scope. */
#define FW_TRY_OR(call, label)                                                                                         \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != FW_OK) {                                                                                         \
            fw_trail_push(status, __FILE__, __func__, __LINE__);                                                       \
            goto label;                                                                                                \
        }                                                                                                              \
    } while (0)

/* For our own bugs only, never for bad input: stops the process with file and line. */
#define FW_ASSERT(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) fw_assert_failed(#condition, __FILE__, __LINE__);                                            \
    } while (0)
_Noreturn void fw_assert_failed(const char *condition, const char *file, int line);

#endif
