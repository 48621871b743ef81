/* A rank is killed, runs out of memory, or fails at step 3, at any phase of the step and under any strategy: all ranks
 * are gone soon, the exit code is 5, and the first error names the rank and the cause.
 *
 * This program is the finewire of its tests: called with "train" it does what the command line does, but that a rank's
 * device asks before every operation whether it is time for the fault that FW_TEST_FAULT describes. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "support/hooked_device.h"
#include "support/run_lab.h"
#include "support/sanitized.h"
#include "support/train_main.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- in a rank */

/* "RANK KIND PLACE NUMBER PATH": after step 2 is reported, the NUMBER-th PLACE does what KIND says. PLACE is an
 * operation of the device; for KIND "break" it is "collective", "write" or "allocation", for "slow" it is "write". PATH: where the moment is noted. */
typedef struct fault {
    int rank, number;
    char kind[16], place[32], path[FW_TEST_PATH_BYTES];
    int armed, seen_n;
} fault;

static int read_fault(fault *f) {
    const char *text = getenv("FW_TEST_FAULT");
    *f = (fault){.rank = -1};
    return text != NULL && sscanf(text, "%d %15s %31s %d %511s", &f->rank, f->kind, f->place, &f->number, f->path) == 5;
}

static void note(const fault *f, const char *what, long long value) {
    FILE *file = fopen(f->path, "a");
    if (file == NULL) return;
    fprintf(file, "%s %lld\n", what, value);
    fclose(file);
}

/* What the process has is what it may have. */
static fw_status run_out_of_memory(void) {
    struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return fw_fail(FW_ERR_INTERNAL, "no limit could be set");
    void *block;
    fw_status status = fw_calloc(&block, 1, (size_t)64 << 20);
    fw_free(block);
    return status;
}

