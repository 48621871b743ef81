/* finewire train as a user runs it: ranks, resume, signals, failures, on a tiny model made on the spot. */
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "support/command.h"
#include "support/scratch.h"
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
#include <unistd.h>

enum { ARGS_MAX = 48, STEPS_MAX = 64, PATH_BYTES = 512 };
static const double deadline_s = 240;

static char dir[128], model_dir[PATH_BYTES], data_path[PATH_BYTES];

/* 37 conversations of very different lengths: no batch size divides them. */
static void write_conversations(const char *path, int conversation_n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < conversation_n; i++) {
        fprintf(f, "{\"messages\": [{\"role\": \"user\", \"content\": \"number %d", i);
        for (int k = 0; k < i * 5 % 13; k++) fprintf(f, " and %d", (i + 3) * k);
        fprintf(f, "\"}, {\"role\": \"assistant\", \"content\": \"it is %d", i * i);
        for (int k = 0; k < i * 7 % 11; k++) fprintf(f, ", then %d", i + k);
        fprintf(f, ".\"}]}\n");
    }
    fclose(f);
}

static int set_up(void **state) {
    (void)state;
    strcpy(dir, "/tmp/fw-train-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(model_dir, sizeof model_dir, "%s/model", dir);
    snprintf(data_path, sizeof data_path, "%s/data.jsonl", dir);
    assert_int_equal(fw_test_write_model(model_dir, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(model_dir, FW_TEST_SMOLLM2), FW_OK);
    write_conversations(data_path, 37);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return fw_dir_remove(dir) == FW_OK ? 0 : -1;
}

/* finewire train with the common options and those given, to DIR/name. */
typedef struct train_args {
    const char *argv[ARGS_MAX];
    char output[PATH_BYTES];
} train_args;

static void make_args(train_args *a, const char *name, const char *const *more) {
    snprintf(a->output, sizeof a->output, "%s/%s", dir, name);
    const char *common[] = {FW_BINARY,         "train",        "--model",       model_dir,         "--dataset",
                            data_path,         "--output_dir", a->output,       "--logging_steps", "1",
                            "--learning_rate", "3e-3",         "--disable_tqdm"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) a->argv[n++] = common[i];
    for (size_t i = 0; more[i] != NULL; i++) a->argv[n++] = more[i];
    a->argv[n] = NULL;
}

static int train(const char *name, int expected, const char *const *more) {
    train_args a;
    fw_test_command c;
    make_args(&a, name, more);
    int code = fw_test_command_run(&c, a.argv, expected, deadline_s);
    fw_test_command_fini(&c);
    return code;
}

/* Losses by step from metrics.jsonl; returns the last step. */
static int read_losses(const char *name, double *loss) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", dir, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[1024];
    int last = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        json_t *row;
        assert_int_equal(fw_json_parse(&row, line, strlen(line), path, 1), FW_OK);
        int step = (int)json_integer_value(json_object_get(row, "step"));
        assert_int_equal(step, last + 1);
        assert_true(step < STEPS_MAX);
        loss[step] = json_number_value(json_object_get(row, "loss"));
        assert_true(isfinite(loss[step]));
        json_decref(row);
        last = step;
    }
    fclose(f);
    return last;
}

static void assert_same_file(const char *a, const char *b) {
    fw_mapping x, y;
    assert_int_equal(fw_file_map(&x, a), FW_OK);
    assert_int_equal(fw_file_map(&y, b), FW_OK);
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    fw_file_unmap(&x);
    fw_file_unmap(&y);
}

static void assert_same_model(const char *a, const char *b) {
    char path_a[PATH_BYTES], path_b[PATH_BYTES];
    snprintf(path_a, sizeof path_a, "%s/%s/final/model.safetensors", dir, a);
    snprintf(path_b, sizeof path_b, "%s/%s/final/model.safetensors", dir, b);
    assert_same_file(path_a, path_b);
}

/* Ranks 1, 2, 4 at one global batch of 8: the same losses within fp32 rounding over 20 steps, on a data set whose last
 * window of an epoch is short (37 = 4 * 8 + 5) and leaves ranks without data. */
