#include "data/row_place.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *key;
} reasons[FW_DROP_REASON_N + 1] = {
    [FW_DROP_JSON] = {"cannot be read: not JSON, a quote that is not closed, or not UTF-8", "json"},
    [FW_DROP_SHAPE] = {"not a shape that is read", "shape"},
    [FW_DROP_EMPTY] = {"no messages", "empty"},
    [FW_DROP_ROLE] = {"an unknown role", "role"},
    [FW_DROP_CONTENT] = {"content that is no text", "content"},
    [FW_DROP_MEDIA] = {"images, sound or video", "media"},
    [FW_DROP_TOOLS] = {"tools or tool calls that cannot be read", "tools"},
    [FW_DROP_MARK] = {"a weight or mark that cannot be used", "mark"},
    [FW_DROP_TEMPLATE] = {"refused by the chat template", "template"},
    [FW_DROP_CALL_LOST] = {"a tool call that the chat template does not write: an empty answer would be learnt",
                           "tool_call_lost"},
    [FW_DROP_VOCABULARY] = {"tokens that the model does not have", "vocabulary"},
    [FW_DROP_ROW_N] = {"unknown", "unknown"},
    [FW_DROP_NO_ASSISTANT] = {"no assistant turn", "no_assistant"},
    [FW_DROP_NO_ANSWER] = {"an empty answer", "no_answer"},
    [FW_DROP_NO_TARGET] = {"nothing marked to be learnt", "no_target"},
    [FW_DROP_TRUNCATED] = {"nothing to learn within max_length", "truncated"},
    [FW_DROP_TOO_LONG] = {"longer than max_length", "too_long"},
    [FW_DROP_REASON_N] = {"unknown", "unknown"},
};

static fw_drop_reason known(fw_drop_reason reason) {
    return (unsigned)reason < FW_DROP_REASON_N ? reason : FW_DROP_REASON_N;
}

const char *fw_drop_reason_name(fw_drop_reason reason) { return reasons[known(reason)].name; }
const char *fw_drop_reason_key(fw_drop_reason reason) { return reasons[known(reason)].key; }

fw_status fw_row_refuse(fw_row_place *place, fw_drop_reason reason, const char *format, ...) {
    char message[FW_TRAIL_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    place->reason = reason;
    return fw_fail(FW_ERR_INPUT, "%s:%lld: %s", place->file, (long long)place->line, message);
}
