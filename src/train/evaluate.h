/* Loss and perplexity of a model on a file of conversations. */
#ifndef FW_TRAIN_EVALUATE_H
#define FW_TRAIN_EVALUATE_H

#include "config/options.h"

#include <stdint.h>

typedef struct fw_evaluate_result {
    int rank, world;
    int64_t sample_n, dropped_n, token_n, target_n;
    double loss, perplexity; /* mean over targets, and its exponential */
    double seconds, tokens_per_s;
    uint64_t peak_bytes;
} fw_evaluate_result;

/* Every target counts once, whatever the batch size and the number of ranks. Collective. *reports: see trainer.h. */
fw_status fw_evaluate_run(const fw_options *options, fw_evaluate_result *result, bool *reports);

#endif