static void test_world_sizes(void **state) {
    (void)state;
    const char *one[] = {"--bf16",
                         "false",
                         "--per_device_train_batch_size",
                         "2",
                         "--gradient_accumulation_steps",
                         "4",
                         "--num_processes",
                         "1",
                         "--max_steps",
                         "20",
                         "--save_strategy",
                         "no",
                         NULL};
    const char *two[] = {"--bf16",
                         "false",
                         "--per_device_train_batch_size",
                         "2",
                         "--gradient_accumulation_steps",
                         "2",
                         "--num_processes",
                         "2",
                         "--max_steps",
                         "20",
                         "--save_strategy",
                         "no",
                         NULL};
    const char *four[] = {"--bf16",
                          "false",
                          "--per_device_train_batch_size",
                          "1",
                          "--gradient_accumulation_steps",
                          "2",
                          "--num_processes",
                          "4",
                          "--max_steps",
                          "20",
                          "--save_strategy",
                          "no",
                          NULL};
    assert_int_equal(train("world1", 0, one), 0);
    assert_int_equal(train("world2", 0, two), 0);
    assert_int_equal(train("world4", 0, four), 0);
    double a[STEPS_MAX], b[STEPS_MAX], c[STEPS_MAX];
    assert_int_equal(read_losses("world1", a), 20);
    assert_int_equal(read_losses("world2", b), 20);
    assert_int_equal(read_losses("world4", c), 20);
    for (int step = 1; step <= 20; step++) {
        assert_true(fabs(b[step] - a[step]) <= 1e-5 * a[step]);
        assert_true(fabs(c[step] - a[step]) <= 1e-5 * a[step]);
    }
    assert_true(a[20] < a[1] - 0.5); /* it learns */
}

/* Recomputing blocks changes memory, not numbers; neither does the size of the loss chunk within rounding. */
static void test_recompute_and_chunks(void **state) {
    (void)state;
    const char *with[] = {"--max_steps", "6", "--save_strategy", "no", NULL};
    const char *without[] = {"--max_steps", "6", "--save_strategy", "no", "--gradient_checkpointing", "false", NULL};
    const char *chunks[] = {"--max_steps", "6", "--save_strategy", "no", "--bf16", "false", "--loss_chunk_size",
                            "7",           NULL};
    const char *whole[] = {"--max_steps", "6", "--save_strategy", "no", "--bf16", "false", "--loss_chunk_size",
                           "4096",        NULL};
    assert_int_equal(train("recompute", 0, with), 0);
    assert_int_equal(train("keep", 0, without), 0);
    assert_same_model("recompute", "keep");
    assert_int_equal(train("chunks", 0, chunks), 0);
    assert_int_equal(train("whole", 0, whole), 0);
    double a[STEPS_MAX], b[STEPS_MAX];
    assert_int_equal(read_losses("chunks", a), 6);
    assert_int_equal(read_losses("whole", b), 6);
    for (int step = 1; step <= 6; step++) assert_true(fabs(a[step] - b[step]) <= 1e-5 * b[step]);
}

/* A run that is interrupted by a signal saves, exits 130, and goes on to the very same model. */
static void test_interrupt_and_resume(void **state) {
    (void)state;
    const char *more[] = {"--num_processes",
                          "2",
                          "--per_device_train_batch_size",
                          "2",
                          "--max_steps",
                          "40",
                          "--save_steps",
                          "1000",
                          NULL};
    assert_int_equal(train("straight", 0, more), 0);
    double straight[STEPS_MAX], resumed[STEPS_MAX];
    assert_int_equal(read_losses("straight", straight), 40);

    train_args a;
    make_args(&a, "resumed", more);
    fw_test_command c;
    char metrics[PATH_BYTES + 32];
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", a.output);
    int interrupted_n = 0, code = -1;
    for (int attempt = 0; attempt < 8; attempt++) {
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        /* let it do some steps, then Ctrl-C */
        int64_t before = 0;
        fw_mapping map;
        if (fw_file_exists(metrics) && fw_file_map(&map, metrics) == FW_OK) {
            before = (int64_t)map.bytes;
            fw_file_unmap(&map);
        }
        uint64_t start_ns = fw_host_now_ns();
        while (interrupted_n < 2 && fw_host_now_ns() - start_ns < 60000000000u) {
            usleep(2000);
            if (!fw_file_exists(metrics) || fw_file_map(&map, metrics) != FW_OK) continue;
            int64_t now = (int64_t)map.bytes;
            fw_file_unmap(&map);
            if (now > before + 300) break;
        }
        if (interrupted_n < 2) kill(c.pid, attempt % 2 == 0 ? SIGINT : SIGTERM);
        code = fw_test_command_finish(&c, deadline_s);
        if (code == 130)
            interrupted_n++;
        else if (code != 0)
            fprintf(stderr, "%s", fw_strbuf_text(&c.err));
        fw_test_command_fini(&c);
        assert_true(code == 130 || code == 0);
        if (code == 0) break;
    }
    assert_int_equal(code, 0);
    assert_true(interrupted_n >= 1);
    assert_int_equal(read_losses("resumed", resumed), 40);
    for (int step = 1; step <= 40; step++) assert_true(resumed[step] == straight[step]);
    assert_same_model("straight", "resumed");
}

