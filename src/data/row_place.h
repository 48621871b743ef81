/* Where a row stands, and why it cannot be used. */
#ifndef FW_DATA_ROW_PLACE_H
#define FW_DATA_ROW_PLACE_H

#include "base/status.h"

#include <stdint.h>

/* Why a row takes no part. What comes before FW_DROP_ROW_N is a fault of the row and an error unless it is allowed
 * (allow_dropped); what comes after follows from the options and is counted. */
typedef enum fw_drop_reason {
    FW_DROP_JSON,         /* not JSON, or not UTF-8 */
    FW_DROP_SHAPE,        /* none of the shapes that are read, or not the one of its file */
    FW_DROP_EMPTY,        /* no message */
    FW_DROP_ROLE,         /* an unknown role */
    FW_DROP_CONTENT,      /* content that is no text */
    FW_DROP_MEDIA,        /* an image, sound or film */
    FW_DROP_TOOLS,        /* tools or tool calls that cannot be read */
    FW_DROP_MARK,         /* a loss_weight or a mark that cannot be used */
    FW_DROP_TEMPLATE,     /* the chat template refuses it */
    FW_DROP_CALL_LOST,    /* an answer is a tool call that the chat template does not write */
    FW_DROP_VOCABULARY,   /* a token that the model does not have */
    FW_DROP_ROW_N,        /* so many are faults of the row */
    FW_DROP_NO_ASSISTANT, /* no assistant turn, so nothing to learn */
    FW_DROP_NO_ANSWER,    /* the answer is empty, where it is all that there is to learn */
    FW_DROP_NO_TARGET,    /* its marks leave nothing to learn */
    FW_DROP_TRUNCATED,    /* every target lies beyond max_length */
    FW_DROP_TOO_LONG,     /* longer than max_length, and such are to be dropped */
    FW_DROP_REASON_N
} fw_drop_reason;
/* "no assistant turn", ...: for reports. */
const char *fw_drop_reason_name(fw_drop_reason reason);
/* "no_assistant", ...: a key for programs. */
const char *fw_drop_reason_key(fw_drop_reason reason);

typedef struct fw_row_place {
    const char *file; /* borrowed */
    int64_t line;     /* of a text file; the row of a Parquet file, and of an array that goes over few lines; from 1 */
    fw_drop_reason reason; /* of the last refusal; FW_DROP_REASON_N: none */
} fw_row_place;

/* Most that one row may be: it goes through rendering and tokenising as a whole, at some 50 bytes of memory for each of its
 * own. Far above any context length. */
enum { FW_ROW_BYTES_MAX = 64 << 20 };

/* Note the reason and fail: "FILE:LINE: " and the message. Returns FW_ERR_INPUT. */
fw_status fw_row_refuse(fw_row_place *place, fw_drop_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

#endif
