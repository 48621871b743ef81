/* Conversations as tokens, ready to be trained on.
 *
 * A dataset is one flat array of token ids with a flag per token ("trained": the model is to learn to
 * predict this token), cut into samples, one conversation each. Token i is a *target* when it is trained and
 * i > 0 inside its sample: the first token has nothing before it to be predicted from. A target counts as one in the
 * loss, but for those in `run` (data/weight_runs.h).
 *
 * Conversations longer than max_length are cut or dropped and counted. A conversation that has no target left
 * is dropped and counted by reason: it would add nothing to any gradient. A set without one target is an error.
 * The result does not depend on the number of threads, nor on where the tokens come from: memory, or the cache
 * (data/cache.h), of which they are mapped. */
#ifndef FW_DATA_DATASET_H
#define FW_DATA_DATASET_H

#include "base/file.h"
#include "base/loss_weight.h"
#include "base/status.h"
#include "base/threads.h"
#include "data/conversation_encode.h"
#include "data/reader.h"
#include "data/sources.h"

#include <stdint.h>

/* What becomes of a conversation with more than max_length tokens. */
typedef enum fw_truncation { FW_TRUNCATE_KEEP_START, FW_TRUNCATE_KEEP_END, FW_TRUNCATE_DROP } fw_truncation;

typedef struct fw_dataset_options {
    int64_t max_length; /* tokens kept of one conversation; 0: all */
    fw_truncation truncation;
    int64_t vocab_size;       /* rows of the model's embedding: every id must be below; 0: not checked */
    fw_threads *threads;      /* borrowed during the load; NULL: one thread */
    fw_label_options labels;  /* what is learnt */
    fw_reader_options reader; /* shape, text field; its texts are borrowed during the load */
    int allow_dropped;        /* rows that cannot be read are left out and counted; 0: they are errors */
    int allow_empty;          /* a set without a target is no error: for reports */
    void (*progress)(void *context, int64_t done_n, int64_t all_n); /* rows read; NULL: nobody asks */
    void *progress_context;
    int (*stop)(void); /* asked now and then: not 0 ends the load with FW_ERR_INTERRUPTED; NULL: nobody does */
} fw_dataset_options;

typedef struct fw_dataset_stats {
    int64_t conversation_n;             /* in the files: kept + dropped */
    int64_t drop_n[FW_DROP_REASON_N];   /* by reason */
    int64_t truncated_n;                /* kept, but cut to max_length */
    int64_t truncated_token_n;          /* tokens cut off them */
    int64_t token_n, target_n;          /* of the kept */
    int64_t weight;                     /* sum of the targets' weights, in units of fw_loss_weight */
    int64_t longest_n;                  /* tokens of the longest kept */
    int64_t left_out_n[FW_CHAT_LEFT_N]; /* what the template writes nothing of */
    int64_t mark_ignored_n;             /* messages marked to be learnt that {% generation %} blocks leave out */
    int64_t spelt_n;                    /* rows of plain text with the spelling of a control token, which stays text */
} fw_dataset_stats;

/* One conversation: its tokens are id[first] .. id[first + n - 1]. */
typedef struct fw_sample {
    int64_t first;
    int32_t n, target_n;
    uint64_t hash; /* of its ids, flags and weights */
    int64_t line;  /* where it stands in its source */
    int32_t source;
    int32_t reserved; /* 0 */
} fw_sample;

/* Targets of one sample, neighbours, that have one weight, and that not 1. */
typedef struct fw_weight_run {
    int64_t first; /* token */
    int32_t n;
    fw_loss_weight weight;
} fw_weight_run;

/* A file that was read. */
typedef struct fw_dataset_source {
    char *path;
    fw_format format;
    fw_shape shape;
    int64_t row_n, used_n;
    int32_t set; /* which of the sets that were named */
} fw_dataset_source;

/* A row that takes no part. */
typedef struct fw_dropped {
    fw_drop_reason reason;
    int32_t source;
    int64_t line;
    char *message; /* with file and line */
} fw_dropped;
enum { FW_DROPPED_LISTED_MAX = 100000 }; /* more are counted only */

