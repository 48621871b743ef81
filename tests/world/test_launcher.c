/* The launcher, with small shell commands as ranks, and with this very program as ranks that meet for real. */
#include "base/alloc.h"
#include "base/host.h"
#include "comm/launcher.h"
#include "support/waiting.h"
#include "support/world.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

/* What the launcher told. */
typedef struct diary {
    int started_n, exited_n, signal_n, killed_n;
    int exit_code[FW_COMM_MAX_WORLD], signal[FW_COMM_MAX_WORLD], expected[FW_COMM_MAX_WORLD];
    char message[FW_COMM_MAX_WORLD][256], killed_message[256];
} diary;

static void write_down(void *context, const fw_launch_event *event) {
    diary *d = context;
    if (event->kind == FW_LAUNCH_STARTED) d->started_n++;
    if (event->kind == FW_LAUNCH_SIGNAL) d->signal_n++;
    if (event->kind == FW_LAUNCH_KILLED) {
        d->killed_n++;
        snprintf(d->killed_message, sizeof d->killed_message, "%s", event->message);
    }
    if (event->kind == FW_LAUNCH_EXITED) {
        d->exited_n++;
        d->exit_code[event->rank] = event->exit_code;
        d->signal[event->rank] = event->signal;
        d->expected[event->rank] = event->expected;
        snprintf(d->message[event->rank], sizeof d->message[0], "%s", event->message);
    }
}

/* Run `script` as n ranks. */
static int launch_shell(int n, const char *script, double grace_s, diary *d) {
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)script, NULL};
    int exit_code = -1;
    memset(d, 0, sizeof *d);
    fw_launch_options options = {.process_n = n, .grace_s = grace_s, .on_event = write_down, .context = d};
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    assert_int_equal(d->started_n, n);
    assert_int_equal(d->exited_n, n);
    return exit_code;
}

/* Gone, or a zombie that nobody has reaped. */
static int is_gone(long pid) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL) return 1;
    char *got = fgets(line, sizeof line, f), *end = strrchr(line, ')');
    fclose(f);
    return got == NULL || end == NULL || end[2] == 'Z' || end[2] == 'X';
}

static void assert_goes(long pid) {
    for (int i = 0; i < 1000 && !is_gone(pid); i++) nap(0.01);
    if (!is_gone(pid)) fail_msg("process %ld is still there", pid);
}

static void ranks_get_their_environment(void **state) {
    (void)state;
    diary d;
    char script[600], text[2][600];
    setenv("RANK", "77", 1); /* of a job around ours */
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    snprintf(script, sizeof script,
             "read line && exit 9; echo \"$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR "
             "${TORCHELASTIC_USE_AGENT_STORE:-none} ${FINEWIRE_LISTEN_FD:+listens} $MASTER_PORT $FINEWIRE_JOB_SECRET\" "
             "> %s/env.$RANK",
             folder);
    assert_int_equal(launch_shell(2, script, 0, &d), 0);
    unsetenv("RANK");
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    read_text_in(folder, "env.0", text[0], sizeof text[0]);
    read_text_in(folder, "env.1", text[1], sizeof text[1]);
    const char *start[2] = {"0 2 0 2 127.0.0.1 none listens ", "1 2 1 2 127.0.0.1 none  "};
    for (int r = 0; r < 2; r++) assert_memory_equal(text[r], start[r], strlen(start[r]));
    assert_string_equal(text[0] + strlen(start[0]), text[1] + strlen(start[1])); /* one port, one secret */
    assert_true(strlen(text[0]) > strlen(start[0]) + 40);
}

