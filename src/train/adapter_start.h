/* What is trained beside a frozen model, before the first step. */
#ifndef FW_TRAIN_ADAPTER_START_H
#define FW_TRAIN_ADAPTER_START_H

#include "model/model.h"
#include "store/packed_weights.h"

typedef struct fw_adapter_start {
    const fw_model *model;         /* adapted */
    const fw_model_folder *folder; /* of the model that is frozen */
    fw_packed_weights *packed;     /* its frozen weights are computed with in 4 bits; NULL: they are not */
    uint64_t seed;
} fw_adapter_start;

/* A fw_unit_reader (shard/shard.h) of trained units; context: a fw_adapter_start. A and B are as fw_adapter_fill_initial
 * has them, modules that are trained whole have the model's values, magnitudes of DoRA are |W + s B A| of every row, of
 * weights in the type that the model computes in. Errors: FW_ERR_NOMEM. */
fw_status fw_adapter_read_start(void *context, int32_t unit, int64_t first_n, int64_t n, float *out);

#endif
