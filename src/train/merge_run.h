/* An adapter becomes part of its base's weights, and the result is compared with base and adapter. */
#ifndef FW_TRAIN_MERGE_RUN_H
#define FW_TRAIN_MERGE_RUN_H

#include "config/options.h"

#include <stdint.h>

typedef struct fw_merge_result {
    char *base;         /* the model's folder */
    uint64_t base_hash; /* of its weights: fw_model_folder_hash */
    const char
        *base_quantization; /* "nf4", ...: merged into the numbers that these stand for; NULL: it is not in 4 bits */
    int64_t adapted_n;      /* matrices that had an adapter */
    int64_t whole_n;        /* parameters that were trained as a whole */
    char *why_not_compared; /* NULL: the rest is known */
    int64_t token_n;
    double difference; /* the largest of any logit, and the largest logit itself */
    double largest;
    int64_t same_n; /* of the tokens: the likeliest next one is the same */
} fw_merge_result;

/* Options of the command merge. Logits are computed in fp32, over the beginning of a fixed text. Errors: those of opening a model and an
 * adapter; FW_ERR_INPUT when the adapter was trained on other weights (--force merges all the same); those of writing a model. That
 * the merged model could not be compared is none. The result needs fini whatever the status. */
fw_status fw_merge_run(const fw_options *options, fw_merge_result *result);
void fw_merge_result_fini(fw_merge_result *result);

#endif
