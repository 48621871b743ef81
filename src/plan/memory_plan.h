/* What one rank will take, row by row, before anything is taken. The sizes come from the same functions that allocate,
 * so the plan and the allocation cannot differ. Allocates nothing. */
#ifndef FW_PLAN_MEMORY_PLAN_H
#define FW_PLAN_MEMORY_PLAN_H

#include "model/model.h"
#include "shard/shard.h"

enum { FW_PLAN_ROWS_MAX = 16 };

typedef struct fw_memory_plan {
    struct {
        const char *what; /* "weights (fp32)" */
        size_t bytes;
    } row[FW_PLAN_ROWS_MAX];
    int row_n;
    size_t total_bytes; /* of one rank */
} fw_memory_plan;

/* scratch_bytes: of the device, for the activations' limits. tokens_bytes: the micro-batch and the dataset. */
void fw_memory_plan_make(fw_memory_plan *out, const fw_shard_bytes *state, const fw_activations *activations,
                         size_t scratch_bytes, size_t tokens_bytes);

/* Do `ranks` ranks of this plan fit into available_bytes, shared by all? Error: FW_ERR_FIT with both figures, the
 * largest row and what would help. */
fw_status fw_memory_plan_check(const fw_memory_plan *plan, int ranks, uint64_t available_bytes);

#endif
