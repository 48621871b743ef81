#include "shard/optimizer_state.h"

#include <string.h>

static const char *const names[FW_OPTIMIZER_N] = {[FW_OPTIMIZER_ADAMW] = "adamw_torch",
                                                  [FW_OPTIMIZER_SGD] = "sgd",
                                                  [FW_OPTIMIZER_SGD_MOMENTUM] = "sgd_momentum",
                                                  [FW_OPTIMIZER_LION] = "lion_32bit",
                                                  [FW_OPTIMIZER_LAMB] = "lamb",
                                                  [FW_OPTIMIZER_ADAFACTOR] = "adafactor",
                                                  [FW_OPTIMIZER_ADAMW_8BIT] = "adamw_8bit",
                                                  [FW_OPTIMIZER_LION_8BIT] = "lion_8bit"};

const char *fw_optimizer_name(fw_optimizer optimizer) {
    return (unsigned)optimizer < FW_OPTIMIZER_N ? names[optimizer] : "unknown";
}

fw_optimizer fw_optimizer_by_name(const char *name) {
    for (int k = 0; k < FW_OPTIMIZER_N; k++)
        if (strcmp(name, names[k]) == 0) return (fw_optimizer)k;
    return FW_OPTIMIZER_N;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), end_n = strlen(end);
    return n >= end_n && strcmp(text + n - end_n, end) == 0;
}

bool fw_state_is_8bit(const fw_param *p) {
    return p->n >= FW_STATE_8BIT_MIN_N && p->offset_n % FW_STATE_BLOCK_N == 0 &&
           !ends_with(p->name, "embed_tokens.weight");
}

int fw_state_dense_arrays(fw_optimizer optimizer, bool *by_tensor) {
    *by_tensor = false;
    switch (optimizer) {
    case FW_OPTIMIZER_ADAMW:
    case FW_OPTIMIZER_LAMB: return 2;
    case FW_OPTIMIZER_SGD_MOMENTUM:
    case FW_OPTIMIZER_LION: return 1;
    case FW_OPTIMIZER_SGD: return 0;
    case FW_OPTIMIZER_ADAFACTOR:
    case FW_OPTIMIZER_ADAMW_8BIT:
    case FW_OPTIMIZER_LION_8BIT: *by_tensor = true; return 0;
    case FW_OPTIMIZER_N: break;
    }
    return 0;
}

int fw_state_arrays(fw_state_array out[FW_STATE_ARRAYS_MAX], fw_optimizer optimizer, const fw_param *p) {
    static const fw_state_array exp_avg = {"exp_avg", FW_F32, FW_STATE_ELEMENT},
                                exp_avg_sq = {"exp_avg_sq", FW_F32, FW_STATE_ELEMENT},
                                momentum = {"momentum_buffer", FW_F32, FW_STATE_ELEMENT},
                                row = {"exp_avg_sq_row", FW_F32, FW_STATE_ROW},
                                column = {"exp_avg_sq_col", FW_F32, FW_STATE_COLUMN},
                                code[2] = {{"state1", FW_U8, FW_STATE_ELEMENT}, {"state2", FW_U8, FW_STATE_ELEMENT}},
                                scale[2] = {{"absmax1", FW_F32, FW_STATE_BLOCK}, {"absmax2", FW_F32, FW_STATE_BLOCK}};
    int n = 0;
    switch (optimizer) {
    case FW_OPTIMIZER_ADAMW_8BIT:
    case FW_OPTIMIZER_LION_8BIT:
        if (fw_state_is_8bit(p)) {
            for (int k = 0; k < (optimizer == FW_OPTIMIZER_ADAMW_8BIT ? 2 : 1); k++) {
                out[n++] = code[k];
                out[n++] = scale[k];
            }
            break;
        }
        out[n++] = exp_avg;
        if (optimizer == FW_OPTIMIZER_ADAMW_8BIT) out[n++] = exp_avg_sq;
        break;
    case FW_OPTIMIZER_ADAMW:
    case FW_OPTIMIZER_LAMB:
        out[n++] = exp_avg;
        out[n++] = exp_avg_sq;
        break;
    case FW_OPTIMIZER_LION: out[n++] = exp_avg; break;
    case FW_OPTIMIZER_SGD_MOMENTUM: out[n++] = momentum; break;
    case FW_OPTIMIZER_ADAFACTOR:
        if (p->cols == 0) {
            out[n++] = exp_avg_sq;
            break;
        }
        out[n++] = row;
        out[n++] = column;
        break;
    case FW_OPTIMIZER_SGD:
    case FW_OPTIMIZER_N: break;
    }
    return n;
}

static int64_t blocks(int64_t n) { return (n + FW_STATE_BLOCK_N - 1) / FW_STATE_BLOCK_N; }

int64_t fw_state_whole_n(const fw_state_array *a, const fw_param *p) {
    switch (a->shape) {
    case FW_STATE_ELEMENT: return p->n;
    case FW_STATE_BLOCK: return blocks(p->n);
    case FW_STATE_ROW: return p->rows;
    case FW_STATE_COLUMN: return p->cols;
    }
    return 0;
}

fw_state_range fw_state_held(const fw_state_array *a, const fw_param *p, fw_state_range e) {
    if (e.n == 0) return (fw_state_range){0, 0};
    if (a->shape == FW_STATE_ELEMENT) return e;
    if (a->shape != FW_STATE_BLOCK) return (fw_state_range){0, fw_state_whole_n(a, p)};
    FW_ASSERT(e.first_n % FW_STATE_BLOCK_N == 0); /* no block is cut */
    return (fw_state_range){e.first_n / FW_STATE_BLOCK_N, blocks(e.n)};
}

fw_state_range fw_state_saved(const fw_state_array *a, const fw_param *p, fw_state_range e) {
    const bool whole = a->shape == FW_STATE_ROW || a->shape == FW_STATE_COLUMN;
    return whole && e.first_n > 0 ? (fw_state_range){0, 0} : fw_state_held(a, p, e);
}

fw_state_range fw_state_of_param(const fw_param *p, int64_t first_n, int64_t n) {
    const int64_t from = first_n > p->offset_n ? first_n - p->offset_n : 0;
    const int64_t end = first_n + n - p->offset_n, to = end < p->n ? end : p->n;
    return from < to ? (fw_state_range){from, to - from} : (fw_state_range){0, 0};
}