/* Every k-th step a checkpoint, old ones go, and the last one leads to the same end. */
static void test_checkpoints(void **state) {
    (void)state;
    const char *save[] = {"--max_steps", "10", "--save_steps", "3", "--save_total_limit", "2", NULL};
    assert_int_equal(train("limited", 0, save), 0);
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/limited", dir);
    char **names;
    size_t n, kept = 0;
    assert_int_equal(fw_dir_list(&names, &n, path), FW_OK);
    for (size_t i = 0; i < n; i++) kept += strncmp(names[i], "step-", 5) == 0;
    assert_int_equal(kept, 2);
    fw_dir_list_free(names, n);
    /* the same command again: everything is done already, the model is the same */
    assert_int_equal(train("limited", 0, save), 0);
    /* a damaged newest checkpoint: the one before is taken, and the end is the same */
    const char *again[] = {"--max_steps", "10", "--save_steps", "3", "--save_total_limit", "0", NULL};
    assert_int_equal(train("whole_list", 0, again), 0);
    snprintf(path, sizeof path, "%s/whole_list/step-00000010/model.safetensors", dir);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(train("whole_list", 0, again), 0);
    assert_same_model("limited", "whole_list");
}

/* Another run's folder, the wrong data, a folder in use: refused, exit code 2, nothing changed. */
static void test_foreign_folder(void **state) {
    (void)state;
    const char *first[] = {"--max_steps", "3", NULL};
    assert_int_equal(train("owned", 0, first), 0);
    const char *never[] = {"--max_steps", "3", "--resume_from_checkpoint", "never", NULL};
    assert_int_equal(train("owned", 2, never), 2);
    const char *seed[] = {"--max_steps", "3", "--data_seed", "77", NULL};
    assert_int_equal(train("owned", 2, seed), 2);
    /* the same shapes, other weights: its result would pass for this model's */
    char other[PATH_BYTES], path[PATH_BYTES + 32];
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(path, sizeof path, "%s/model.safetensors", other);
    assert_int_equal(fw_test_write_model(other, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(other, FW_TEST_SMOLLM2), FW_OK);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, -4, SEEK_END);
    fwrite("\x00\x00\x80\x3f", 1, 4, f);
    fclose(f);
    const char *base[] = {"--max_steps", "3", "--model", other, NULL};
    assert_int_equal(train("owned", 2, base), 2);
    const char *over[] = {"--max_steps", "3", "--data_seed", "77", "--overwrite_output_dir", NULL};
    assert_int_equal(train("owned", 0, over), 0);
}

/* One rank is killed: the others are gone in seconds, exit code 5, and the message names the rank. */
static pid_t child_of(pid_t parent, int rank) {
    char path[64], buffer[4096], needle[32];
    snprintf(needle, sizeof needle, "RANK=%d", rank);
    DIR *proc = opendir("/proc");
    pid_t found = 0;
    for (struct dirent *e; proc != NULL && (e = readdir(proc)) != NULL;) {
        int pid = atoi(e->d_name), ppid = 0;
        if (pid <= 0) continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *f = fopen(path, "r");
        if (f == NULL) continue;
        if (fscanf(f, "%*d (%*[^)]) %*c %d", &ppid) != 1) ppid = 0;
        fclose(f);
        if (ppid != parent) continue;
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        f = fopen(path, "r");
        if (f == NULL) continue;
        size_t n = fread(buffer, 1, sizeof buffer - 1, f);
        fclose(f);
        buffer[n] = 0;
        for (size_t i = 0; i < n; i += strlen(buffer + i) + 1)
            if (strcmp(buffer + i, needle) == 0) found = pid;
    }
    if (proc != NULL) closedir(proc);
    return found;
}

