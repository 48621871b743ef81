#include "plan/chart.h"

#include "plan/svg.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 1040, HEIGHT = 470, COUNT_CAP = 12, LINK_CAP = 6, TOP = 70, BOTTOM = 400 };
static const double gib = 1073741824.0;

/* A panel's frame: x from left to right, y between TOP and BOTTOM, both scaled by the caller. */
typedef struct frame {
    double left, right;
    double low, high; /* of the values on the y axis */
    bool logarithmic;
} frame;

static double height_of(const frame *f, double value) {
    if (value < f->low) value = f->low;
    const double part =
        f->logarithmic ? log(value / f->low) / log(f->high / f->low) : (value - f->low) / (f->high - f->low);
    return BOTTOM - part * (BOTTOM - TOP);
}

static fw_status tick(fw_strbuf *out, const frame *f, double value) {
    char text[32];
    const double y = height_of(f, value);
    FW_TRY(fw_svg_line(out, "faint", f->left, y, f->right, y));
    snprintf(text, sizeof text, "%g", value);
    return fw_svg_text(out, "small", FW_SVG_END, f->left - 6, y + 4, text);
}

static fw_status axes(fw_strbuf *out, const frame *f) {
    FW_TRY(fw_svg_line(out, "ink", f->left, TOP, f->left, BOTTOM));
    return fw_svg_line(out, "ink", f->left, BOTTOM, f->right, BOTTOM);
}

static fw_status legend(fw_strbuf *out, int color, double x, double y, const char *text) {
    FW_TRY(fw_svg_bar(out, color, x, y - 9, 12, 10));
    return fw_svg_text(out, "small", FW_SVG_START, x + 17, y, text);
}

/* ---- memory by number of devices */

typedef struct memory_curves {
    int count[COUNT_CAP], count_n;
    double gib[FW_PLAN_STRATEGY_N][COUNT_CAP]; /* 0: not possible */
    double limit[COUNT_CAP];                   /* ranks on CPUs share one machine's memory */
} memory_curves;

/* Powers of two, to twice what was asked for and at least 16, in whole machines. */
static fw_status fill_memory(memory_curves *m, const fw_plan_report *r) {
    fw_plan_scenario s = r->asked;
    const int asked = s.site.world;
    s.method = r->table.method;
    for (int world = 1; m->count_n < COUNT_CAP && world <= (asked > 8 ? 2 * asked : 16); world *= 2) {
        if (s.site.card == NULL && world > 64) break;
        if (s.site.card == NULL) s.site.node_cap = world > s.site.node_cap ? world : s.site.node_cap;
        if (!fw_plan_site_resize(&s.site, world)) continue;
        s.group_n = s.site.node_n;
        for (int i = 0; i < FW_PLAN_STRATEGY_N; i++) {
            fw_plan_case c;
            FW_TRY(fw_plan_case_make(&c, &s, fw_plan_strategies[i]));
            m->gib[i][m->count_n] = c.possible ? (double)c.total_bytes / gib : 0;
            if (i == 0) m->limit[m->count_n] = (double)c.limit_bytes / gib;
        }
        m->count[m->count_n++] = world;
    }
    return FW_OK;
}

static fw_status draw_memory(fw_strbuf *out, const fw_plan_report *r) {
    memory_curves m = {0};
    FW_TRY(fill_memory(&m, r));
    frame f = {.left = 60, .right = 500, .low = INFINITY, .high = m.limit[0], .logarithmic = true};
    for (int i = 0; i < FW_PLAN_STRATEGY_N; i++)
        for (int k = 0; k < m.count_n; k++) {
            if (m.limit[k] > 0 && m.limit[k] < f.low) f.low = m.limit[k];
            if (m.gib[i][k] > f.high) f.high = m.gib[i][k];
            if (m.gib[i][k] > 0 && m.gib[i][k] < f.low) f.low = m.gib[i][k];
        }
    f.low = pow(2, floor(log2(f.low)));
    f.high = pow(2, ceil(log2(f.high * 1.01)));
    FW_TRY(fw_svg_text(out, "title", FW_SVG_START, f.left - 40, 50, "Memory of a device, GiB (logarithmic)"));
    for (double value = f.low; value <= f.high * 1.001; value *= 2) FW_TRY(tick(out, &f, value));
    const double step = m.count_n > 1 ? (f.right - f.left - 40) / (m.count_n - 1) : 0;
    for (int k = 0; k < m.count_n; k++) {
        char text[16];
        snprintf(text, sizeof text, "%d", m.count[k]);
        FW_TRY(fw_svg_text(out, "small", FW_SVG_MIDDLE, f.left + 20 + k * step, BOTTOM + 18, text));
    }
    FW_TRY(fw_svg_text(out, "small", FW_SVG_MIDDLE, (f.left + f.right) / 2, BOTTOM + 38, "number of devices"));
    for (int k = 1; k < m.count_n; k++)
        FW_TRY(fw_svg_line(out, "limit", f.left + 20 + (k - 1) * step, height_of(&f, m.limit[k - 1]),
                           f.left + 20 + k * step, height_of(&f, m.limit[k])));
    FW_TRY(fw_svg_text(out, "small", FW_SVG_END, f.right, height_of(&f, m.limit[m.count_n - 1]) - 5, "what there is"));
    for (int i = 0; i < FW_PLAN_STRATEGY_N; i++) {
        double xy[2 * COUNT_CAP];
        int point_n = 0;
        for (int k = 0; k < m.count_n; k++) {
            if (m.gib[i][k] == 0) continue;
            xy[2 * point_n] = f.left + 20 + k * step;
            xy[2 * point_n + 1] = height_of(&f, m.gib[i][k]);
            point_n++;
        }
        FW_TRY(fw_svg_path(out, i, xy, point_n));
        for (int k = 0; k < point_n; k++) FW_TRY(fw_svg_dot(out, i, xy[2 * k], xy[2 * k + 1]));
        FW_TRY(legend(out, i, f.left + 10 + 80 * i, BOTTOM + 58, fw_shard_strategy_name(fw_plan_strategies[i])));
    }
    return axes(out, &f);
}

