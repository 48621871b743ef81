/* Data as a run meets it: tokenised once for all ranks, used again, waited for; rows left out are written down; parts held
 * out are evaluated. */
#include "base/file.h"
#include "base/json.h"
#include "support/run_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static char cache_dir[FW_TEST_PATH_BYTES + 16];

static int set_up(void **state) {
    if (fw_test_run_setup(state) != 0) return 1;
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", fw_run_dir);
    return 0;
}

/* Words for a run whose tokens are kept in cache_dir. */
static const char *cached(const char *more) {
    static char words[1024];
    snprintf(words, sizeof words, "--dataset_cache_dir %s %s", cache_dir, more);
    return words;
}

/* The only file there; returns how many there are. */
static size_t cache_file(char path[1024]) {
    char **names;
    size_t n;
    assert_int_equal(fw_dir_list(&names, &n, cache_dir), FW_OK);
    if (n > 0) snprintf(path, 1024, "%s/%s", cache_dir, names[0]);
    fw_dir_list_free(names, n);
    return n;
}

static void expect_same_losses(const char *a, const char *b) {
    double x[FW_TEST_STEPS_MAX], y[FW_TEST_STEPS_MAX];
    int n = fw_test_run_losses(a, x);
    assert_int_equal(fw_test_run_losses(b, y), n);
    assert_true(n > 0);
    for (int step = 1; step <= n; step++) assert_true(x[step] == y[step]);
}

static void test_once_for_all(void **state) {
    (void)state;
    char path[1024];
    const char *more = "--num_processes 3 --max_steps 4";
    fw_test_run_train("made", 0, cached(more));
    assert_int_equal(cache_file(path), 1);
    fw_test_run_train("found", 0, cached(more));
    assert_int_equal(cache_file(path), 1);
    fw_test_run_train("memory", 0, "--num_processes 3 --max_steps 4 --dataset_cache_size 0");
    expect_same_losses("made", "found");
    expect_same_losses("made", "memory");
}

/* Reads what the command says until it says `part`, at most a minute. */
static void wait_for_words(fw_test_command *c, const char *part) {
    char piece[4096];
    struct pollfd readable = {.fd = c->err_fd, .events = POLLIN};
    while (strstr(fw_strbuf_text(&c->err), part) == NULL) {
        assert_int_equal(poll(&readable, 1, 60000), 1);
        ssize_t n = read(c->err_fd, piece, sizeof piece);
        if (n <= 0) fail_msg("it ended without \"%s\": %s", part, fw_strbuf_text(&c->err));
        assert_int_equal(fw_strbuf_append(&c->err, piece, (size_t)n), FW_OK);
    }
}

/* What becomes of a run on two ranks whose cache another process holds the lock of. */
typedef struct held_run {
    fw_test_command command;
    int lock_fd;
} held_run;

static void start_held(held_run *h, const char *name, const char *more) {
    char path[1024], lock[1100];
    fw_test_run_args a;
    fw_test_run_train("first", 0, cached("--num_processes 2 --max_steps 2"));
    assert_int_equal(cache_file(path), 1);
    unlink(path);
    snprintf(lock, sizeof lock, "%s.lock", path);
    h->lock_fd = open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(flock(h->lock_fd, LOCK_EX), 0);
    fw_test_run_make_args(&a, name, cached(more));
    assert_int_equal(fw_test_command_start(&h->command, a.argv, NULL), 0);
    wait_for_words(&h->command, "another process tokenises the same conversations");
}

static void finish_held(held_run *h, int expected) {
    int code = fw_test_command_finish(&h->command, 120);
    if (code != expected) fail_msg("exit code %d: %s", code, fw_strbuf_text(&h->command.err));
    close(h->lock_fd);
}

/* C35: tokenising is no timeout. Another process holds what rank 0 needs for longer than ranks wait for each other. */
static void test_waiting_is_no_timeout(void **state) {
    (void)state;
    held_run h;
    start_held(&h, "waited", "--num_processes 2 --max_steps 2 --ddp_timeout 4");
    sleep(5); /* and a second before it said so */
    assert_int_equal(flock(h.lock_fd, LOCK_UN), 0);
    finish_held(&h, 0);
    fw_test_command_fini(&h.command);
    expect_same_losses("first", "waited");
}

/* A signal is noticed while conversations are read, also while another process is waited for. */
static void test_interrupted(void **state) {
    (void)state;
    held_run h;
    start_held(&h, "interrupted", "--num_processes 2 --max_steps 2");
    assert_int_equal(kill(h.command.pid, SIGINT), 0);
    finish_held(&h, 130);
    assert_non_null(strstr(fw_strbuf_text(&h.command.err), "interrupted while the conversations were read"));
    fw_test_command_fini(&h.command);
}

