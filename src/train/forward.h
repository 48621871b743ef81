/* One document through the model, for its logits: generation, and comparing models. */
#ifndef FW_TRAIN_FORWARD_H
#define FW_TRAIN_FORWARD_H

#include "train/job.h"

/* Keys and values of what came before, of all blocks, on the device; kv NULL: nothing came before and nothing is kept. */
typedef struct fw_forward_cache {
    char *kv;
    size_t block_bytes; /* of one block */
    int64_t length;     /* rows that are there: the position of the next token */
} fw_forward_cache;

/* logits [logit_n, V], fp32 on the device = those of the last logit_n of the n tokens. The job is allocated for n rows, and for
 * logit_n with logits. The caller adds n to cache->length. */
fw_status fw_forward(fw_job *job, const int32_t *id, int64_t n, const fw_forward_cache *cache, int64_t logit_n,
                     float *logits);

#endif