static void the_exit_code_is_that_of_the_cause(void **state) {
    (void)state;
    /* codes of ranks 0 and 1; rank 1 ends once the launcher has seen the end of rank 0: until then there is a process */
    static const int cases[][3] = {{0, 0, 0},   {0, 3, 3},   {3, 0, 3}, {5, 3, 3},       {5, 5, 5},
                                   {2, 6, 2},   {4, 5, 4},   {6, 5, 6}, {130, 130, 130}, {0, 130, 130},
                                   {130, 5, 5}, {130, 3, 3}, {7, 0, 5}, {70, 5, 5},      {1, 5, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        diary d;
        char script[512];
        snprintf(script, sizeof script,
                 "cd %s; if [ $RANK = 0 ]; then echo $$ >pid.part; mv pid.part pid.%zu; exit %d; fi; "
                 "while [ ! -e pid.%zu ]; do sleep 0.01; done; "
                 "while kill -0 $(cat pid.%zu) 2>/dev/null; do sleep 0.01; done; exit %d",
                 folder, i, cases[i][0], i, i, cases[i][1]);
        assert_int_equal(launch_shell(2, script, 0, &d), cases[i][2]);
        for (int r = 0; r < 2; r++) assert_int_equal(d.exit_code[r], cases[i][r]);
        assert_int_equal(d.message[0][0] != 0, cases[i][0] == 7); /* codes that are not ours are told */
    }
}

static void a_killed_rank_is_named_and_the_others_follow(void **state) {
    (void)state;
    diary d;
    uint64_t start_ns = fw_host_now_ns();
    assert_int_equal(launch_shell(3, "[ $RANK = 1 ] && kill -9 $$; exec sleep 100", 0.2, &d), 5);
    assert_true(fw_host_now_ns() - start_ns < 60ull * 1000000000);
    assert_string_equal(d.message[1], "rank 1 was killed by signal 9 (SIGKILL; out of memory is a common reason)");
    assert_int_equal(d.signal[1], 9);
    assert_int_equal(d.killed_n, 1);
    assert_non_null(strstr(d.killed_message, "2 ranks did not stop"));
    assert_true(!d.expected[1] && d.expected[0] && d.expected[2]);
    assert_int_equal(d.message[0][0], 0);
    /* those that stop by themselves within the grace period are not killed */
    assert_int_equal(launch_shell(2, "[ $RANK = 1 ] && exit 3; sleep 0.3; exit 5", 30, &d), 3);
    assert_int_equal(d.killed_n, 0);
    assert_int_equal(d.exit_code[0], 5);
}

static void a_command_that_cannot_start_is_named(void **state) {
    (void)state;
    int exit_code;
    char *missing[] = {"/no/such/program", NULL}, *none[] = {NULL};
    fw_launch_options options = {.process_n = 3};
    assert_int_equal(fw_launch(&options, missing, &exit_code), FW_ERR_OPTION);
    assert_non_null(strstr(fw_trail_message(), "/no/such/program"));
    assert_int_equal(fw_launch(&options, none, &exit_code), FW_ERR_OPTION);
    options.process_n = 0;
    assert_int_equal(fw_launch(&options, missing, &exit_code), FW_ERR_OPTION);
    options.process_n = FW_COMM_MAX_WORLD + 1;
    assert_int_equal(fw_launch(&options, missing, &exit_code), FW_ERR_OPTION);
}

/* A launcher in a process of its own, to send signals to. Exits with the job's code. */
static pid_t launch_with(int n, const char *script, void (*sigint)(int)) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)script, NULL};
    int exit_code = 0;
    fw_launch_options options = {.process_n = n, .grace_s = 1};
    signal(SIGINT, sigint);
    if (fw_launch(&options, argv, &exit_code) != FW_OK) _exit(99);
    _exit(exit_code);
}

static pid_t launch_aside(int n, const char *script) { return launch_with(n, script, SIG_DFL); }

static int code_of(pid_t pid) {
    int state;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
}

static void each_rank_gets_a_signal_once(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (int k = 0; k < 3; k++) {
        char script[400], text[64];
        snprintf(script, sizeof script,
                 "cd %s; trap 'echo x >> got.%d.$RANK' INT TERM HUP; echo r >> ready.%d; "
                 "while [ ! -e go.%d ]; do sleep 0.02; done; exit 130",
                 folder, k, k, k);
        pid_t launcher = launch_aside(2, script);
        char ready[32], got[32];
        snprintf(ready, sizeof ready, "ready.%d", k);
        assert_true(wait_for_in(folder, ready, 4));
        kill(launcher, numbers[k]);
        kill(launcher, numbers[k]); /* a wrapper that signals the process and its group */
        for (int r = 0; r < 2; r++) {
            snprintf(got, sizeof got, "got.%d.%d", k, r);
            assert_true(wait_for_in(folder, got, 2));
        }
        char path[128];
        snprintf(path, sizeof path, "%s/go.%d", folder, k);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_int_equal(code_of(launcher), 130);
        for (int r = 0; r < 2; r++) {
            snprintf(got, sizeof got, "got.%d.%d", k, r);
            assert_string_equal(read_text_in(folder, got, text, sizeof text), "x\n");
        }
    }
}

static void a_rank_without_a_handler_ends_by_the_signal(void **state) {
    (void)state;
    char script[200];
    snprintf(script, sizeof script, "echo r >> %s/plain; exec sleep 100", folder);
    pid_t launcher = launch_aside(2, script);
    assert_true(wait_for_in(folder, "plain", 4));
    kill(launcher, SIGTERM);
    assert_int_equal(code_of(launcher), 130);
}

/* As what a script starts with &: SIGINT is ignored, and stops the job all the same. */
static void a_job_in_the_background_gets_sigint(void **state) {
    (void)state;
    char script[200];
    snprintf(script, sizeof script, "echo r >> %s/behind; exec sleep 100", folder);
    pid_t launcher = launch_with(2, script, SIG_IGN);
    assert_true(wait_for_in(folder, "behind", 4));
    kill(launcher, SIGINT);
    assert_int_equal(code_of(launcher), 130);
}

