/* Every operation of a device against the judge: the table of tests/support/op_cases.c in fp32 and bf16, in every way the
 * device has to run it. A device must stay within the derived bounds, write only its outputs, and give equal bits for
 * equal calls: sums have an order that depends on the shape alone.
 *
 *   test_ops_parity [DEVICE [OPERATION ...]]
 *     cpu (usual)  with one, two and three threads, twice
 *     simt         the kernels of GPUs under the emulation, in each kind of schedule (device/simt/simt.h) */
#include "base/threads.h"
#ifdef FW_HAS_SIMT
#include "device/simt/simt_device.h"
#endif
#include "support/op_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A way to run an operation: a device, and for simt the order of threads. */
typedef struct way {
    fw_device *device;
    fw_threads *pool;
    const char *seed;
    char name[40];
} way;

enum { WAY_CAP = 6 };

static fw_device *ref;
static way ways[WAY_CAP];
static int way_n;
static const char *device_name = "cpu";

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
    for (int i = 0; i < way_n; i++) {
        if (ways[i].seed != NULL) setenv("FW_SIMT_SEED", ways[i].seed, 1);
        must(fw_op_case_run(&again, ways[i].device, c, 0, 0));
        must(fw_op_case_compare(&share, c, &again, &judged));
        *worst = fmax(*worst, share);
        if (first.bytes == NULL) {
            first = again;
            continue;
        }
        if (memcmp(first.bytes, again.bytes, first.bytes_n) != 0)
            fail_msg("%s %s (%s): other bits with %s than with %s%s", kind->op, shape->name, fw_dtype_name(t),
                     ways[i].name, ways[0].name,
                     ways[i].seed != NULL ? ": the order of warps matters, so a barrier is missing" : "");
        fw_op_result_fini(&again);
    }
    /* buffers may begin anywhere in an arena */
    must(fw_op_case_run(&again, ways[way_n / 2].device, c, 0, 1));
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

static fw_status open_way(way *w, const char *device, int index) {
    fw_device_limits limits;
    fw_op_cases_limits(&limits);
    if (strcmp(device, "simt") == 0) {
#ifdef FW_HAS_SIMT
        static const char *const seeds[] = {"0", "1", "2", "3", "4"};
        w->seed = seeds[index];
        snprintf(w->name, sizeof w->name, "seed %s", w->seed);
        if (index > 0)
            w->device = ways[0].device;
        else
            FW_TRY(fw_device_create_simt(&w->device));
#endif
    } else {
        const int thread_n = index / 2 + 1;
        snprintf(w->name, sizeof w->name, "%d threads, time %d", thread_n, index % 2 + 1);
        if (index % 2 == 1) {
            w->device = ways[index - 1].device;
        } else {
            FW_TRY(fw_threads_create(&w->pool, thread_n, NULL));
            FW_TRY(fw_device_create(&w->device, device, w->pool));
        }
    }
    return fw_device_reserve(w->device, &limits);
}

static int open_devices(void **state) {
    (void)state;
    if (fw_device_create(&ref, "ref", NULL) != FW_OK) return 1;
    for (int i = 0; i < way_n; i++)
        if (open_way(&ways[i], device_name, i) != FW_OK) {
            print_error("%s\n", fw_trail_message());
            return 1;
        }
    print_message("%s\n", ways[0].device->description);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (int i = 0; i < way_n; i++) {
        if (i == 0 || ways[i].device != ways[i - 1].device) fw_device_destroy(ways[i].device);
        fw_threads_destroy(ways[i].pool);
    }
    fw_device_destroy(ref);
    return 0;
}

static int wanted(const char *op, int argc, char **argv) {
    for (int i = 2; i < argc; i++)
        if (strcmp(op, argv[i]) == 0) return 1;
    return argc <= 2;
}

int main(int argc, char **argv) {
    static struct CMUnitTest tests[64];
    size_t test_n = 0;
    if (argc > 1) device_name = argv[1];
    way_n = 6;
    if (strcmp(device_name, "simt") == 0) {
        way_n = 5;
#ifndef FW_HAS_SIMT
        printf(
            "skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
        return 77;
#endif
    }
    for (int i = 0; i < fw_op_kind_n && test_n < sizeof tests / sizeof *tests; i++)
        if (wanted(fw_op_kinds[i].op, argc, argv))
            tests[test_n++] = (struct CMUnitTest){
                .name = fw_op_kinds[i].op, .test_func = test_operation, .initial_state = (void *)&fw_op_kinds[i]};
    if (test_n == 0) return 1;
    return _cmocka_run_group_tests(device_name, tests, test_n, open_devices, close_devices);
}
