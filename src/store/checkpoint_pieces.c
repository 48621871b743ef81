#include "store/checkpoint_pieces.h"

#include <stdio.h>

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int fw_pieces_cut(fw_piece piece[FW_PIECES_MAX], const fw_param *param, int64_t first_n, int64_t n) {
    int64_t cols = param->cols, end = first_n + n;
    int count = 0;
    if (cols == 0) {
        if (n > 0) piece[count++] = (fw_piece){1, {first_n}, {n}, first_n, n};
        return count;
    }
    for (int64_t at = first_n; at < end; count++) {
        int64_t row = at / cols, col = at % cols, whole = col == 0 ? (end - at) / cols : 0;
        fw_piece *p = &piece[count];
        if (whole > 0)
            *p = (fw_piece){2, {row, 0}, {whole, cols}, at, whole * cols};
        else
            *p = (fw_piece){2, {row, col}, {1, smaller(cols - col, end - at)}, at, smaller(cols - col, end - at)};
        at += p->n;
    }
    return count;
}

bool fw_piece_run(int64_t *first_n, int64_t *n, const int64_t *offset, const int64_t *size, const int64_t *shape,
                  int rank) {
    for (int i = 0; i < rank; i++)
        if (offset[i] < 0 || size[i] < 1 || size[i] > shape[i] || offset[i] > shape[i] - size[i]) return false;
    if (rank == 1) {
        *first_n = offset[0];
        *n = size[0];
        return true;
    }
    if (rank != 2 || (size[0] > 1 && size[1] != shape[1])) return false;
    *first_n = offset[0] * shape[1] + offset[1];
    *n = size[0] * size[1];
    return true;
}

int fw_piece_tensors(fw_piece_tensor out[FW_CHECKPOINT_ARRAYS_MAX], fw_optimizer optimizer, const fw_param *p) {
    fw_state_array array[FW_STATE_ARRAYS_MAX];
    const int n = fw_state_arrays(array, optimizer, p);
    out[0] = (fw_piece_tensor){.dtype = FW_STORED_F32, .value_bytes = sizeof(float), .shape = *p};
    snprintf(out[0].name, sizeof out[0].name, "%s", p->name);
    for (int k = 0; k < n; k++) {
        fw_piece_tensor *t = &out[1 + k];
        *t = (fw_piece_tensor){.dtype = fw_stored_dtype_of(array[k].t),
                               .value_bytes = fw_dtype_bytes(array[k].t),
                               .shape = *p,
                               .array = array[k]};
        snprintf(t->name, sizeof t->name, "optimizer.state.%s.%s", p->name, array[k].name);
        if (array[k].shape == FW_STATE_ELEMENT) continue;
        t->shape.rows = t->shape.n = fw_state_whole_n(&array[k], p);
        t->shape.cols = 0;
    }
    return 1 + n;
}

fw_checkpoint_range fw_piece_values(const fw_piece_tensor *t, const fw_param *p, fw_checkpoint_range elements) {
    if (t->array.name == NULL) return elements;
    const fw_state_range r = fw_state_saved(&t->array, p, (fw_state_range){elements.first_n, elements.n});
    return (fw_checkpoint_range){r.first_n, r.n};
}

void fw_piece_file_name(char name[FW_PIECE_FILE_BYTES], int place, int file, int file_n) {
    snprintf(name, FW_PIECE_FILE_BYTES, "shard-%05d-model-%05d-of-%05d.safetensors", place + 1, file + 1, file_n);
}

fw_checkpoint_range fw_pieces_of_param(const fw_param *param, fw_checkpoint_range range) {
    const fw_state_range r = fw_state_of_param(param, range.first_n, range.n);
    return (fw_checkpoint_range){r.first_n, r.n};
}
