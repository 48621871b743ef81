/* How a run of elements of a tensor is cut into the rectangles that the file format knows. Internal to the room.
 *
 * A rank owns a flat range of a unit, so of a tensor [rows, cols] it has the elements [first, first + n) in row-major
 * order. PyTorch's distributed-checkpoint form stores boxes: an offset and a size in each dimension, one box a tensor and
 * file. So a run is cut into at most three pieces, each a box and a run at once: the end of a row, whole rows, the
 * beginning of a row. The k-th piece goes into the rank's k-th file. */
#ifndef FW_STORE_CHECKPOINT_PIECES_H
#define FW_STORE_CHECKPOINT_PIECES_H

#include "store/checkpoint.h"

enum { FW_PIECES_MAX = 3, FW_PIECE_NAME_BYTES = FW_PARAM_NAME_BYTES + 32 };

typedef struct fw_piece {
    int rank;                   /* of the tensor: 1 or 2 */
    int64_t offset[2], size[2]; /* the box */
    int64_t first_n, n;         /* the run: elements from the tensor's start */
} fw_piece;

/* Returns how many pieces [first_n, first_n + n) of a parameter makes. */
int fw_pieces_cut(fw_piece piece[FW_PIECES_MAX], const fw_param *param, int64_t first_n, int64_t n);
/* The run of a box; false when the box is not one, or lies outside of [shape]. */
bool fw_piece_run(int64_t *first_n, int64_t *n, const int64_t *offset, const int64_t *size, const int64_t *shape,
                  int rank);

/* An array of a parameter as a tensor of files. */
typedef struct fw_piece_tensor {
    char name[FW_PIECE_NAME_BYTES]; /* the parameter's own, "optimizer.state.NAME.exp_avg", "...exp_avg_sq", ... */
    fw_stored_dtype dtype;
    size_t value_bytes;
    fw_param shape;       /* rows, cols and n of the tensor */
    fw_state_array array; /* name NULL: the weights */
} fw_piece_tensor;
/* All arrays of a parameter; returns how many. */
int fw_piece_tensors(fw_piece_tensor out[FW_CHECKPOINT_ARRAYS_MAX], fw_optimizer optimizer, const fw_param *param);
/* Values that a share with these elements of the parameter writes. */
fw_checkpoint_range fw_piece_values(const fw_piece_tensor *tensor, const fw_param *param, fw_checkpoint_range elements);
/* "shard-00002-model-00001-of-00003.safetensors": file `file` (from 0) of the files of a place. */
enum { FW_PIECE_FILE_BYTES = 64 };
void fw_piece_file_name(char name[FW_PIECE_FILE_BYTES], int place, int file, int file_n);

/* What a range of a unit has of a parameter: elements of the parameter; n may be 0. */
fw_checkpoint_range fw_pieces_of_param(const fw_param *param, fw_checkpoint_range range);

#endif
