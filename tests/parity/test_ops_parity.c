/* Every operation of a device against the judge: the table of tests/support/op_cases.c in fp32 and bf16, with one, two
 * and three threads, twice. A device must stay within the derived bounds, write only its outputs, and give equal bits
 * for equal calls, whatever the number of threads: sums have an order that depends on the shape alone. */
#include "base/threads.h"
#include "support/op_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICE "cpu"
enum { THREAD_CAP = 3 };

static fw_device *ref, *tried[THREAD_CAP];
static fw_threads *pool[THREAD_CAP];

static void must(fw_status status) {
    if (status != FW_OK) {
        print_error("%s\n", fw_trail_message());
        fail();
    }
}

static void run_case(const fw_op_kind *kind, const fw_op_shape *shape, fw_dtype t, double *worst) {
    fw_op_case *c;
    fw_op_result judged, first = {0}, again;
    double share;
    must(fw_op_case_create(&c, kind, shape, t, ref));
    must(fw_op_case_run(&judged, ref, c, 1, 0));
    fw_op_case_set_bounds(c, &judged);
    for (int i = 0; i < THREAD_CAP; i++) {
        for (int time = 0; time < 2; time++) {
            must(fw_op_case_run(&again, tried[i], c, 0, 0));
            must(fw_op_case_compare(&share, c, &again, &judged));
            *worst = fmax(*worst, share);
            if (first.bytes == NULL) {
                first = again;
                continue;
            }
            if (memcmp(first.bytes, again.bytes, first.bytes_n) != 0)
                fail_msg("%s %s (%s): other bits on %d threads, time %d", kind->op, shape->name, fw_dtype_name(t),
                         i + 1, time + 1);
            fw_op_result_fini(&again);
        }
    }
    /* buffers may begin anywhere in an arena */
    must(fw_op_case_run(&again, tried[1], c, 0, 1));
    must(fw_op_case_compare(&share, c, &again, &judged));
    fw_op_result_fini(&again);
    fw_op_result_fini(&first);
    fw_op_result_fini(&judged);
    fw_op_case_destroy(c);
}

static void test_operation(void **state) {
    const fw_op_kind *kind = *state;
    static const fw_dtype types[] = {FW_F32, FW_BF16};
    assert_non_null(kind->shapes[0].name);
    for (size_t t = 0; t < 2; t++) {
        double worst = 0;
        for (const fw_op_shape *s = kind->shapes; s->name != NULL; s++) run_case(kind, s, types[t], &worst);
        print_message("%-24s %s: largest difference is %.0f %% of its bound\n", kind->op, fw_dtype_name(types[t]),
                      100 * worst);
    }
}

static int open_devices(void **state) {
    (void)state;
    fw_device_limits limits;
    fw_op_cases_limits(&limits);
    if (fw_device_create(&ref, "ref", NULL) != FW_OK) return 1;
    for (int i = 0; i < THREAD_CAP; i++) {
        if (fw_threads_create(&pool[i], i + 1, NULL) != FW_OK) return 1;
        if (fw_device_create(&tried[i], DEVICE, pool[i]) != FW_OK) return 1;
        if (fw_device_reserve(tried[i], &limits) != FW_OK) return 1;
    }
    print_message("%s\n", tried[0]->description);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (int i = 0; i < THREAD_CAP; i++) {
        fw_device_destroy(tried[i]);
        fw_threads_destroy(pool[i]);
    }
    fw_device_destroy(ref);
    return 0;
}

int main(void) {
    static struct CMUnitTest tests[64];
    if (fw_op_kind_n > (int)(sizeof tests / sizeof *tests)) return 1;
    for (int i = 0; i < fw_op_kind_n; i++)
        tests[i] = (struct CMUnitTest){
            .name = fw_op_kinds[i].op, .test_func = test_operation, .initial_state = (void *)&fw_op_kinds[i]};
    return _cmocka_run_group_tests(DEVICE, tests, (size_t)fw_op_kind_n, open_devices, close_devices);
}
