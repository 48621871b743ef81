/* finewire train on a tiny model, as a user runs it: a folder with model, tokenizer and conversations, runs in folders
 * of their own beside them, and what they leave behind. */
#ifndef FW_TESTS_SUPPORT_RUN_LAB_H
#define FW_TESTS_SUPPORT_RUN_LAB_H

#include "support/command.h"
#include "support/scratch.h"

enum { FW_TEST_ARGS_MAX = 64, FW_TEST_STEPS_MAX = 64 };

/* Paths of the lab, valid between setup and teardown: the folder of everything, DIR/model, DIR/data.jsonl (37
 * conversations of very different lengths). */
extern char fw_run_dir[FW_TEST_PATH_BYTES], fw_run_model[FW_TEST_PATH_BYTES + 16], fw_run_data[FW_TEST_PATH_BYTES + 16];

/* cmocka group fixtures. */
int fw_test_run_setup(void **state);
int fw_test_run_teardown(void **state);
void fw_test_write_conversations(const char *path, int conversation_n);

/* PROGRAM WORDS.. --model .. --dataset .. --output_dir DIR/name --logging_steps 1 --learning_rate 3e-3 --disable_tqdm,
 * then `more`, its words parted by blanks. What comes later wins. */
typedef struct fw_test_run_args {
    const char *argv[FW_TEST_ARGS_MAX];
    char output[2 * FW_TEST_PATH_BYTES], words[1024];
} fw_test_run_args;
void fw_test_run_make_args(fw_test_run_args *a, const char *name, const char *more);

/* finewire train; returns the exit code and says what it wrote when that is not the one expected. */
int fw_test_run_train(const char *name, int expected, const char *more);
/* Expects the exit code and exactly one error line, with `part` in it. */
void fw_test_run_refused(int code, const char *part, const char *more);

/* DIR/name/file; stays valid. */
const char *fw_test_run_path(const char *name, const char *file);
/* Losses by step from metrics.jsonl, which has every step from 1 on; returns the last step. */
int fw_test_run_losses(const char *name, double *loss);
/* A number of the last line of metrics.jsonl. */
double fw_test_run_last_metric(const char *name, const char *key);
/* Lines of metrics.jsonl; 0 when there is none yet. */
int fw_test_run_lines(const char *name);
/* Until metrics.jsonl of a run has that many lines (true), or the command has ended or a minute has passed. */
int fw_test_run_wait_for_steps(const fw_test_command *c, const char *name, int line_n);
/* The process of a rank, started by `parent`; 0: there is none. */
pid_t fw_test_run_rank(pid_t parent, int rank);

/* Flip a bit at the end of what the last of rank_n ranks has written of a checkpoint: in its last tensor, a second moment with
 * AdamW. */
void fw_test_run_damage(const char *name, int step, int rank_n);

/* The same bytes; the same names and bytes at all levels. Failing, they name the file. */
void fw_test_same_file(const char *a, const char *b);
void fw_test_same_folder(const char *a, const char *b);
void fw_test_run_same_final(const char *a, const char *b); /* DIR/a/final and DIR/b/final */

#endif