static void a_second_signal_kills_at_once(void **state) {
    (void)state;
    char script[300], text[64];
    snprintf(script, sizeof script, "trap '' INT; echo $$ >> %s/deaf; while :; do sleep 0.1; done", folder);
    pid_t launcher = launch_aside(2, script);
    assert_true(wait_for_in(folder, "deaf", 4));
    nap(0.1); /* both lines */
    kill(launcher, SIGINT);
    nap(0.5);
    assert_int_equal(waitpid(launcher, NULL, WNOHANG), 0); /* ranks may take as long as they need to save */
    kill(launcher, SIGINT);
    assert_int_equal(code_of(launcher), 5);
    long a = 0, b = 0;
    assert_int_equal(sscanf(read_text_in(folder, "deaf", text, sizeof text), "%ld %ld", &a, &b), 2);
    assert_true(is_gone(a) && is_gone(b));
}

static void kill_9_of_the_launcher_leaves_nobody(void **state) {
    (void)state;
    char script[200], text[128];
    snprintf(script, sizeof script, "echo $$ >> %s/orphans; exec sleep 100", folder);
    pid_t launcher = launch_aside(3, script);
    long pid[3] = {0};
    for (int i = 0; i < 6000 && sscanf(read_text_in(folder, "orphans", text, sizeof text), "%ld %ld %ld", &pid[0],
                                       &pid[1], &pid[2]) != 3;
         i++)
        nap(0.01);
    kill(launcher, SIGKILL);
    assert_int_equal(code_of(launcher), 1000 + SIGKILL);
    for (int r = 0; r < 3; r++) {
        assert_true(pid[r] > 0);
        assert_goes(pid[r]);
    }
}

static void what_a_rank_left_behind_goes_with_it(void **state) {
    (void)state;
    char script[200], text[64];
    diary d;
    snprintf(script, sizeof script, "sleep 100 & echo $! > %s/left; exit 0", folder);
    assert_int_equal(launch_shell(1, script, 0, &d), 0);
    long pid = atol(read_text_in(folder, "left", text, sizeof text));
    assert_true(pid > 0);
    assert_goes(pid);
}

static void each_failing_allocation_is_an_error(void **state) {
    (void)state;
    char *argv[] = {"true", NULL};
    int exit_code;
    fw_launch_options options = {.process_n = 2};
    fw_alloc_fail_at(0);
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    uint64_t n = fw_alloc_count();
    assert_true(n > 0);
    for (uint64_t k = 1; k <= n; k++) {
        fw_alloc_fail_at(k);
        assert_int_equal(fw_launch(&options, argv, &exit_code), FW_ERR_NOMEM);
    }
    fw_alloc_fail_at(0);
}

/* ---- this program as a rank ---- */

static char self[4096];

/* What a rank that failed would say, in a file whose name tells whether it is to be said. */
static void leave_word(const char *where, const fw_comm *c, int rank) {
    char path[5000];
    snprintf(path, sizeof path, "%s/%s.%d", where, fw_comm_reports_failure(c) ? "reports" : "silent", rank);
    FILE *f = fopen(path, "we");
    if (f == NULL) return;
    fprintf(f, "%s", fw_trail_message());
    fclose(f);
}

/* Meets the others and sums a few times; with "fail", rank 1 gives up in between. Ranks that failed leave a file. */
static int be_a_rank(const char *how, const char *where) {
    fw_comm_options o;
    int found, code = 0;
    fw_comm *c;
    if (fw_comm_options_from_environment(&o, &found) != FW_OK || !found || !o.own_launcher) return 70;
    if (o.rank == 0 && strcmp(how, "early") == 0) return 2;
    if (o.rank == 0 && strcmp(how, "killed") == 0) return kill(getpid(), SIGKILL);
    if (fw_comm_create(&c, &o) != FW_OK) {
        leave_word(where, NULL, o.rank);
        return fw_status_exit_code(FW_ERR_RANK);
    }
    float *x;
    fw_status status = fw_comm_alloc(c, (void **)&x, 4000, "x");
    for (int k = 0; k < 100 && status == FW_OK; k++) {
        fw_comm_request request = {0};
        for (int i = 0; i < 1000; i++) x[i] = (float)(o.rank + k);
        if (k == 50 && o.rank == 1 && strcmp(how, "fail") == 0) {
            status = fw_fail(FW_ERR_INPUT, "reading x: broken");
            fw_comm_abort(c, status);
        } else {
            status = fw_comm_all_reduce(c, x, 1000, FW_F32, &request);
            if (status == FW_OK) status = fw_comm_wait(c, &request);
        }
        float sum = (float)(o.world * (o.world - 1) / 2 + o.world * k);
        for (int i = 0; i < 1000 && status == FW_OK; i++)
            if (x[i] != sum) code = 72;
    }
    if (status != FW_OK) {
        leave_word(where, c, o.rank);
        code = fw_status_exit_code(status);
    }
    fw_comm_destroy(c);
    return code;
}

