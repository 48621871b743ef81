/* Let a model answer: a prompt, the chat template, token after token with cached keys and values. */
#ifndef FW_TRAIN_GENERATE_H
#define FW_TRAIN_GENERATE_H

#include "config/options.h"

/* Gets the text as it comes, whole characters only. */
typedef fw_status (*fw_text_sink)(void *context, const char *text, size_t text_bytes);

typedef struct fw_generate_result {
    int64_t prompt_n, answer_n; /* tokens; the one that ended the answer is not counted */
    bool ended;                 /* by an end-of-turn token; false: max_new_tokens or the model's context was reached */
    bool interrupted;           /* by a signal: the answer stops short */
    double prompt_s, answer_s;
} fw_generate_result;

/* One process, options of the command generate. Stops at the end of the turn (with raw: at the end-of-text token).
 * Errors: as loading a model; FW_ERR_OPTION when the prompt fills the model's context. */
fw_status fw_generate_run(const fw_options *options, fw_text_sink sink, void *context, fw_generate_result *result);

#endif
