/* What train and eval say to people: counts of one, lengths the model was not made for, files that are not there, and
 * what an earlier process left behind. */
#include "base/file.h"
#include "base/json.h"
#include "support/command.h"
#include "support/scratch.h"
#include "support/tiny_model.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const double deadline_s = 240;
static char dir[FW_TEST_PATH_BYTES], model[FW_TEST_PATH_BYTES + 8];

static int set_up(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    snprintf(model, sizeof model, "%s/model", dir);
    assert_int_equal(fw_test_write_model(model, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(model, FW_TEST_SMOLLM2), FW_OK);
    json_t *config;
    assert_int_equal(fw_json_load(&config, fw_test_path(model, "config.json"), 1 << 20), FW_OK);
    json_object_set_new(config, "max_position_embeddings", json_integer(8));
    assert_int_equal(fw_json_save(config, fw_test_path(model, "config.json")), FW_OK);
    json_decref(config);
    static const char one[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"one and only?\"}, {\"role\": "
                              "\"assistant\", \"content\": \"yes it is\"}]}\n";
    fw_test_write(fw_test_path(dir, "one.jsonl"), one, sizeof one - 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

static int count(const fw_strbuf *text, const char *part) {
    int n = 0;
    for (const char *at = fw_strbuf_text(text); (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

static void holds(const fw_strbuf *text, const char *part, int wanted_n) {
    if (count(text, part) != wanted_n)
        fail_msg("\"%s\" is there %d times, not %d: %s", part, count(text, part), wanted_n, fw_strbuf_text(text));
}

static const char *data(void) { return fw_test_path(dir, "one.jsonl"); }

static void train(fw_test_command *c, const char *output, const char *ranks, const char *max_length) {
    const char *argv[] = {FW_BINARY,
                          "train",
                          "--model",
                          model,
                          "--dataset",
                          data(),
                          "--output_dir",
                          output,
                          "--num_processes",
                          ranks,
                          "--max_steps",
                          "1",
                          "--per_device_train_batch_size",
                          "1",
                          "--disable_tqdm",
                          "--max_length",
                          max_length,
                          NULL};
    fw_test_command_run(c, argv, 0, deadline_s);
}

static void one_is_one(void **state) {
    (void)state;
    fw_test_command c;
    const char *output = fw_test_path(dir, "one");
    train(&c, output, "1", "1024");
    holds(&c.err, "one.jsonl: 1 conversation, ", 1);
    holds(&c.err, "= 1 conversation a step", 1);
    holds(&c.err, " 1 conversations", 0);
    fw_test_command_fini(&c);
    train(&c, output, "1", "1024");
    holds(&c.err, "1 of 1 step is done already", 1);
    fw_test_command_fini(&c);
    const char *eval[] = {FW_BINARY, "eval", "--model", model, "--dataset", data(), NULL};
    fw_test_command_run(&c, eval, 0, deadline_s);
    holds(&c.out, " in 1 conversation (0 left out)", 1);
    fw_test_command_fini(&c);
}

/* Said once a file, not once a rank; and not when max_length keeps within what the model was made for. */
static void lengths_beyond_the_model_are_said(void **state) {
    (void)state;
    static const char part[] = "one.jsonl: 1 conversation is longer than the 8 tokens that the model was made for "
                               "(max_position_embeddings), up to ";
    fw_test_command c;
    train(&c, fw_test_path(dir, "long"), "2", "1024");
    holds(&c.err, part, 1);
    holds(&c.err, "; --max_length 8 cuts it", 1);
    fw_test_command_fini(&c);
    const char *eval[] = {FW_BINARY, "eval", "--model", model, "--dataset", data(), "--num_processes", "2", NULL};
    fw_test_command_run(&c, eval, 0, deadline_s);
    holds(&c.err, part, 1);
    fw_test_command_fini(&c);
    const char *cut[] = {FW_BINARY, "eval", "--model", model, "--dataset", data(), "--max_length", "8", NULL};
    fw_test_command_start(&c, cut, NULL); /* what is left may have no target: that is another matter */
    fw_test_command_finish(&c, deadline_s);
    holds(&c.err, "made for", 0);
    fw_test_command_fini(&c);
}

static void a_missing_dataset_is_one_line(void **state) {
    (void)state;
    fw_test_command c;
    const char *none = fw_test_path(dir, "none.jsonl"), *output = fw_test_path(dir, "none");
    for (int ranks = 1; ranks <= 2; ranks++) {
        const char *argv[] = {FW_BINARY,
                              "train",
                              "--model",
                              model,
                              "--dataset",
                              none,
                              "--output_dir",
                              output,
                              "--num_processes",
                              ranks == 1 ? "1" : "2",
                              NULL};
        fw_test_command_run(&c, argv, 3, deadline_s);
        holds(&c.err, "error: there is no dataset ", 1);
        holds(&c.err, "none.jsonl; check the path (a file of conversations, ", 1);
        holds(&c.err, "error: ", 1);
        fw_test_command_fini(&c);
    }
}

static void leftovers_are_removed_at_the_start(void **state) {
    (void)state;
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    const char *output = fw_test_path(dir, "left");
    char dead[64], living[64];
    snprintf(dead, sizeof dead, "final.tmp-%ld", (long)gone);
    snprintf(living, sizeof living, "final.tmp-%ld", (long)getpid());
    assert_int_equal(fw_dir_make(fw_test_path(output, dead)), FW_OK);
    assert_int_equal(fw_dir_make(fw_test_path(output, living)), FW_OK);
    fw_test_write(fw_test_path(fw_test_path(output, dead), "config.json"), "{}", 2);
    fw_test_command c;
    train(&c, output, "2", "1024");
    holds(&c.err, "removed ", 1);
    holds(&c.err, "left it half-written", 1);
    fw_test_command_fini(&c);
    assert_false(fw_dir_exists(fw_test_path(output, dead)));
    assert_true(fw_dir_exists(fw_test_path(output, living)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_one),
        cmocka_unit_test(lengths_beyond_the_model_are_said),
        cmocka_unit_test(a_missing_dataset_is_one_line),
        cmocka_unit_test(leftovers_are_removed_at_the_start),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
