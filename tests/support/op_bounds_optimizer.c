/* How far updates by the optimizers other than AdamW may be from the judge, which works in fp64 on the same fp32 numbers and
 * rounds its results too; op_bounds.c says what a bound is made of. */
#include "support/op_bound.h"

static const double RATE = (double)1e-2f, DECAY = (double)0.1f, SCALE = (double)0.37f, B1 = 0.9;

/* A result whose terms have these sizes: a few roundings of each, and the judge's own. */
static void set_terms(fw_op_buffer *b, int64_t i, double judged, double size, double roundings) {
    set(b, i, judged, roundings * U * size + fw_op_half_ulp(FW_F32, judged) + FLOOR);
}

BOUND(optimizer_step) {
    BOUND_LOCALS;
    const double b2 = s->rule == FW_STEP_VECTOR && s->step == 1 ? 0 : 0.99;
    const double eps = s->rule == FW_STEP_VECTOR ? (double)1e-30f : (double)1e-8f;
    for (int64_t i = 0; i < s->C; i++) {
        const double g = b[3].value[i] * SCALE, w = b[0].n < 0 ? 0 : b[0].value[i];
        const double m = b[1].n < 0 || s->step == 1 ? 0 : b[1].value[i],
                     v = b[2].n < 0 || s->step == 1 ? 0 : b[2].value[i];
        const double m_size = B1 * fabs(m) + fabs(g),
                     v_size = b2 * v + (1 - b2) * (g * g + (s->rule == FW_STEP_VECTOR ? eps : 0));
        switch (s->rule) {
        case FW_STEP_SGD: {
            const double size = fabs(g) + DECAY * fabs(w) + fabs(m); /* of the direction, twice with nesterov */
            set_terms(&b[0], i, judged[0][i], fabs(w) + 2 * RATE * size, 8);
            if (b[1].n >= 0) set_terms(&b[1], i, judged[1][i], size, 6);
            break;
        }
        case FW_STEP_LION: {
            /* Near a change of sign the step may be either of the two. */
            const double mixed = fabs(B1 * m + (1 - B1) * g),
                         turn = mixed != 0 && mixed <= 4 * U * m_size ? 2 * RATE : 0;
            set_terms(&b[0], i, judged[0][i], fabs(w) + RATE, 4);
            b[0].bound[i] += turn;
            set_terms(&b[1], i, judged[1][i], fabs(m) + fabs(g), 4);
            break;
        }
        case FW_STEP_LAMB: {
            const double c1 = 1 - pow(B1, (double)s->step), c2 = 1 - pow(b2, (double)s->step);
            const double bottom = sqrt(v_size / c2) + eps;
            set_terms(&b[1], i, judged[1][i], m_size, 4);
            set_terms(&b[2], i, judged[2][i], v_size, 6);
            set_terms(&b[3], i, judged[3][i], m_size / c1 / bottom + DECAY * fabs(w), 12);
            break;
        }
        case FW_STEP_VECTOR:
            set_terms(&b[2], i, judged[2][i], v_size, 6);
            set_terms(&b[3], i, judged[3][i], fabs(g) / sqrt(v_size), 8);
            break;
        default: set_terms(&b[0], i, judged[0][i], fabs(w) + RATE * fabs(b[3].value[i]), 6); break;
        }
    }
}

/* Codes and scales: equal bits. Weights: as adamw's. */
BOUND(step_8bit) {
    BOUND_LOCALS;
    for (int64_t i = 0; i < s->C; i++) {
        /* A step of AdamW is at most 1 / sqrt(1 - b2) of the rate here; of Lion, near a change of sign, either of two. */
        const double most = s->rule == FW_STEP_LION ? 1 : 10 / (1 - pow(B1, (double)s->step));
        set_terms(&b[0], i, judged[0][i], fabs(b[0].value[i]) + RATE * most, 16);
    }
}

BOUND(factored_sums) {
    BOUND_LOCALS;
    for (int64_t r = 0; r < s->G; r++) set_terms(&b[0], r, judged[0][r], judged[0][r], 6 + sum_share(s->C) / U);
    for (int64_t k = 0; k < s->C; k++) set_terms(&b[1], k, judged[1][k], judged[1][k], 6 + sum_share(s->G) / U);
}

BOUND(factored_moments) {
    BOUND_LOCALS;
    for (int64_t r = 0; r < s->G; r++) {
        set_terms(&b[0], r, judged[0][r], judged[0][r], 6);
        set_terms(&b[2], r, judged[2][r], judged[2][r], 12 + sum_share(s->G) / U);
    }
    for (int64_t k = 0; k < s->C; k++) {
        set_terms(&b[1], k, judged[1][k], judged[1][k], 6);
        set_terms(&b[2], s->G + k, judged[2][s->G + k], judged[2][s->G + k], 8);
    }
}

BOUND(factored_direction) {
    BOUND_LOCALS;
    for (int64_t i = 0; i < s->N; i++) set_terms(&b[0], i, judged[0][i], fabs(judged[0][i]), 4);
}