/* Read-only for users. */
typedef struct fw_dataset {
    char *name;       /* what was asked for, for messages */
    int32_t *id;      /* stats.token_n, or all of those that it is a selection of */
    uint8_t *trained; /* as many, 0 or 1 */
    fw_sample *sample;
    int64_t sample_n;
    fw_weight_run *run; /* in the order of the tokens; of all samples, or of all those that it is a selection of */
    int64_t run_n;      /* 0: every target counts the same */
    fw_dataset_source *source;
    int32_t source_n;
    fw_dropped *dropped;
    int64_t dropped_n; /* listed */
    fw_dataset_stats stats;
    uint64_t hash; /* of what is learnt and in which order: tells a resumed run that the data is the same */
    fw_dataset_options options;
    /* ---- inside ---- */
    int64_t token_cap, sample_cap, run_cap, dropped_cap;
    int from_cache;                /* the tokens are mapped */
    fw_mapping mapping;            /* holds id, trained, sample and run when its data is not NULL */
    struct fw_cache_writer *spill; /* tokens go there while it is made */
    struct fw_dataset *base;       /* holds id, trained and run of a selection */
    int user_n;                    /* selections that use it */
} fw_dataset;

/* Read all sources, render and tokenise them, into memory.
 * Errors: FW_ERR_INPUT (see the reader; an id outside the vocabulary; no target), FW_ERR_NOMEM. */
fw_status fw_dataset_load_sources(fw_dataset **out, const fw_sources *sources, const fw_tokenizer *tokenizer,
                                  const fw_chat_template *chat, const fw_dataset_options *options);
/* The same of one file. */
fw_status fw_dataset_load(fw_dataset **out, const char *path, const fw_tokenizer *tokenizer,
                          const fw_chat_template *chat, const fw_dataset_options *options);
void fw_dataset_destroy(fw_dataset *d); /* takes NULL */

/* The same from tokens: create, add every conversation, finish. `line` is where it stands in the file, for
 * messages. has_assistant tells the drop reasons apart. add copies. Errors as above. */
fw_status fw_dataset_create(fw_dataset **out, const char *name, const fw_dataset_options *options);
fw_status fw_dataset_add(fw_dataset *d, const int32_t *id, const uint8_t *trained, int64_t n, int has_assistant,
                         int64_t line);
/* With the weights of the tokens that are trained, all above 0; NULL: all are one. */
fw_status fw_dataset_add_weighted(fw_dataset *d, const int32_t *id, const uint8_t *trained,
                                  const fw_loss_weight *weight, int64_t n, int has_assistant, int64_t line);
/* Count a row that takes no part; the message is that of this thread's trail. */
fw_status fw_dataset_drop(fw_dataset *d, fw_drop_reason reason, int64_t line);
/* What is added from now on is of this file. */
fw_status fw_dataset_add_source(fw_dataset *d, const char *path, fw_format format, fw_shape shape, int32_t set);
/* Append all samples and counts of `other`, whose rows are of d's last source. */
fw_status fw_dataset_join(fw_dataset *d, const fw_dataset *other);
fw_status fw_dataset_finish(fw_dataset *d);
/* What the options borrow is for the load only. */
void fw_dataset_forget_borrowed(fw_dataset *d);

/* Fill the empty dataset d from all sources, and finish it. */
fw_status fw_dataset_fill(fw_dataset *d, const fw_sources *sources, const fw_tokenizer *tokenizer,
                          const fw_chat_template *chat, const fw_dataset_options *options);
/* FW_ERR_INTERRUPTED when `stop` says so. */
fw_status fw_dataset_check_stop(int (*stop)(void));
/* fw_dataset_finish's question: is there anything to learn, of each set? Errors: FW_ERR_INPUT, with the reasons. */
fw_status fw_dataset_check_targets(const fw_dataset *d);

/* How many samples have more than n tokens. */
int64_t fw_dataset_longer_than(const fw_dataset *d, int64_t n);
/* Rows that were dropped. */
int64_t fw_dataset_dropped_n(const fw_dataset *d);

/* Bytes of memory that the dataset holds; what is mapped is not counted. */
size_t fw_dataset_bytes(const fw_dataset *d);

#endif
