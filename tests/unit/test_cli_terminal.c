/* cli: numbers for people, the progress bar and the plain line. */
#include "cli/terminal.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_numbers(void **state) {
    (void)state;
    char text[FW_HUMAN_BYTES];
    assert_string_equal(fw_human_size(text, 0), "0 B");
    assert_string_equal(fw_human_size(text, 1023), "1023 B");
    assert_string_equal(fw_human_size(text, 1024), "1.0 KiB");
    assert_string_equal(fw_human_size(text, 1048575), "1.0 MiB"); /* never 1024.0 KiB */
    assert_string_equal(fw_human_size(text, UINT64_C(1288490189)), "1.2 GiB");
    assert_string_equal(fw_human_size(text, UINT64_MAX), "16.0 EiB");
    assert_string_equal(fw_human_count(text, 0), "0");
    assert_string_equal(fw_human_count(text, 999.4), "999");
    assert_string_equal(fw_human_count(text, 999.6), "1.0 k");
    assert_string_equal(fw_human_count(text, 999960), "1.0 M");
    assert_string_equal(fw_human_count(text, 134515008), "134.5 M");
    assert_true(strlen(fw_human_count(text, 1e300)) < FW_HUMAN_BYTES - 1);
    assert_string_equal(fw_human_duration(text, 4.23), "4.2 s");
    assert_string_equal(fw_human_duration(text, 59.96), "1:00");
    assert_string_equal(fw_human_duration(text, 187), "3:07");
    assert_string_equal(fw_human_duration(text, 3753), "1:02:33");
    assert_string_equal(fw_human_duration(text, 2 * 86400 + 3 * 3600 + 600), "2 d 03:10");
    assert_string_equal(fw_human_duration(text, NAN), "?");
    assert_string_equal(fw_human_duration(text, -1), "?");
    assert_string_equal(fw_human_duration(text, INFINITY), "?");
}

static const fw_progress_values values = {.step = 60,
                                          .step_n = 240,
                                          .epoch = 0.75,
                                          .loss = 1.23456,
                                          .learning_rate = 1.5e-5,
                                          .grad_norm = 0.87,
                                          .tokens_per_s = 1234};

static void test_bar(void **state) {
    (void)state;
    char text[400];
    fw_progress_bar(text, sizeof text, &values, 0, 60, 120);
    assert_string_equal(
        text,
        " 25% [=======>                      ] 60/240  loss 1.235  3:00 left  1.2 k tokens/s  lr 1.50e-05  norm 0.87");
    fw_progress_bar(text, sizeof text, &values, 0, 60, 30);
    assert_string_equal(text, " 25% 60/240  loss 1.235");
    for (int width = 5; width < 300; width++) {
        int n = fw_progress_bar(text, sizeof text, &values, 0, 60, width);
        assert_int_equal(n, strlen(text));
        assert_true(n <= width);
    }
    /* nothing known yet; a resumed run counts its own steps only; a small buffer */
    fw_progress_values v = {
        .step = 0, .step_n = 0, .epoch = NAN, .loss = NAN, .learning_rate = NAN, .grad_norm = NAN, .tokens_per_s = NAN};
    fw_progress_bar(text, sizeof text, &v, 0, 0, 20);
    assert_string_equal(text, "  0% 0/0");
    v.step = 110, v.step_n = 120;
    fw_progress_bar(text, sizeof text, &v, 100, 30, 30);
    assert_string_equal(text, " 91% 110/120  30.0 s left");
    assert_int_equal(fw_progress_bar(text, 6, &values, 0, 60, 120), 5);
}

static void test_line(void **state) {
    (void)state;
    char text[400];
    fw_progress_line(text, sizeof text, &values, 0, 60);
    assert_string_equal(text,
                        "step 60/240, epoch 0.75, loss 1.2346, lr 1.50e-05, grad norm 0.870, 1234 tokens/s, 3:00 left");
    fw_progress_values v = {.step = 3,
                            .step_n = 9,
                            .epoch = NAN,
                            .loss = 1e300,
                            .learning_rate = NAN,
                            .grad_norm = NAN,
                            .tokens_per_s = NAN};
    assert_true(fw_progress_line(text, sizeof text, &v, 3, 1) < 200);
}

