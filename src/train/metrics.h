/* OUTPUT_DIR/metrics.jsonl: one object a line for every logged step, for people and plots.
 *
 *   {"step", "epoch", "loss", "learning_rate", "grad_norm", "num_tokens", "tokens_per_s", "step_ms", "peak_bytes"}
 *   {"step", "epoch", "eval_loss", "eval_perplexity", "eval_targets"}       where an evaluation took place
 *
 * loss is the mean over the steps since the last line, tokens_per_s and step_ms likewise; num_tokens counts all tokens
 * since the first step of the run; peak_bytes is the largest resident size of any rank so far. */
#ifndef FW_TRAIN_METRICS_H
#define FW_TRAIN_METRICS_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_metrics {
    char *path; /* NULL on ranks that do not write */
    int fd;
    fw_strbuf waiting; /* lines, the first perhaps in part, that could not be written yet */
    bool fails;        /* and it was said */
    int64_t lost_n;    /* lines that there was no room for in `waiting` */
} fw_metrics;

typedef struct fw_metrics_row {
    int64_t step;
    double epoch, loss, learning_rate, grad_norm;
    int64_t num_tokens;
    double tokens_per_s, step_ms;
    uint64_t peak_bytes;
} fw_metrics_row;

/* Opens for appending after removing what lies beyond `last_step` (a resumed run writes those lines again; 0: all).
 * Errors: FW_ERR_IO, FW_ERR_NOMEM. */
fw_status fw_metrics_open(fw_metrics *out, const char *output_dir, int64_t last_step);
void fw_metrics_close(fw_metrics *m); /* takes a zeroed one */
/* A disk that is full must not end a run for a line of its log: that is a warning, once, and the line is kept and written with
 * a later one. Errors: FW_ERR_NOMEM. */
fw_status fw_metrics_write(fw_metrics *m, const fw_metrics_row *row);
fw_status fw_metrics_write_eval(fw_metrics *m, int64_t step, double epoch, double loss, int64_t target_n);
/* num_tokens of the last line that was kept by open; 0 without one. */
int64_t fw_metrics_tokens(const char *output_dir, int64_t last_step);

#endif
