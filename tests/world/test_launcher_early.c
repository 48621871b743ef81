/* The launcher while the ranks have not met yet: a signal, a death. This very program is the ranks. */
#include "base/host.h"
#include "comm/comm.h"
#include "comm/launcher.h"
#include "support/waiting.h"

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

static char folder[64], self[4096];

/* What the launcher told. */
typedef struct diary {
    int killed_n, pid[3];
    char message[3][256], killed_message[256];
} diary;

static void write_down(void *context, const fw_launch_event *event) {
    diary *d = context;
    if (event->kind == FW_LAUNCH_STARTED) d->pid[event->rank] = event->pid;
    if (event->kind == FW_LAUNCH_EXITED) snprintf(d->message[event->rank], sizeof d->message[0], "%s", event->message);
    if (event->kind != FW_LAUNCH_KILLED) return;
    d->killed_n++;
    snprintf(d->killed_message, sizeof d->killed_message, "%s", event->message);
}

static int code_of(pid_t pid) {
    int state;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 1000 + WTERMSIG(state);
}

/* What a rank that failed would say, in a file whose name tells whether it is to be said. */
static void leave_word(const char *where, const fw_comm *c, int rank) {
    char path[5000];
    snprintf(path, sizeof path, "%s/%s.%d", where, fw_comm_reports_failure(c) ? "reports" : "silent", rank);
    FILE *f = fopen(path, "we");
    if (f == NULL) return;
    fprintf(f, "%s", fw_trail_message());
    fclose(f);
}

static void take_note(int number) { (void)number; }

/* Rank 1 does not come to the meeting; the others handle signals. */
static void stay_away(const char *how, const char *where, int rank) {
    char path[5000];
    struct sigaction note = {.sa_handler = take_note, .sa_flags = SA_RESTART};
    if (rank != 1) {
        sigaction(SIGINT, &note, NULL);
        sigaction(SIGTERM, &note, NULL);
    }
    snprintf(path, sizeof path, "%s/%s", where, how);
    FILE *f = fopen(path, "ae");
    if (f == NULL) return;
    fputc('x', f);
    fclose(f);
    for (int i = 0; i < 6000 && rank == 1; i++) nap(0.01);
}

static int be_a_rank(const char *how, const char *where) {
    fw_comm_options o;
    int found;
    fw_comm *c;
    if (fw_comm_options_from_environment(&o, &found) != FW_OK || !found || !o.own_launcher) return 70;
    stay_away(how, where, o.rank);
    fw_status status = fw_comm_create(&c, &o);
    if (status == FW_OK) return 71; /* without rank 1 */
    leave_word(where, NULL, o.rank);
    return fw_status_exit_code(status);
}

static void forget_words(void) {
    for (int r = 0; r < 3; r++) {
        char path[200];
        snprintf(path, sizeof path, "%s/silent.%d", folder, r);
        unlink(path);
        snprintf(path, sizeof path, "%s/reports.%d", folder, r);
        unlink(path);
    }
}

/* A launcher aside with this program's ranks, and a signal when all three have said that they are there. */
static void signal_while_they_meet(int number) {
    char path[200];
    forget_words();
    snprintf(path, sizeof path, "%s/cut", folder);
    unlink(path);
    pid_t launcher = fork();
    if (launcher == 0) {
        char *argv[] = {self, "--rank", "cut", folder, NULL};
        int exit_code = 0;
        fw_launch_options options = {.process_n = 3};
        signal(number, SIG_DFL);
        _exit(fw_launch(&options, argv, &exit_code) == FW_OK ? exit_code : 99);
    }
    assert_true(wait_for_in(folder, "cut", 3));
    uint64_t start_ns = fw_host_now_ns();
    kill(launcher, number);
    assert_int_equal(code_of(launcher), 130);
    assert_true(fw_host_now_ns() - start_ns < 10ull * 1000000000);
    for (int r = 0; r < 3; r++) { /* nobody has more to say */
        snprintf(path, sizeof path, "%s/reports.%d", folder, r);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void a_signal_before_all_have_met_stops_all(void **state) {
    (void)state;
    signal_while_they_meet(SIGINT);
    signal_while_they_meet(SIGTERM);
}

/* A rank is killed before it has come: the launcher tells rank 0, and nobody has to be killed. */
static void kill_the_absent(void *context, const fw_launch_event *event) {
    write_down(context, event);
    if (event->kind != FW_LAUNCH_STARTED || event->rank != 2) return;
    assert_true(wait_for_in(folder, "absent", 3));
    long pid = ((diary *)context)->pid[1];
    kill((pid_t)pid, SIGKILL);
}

static void a_rank_that_died_is_not_waited_for(void **state) {
    (void)state;
    char *argv[] = {self, "--rank", "absent", folder, NULL}, text[200];
    int exit_code = 0;
    diary d = {0};
    forget_words();
    fw_launch_options options = {.process_n = 3, .grace_s = 40, .on_event = kill_the_absent, .context = &d};
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    assert_int_equal(exit_code, 5);
    assert_int_equal(d.killed_n, 0);
    assert_non_null(strstr(d.message[1], "rank 1 was killed by signal 9"));
    assert_non_null(
        strstr(read_text_in(folder, "silent.0", text, sizeof text), "rank 1 ended before the ranks had met"));
    /* rank 2 has it from rank 0, or sees that rank 0 has gone */
    assert_true(strlen(read_text_in(folder, "silent.2", text, sizeof text)) > 0);
    for (int r = 0; r < 3; r += 2) assert_string_equal(d.message[r], "");
}

/* A signal that only the rank got is a failure like any other, not an orderly stop. */
static void a_rank_ended_by_a_signal_of_its_own_failed(void **state) {
    (void)state;
    diary d = {0};
    char *argv[] = {"sh", "-c", "[ $RANK = 1 ] && kill -INT $$; exec sleep 100", NULL};
    int exit_code = 0;
    fw_launch_options options = {.process_n = 2, .grace_s = 0.2, .on_event = write_down, .context = &d};
    assert_int_equal(fw_launch(&options, argv, &exit_code), FW_OK);
    assert_int_equal(exit_code, 5);
    assert_non_null(strstr(d.message[1], "rank 1 was killed by signal 2 (SIGINT"));
    assert_string_equal(d.killed_message, "rank 0 did not stop within 0.2 s after rank 1 had ended: killed");
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--rank") == 0) return be_a_rank(argv[2], argv[3]);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return 1;
    self[n] = 0;
    signal(SIGINT, SIG_DFL); /* a shell ignores it for what runs in the background */
    snprintf(folder, sizeof folder, "/tmp/fw-early-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_before_all_have_met_stops_all),
        cmocka_unit_test(a_rank_that_died_is_not_waited_for),
        cmocka_unit_test(a_rank_ended_by_a_signal_of_its_own_failed),
    };
    int failed_n = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) failed_n++;
    return failed_n;
}
