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

void fw_piece_tensor_name(char name[FW_PIECE_NAME_BYTES], fw_checkpoint_array array, const char *param) {
    static const char *const moment[FW_CHECKPOINT_ARRAY_N] = {NULL, "exp_avg", "exp_avg_sq"};
    if (moment[array] == NULL)
        snprintf(name, FW_PIECE_NAME_BYTES, "%s", param);
    else
        snprintf(name, FW_PIECE_NAME_BYTES, "optimizer.state.%s.%s", param, moment[array]);
}

void fw_piece_file_name(char name[FW_PIECE_FILE_BYTES], int place, int file, int file_n) {
    snprintf(name, FW_PIECE_FILE_BYTES, "shard-%05d-model-%05d-of-%05d.safetensors", place + 1, file + 1, file_n);
}

fw_checkpoint_range fw_pieces_of_param(const fw_param *param, fw_checkpoint_range range) {
    int64_t from = range.first_n > param->offset_n ? range.first_n - param->offset_n : 0;
    int64_t to = smaller(range.first_n + range.n - param->offset_n, param->n);
    return from < to ? (fw_checkpoint_range){from, to - from} : (fw_checkpoint_range){0, 0};
}
