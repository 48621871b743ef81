/* Conversations as tokens, ready to be trained on.
 *
 * A dataset is one flat array of token ids with a flag per token ("trained": the model is to learn to
 * predict this token), cut into samples, one conversation each. Token i is a *target* when it is trained and
 * i > 0 inside its sample: the first token has nothing before it to be predicted from.
 *
 * Conversations longer than max_length keep their first max_length tokens and are counted. A conversation
 * that has no target left is dropped and counted by reason: it would add nothing to any gradient. A file
 * without one target is an error. The result does not depend on the number of threads. */
#ifndef FW_DATA_DATASET_H
#define FW_DATA_DATASET_H

#include "base/status.h"
#include "base/threads.h"
#include "data/row_place.h"
#include "text/chat.h"

#include <stdint.h>

typedef struct fw_dataset_options {
    int64_t max_length;  /* tokens kept of one conversation; 0: all */
    int64_t vocab_size;  /* rows of the model's embedding: every id must be below; 0: not checked */
    fw_threads *threads; /* borrowed during the load; NULL: one thread */
    int all_tokens;      /* learn every token, not only what the template marks (assistant_only_loss false) */
} fw_dataset_options;

typedef struct fw_dataset_stats {
    int64_t conversation_n;           /* in the file: kept + dropped */
    int64_t drop_n[FW_DROP_REASON_N]; /* by reason */
    int64_t truncated_n;              /* kept, but cut to max_length */
    int64_t truncated_token_n;        /* tokens cut off them */
    int64_t token_n, target_n;        /* of the kept */
    int64_t longest_n;                /* tokens of the longest kept */
    int64_t reasoning_dropped_n;      /* assistant messages whose reasoning the template leaves out */
} fw_dataset_stats;

/* Read-only for users. Sample s is id[first[s]] .. id[first[s + 1] - 1]. */
typedef struct fw_dataset {
    char *name;       /* the path, for messages */
    int32_t *id;      /* token_n */
    uint8_t *trained; /* token_n, 0 or 1 */
    int64_t *first;   /* sample_n + 1 */
    int64_t *target;  /* sample_n: targets of each sample */
    int64_t sample_n;
    fw_dataset_stats stats;
    uint64_t hash; /* of ids, flags and cuts: tells a resumed run that the data is the same */
    fw_dataset_options options;
    int64_t token_cap, sample_cap;
} fw_dataset;

/* Read a file of conversations (data/reader.h), render and tokenise them.
 * Errors: FW_ERR_INPUT (see the reader; an id outside the vocabulary; no target), FW_ERR_NOMEM. */
fw_status fw_dataset_load(fw_dataset **out, const char *path, const fw_tokenizer *tokenizer,
                          const fw_chat_template *chat, const fw_dataset_options *options);
void fw_dataset_destroy(fw_dataset *d); /* takes NULL */

/* The same from tokens: create, add every conversation, finish. `line` is where it stands in the file, for
 * messages. has_assistant tells the two drop reasons apart. add copies. Errors as above. */
fw_status fw_dataset_create(fw_dataset **out, const char *name, const fw_dataset_options *options);
fw_status fw_dataset_add(fw_dataset *d, const int32_t *id, const uint8_t *trained, int64_t n, int has_assistant,
                         int64_t line);
/* Append all samples and counts of `other`. */
fw_status fw_dataset_join(fw_dataset *d, const fw_dataset *other);
fw_status fw_dataset_finish(fw_dataset *d);

/* How many samples have more than n tokens. */
int64_t fw_dataset_longer_than(const fw_dataset *d, int64_t n);

#endif
