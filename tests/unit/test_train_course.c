/* Which samples a step takes: every one exactly once and in order, also when the batch changes inside of an epoch. */
#include "train/course.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

/* Walks `step_n` steps; *at is the next unit that is due, counted from the start of the run. */
static void walk(const fw_course *c, int64_t step_n, int64_t *at) {
    for (int64_t step = c->step + 1; step <= c->step + step_n; step++) {
        const fw_course_place p = fw_course_at(c, step);
        const int64_t first = p.skip_n + p.step_in_epoch * c->batch_n;
        assert_int_equal(p.epoch, *at / c->unit_n);
        assert_int_equal(first, *at % c->unit_n);
        const int64_t n = c->unit_n - first < c->batch_n ? c->unit_n - first : c->batch_n;
        *at += n;
        int64_t epoch, position;
        fw_course_done(c, step, &epoch, &position);
        assert_int_equal(epoch * c->unit_n + position, *at);
        assert_int_equal(fw_course_ends_epoch(c, step), position == 0);
    }
}

/* A run in pieces, each with another batch: seed 1, sizes of all kinds. */
static void test_pieces(void **unused) {
    (void)unused;
    srand(1);
    for (int trial = 0; trial < 200; trial++) {
        fw_course c = {.unit_n = 1 + rand() % 60, .batch_n = 1 + rand() % 70};
        int64_t at = 0, step = 0;
        for (int piece = 0; piece < 6; piece++) {
            const int64_t steps = rand() % 9;
            const fw_course begun = c;
            for (int64_t k = 0; k < steps; k++) { /* the course from its own start, as far as this piece goes */
                const fw_course_place p = fw_course_at(&begun, step + k + 1);
                assert_int_equal(p.epoch * c.unit_n + p.skip_n + p.step_in_epoch * c.batch_n, at);
                int64_t epoch, position;
                fw_course_done(&begun, step + k + 1, &epoch, &position);
                at = epoch * c.unit_n + position;
            }
            step += steps;
            int64_t epoch, position;
            fw_course_done(&c, step, &epoch, &position);
            assert_int_equal(epoch * c.unit_n + position, at);
            if (piece % 2 == 0) c.batch_n = 1 + rand() % 70;
            fw_course_resume(&c, step, epoch, position);
            int64_t ahead = at;
            if (c.step == step) walk(&c, 20, &ahead);
        }
    }
}

/* The same batch again: nothing tells the resumed course from the straight one. */
static void test_plain_again(void **unused) {
    (void)unused;
    for (int64_t unit_n = 1; unit_n < 30; unit_n++)
        for (int64_t batch_n = 1; batch_n < 12; batch_n++) {
            fw_course c = {.unit_n = unit_n, .batch_n = batch_n};
            for (int64_t step = 0; step < 40; step++) {
                int64_t epoch, position;
                fw_course_done(&c, step, &epoch, &position);
                fw_course again = c;
                fw_course_resume(&again, step, epoch, position);
                assert_int_equal(again.step, 0);
            }
        }
}

static void test_lengths(void **unused) {
    (void)unused;
    fw_course c = {.unit_n = 37, .batch_n = 8}; /* 5 steps an epoch */
    assert_true(fw_course_steps(&c, 3) == 15 && fw_course_steps(&c, 0.5) == 3);
    assert_true(fw_course_epochs(&c, 5) == 1.0);
    c.batch_n = 4;
    fw_course_resume(&c, 3, 0, 24); /* 13 are left: 4 steps of 4, then 10 an epoch */
    assert_int_equal(c.step, 3);
    assert_true(fw_course_steps(&c, 1) == 7 && fw_course_steps(&c, 2) == 17 && fw_course_steps(&c, 2.5) == 22);
    assert_true(fw_course_steps(&c, 0.5) == 3 && fw_course_steps(&c, 0.8) == 5); /* 30 of 37: 6 more */
    assert_true(fabs(fw_course_epochs(&c, 4) - 28.0 / 37) < 1e-12 && fw_course_epochs(&c, 7) == 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_plain_again),
                                       cmocka_unit_test(test_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