static void test_killed_rank(void **state) {
    (void)state;
    const char *more[] = {"--num_processes", "3", "--max_steps", "100000", "--save_strategy", "no", NULL};
    train_args a;
    make_args(&a, "killed", more);
    fw_test_command c;
    assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
    char metrics[PATH_BYTES + 32];
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", a.output);
    uint64_t start_ns = fw_host_now_ns();
    fw_mapping map = {0};
    while (fw_host_now_ns() - start_ns < 60000000000u) { /* until it is in full swing */
        usleep(5000);
        if (fw_file_exists(metrics) && fw_file_map(&map, metrics) == FW_OK) {
            size_t bytes = map.bytes;
            fw_file_unmap(&map);
            if (bytes > 300) break;
        }
    }
    pid_t victim = child_of(c.pid, 1);
    assert_true(victim > 0);
    kill(victim, SIGKILL);
    uint64_t killed_ns = fw_host_now_ns();
    int code = fw_test_command_finish(&c, 60);
    assert_int_equal(code, 5);
    assert_true(fw_host_now_ns() - killed_ns < 30000000000u);
    const char *error = strstr(fw_strbuf_text(&c.err), "error");
    assert_non_null(error);
    assert_non_null(strstr(error, "rank 1"));
    assert_null(strstr(error + 1, "error")); /* one reason, said once */
    assert_int_equal(child_of(c.pid, 0), 0);
    assert_int_equal(child_of(c.pid, 2), 0);
    fw_test_command_fini(&c);
}

/* What cannot work is said in one line, with the exit code of its kind. */
static void expect_error(int code, const char *part, const char *const *more) {
    train_args a;
    fw_test_command c;
    make_args(&a, "refused", more);
    assert_int_equal(fw_test_command_run(&c, a.argv, code, deadline_s), code);
    const char *error = strstr(fw_strbuf_text(&c.err), "error: ");
    if (error == NULL || strstr(error, part) == NULL)
        fprintf(stderr, "expected \"%s\" in: %s\n", part, fw_strbuf_text(&c.err));
    assert_non_null(error);
    assert_non_null(strstr(error, part));
    assert_null(strstr(error + 1, "error: "));
    fw_test_command_fini(&c);
}

static void test_errors(void **state) {
    (void)state;
    const char *absent[] = {"--model", "/nowhere", "--num_processes", "2", NULL};
    expect_error(3, "no model folder /nowhere", absent);
    const char *misspelt[] = {"--learning_rat", "1", NULL};
    expect_error(2, "learning_rate", misspelt);
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/refused/run.json", dir);
    const char *no_checkpoint[] = {"--resume_from_checkpoint", "/nowhere", NULL};
    expect_error(3, "/nowhere/manifest.json is missing", no_checkpoint);
    assert_false(fw_file_exists(folder)); /* what has not begun does not claim the folder */
    /* a weight that is not a number: the loss says so at the first step, on all ranks, told once */
    char broken[PATH_BYTES], path[PATH_BYTES];
    snprintf(broken, sizeof broken, "%s/broken", dir);
    assert_int_equal(fw_test_write_model(broken, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(broken, FW_TEST_SMOLLM2), FW_OK);
    snprintf(path, sizeof path, "%s/broken/model.safetensors", dir);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, -4, SEEK_END);
    fwrite("\x00\x00\xc0\x7f", 1, 4, f);
    fclose(f);
    const char *wild[] = {"--model", broken, "--bf16", "false", "--num_processes", "2", NULL};
    expect_error(3, "step 1: the loss of", wild);
    snprintf(path, sizeof path, "%s/no_targets.jsonl", dir);
    const char *monologue = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n";
    assert_int_equal(fw_file_write(path, monologue, strlen(monologue)), FW_OK);
    const char *no_targets[] = {"--dataset", path, "--num_processes", "2", NULL};
    expect_error(3, "no assistant turn", no_targets);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_world_sizes),    cmocka_unit_test(test_recompute_and_chunks),
        cmocka_unit_test(test_checkpoints),    cmocka_unit_test(test_interrupt_and_resume),
        cmocka_unit_test(test_foreign_folder), cmocka_unit_test(test_killed_rank),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