#define TALK "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n"

static void write_rows(char path[FW_TEST_PATH_BYTES + 32], const char *name, const char *text) {
    snprintf(path, FW_TEST_PATH_BYTES + 32, "%s/%s", fw_run_dir, name);
    assert_int_equal(fw_file_write(path, text, strlen(text)), FW_OK);
}

/* E46: rows without a target are counted and written down; rows that cannot be read are errors unless they are allowed. */
static void test_dropped(void **state) {
    (void)state;
    char path[FW_TEST_PATH_BYTES + 32], words[2048];
    write_rows(path, "some.jsonl",
               TALK "{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}\n{\"messages\":[]}\n" TALK);
    snprintf(words, sizeof words, "--dataset %s --max_steps 1", path);
    fw_test_run_refused(3, "some.jsonl:3: \"messages\" is empty", words);
    snprintf(words, sizeof words, "--dataset %s --max_steps 1 --allow_dropped", path);
    fw_test_run_train("dropped", 0, words);
    fw_strbuf text = {0};
    assert_int_equal(fw_file_read(&text, fw_test_run_path("dropped", "dropped.jsonl"), 1 << 16), FW_OK);
    char *second = strchr(text.data, '\n');
    json_t *row;
    assert_int_equal(fw_json_parse(&row, text.data, (size_t)(second - text.data), "row", 1), FW_OK);
    assert_string_equal(json_string_value(json_object_get(row, "reason")), "no_assistant");
    assert_int_equal(json_integer_value(json_object_get(row, "line")), 2);
    json_decref(row);
    assert_int_equal(fw_json_parse(&row, second + 1, strlen(second + 1), "row", 1), FW_OK);
    assert_string_equal(json_string_value(json_object_get(row, "reason")), "empty");
    assert_string_equal(json_string_value(json_object_get(row, "file")), path);
    json_decref(row);
    fw_strbuf_fini(&text);
    /* nothing left out, no file */
    fw_test_run_train("clean", 0, "--max_steps 1");
    assert_false(fw_file_exists(fw_test_run_path("clean", "dropped.jsonl")));
}

/* Held-out conversations are evaluated, the same ones by any number of ranks; other formats train as well. */
static void test_held_out(void **state) {
    (void)state;
    const char *more =
        "--max_steps 2 --val_size 0.2 --eval_strategy steps --eval_steps 2 --gradient_accumulation_steps 2 "
        "--per_device_train_batch_size 2";
    char words[1024];
    fw_test_run_train("one", 0, more);
    snprintf(words, sizeof words, "%s --num_processes 2 --gradient_accumulation_steps 1", more);
    fw_test_run_train("two", 0, words);
    const double one = fw_test_run_last_metric("one", "eval_loss"), two = fw_test_run_last_metric("two", "eval_loss");
    assert_true(one > 0);
    assert_true(one - two < 1e-3 && two - one < 1e-3);
    fw_test_run_refused(2, "none is left to learn", "--max_steps 1 --val_size 37");
}

static void test_options(void **state) {
    (void)state;
    char path[FW_TEST_PATH_BYTES + 32], words[2048];
    write_rows(path, "t.csv", "instruction,output\na,b\n\"c\nd\",e\nf,g\n");
    snprintf(words, sizeof words,
             "--dataset %s:2,%s --num_train_epochs 1 --per_device_train_batch_size 1 --max_samples 2 --group_by_length",
             path, fw_run_data);
    fw_test_run_train("mixed", 0, words); /* 2 rows twice and 2 of the lab's */
    double loss[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses("mixed", loss), 6);
    fw_test_run_train(
        "packed", 0,
        "--max_steps 2 --packing --packing_strategy sequential --max_length 128 --truncation_mode keep_end");
    fw_test_run_refused(2, "wrapped", "--max_steps 2 --packing --packing_strategy wrapped");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once_for_all, set_up, fw_test_run_teardown),
        cmocka_unit_test_setup_teardown(test_waiting_is_no_timeout, set_up, fw_test_run_teardown),
        cmocka_unit_test_setup_teardown(test_interrupted, set_up, fw_test_run_teardown),
        cmocka_unit_test_setup_teardown(test_dropped, set_up, fw_test_run_teardown),
        cmocka_unit_test_setup_teardown(test_held_out, set_up, fw_test_run_teardown),
        cmocka_unit_test_setup_teardown(test_options, set_up, fw_test_run_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
