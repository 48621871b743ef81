/* How far the operations of adapters may be from the judge; op_bounds.c says what a bound is made of. */
#include "support/op_bound.h"

static const double SCALE = 1.75;

/* One element of scale * (a sum of n products, `size` in all) + start: the sum, a multiplication, an addition. `flushed`:
 * the sizes of the factors, of which a device may take subnormal ones for zero. */
static double thin_error(int64_t n, double size, double flushed, double start) {
    return SCALE * ((sum_share(n) + U) * size + FLOOR * flushed) + 2 * U * (fabs(start) + SCALE * size);
}

/* y[r][c] (rows y_row apart) = start + scale sum over k < n of a[r][k] b[k][c], strides as in op_bounds.c. */
static void bound_thin(fw_op_buffer *y, const double *judged, int64_t y_row, const double *a, int64_t a_row,
                       int64_t a_k, const double *b, int64_t b_k, int64_t b_column, int64_t rows, int64_t columns,
                       int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < columns; i++) {
            double size = 0, flushed = 0;
            for (int64_t k = 0; k < n; k++) {
                const double from_a = fabs(a[r * a_row + k * a_k]), from_b = fabs(b[k * b_k + i * b_column]);
                size += from_a * from_b;
                flushed += from_a + from_b;
            }
            const int64_t at = r * y_row + i;
            set(y, at, judged[at], thin_error(n, size, flushed, y->use == FW_OP_INOUT ? y->value[at] : 0));
        }
    }
}

BOUND(lora_expand) {
    BOUND_LOCALS;
    bound_thin(&b[0], judged[0], s->O + s->gap, b[1].value, s->R, 1, b[2].value, 1, s->R, s->N, s->O, s->R);
}
BOUND(lora_reduce) {
    BOUND_LOCALS;
    bound_thin(&b[0], judged[0], s->R, b[1].value, s->O + s->gap, 1, b[2].value, s->R, 1, s->N, s->R, s->O);
}
BOUND(lora_backward_b) {
    BOUND_LOCALS;
    bound_thin(&b[0], judged[0], s->R, b[1].value, 1, s->O + s->gap, b[2].value, s->R, 1, s->O, s->R, s->N);
}
BOUND(lora_backward_input) {
    BOUND_LOCALS;
    bound_thin(&b[0], judged[0], s->C, b[1].value, s->R, 1, b[2].value, s->C, 1, s->N, s->C, s->R);
}

/* A multiplication and perhaps an addition; what is dropped is exactly 0, or what was there. */
BOUND(dropout) {
    BOUND_LOCALS;
    const int at = s->in_place ? 1 : 0;
    for (int64_t i = 0; i < s->N * s->C; i++) {
        const double start = s->with_add ? b[0].value[i] : 0, y = judged[at][i];
        if (y == start) continue; /* the bound stays 0 */
        set(&b[at], i, y, U * fabs(y - start) + (s->with_add ? U * fabs(y) : 0) + FLOOR);
    }
}

/* value = w + scale * product; an error e of a value is one of 2 |value| e + e^2 of its square. */
BOUND(dora_norm) {
    BOUND_LOCALS;
    for (int64_t o = 0; o < s->O; o++) {
        double squares = 0, error = 0;
        for (int64_t i = 0; i < s->C; i++) {
            const double w = b[1].value[o * s->C + i];
            double product = 0, size = 0;
            for (int64_t r = 0; r < s->R; r++) {
                const double term = b[3].value[o * s->R + r] * b[2].value[r * s->C + i];
                product += term, size += fabs(term);
            }
            const double value = w + SCALE * product, e = thin_error(s->R, size, 0, w);
            squares += value * value;
            error += 2 * fabs(value) * e + e * e;
        }
        error += sum_share(s->C) * (squares + error);
        const double norm = judged[0][o];
        set(&b[0], o, norm, (norm > 0 ? error / norm : sqrt(error)) + 2 * U * norm);
    }
}

/* factor, m / norm, their product and that with x are rounded; then one or two additions. */
BOUND(dora_scale) {
    BOUND_LOCALS;
    const int at_y = s->in_place ? 1 : 0;
    const int64_t row = s->O + s->gap, x_row = s->in_place ? row : row + s->gap;
    for (int64_t n = 0; n < s->N; n++) {
        for (int64_t o = 0; o < s->O; o++) {
            const int64_t at = n * row + o;
            double scaled = 1.5 * fabs(b[1].value[n * x_row + o]);
            if (!s->without) scaled *= fabs(b[2].value[o]) / b[3].value[o];
            double size = scaled + (s->without ? 0 : fabs(b[4].value[o]));
            if (s->with_add) size += 0.75 * fabs(b[0].value[at]);
            set(&b[at_y], at, judged[at_y][at], 4 * U * scaled + 3 * U * size);
        }
    }
}

BOUND(dora_backward_m) {
    BOUND_LOCALS;
    const int64_t row = s->O + s->gap;
    for (int64_t o = 0; o < s->O; o++) {
        double size = 0;
        for (int64_t n = 0; n < s->N; n++)
            size += fabs(b[1].value[n * row + o] * b[2].value[n * (row + s->gap) + o]) / b[3].value[o];
        set(&b[0], o, judged[0][o], (sum_share(s->N) + 3 * U) * size + U * (fabs(b[0].value[o]) + size));
    }
}
