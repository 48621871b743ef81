/* The progress of a training: a bar on a terminal, lines elsewhere. */
#include "cli/terminal.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_LEAST = 10, BAR_MOST = 30, PART_BYTES = 64, LINE_BYTES = 400, NUMBERS_BYTES = 300 };
static const uint64_t redraw_ns = 100 * 1000 * 1000;

struct fw_progress {
    int64_t first_step;
    bool draws, plain;
    uint64_t start_ns, drawn_ns;
    fw_progress_values last;
};

static double seconds_left(const fw_progress_values *v, int64_t first_step, double elapsed_s) {
    if (v->step <= first_step) return NAN;
    return elapsed_s / (double)(v->step - first_step) * (double)(v->step_n - v->step);
}

static double part_done(const fw_progress_values *v) {
    double part = v->step_n > 0 ? (double)v->step / (double)v->step_n : 0;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

/* Room for one more part? Then append it. */
static bool add(char *out, size_t limit, const char *part) {
    size_t used = strlen(out);
    if (used + strlen(part) >= limit) return false;
    memcpy(out + used, part, strlen(part) + 1);
    return true;
}

/* The numbers after the bar, as many as fit, the important ones first. */
static void add_numbers(char *out, size_t limit, const fw_progress_values *v, double left_s) {
    char part[PART_BYTES], human[FW_HUMAN_BYTES];
    snprintf(part, sizeof part, " %lld/%lld", (long long)v->step, (long long)v->step_n);
    if (!add(out, limit, part)) return;
    if (!isnan(v->loss)) {
        snprintf(part, sizeof part, "  loss %.4g", v->loss);
        if (!add(out, limit, part)) return;
    }
    if (!isnan(left_s)) {
        snprintf(part, sizeof part, "  %s left", fw_human_duration(human, left_s));
        if (!add(out, limit, part)) return;
    }
    if (v->mirror[0] != 0) {
        snprintf(part, sizeof part, "  %s", v->mirror);
        if (!add(out, limit, part)) return;
    }
    if (!isnan(v->tokens_per_s)) {
        snprintf(part, sizeof part, "  %s tokens/s", fw_human_count(human, v->tokens_per_s));
        if (!add(out, limit, part)) return;
    }
    if (!isnan(v->learning_rate)) {
        snprintf(part, sizeof part, "  lr %.2e", v->learning_rate);
        if (!add(out, limit, part)) return;
    }
    if (!isnan(v->grad_norm)) {
        snprintf(part, sizeof part, "  norm %.3g", v->grad_norm);
        add(out, limit, part);
    }
}

int fw_progress_bar(char *out, size_t out_bytes, const fw_progress_values *v, int64_t first_step, double elapsed_s,
                    int width) {
    char numbers[NUMBERS_BYTES] = "", line[LINE_BYTES];
    size_t columns = width < 0 ? 0 : width > NUMBERS_BYTES - 1 ? NUMBERS_BYTES - 1 : (size_t)width;
    int percent = (int)(100 * part_done(v));
    if (columns < 5) columns = 5;
    add_numbers(numbers, columns - 4 + 1, v, seconds_left(v, first_step, elapsed_s));
    size_t used = (size_t)snprintf(line, sizeof line, "%3d%%", percent);
    size_t room = columns - 4 - strlen(numbers); /* for " [", the bar and "]" */
    if (room >= BAR_LEAST + 3) {
        size_t bar = room - 3 < BAR_MOST ? room - 3 : BAR_MOST, filled = (size_t)(part_done(v) * (double)bar);
        used += (size_t)snprintf(line + used, sizeof line - used, " [");
        for (size_t i = 0; i < bar; i++) line[used++] = i < filled ? '=' : i == filled ? '>' : ' ';
        line[used++] = ']';
    }
    snprintf(line + used, sizeof line - used, "%s", numbers);
    snprintf(out, out_bytes, "%s", line);
    return (int)strlen(out);
}

int fw_progress_line(char *out, size_t out_bytes, const fw_progress_values *v, int64_t first_step, double elapsed_s) {
    char line[LINE_BYTES] = "", part[PART_BYTES], human[FW_HUMAN_BYTES];
    double left_s = seconds_left(v, first_step, elapsed_s);
    snprintf(part, sizeof part, "step %lld/%lld", (long long)v->step, (long long)v->step_n);
    add(line, sizeof line, part);
    const struct {
        const char *format;
        double value;
    } numbers[] = {{", epoch %.2f", v->epoch},
                   {", loss %.4f", v->loss},
                   {", lr %.2e", v->learning_rate},
                   {", grad norm %.3f", v->grad_norm},
                   {", %.0f tokens/s", v->tokens_per_s}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (isnan(numbers[i].value)) continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(part, sizeof part, numbers[i].format, numbers[i].value);
#pragma GCC diagnostic pop
        add(line, sizeof line, part);
    }
    if (!isnan(left_s)) {
        snprintf(part, sizeof part, ", %s left", fw_human_duration(human, left_s));
        add(line, sizeof line, part);
    }
    if (v->mirror[0] != 0) {
        snprintf(part, sizeof part, ", %s", v->mirror);
        add(line, sizeof line, part);
    }
    snprintf(out, out_bytes, "%s", line);
    return (int)strlen(out);
}

fw_status fw_progress_create(fw_progress **out, int64_t first_step, bool plain) {
    FW_TRY(FW_NEW(*out));
    fw_progress *p = *out;
    p->first_step = first_step;
    p->draws = fw_terminal_rank() == 0;
    p->plain = plain || !fw_terminal_stderr_is_tty();
    p->start_ns = fw_host_now_ns();
    return FW_OK;
}

static double elapsed(const fw_progress *p) { return (double)(fw_host_now_ns() - p->start_ns) / 1e9; }

static void draw(fw_progress *p) {
    char text[LINE_BYTES];
    /* the last column stays free: some terminals break the line when it is written */
    fw_progress_bar(text, sizeof text, &p->last, p->first_step, elapsed(p), fw_terminal_width() - 1);
    fw_terminal_show_bar(text);
    p->drawn_ns = fw_host_now_ns();
}

void fw_progress_update(fw_progress *p, const fw_progress_values *values, bool logged) {
    p->last = *values;
    if (!p->draws) return;
    if (!p->plain) {
        if (fw_host_now_ns() - p->drawn_ns >= redraw_ns) draw(p);
    } else if (logged) {
        char text[LINE_BYTES];
        fw_progress_line(text, sizeof text, values, p->first_step, elapsed(p));
        fw_log_info("%s", text);
    }
}

void fw_progress_destroy(fw_progress *p) {
    if (p == NULL) return;
    if (p->draws && !p->plain && p->last.step_n > 0) {
        /* the bar becomes an ordinary line */
        char text[LINE_BYTES];
        fw_progress_bar(text, sizeof text, &p->last, p->first_step, elapsed(p), fw_terminal_width() - 1);
        fw_terminal_show_bar("");
        fw_log_info("%s", text);
    }
    fw_free(p);
}
