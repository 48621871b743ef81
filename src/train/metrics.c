#include "train/metrics.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { METRICS_LIMIT_BYTES = 1 << 30 };

/* Goes through the lines up to last_step; keeps them in *kept when it is not NULL. A line that is not ours or torn ends
 * the walk: what follows it cannot be trusted either. */
static fw_status walk(const char *path, int64_t last_step, fw_strbuf *kept, int64_t *num_tokens) {
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(fw_file_read(&text, path, METRICS_LIMIT_BYTES), done);
    for (const char *line = fw_strbuf_text(&text), *end = line + text.len_bytes, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (newline == NULL) break;
        next = newline + 1;
        json_t *row = NULL;
        if (fw_json_parse(&row, line, (size_t)(newline - line), path, 1) != FW_OK) break;
        int64_t step = json_integer_value(json_object_get(row, "step"));
        const json_t *tokens = json_object_get(row, "num_tokens");
        if (step <= last_step && num_tokens != NULL && json_is_integer(tokens))
            *num_tokens = json_integer_value(tokens);
        json_decref(row);
        if (step > last_step) break;
        if (kept != NULL) FW_TRY_OR(fw_strbuf_append(kept, line, (size_t)(next - line)), done);
    }
done:
    fw_strbuf_fini(&text);
    return status;
}

int64_t fw_metrics_tokens(const char *output_dir, int64_t last_step) {
    char *path;
    int64_t tokens = 0;
    if (fw_path_join(&path, output_dir, "metrics.jsonl") != FW_OK) return 0;
    if (last_step > 0 && fw_file_exists(path) && walk(path, last_step, NULL, &tokens) != FW_OK) tokens = 0;
    fw_free(path);
    return tokens;
}

fw_status fw_metrics_open(fw_metrics *m, const char *output_dir, int64_t last_step) {
    *m = (fw_metrics){0};
    fw_strbuf kept = {0};
    fw_status status;
    FW_TRY_OR(fw_path_join(&m->path, output_dir, "metrics.jsonl"), done);
    if (last_step > 0 && fw_file_exists(m->path)) FW_TRY_OR(walk(m->path, last_step, &kept, NULL), done);
    FW_TRY_OR(fw_file_write(m->path, kept.data, kept.len_bytes), done);
    m->file = fopen(m->path, "ae");
    if (m->file == NULL) status = fw_fail(FW_ERR_IO, "cannot open %s: %s", m->path, strerror(errno));
done:
    fw_strbuf_fini(&kept);
    if (status != FW_OK) fw_metrics_close(m);
    return status;
}

void fw_metrics_close(fw_metrics *m) {
    if (m->file != NULL) fclose(m->file);
    fw_free(m->path);
    *m = (fw_metrics){0};
}

/* Flushed line by line: what is in the file is what happened, whatever comes next. */
static fw_status finish_line(fw_metrics *m) {
    if (fputc('\n', m->file) == EOF || fflush(m->file) != 0)
        return fw_fail(FW_ERR_IO, "writing %s: %s", m->path, strerror(errno));
    return FW_OK;
}

fw_status fw_metrics_write(fw_metrics *m, const fw_metrics_row *r) {
    if (m->file == NULL) return FW_OK;
    fprintf(m->file,
            "{\"step\": %lld, \"epoch\": %.6g, \"loss\": %.9g, \"learning_rate\": %.9g, \"grad_norm\": %.9g, "
            "\"num_tokens\": %lld, \"tokens_per_s\": %.6g, \"step_ms\": %.6g, \"peak_bytes\": %llu}",
            (long long)r->step, r->epoch, r->loss, r->learning_rate, r->grad_norm, (long long)r->num_tokens,
            r->tokens_per_s, r->step_ms, (unsigned long long)r->peak_bytes);
    return finish_line(m);
}

fw_status fw_metrics_write_eval(fw_metrics *m, int64_t step, double epoch, double loss, int64_t target_n) {
    if (m->file == NULL) return FW_OK;
    fprintf(m->file,
            "{\"step\": %lld, \"epoch\": %.6g, \"eval_loss\": %.9g, \"eval_perplexity\": %.9g, \"eval_targets\": %lld}",
            (long long)step, epoch, loss, exp(loss), (long long)target_n);
    return finish_line(m);
}