static void ranks_meet_and_two_jobs_run_at_once(void **state) {
    (void)state;
    pid_t jobs[3];
    for (int j = 0; j < 3; j++) {
        jobs[j] = fork();
        if (jobs[j] == 0) {
            char *argv[] = {self, "--rank", "well", folder, NULL};
            int exit_code = 0;
            fw_launch_options options = {.process_n = 2};
            _exit(fw_launch(&options, argv, &exit_code) == FW_OK ? exit_code : 99);
        }
    }
    for (int j = 0; j < 3; j++) assert_int_equal(code_of(jobs[j]), 0);
}

static void only_the_rank_that_failed_speaks(void **state) {
    (void)state;
    char *argv[] = {self, "--rank", "fail", folder, NULL}, text[200];
    int exit_code = 0;
    diary d = {0};
    fw_launch_options options = {.process_n = 3, .on_event = write_down, .context = &d};
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    assert_int_equal(exit_code, 3);
    assert_int_equal(d.killed_n, 0);
    assert_string_equal(read_text_in(folder, "reports.1", text, sizeof text), "reading x: broken");
    assert_string_equal(read_text_in(folder, "silent.0", text, sizeof text), "rank 1 failed: reading x: broken");
    assert_string_equal(read_text_in(folder, "silent.2", text, sizeof text), "rank 1 failed: reading x: broken");
    assert_true(d.exit_code[0] == 5 && d.exit_code[1] == 3 && d.exit_code[2] == 5);
}

/* Rank 0 ends before the ranks have met: the others neither wait for a timeout nor have to be killed. */
static void an_early_end_of_rank_0_ends_all(void **state) {
    (void)state;
    char *argv[] = {self, "--rank", "early", folder, NULL};
    int exit_code = 0;
    diary d = {0};
    fw_launch_options options = {.process_n = 3, .grace_s = 40, .on_event = write_down, .context = &d};
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    assert_int_equal(d.killed_n, 0);
    assert_int_equal(d.exit_code[0], 2);
    assert_int_equal(exit_code, 2);
}

/* Rank 0 is killed before the ranks have met: the launcher says so, and it is the only one who speaks. */
static void an_early_death_of_rank_0_is_said_once(void **state) {
    (void)state;
    for (int r = 1; r < 3; r++) {
        char path[200];
        snprintf(path, sizeof path, "%s/silent.%d", folder, r);
        unlink(path);
        snprintf(path, sizeof path, "%s/reports.%d", folder, r);
        unlink(path);
    }
    char *argv[] = {self, "--rank", "killed", folder, NULL}, text[200];
    int exit_code = 0;
    diary d = {0};
    fw_launch_options options = {.process_n = 3, .grace_s = 40, .on_event = write_down, .context = &d};
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    assert_int_equal(exit_code, 5);
    assert_int_equal(d.killed_n, 0);
    assert_non_null(strstr(d.message[0], "rank 0 was killed by signal 9"));
    for (int r = 1; r < 3; r++) {
        char name[20];
        snprintf(name, sizeof name, "silent.%d", r);
        assert_non_null(strstr(read_text_in(folder, name, text, sizeof text), "rank 0 "));
        assert_string_equal(d.message[r], "");
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--rank") == 0) return be_a_rank(argv[2], argv[3]);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return 1;
    self[n] = 0;
    snprintf(folder, sizeof folder, "/tmp/fw-launcher-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_get_their_environment),
        cmocka_unit_test(the_exit_code_is_that_of_the_cause),
        cmocka_unit_test(an_early_death_of_rank_0_is_said_once),
        cmocka_unit_test(a_killed_rank_is_named_and_the_others_follow),
        cmocka_unit_test(a_command_that_cannot_start_is_named),
        cmocka_unit_test(each_rank_gets_a_signal_once),
        cmocka_unit_test(a_rank_without_a_handler_ends_by_the_signal),
        cmocka_unit_test(a_job_in_the_background_gets_sigint),
        cmocka_unit_test(a_second_signal_kills_at_once),
        cmocka_unit_test(kill_9_of_the_launcher_leaves_nobody),
        cmocka_unit_test(what_a_rank_left_behind_goes_with_it),
        cmocka_unit_test(each_failing_allocation_is_an_error),
        cmocka_unit_test(ranks_meet_and_two_jobs_run_at_once),
        cmocka_unit_test(only_the_rank_that_failed_speaks),
        cmocka_unit_test(an_early_end_of_rank_0_ends_all),
    };
    int failed_n = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) failed_n++;
    return failed_n;
}
