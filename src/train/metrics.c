#include "train/metrics.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/plural.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { METRICS_LIMIT_BYTES = 1 << 30, WAITING_LIMIT_BYTES = 4 << 20 };

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
    *m = (fw_metrics){.fd = -1};
    fw_strbuf kept = {0};
    fw_status status;
    FW_TRY_OR(fw_path_join(&m->path, output_dir, "metrics.jsonl"), done);
    if (last_step > 0 && fw_file_exists(m->path)) FW_TRY_OR(walk(m->path, last_step, &kept, NULL), done);
    FW_TRY_OR(fw_file_write(m->path, kept.data, kept.len_bytes), done);
    m->fd = open(m->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (m->fd < 0) status = fw_fail(FW_ERR_IO, "cannot open %s: %s", m->path, strerror(errno));
done:
    fw_strbuf_fini(&kept);
    if (status != FW_OK) fw_metrics_close(m);
    return status;
}

/* At once, line by line: what is in the file is what happened, whatever comes next. */
static void write_waiting(fw_metrics *m) {
    size_t done = 0;
    int reason = 0;
    while (done < m->waiting.len_bytes && reason == 0) {
        const ssize_t n = write(m->fd, m->waiting.data + done, m->waiting.len_bytes - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            reason = n == 0 ? ENOSPC : errno;
    }
    memmove(m->waiting.data, m->waiting.data + done, m->waiting.len_bytes - done);
    m->waiting.len_bytes -= done;
    m->waiting.data[m->waiting.len_bytes] = 0;
    if (reason != 0 && !m->fails)
        fw_log_warning("writing %s: %s; the run goes on, and the lines are written when there is room", m->path,
                       strerror(reason));
    else if (reason == 0 && m->fails)
        fw_log_info("%s is written again", m->path);
    m->fails = reason != 0;
}

void fw_metrics_close(fw_metrics *m) {
    if (m->path == NULL) return;
    if (m->fd >= 0) {
        if (m->waiting.len_bytes > 0) write_waiting(m);
        for (size_t i = 0; i < m->waiting.len_bytes; i++) m->lost_n += m->waiting.data[i] == '\n';
        if (m->lost_n > 0)
            fw_log_warning("%s lacks %lld line%s that could not be written", m->path, (long long)m->lost_n,
                           fw_plural(m->lost_n));
        close(m->fd);
    }
    fw_strbuf_fini(&m->waiting);
    fw_free(m->path);
    *m = (fw_metrics){0};
}

static fw_status write_line(fw_metrics *m, const char *line) {
    if (m->waiting.len_bytes + strlen(line) > WAITING_LIMIT_BYTES)
        m->lost_n++;
    else
        FW_TRY(fw_strbuf_puts(&m->waiting, line));
    write_waiting(m);
    return FW_OK;
}

fw_status fw_metrics_write(fw_metrics *m, const fw_metrics_row *r) {
    char line[512];
    if (m->path == NULL) return FW_OK;
    snprintf(line, sizeof line,
             "{\"step\": %lld, \"epoch\": %.6g, \"loss\": %.9g, \"learning_rate\": %.9g, \"grad_norm\": %.9g, "
             "\"num_tokens\": %lld, \"tokens_per_s\": %.6g, \"step_ms\": %.6g, \"peak_bytes\": %llu}\n",
             (long long)r->step, r->epoch, r->loss, r->learning_rate, r->grad_norm, (long long)r->num_tokens,
             r->tokens_per_s, r->step_ms, (unsigned long long)r->peak_bytes);
    return write_line(m, line);
}

fw_status fw_metrics_write_eval(fw_metrics *m, int64_t step, double epoch, double loss, int64_t target_n) {
    char line[512];
    if (m->path == NULL) return FW_OK;
    snprintf(line, sizeof line,
             "{\"step\": %lld, \"epoch\": %.6g, \"eval_loss\": %.9g, \"eval_perplexity\": %.9g, \"eval_targets\": "
             "%lld}\n",
             (long long)step, epoch, loss, exp(loss), (long long)target_n);
    return write_line(m, line);
}