static fw_status strike(const fault *f) {
    note(f, "fault", (long long)fw_host_now_ns());
    if (strcmp(f->kind, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(f->kind, "memory") == 0) return run_out_of_memory();
    if (strcmp(f->kind, "throw") == 0) return fw_fail(FW_ERR_INTERNAL, "thrown by a test in %s", f->place);
    return FW_OK;
}

static fw_status before_op(void *context, const char *op) {
    fault *f = context;
    if (!f->armed || strcmp(op, f->place) != 0 || ++f->seen_n != f->number) return FW_OK;
    return strike(f);
}

static void on_place(void *context, int rank, int world) {
    (void)world;
    fault *f = context;
    note(f, "pid", getpid());
    if (rank != f->rank) f->rank = -1;
}

static void on_start(void *context, const fw_train_summary *s) {
    fw_test_device_hook(s->job->device, before_op, context);
}

static void on_step(void *context, const fw_train_report *r) {
    fault *f = context;
    if (r->step != 2 || f->rank < 0) return;
    f->armed = 1;
    if (strcmp(f->place, "collective") == 0) fw_comm_fail_at((uint64_t)f->number);
    if (strcmp(f->kind, "slow") == 0)
        fw_file_slow_write_at((uint64_t)f->number, 4);
    else if (strcmp(f->place, "write") == 0)
        fw_file_fail_write_at((uint64_t)f->number);
    if (strcmp(f->place, "allocation") == 0) fw_alloc_fail_at((uint64_t)f->number);
    if (strcmp(f->kind, "break") == 0 || strcmp(f->kind, "slow") == 0) note(f, "fault", (long long)fw_host_now_ns());
}

/* ---- outside */

typedef struct outcome {
    int code;
    double seconds; /* from the fault to the end of the job */
    char error[512];
    int error_n;
} outcome;

/* A whole job with one fault, in DIR/name; its ranks are gone afterwards. */
static outcome run_in(const char *name, const char *words, int rank, const char *kind, const char *place, int number) {
    const char *log = fw_test_path(fw_run_dir, "log");
    char environment[2 * FW_TEST_PATH_BYTES], what[16];
    snprintf(environment, sizeof environment, "FW_TEST_FAULT=%d %s %s %d %s", rank, kind, place, number, log);
    unlink(log);
    fw_test_run_args a;
    fw_test_command c;
    fw_test_run_make_args(&a, name, words);
    a.argv[0] = "/proc/self/exe";
    const char *more[] = {environment, NULL};
    assert_int_equal(fw_test_command_start(&c, a.argv, more), 0);
    outcome o = {.code = fw_test_command_finish(&c, 60), .seconds = -1};
    uint64_t end_ns = fw_host_now_ns();
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    for (long long value; fscanf(f, "%15s %lld", what, &value) == 2;)
        if (strcmp(what, "fault") == 0)
            o.seconds = (double)(end_ns - (uint64_t)value) * 1e-9;
        else
            assert_int_equal(kill((pid_t)value, 0), -1);
    fclose(f);
    const char *text = fw_strbuf_text(&c.err), *first = strstr(text, "finewire: ");
    if (first != NULL) snprintf(o.error, sizeof o.error, "%.*s", (int)strcspn(first, "\n"), first);
    for (const char *p = text; (p = strstr(p, "error: ")) != NULL; p++) o.error_n++;
    fw_test_command_fini(&c);
    return o;
}

static outcome run(const char *words, int rank, const char *kind, const char *place, int number) {
    static int run_n;
    char name[32];
    snprintf(name, sizeof name, "run-%d", ++run_n);
    return run_in(name, words, rank, kind, place, number);
}

static void expect(const outcome *o, const char *words, int code, int rank, const char *cause) {
    char who[32];
    snprintf(who, sizeof who, "rank %d", rank);
    if (o->code != code || o->error_n != 1 || strstr(o->error, who) == NULL || strstr(o->error, cause) == NULL ||
        o->seconds < 0 || o->seconds > 10)
        fail_msg("%s: exit code %d, not %d, after %.1f s; %d errors, expected \"%s\" and \"%s\" in: %s", words, o->code,
                 code, o->seconds, o->error_n, who, cause, o->error);
}

static const char *const phases[][2] = {
    {"embedding_forward", "1"},  /* forward: the edge is gathered, the first block on its way */
    {"attention_forward", "2"},  /* forward: the second block gathered, the third on its way */
    {"cross_entropy", "1"},      /* loss */
    {"attention_backward", "1"}, /* backward: the last block gathered again */
    {"attention_backward", "3"}, /* backward: gradients of the blocks after it on their way */
    {"embedding_backward", "1"}, /* the edge's gradient is not yet on its way, finish waits for it */
    {"sum_squares", "1"},        /* norm */
    {"adamw", "1"},              /* update */
    {"adamw", "4"},              /* update: weights of the first units on their way under zero1 and zero2 */
};
enum { PHASE_N = sizeof phases / sizeof *phases };

static void every_phase(const char *words, int rank, const char *kind, int first, int stride) {
    const char *cause = strcmp(kind, "kill") == 0     ? "was killed by signal 9"
                        : strcmp(kind, "memory") == 0 ? "step 3: out of memory"
                                                      : "thrown by a test in";
    for (int p = first; p < PHASE_N; p += stride) {
        outcome o = run(words, rank, kind, phases[p][0], atoi(phases[p][1]));
        expect(&o, words, 5, rank, cause);
    }
}

static void test_killed(void **state) {
    (void)state;
    every_phase("--num_processes 3 --strategy zero3", 1, "kill", 0, 1);
    every_phase("--num_processes 2 --strategy ddp", 0, "kill", 0, 3);
    every_phase("--num_processes 4 --strategy hsdp --shard_group_size 2", 3, "kill", 1, 2);
}

static void test_out_of_memory(void **state) {
    (void)state;
    if (FW_TEST_SANITIZED) skip();
    every_phase("--num_processes 2 --strategy zero3", 1, "memory", 0, 3);
    every_phase("--num_processes 3 --strategy ddp", 0, "memory", 1, 4);
    every_phase("--num_processes 4 --strategy hsdp --shard_group_size 2", 2, "memory", 2, 5);
}

static void test_thrown(void **state) {
    (void)state;
    every_phase("--num_processes 4 --strategy zero3", 0, "throw", 1, 3);
    every_phase("--num_processes 4 --strategy hsdp --shard_group_size 2", 1, "throw", 0, 4);
    every_phase("--num_processes 3 --strategy ddp", 2, "throw", 2, 4);
}

/* What a transport that breaks does, at gathers, sums and the rest of a step. */
static void test_collectives(void **state) {
    (void)state;
    static const char *const words[] = {"--num_processes 2 --strategy zero3", "--num_processes 3 --strategy ddp",
                                        "--num_processes 4 --strategy hsdp --shard_group_size 2"};
    for (int w = 0; w < 3; w++)
        for (int n = 1 + w; n <= 12; n += 3) {
            outcome o = run(words[w], w, "break", "collective", n);
            expect(&o, words[w], 6, w, "(injected by a test)");
        }
}

/* The disk is full while the shares of all ranks are written: said once, nobody waits for more, and what was complete
 * before is gone on from. */
static void test_full_disk(void **state) {
    (void)state;
    const char *words = "--num_processes 3 --strategy zero3 --max_steps 4 --save_steps 2";
    assert_int_equal(fw_test_run_train("whole", 0, words), 0);
    for (int n = 1; n <= 7; n += 2) {
        char name[32];
        snprintf(name, sizeof name, "full-%d", n);
        outcome o = run_in(name, words, 0, "break", "write", n);
        expect(&o, words, 6, 0, "No space left on device");
        assert_int_equal(fw_test_run_train(name, 0, words), 0);
        fw_test_run_same_final("whole", name);
    }
}

/* The n-th allocation after step 2 fails, in the step or in saving or writing the model after it. */
static void test_allocations(void **state) {
    (void)state;
    const char *words = "--num_processes 2 --strategy zero3 --max_steps 3 --save_steps 3";
    int failed_n = 0;
    for (int rank = 0; rank < 2; rank++)
        for (int n = 1; n <= 64; n *= rank == 0 ? 4 : 8) {
            outcome o = run(words, rank, "break", "allocation", n);
            failed_n += o.code != 0;
            if (o.code != 0) expect(&o, words, o.code == 5 ? 5 : 4, rank, "out of memory");
        }
    assert_true(failed_n > 2);
}

/* C35: the disk of one rank takes longer over a save than ranks wait for each other, in its own part and in what rank 0
 * writes for all. */
static void test_slow_save(void **state) {
    (void)state;
    const char *words = "--num_processes 2 --strategy zero3 --max_steps 3 --save_steps 2 --ddp_timeout 3";
    for (int n = 1; n <= 5; n += 2)
        for (int rank = 0; rank < 2; rank++) {
            if (rank == 1 && n > 1) continue; /* it writes less */
            outcome o = run(words, rank, "slow", "write", n);
            if (o.code != 0 || o.seconds < 4) fail_msg("exit code %d after %.1f s: %s", o.code, o.seconds, o.error);
        }
}

int main(int argc, char **argv) {
    fault f = {.rank = -1};
    fw_train_hooks hooks = {.context = &f, .place = on_place, .start = on_start, .step = on_step};
    if (argc > 1 && !read_fault(&f)) return 1;
    if (argc > 1) return fw_test_train_main(argc, argv, &hooks);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed),    cmocka_unit_test(test_out_of_memory),
                                       cmocka_unit_test(test_thrown),    cmocka_unit_test(test_collectives),
                                       cmocka_unit_test(test_full_disk), cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_slow_save)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