/* What a training of 3 steps shows, in a process of its own whose standard error is `fd`. */
static void train_a_little(int fd, int rank, bool plain) {
    dup2(fd, STDERR_FILENO);
    setenv("TERM", "xterm", 1);
    fw_terminal_start();
    fw_terminal_set_rank(rank, 2);
    fw_progress *p;
    if (fw_progress_create(&p, 0, plain) != FW_OK) _exit(1);
    fw_progress_values v = values;
    v.step_n = 3;
    for (v.step = 1; v.step <= 3; v.step++) {
        fw_progress_update(p, &v, v.step == 2);
        if (v.step == 1) fw_log_info("a message");
        if (v.step == 2) fw_log_warning("a \x1b[31mwarning\nof two lines");
    }
    fw_progress_destroy(p);
    _exit(0);
}

static void show(char *out, size_t bytes, int reader, int writer, int rank, bool plain) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) train_a_little(writer, rank, plain);
    close(writer);
    size_t used = 0;
    int result = -1;
    for (bool ended = false; used + 1 < bytes;) {
        ssize_t n = read(reader, out + used, bytes - 1 - used);
        if (n > 0) used += (size_t)n;
        if (n <= 0 && ended) break;
        /* a terminal's reader may be told of its writer's end before it is given the last of what was written */
        if (n <= 0) assert_int_equal(waitpid(child, &result, 0), child);
        ended = ended || n <= 0;
    }
    out[used] = 0;
    close(reader);
    assert_int_equal(result, 0);
}

static void show_on_terminal(char *out, size_t bytes, int rank, bool plain) {
    int reader = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(reader >= 0);
    assert_int_equal(grantpt(reader), 0);
    assert_int_equal(unlockpt(reader), 0);
    int writer = open(ptsname(reader), O_RDWR | O_NOCTTY);
    assert_true(writer >= 0);
    struct winsize size = {.ws_row = 24, .ws_col = 50};
    assert_int_equal(ioctl(writer, TIOCSWINSZ, &size), 0);
    show(out, bytes, reader, writer, rank, plain);
}

static const char warning[] = "finewire: rank 0: warning: a \\x1b[31mwarning\\nof two lines";

static void test_on_a_terminal(void **state) {
    (void)state;
    char out[8192];
    show_on_terminal(out, sizeof out, 0, false);
    /* a message takes the bar's place, and the bar comes back below it */
    const char *message = strstr(out, "\r\x1b[Ka message\r\n");
    assert_non_null(message);
    assert_ptr_equal(strstr(message, " 33%"), message + strlen("\r\x1b[Ka message\r\n"));
    assert_non_null(strstr(out, warning));
    /* the end is an ordinary line */
    assert_string_equal(strrchr(out, '\n'), "\n");
    assert_non_null(strstr(out, "100%"));
    for (char *line = strtok(out, "\r\n"); line != NULL; line = strtok(NULL, "\r\n"))
        if (strchr(line, '%') != NULL) assert_true(strlen(line) - (line[0] == '\x1b' ? 3 : 0) < 50);

    show_on_terminal(out, sizeof out, 0, true); /* disable_tqdm */
    assert_null(strstr(out, "\x1b["));
    assert_non_null(strstr(out, "step 2/3, epoch 0.75"));
    /* one rank speaks, warnings come from all, and take the bar of rank 0 away */
    show_on_terminal(out, sizeof out, 1, false);
    assert_string_equal(out, "\r\x1b[Kfinewire: rank 1: warning: a \\x1b[31mwarning\\nof two lines\r\n");
    show_on_terminal(out, sizeof out, -1, false); /* the launcher is no rank */
    assert_non_null(strstr(out, "a message\r\n"));
    assert_non_null(strstr(out, "\r\x1b[Kfinewire: warning: a "));
    assert_null(strchr(out, '%'));
}

static void test_elsewhere(void **state) {
    (void)state;
    char out[8192];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    show(out, sizeof out, ends[0], ends[1], 0, false);
    assert_null(strstr(out, "\r"));
    assert_null(strstr(out, "step 1/3"));
    assert_non_null(strstr(out, "a message\nstep 2/3, epoch 0.75"));
    assert_non_null(strstr(out, warning));
    assert_null(strstr(out, "step 3/3")); /* not a logging step */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_bar),       cmocka_unit_test(test_line),
        cmocka_unit_test(test_on_a_terminal), cmocka_unit_test(test_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
