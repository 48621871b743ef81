#include "support/run_lab.h"

#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "support/tiny_model.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const double deadline_s = 240;

char fw_run_dir[FW_TEST_PATH_BYTES], fw_run_model[FW_TEST_PATH_BYTES + 16], fw_run_data[FW_TEST_PATH_BYTES + 16];

/* No batch size divides 37 of them. */
void fw_test_write_conversations(const char *path, int conversation_n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < conversation_n; i++) {
        fprintf(f, "{\"messages\": [{\"role\": \"user\", \"content\": \"number %d", i);
        for (int k = 0; k < i * 5 % 13; k++) fprintf(f, " and %d", (i + 3) * k);
        fprintf(f, "\"}, {\"role\": \"assistant\", \"content\": \"it is %d", i * i);
        for (int k = 0; k < i * 7 % 11; k++) fprintf(f, ", then %d", i + k);
        fprintf(f, ".\"}]}\n");
    }
    assert_int_equal(fclose(f), 0);
}

int fw_test_run_setup(void **state) {
    (void)state;
    fw_test_scratch_make(fw_run_dir);
    snprintf(fw_run_model, sizeof fw_run_model, "%s/model", fw_run_dir);
    snprintf(fw_run_data, sizeof fw_run_data, "%s/data.jsonl", fw_run_dir);
    assert_int_equal(fw_test_write_model(fw_run_model, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(fw_run_model, FW_TEST_SMOLLM2), FW_OK);
    fw_test_write_conversations(fw_run_data, 37);
    return 0;
}

int fw_test_run_teardown(void **state) {
    (void)state;
    fw_test_scratch_remove(fw_run_dir);
    return 0;
}

void fw_test_run_make_args(fw_test_run_args *a, const char *name, const char *more) {
    snprintf(a->output, sizeof a->output, "%s/%s", fw_run_dir, name);
    const char *common[] = {FW_BINARY,         "train",        "--model",       fw_run_model,      "--dataset",
                            fw_run_data,       "--output_dir", a->output,       "--logging_steps", "1",
                            "--learning_rate", "3e-3",         "--disable_tqdm"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) a->argv[n++] = common[i];
    assert_true(strlen(more) < sizeof a->words);
    strcpy(a->words, more);
    for (char *word = strtok(a->words, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(n + 1 < FW_TEST_ARGS_MAX);
        a->argv[n++] = word;
    }
    a->argv[n] = NULL;
}

int fw_test_run_train(const char *name, int expected, const char *more) {
    fw_test_run_args a;
    fw_test_command c;
    fw_test_run_make_args(&a, name, more);
    int code = fw_test_command_run(&c, a.argv, expected, deadline_s);
    fw_test_command_fini(&c);
    return code;
}

void fw_test_run_refused(int code, const char *part, const char *more) {
    fw_test_run_args a;
    fw_test_command c;
    fw_test_run_make_args(&a, "refused", more);
    assert_int_equal(fw_test_command_run(&c, a.argv, code, deadline_s), code);
    const char *error = strstr(fw_strbuf_text(&c.err), "error: ");
    if (error == NULL || strstr(error, part) == NULL)
        fprintf(stderr, "expected \"%s\" in: %s\n", part, fw_strbuf_text(&c.err));
    assert_non_null(error);
    assert_non_null(strstr(error, part));
    assert_null(strstr(error + 1, "error: "));
    fw_test_command_fini(&c);
}

/* ---- what a run left */

const char *fw_test_run_path(const char *name, const char *file) {
    return fw_test_path(fw_test_path(fw_run_dir, name), file);
}

/* One line of metrics.jsonl; NULL at the end. */
static json_t *next_row(FILE *f) {
    char line[2048];
    json_t *row = NULL;
    if (fgets(line, sizeof line, f) == NULL) return NULL;
    assert_int_equal(fw_json_parse(&row, line, strlen(line), "metrics.jsonl", 1), FW_OK);
    return row;
}

int fw_test_run_losses(const char *name, double *loss) {
    FILE *f = fopen(fw_test_run_path(name, "metrics.jsonl"), "r");
    assert_non_null(f);
    int last = 0;
    for (json_t *row; (row = next_row(f)) != NULL; json_decref(row)) {
        int step = (int)json_integer_value(json_object_get(row, "step"));
        if (json_object_get(row, "loss") == NULL) continue; /* of an evaluation */
        assert_int_equal(step, last + 1);
        assert_true(step < FW_TEST_STEPS_MAX);
        loss[step] = json_number_value(json_object_get(row, "loss"));
        assert_true(isfinite(loss[step]));
        last = step;
    }
    fclose(f);
    return last;
}

double fw_test_run_last_metric(const char *name, const char *key) {
    FILE *f = fopen(fw_test_run_path(name, "metrics.jsonl"), "r");
    double value = NAN;
    assert_non_null(f);
    for (json_t *row; (row = next_row(f)) != NULL; json_decref(row))
        if (json_object_get(row, key) != NULL) value = json_number_value(json_object_get(row, key));
    fclose(f);
    return value;
}

int fw_test_run_lines(const char *name) {
    FILE *f = fopen(fw_test_run_path(name, "metrics.jsonl"), "r");
    int n = 0;
    if (f == NULL) return 0;
    for (int c; (c = fgetc(f)) != EOF;) n += c == '\n';
    fclose(f);
    return n;
}

int fw_test_run_wait_for_steps(const fw_test_command *c, const char *name, int line_n) {
    uint64_t start_ns = fw_host_now_ns();
    while (fw_host_now_ns() - start_ns < 60000000000u) {
        if (fw_test_run_lines(name) >= line_n) return 1;
        siginfo_t ended = {.si_pid = 0};
        if (waitid(P_PID, (id_t)c->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) return 0;
        usleep(2000);
    }
    return 0;
}

static pid_t parent_of(int pid) {
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
    fclose(f);
    return parent;
}

static int environment_has(int pid, const char *entry) {
    char path[64], buffer[16384];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    size_t n = fread(buffer, 1, sizeof buffer - 1, f);
    fclose(f);
    buffer[n] = 0;
    for (size_t i = 0; i < n; i += strlen(buffer + i) + 1)
        if (strcmp(buffer + i, entry) == 0) return 1;
    return 0;
}

pid_t fw_test_run_rank(pid_t parent, int rank) {
    char entry[32];
    snprintf(entry, sizeof entry, "RANK=%d", rank);
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    pid_t found = 0;
    for (struct dirent *e; (e = readdir(proc)) != NULL;) {
        int pid = atoi(e->d_name);
        if (pid > 0 && parent_of(pid) == parent && environment_has(pid, entry)) found = pid;
    }
    closedir(proc);
    return found;
}

/* ---- the same */

void fw_test_same_file(const char *a, const char *b) {
    fw_mapping x, y;
    assert_int_equal(fw_file_map(&x, a), FW_OK);
    assert_int_equal(fw_file_map(&y, b), FW_OK);
    if (x.bytes != y.bytes || (x.bytes > 0 && memcmp(x.data, y.data, x.bytes) != 0))
        fail_msg("%s differs from %s", a, b);
    fw_file_unmap(&x);
    fw_file_unmap(&y);
}

void fw_test_same_folder(const char *a, const char *b) {
    char **names, **other;
    size_t n, other_n;
    assert_int_equal(fw_dir_list(&names, &n, a), FW_OK);
    assert_int_equal(fw_dir_list(&other, &other_n, b), FW_OK);
    if (n != other_n) fail_msg("%s has %zu entries, %s has %zu", a, n, b, other_n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(names[i], other[i]);
        const char *x = fw_test_path(a, names[i]), *y = fw_test_path(b, names[i]);
        if (fw_dir_exists(x))
            fw_test_same_folder(x, y);
        else
            fw_test_same_file(x, y);
    }
    fw_dir_list_free(names, n);
    fw_dir_list_free(other, other_n);
}

void fw_test_run_same_final(const char *a, const char *b) {
    fw_test_same_folder(fw_test_run_path(a, "final"), fw_test_run_path(b, "final"));
}

void fw_test_run_damage(const char *name, int step, int rank_n) {
    for (int file_n = 1; file_n <= 3; file_n++) {
        char file[200];
        snprintf(file, sizeof file, "step-%08d/shard-%05d-model-00001-of-%05d.safetensors", step, rank_n, file_n);
        const char *path = fw_test_run_path(name, file);
        if (fw_file_exists(path)) return fw_test_flip_bit(path, fw_test_file_bytes(path) - 7);
    }
    fail_msg("%s: rank %d of %d has no file of step %d", name, rank_n - 1, rank_n, step);
}