/* ---- time by link */

static bool joins(const fw_plan_site *s) { return s->card->nvlink_both_rate > 0 && s->node_n <= s->card->nvlink_peers; }

static fw_status draw_links(fw_strbuf *out, const fw_plan_report *r) {
    static const char *const words[LINK_CAP] = {"nvlink", "pcie5x16", "pcie5x8", "pcie4x16", "pcie4x8", "pcie3x8"};
    const fw_plan_scenario *asked = &r->advice.scenario;
    fw_plan_times times[LINK_CAP + 1];
    char name[LINK_CAP + 1][FW_PLAN_LINK_NAME_BYTES];
    int n = 0;
    double most = 0;
    for (int i = -1; i < LINK_CAP; i++) { /* first as it is */
        fw_plan_scenario s = *asked;
        fw_plan_case c;
        if (i >= 0 && (s.site.card == NULL || (i == 0 && !joins(&s.site)))) continue;
        if (i >= 0) FW_TRY(fw_plan_link_make(&s.site.inside, s.site.card, s.site.node_n, words[i]));
        FW_TRY(fw_plan_case_make(&c, &s, r->advice.strategy));
        times[n] = c.times;
        snprintf(name[n], sizeof name[n], "%s", i < 0 ? "as asked" : words[i]);
        if (c.times.step_ms > most) most = c.times.step_ms;
        n++;
    }
    const double unit = pow(10, floor(log10(most / 4)));
    const double step = unit * (most / 4 / unit >= 5 ? 5 : most / 4 / unit >= 2 ? 2 : 1);
    frame f = {.left = 600, .right = WIDTH - 20, .low = 0, .high = step * ceil(most * 1.05 / step)};
    char title[96];
    snprintf(title, sizeof title, "Time of a step by link, ms (%s, %s)", fw_method_words[r->advice.method],
             fw_shard_strategy_name(r->advice.strategy));
    FW_TRY(fw_svg_text(out, "title", FW_SVG_START, f.left - 40, 50, title));
    for (double value = 0; value <= f.high * 1.001; value += step) FW_TRY(tick(out, &f, value));
    const double each = (f.right - f.left) / n, wide = each * 0.6;
    static const char *const parts[] = {"computing", "waited for", "slowed by collectives", "update"};
    for (int k = 0; k < n; k++) {
        const double part[] = {times[k].compute_ms, times[k].exposed_ms, times[k].slowed_ms, times[k].update_ms};
        const double x = f.left + k * each + (each - wide) / 2;
        double base = 0;
        for (int i = 0; i < 4; i++) {
            const double y = height_of(&f, base + part[i]);
            FW_TRY(fw_svg_bar(out, i, x, y, wide, height_of(&f, base) - y));
            base += part[i];
        }
        FW_TRY(fw_svg_text(out, "small", FW_SVG_MIDDLE, x + wide / 2, BOTTOM + 18, name[k]));
    }
    for (int i = 0; i < 4; i++) FW_TRY(legend(out, i, f.left + (i < 3 ? 100 * i : 350), BOTTOM + 58, parts[i]));
    return axes(out, &f);
}

fw_status fw_plan_draw(fw_strbuf *out, const fw_plan_report *r) {
    char title[320];
    const fw_plan_site *s = &r->asked.site;
    snprintf(title, sizeof title, "%s, %s, on %d x %s", r->name, fw_method_words[r->table.method], s->world,
             s->card != NULL ? s->card->title : "this machine's CPUs");
    FW_TRY(fw_svg_begin(out, WIDTH, HEIGHT, title));
    FW_TRY(fw_svg_text(out, "title", FW_SVG_START, 20, 24, title));
    FW_TRY(draw_memory(out, r));
    FW_TRY(draw_links(out, r));
    return fw_svg_end(out);
}
