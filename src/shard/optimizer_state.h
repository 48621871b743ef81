/* What each optimizer keeps of a parameter, besides its fp32 master weights: names, types and shapes of the arrays. The
 * same names are in checkpoints (docs/checkpoint-format.md).
 *
 *   adamw_torch, lamb   exp_avg, exp_avg_sq             fp32, one value an element
 *   sgd                 nothing; with momentum momentum_buffer, fp32, one an element
 *   lion_32bit          exp_avg                         fp32, one an element
 *   adafactor           exp_avg_sq_row, exp_avg_sq_col  fp32, one a row and one a column of a matrix
 *                       exp_avg_sq                      fp32, one an element of a vector
 *   adamw_8bit          state1, absmax1, state2, absmax2: a code (a byte) an element, and for each block of 256 elements,
 *                       counted from the tensor's start, what the codes are parts of (fp32), as bitsandbytes has them
 *   lion_8bit           state1, absmax1
 *
 * 8-bit optimizers keep some tensors in fp32 as the 32-bit ones do: those of less than 4096 elements (bitsandbytes' rule),
 * the input embedding (transformers'), and, so that no block lies on two ranks, those that do not start at a multiple of
 * 256 elements of their unit. */
#ifndef FW_SHARD_OPTIMIZER_STATE_H
#define FW_SHARD_OPTIMIZER_STATE_H

#include "base/dtype.h"
#include "model/param_table.h"

typedef enum fw_optimizer {
    FW_OPTIMIZER_ADAMW,
    FW_OPTIMIZER_SGD,
    FW_OPTIMIZER_SGD_MOMENTUM,
    FW_OPTIMIZER_LION,
    FW_OPTIMIZER_LAMB,
    FW_OPTIMIZER_ADAFACTOR,
    FW_OPTIMIZER_ADAMW_8BIT,
    FW_OPTIMIZER_LION_8BIT,
    FW_OPTIMIZER_N
} fw_optimizer;
/* "adamw_torch", ...: as checkpoints name it. */
const char *fw_optimizer_name(fw_optimizer optimizer);
/* FW_OPTIMIZER_N: there is none of that name. */
fw_optimizer fw_optimizer_by_name(const char *name);

typedef enum fw_state_shape { FW_STATE_ELEMENT, FW_STATE_BLOCK, FW_STATE_ROW, FW_STATE_COLUMN } fw_state_shape;

typedef struct fw_state_array {
    const char *name;
    fw_dtype t; /* FW_F32 or FW_U8 */
    fw_state_shape shape;
} fw_state_array;

enum { FW_STATE_ARRAYS_MAX = 4, FW_STATE_DENSE_MAX = 2, FW_STATE_BLOCK_N = 256, FW_STATE_8BIT_MIN_N = 4096 };

/* The arrays of a parameter, in the order in which they lie; returns how many. */
int fw_state_arrays(fw_state_array out[FW_STATE_ARRAYS_MAX], fw_optimizer optimizer, const fw_param *param);
/* Arrays of one fp32 value an element, of all parameters alike: their number, and 0 with *by_tensor when parameters have
 * arrays of different kinds. */
int fw_state_dense_arrays(fw_optimizer optimizer, bool *by_tensor);
/* Whether an 8-bit optimizer keeps it in 8 bits. */
bool fw_state_is_8bit(const fw_param *param);

/* Elements [first_n, first_n + n) of a parameter, or values of one of its arrays. */
typedef struct fw_state_range {
    int64_t first_n, n;
} fw_state_range;
/* All values of an array, whatever of the parameter they belong to. */
int64_t fw_state_whole_n(const fw_state_array *array, const fw_param *param);
/* The values that a rank with these elements holds: rows and columns as a whole, on every rank that has any element. */
fw_state_range fw_state_held(const fw_state_array *array, const fw_param *param, fw_state_range elements);
/* Those of them that it saves: rows and columns only with element 0. */
fw_state_range fw_state_saved(const fw_state_array *array, const fw_param *param, fw_state_range elements);

/* What [first_n, first_n + n) of a unit has of a parameter: elements of the parameter; n may be 0. */
fw_state_range fw_state_of_param(const fw_param *param, int64_t first_n, int64_t n);

#endif
