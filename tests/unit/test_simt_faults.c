/* Errors planted in kernels are noticed by the emulation, with a message that says what and where; each in a process of
 * its own, which the emulation ends. Where accesses are not looked at (built with sanitizers), a missing barrier shows in results that differ between schedules. */
#include "support/simt_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef FW_HAS_SIMT

#include "device/simt/simt_device.h"
#include "support/op_cases.h"

static fw_device *device;
static _Alignas(16) float in[256], out[256];

/* What the process prints when it runs `fault`; it must not end well. */
static void run_apart(void (*fault)(void), char *text, size_t cap) {
    int ends[2];
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL); /* cmocka's */
        signal(SIGSEGV, SIG_DFL);
        dup2(ends[1], 2);
        close(ends[0]);
        fault();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; n + 1 < cap && (got = read(ends[0], text + n, cap - 1 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void expect(void (*fault)(void), const char *message, const char *kernel) {
    static char text[1 << 16];
    run_apart(fault, text, sizeof text);
    if (strstr(text, message) == NULL || (kernel != NULL && strstr(text, kernel) == NULL))
        fail_msg("\"%s\" with \"%s\" expected, but got: %s", message, kernel == NULL ? "" : kernel, text);
}

/* One function without parameters for each fault. */
#define FAULT(name, call)                                                                                              \
    static void name(void) { call; }
FAULT(divergent_collective, fw_simt_lab_divergent_collective(out))
FAULT(missing_lane, fw_simt_lab_missing_lane(out))
FAULT(foreign_mask, fw_simt_lab_foreign_mask(out))
FAULT(foreign_source, fw_simt_lab_foreign_source(out))
FAULT(divergent_barrier, fw_simt_lab_divergent_barrier(out))
FAULT(barrier_after_exit, fw_simt_lab_barrier_after_exit(out))
FAULT(barrier_and_collective, fw_simt_lab_barrier_and_collective(out))
FAULT(endless_groups, fw_simt_lab_endless_groups(out, in))
FAULT(async_to_global, fw_simt_lab_async_to_global(out, in))
FAULT(async_unaligned, fw_simt_lab_async_unaligned(out, in))
FAULT(matrices_from_global, fw_simt_lab_matrices_from_global(out, in))
FAULT(no_blocks, fw_simt_lab_launch(0, 1, 32, 1, 0))
FAULT(many_rows_of_blocks, fw_simt_lab_launch(1, 65536, 32, 1, 0))
FAULT(many_threads, fw_simt_lab_launch(1, 1, 2048, 1, 0))
FAULT(thick_block, fw_simt_lab_launch(1, 1, 1, 65, 0))
FAULT(much_shared, fw_simt_lab_launch(1, 1, 32, 1, 300 * 1024))

static void test_messages(void **state) {
    static const struct {
        void (*fault)(void);
        const char *message, *kernel;
    } cases[] = {
        {divergent_collective, "the lanes of a warp are at different collectives",
         "kernel divergent_collective, block"},
        {missing_lane, "some lanes never come to this warp collective",
         "kernel missing_lane, block (0, 0, 0), thread 0"},
        {foreign_mask, "a lane is not in the mask of its own warp collective", "kernel foreign_mask"},
        {foreign_source, "a shuffle reads from a lane outside its mask", "kernel foreign_source"},
        {divergent_barrier, "threads of a block wait at different __syncthreads", "kernel divergent_barrier"},
        {barrier_after_exit, "__syncthreads after some threads of the block have ended", "kernel barrier_after_exit"},
        {barrier_and_collective, "some lanes never come to this warp collective", "kernel barrier_and_collective"},
        {endless_groups, "cp.async groups are committed and never waited for", "kernel endless_groups"},
        {async_to_global, "cp.async to what is not shared memory", "kernel async_to_global"},
        {async_unaligned, "cp.async from an address that is not aligned", "kernel async_unaligned"},
        {matrices_from_global, "ldmatrix from what is not shared memory", "kernel matrices_from_global"},
        {no_blocks, "a launch that no GPU takes", "kernel nothing"},
        {many_rows_of_blocks, "a launch that no GPU takes", "kernel nothing"},
        {many_threads, "a launch that no GPU takes", "kernel nothing"},
        {thick_block, "a launch that no GPU takes", "kernel nothing"},
        {much_shared, "a launch that no GPU takes", "kernel nothing"},
    };
    setenv("FW_SIMT_SEED", *state, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* which thread is first is the schedule's */
        const char *kernel =
            strcmp(*state, "0") != 0 && cases[i].fault == missing_lane ? "missing_lane" : cases[i].kernel;
        expect(cases[i].fault, cases[i].message, kernel);
    }
    fw_simt_lab_launch(1, 1, 1024, 1, 227 * 1024); /* what a GPU just takes, in this process */
    fw_simt_lab_launch(1, 65535, 1, 1, 0);
}

static int nan_n(const float *x, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) count += isnan(x[i]) != 0;
    return count;
}

/* Kernels that lack a barrier, or a wait. */
static void (*const unordered[])(float *, const float *) = {
    fw_simt_lab_missing_barrier, fw_simt_lab_early_overwrite,      fw_simt_lab_early_read,
    fw_simt_lab_early_reuse,     fw_simt_lab_missing_warp_barrier, fw_simt_lab_unread_async};
enum { UNORDERED_N = sizeof unordered / sizeof *unordered, SCHEDULE_N = 5 };

/* Results tell, without a message: some schedule has others than the first, or NaN. */
static void test_schedules(void **state) {
    (void)state;
    setenv("FW_SIMT_RACES", "0", 1);
    for (int k = 0; k < UNORDERED_N; k++) {
        float first[256];
        int told_n = 0;
        for (int seed = 0; seed < SCHEDULE_N; seed++) {
            char text[8];
            snprintf(text, sizeof text, "%d", seed);
            setenv("FW_SIMT_SEED", text, 1);
            memset(out, 0, sizeof out);
            unordered[k](out, in);
            if (seed == 0) memcpy(first, out, sizeof out);
            told_n += nan_n(out, 256) > 0 || memcmp(first, out, sizeof out) != 0;
        }
        if (told_n == 0) fail_msg("kernel %d of the table: equal results in all schedules", k);
    }
    unsetenv("FW_SIMT_RACES");
}

#if FW_SIMT_RACES
static int unordered_now;
FAULT(run_unordered, unordered[unordered_now](out, in))
static void test_races(void **state) {
    static const struct {
        const char *message, *kernel;
    } expected[UNORDERED_N] = {{"__syncthreads() missing?", "kernel missing_barrier, block (0, 0, 0), thread "},
                               {"__syncthreads() missing?", "kernel early_overwrite"},
                               {"__syncthreads() missing?", "kernel early_read"},
                               {"__syncthreads() missing?", "kernel early_reuse"},
                               {"is a __syncwarp() or __syncthreads() missing?", "kernel missing_warp_barrier"},
                               {"is a wait for cp.async missing?", "kernel unread_async"}};
    setenv("FW_SIMT_SEED", *state, 1);
    for (unordered_now = 0; unordered_now < UNORDERED_N; unordered_now++)
        expect(run_unordered, expected[unordered_now].message, expected[unordered_now].kernel);
}
#else
static void test_races(void **state) {
    (void)state;
    print_message("skipped: races are looked for in builds without a sanitizer\n");
    skip();
}
#endif

/* What the table of operations (op_run.c) puts behind a buffer: a kernel that reads one element too many is found. */
static fw_status call_reads_behind(fw_device *d, const fw_op_shape *s, fw_dtype t, void *const *p) {
    (void)d, (void)t;
    fw_simt_lab_reads_behind(p[0], p[1], s->N);
    return FW_OK;
}
static int64_t read_at;
static double read_result;
static void reads_behind(void) {
    static const double numbers[5] = {1, 2, 3, 4, 5};
    static double nothing[1], bound[1];
    const fw_op_kind kind = {.op = "reads_behind", .call = call_reads_behind};
    const fw_op_shape shape = {.name = "five numbers", .N = read_at};
    const fw_op_case c = {
        .kind = &kind,
        .shape = &shape,
        .t = FW_F32,
        .buffer_n = 2,
        .buffer = {{.name = "y", .use = FW_OP_OUT, .type = FW_F32, .n = 1, .value = nothing, .bound = bound},
                   {.name = "x", .use = FW_OP_IN, .type = FW_F32, .n = 5, .value = (double *)numbers}}};
    fw_op_result result;
    if (fw_op_case_run(&result, device, &c, 0, 0) != FW_OK) return;
    read_result = result.value[0][0];
    fw_op_result_fini(&result);
}
static void test_guards(void **state) {
    (void)state;
    read_at = 4;
    reads_behind();
    assert_true(read_result == 6);
    for (read_at = -1; read_at <= 5; read_at += 6) {
#ifdef WITH_ASAN
        expect(reads_behind, "AddressSanitizer: use-after-poison", "reads_behind");
#else
        reads_behind();
        assert_true(isnan(read_result));
#endif
    }
}

#ifdef WITH_ASAN
FAULT(shared_behind, fw_simt_lab_shared_behind(out))
static void writes_behind(void) {
    void *block;
    if (fw_device_alloc(device, &block, 5 * sizeof(float), "five floats") == FW_OK) fw_simt_lab_writes_behind(block, 5);
}
static void writes_before(void) {
    void *block;
    if (fw_device_alloc(device, &block, 5 * sizeof(float), "five floats") == FW_OK)
        fw_simt_lab_writes_behind(block, -1);
}
static void test_out_of_bounds(void **state) {
    (void)state;
    expect(writes_behind, "AddressSanitizer", "writes_behind");
    expect(writes_before, "AddressSanitizer", "writes_behind");
    expect(shared_behind, "AddressSanitizer: heap-buffer-overflow", "shared_behind");
}
#else
static void test_out_of_bounds(void **state) {
    (void)state;
    print_message("skipped: out-of-bounds access is seen by the address sanitizer only (make asan)\n");
    skip();
}
#endif

FAULT(deep_stack, fw_simt_lab_deep_stack(out))
static void test_deep_stack(void **state) {
    (void)state;
    expect(deep_stack, "", NULL); /* the guard below the stack ends the process */
}

static int open_device(void **state) {
    (void)state;
    for (int i = 0; i < 256; i++) in[i] = (float)i;
    return fw_device_create_simt(&device) == FW_OK ? 0 : 1;
}
static int close_device(void **state) {
    (void)state;
    fw_device_destroy(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_messages, "0"),
        cmocka_unit_test_prestate(test_messages, "1"),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test_prestate(test_races, "0"),
        cmocka_unit_test_prestate(test_races, "1"),
        cmocka_unit_test_prestate(test_races, "2"),
        cmocka_unit_test_prestate(test_races, "3"),
        cmocka_unit_test_prestate(test_races, "4"),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_out_of_bounds),
        cmocka_unit_test(test_deep_stack),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}

#else

int main(void) {
    printf("skipped: built without a C++ compiler, which the kernels of GPUs need (tools/bootstrap installs one)\n");
    return 77;
}

#endif
