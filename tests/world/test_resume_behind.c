/* The optimizer's state of a checkpoint is read behind the first gradients. When it is damaged, that is found before anything rests
 * on it: with every optimizer, strategy and way of adding up gradients the run is the one that begins from the checkpoint
 * before, to the bit, and until then nothing of the damaged one was told, removed or mirrored. */
#include "base/file.h"
#include "base/json.h"
#include "base/trace.h"
#include "support/run_lab.h"
#include "support/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void train(const char *name, const char *words) { assert_int_equal(fw_test_run_train(name, 0, words), 0); }

static bool says(const fw_test_command *c, const char *part) {
    return strstr(fw_strbuf_text(&c->err), part) != NULL || strstr(fw_strbuf_text(&c->out), part) != NULL;
}

static void must_say(const fw_test_command *c, bool wanted, const char *part) {
    if (says(c, part) != wanted)
        fail_msg("%s \"%s\": %s%s", wanted ? "no" : "there is", part, fw_strbuf_text(&c->out), fw_strbuf_text(&c->err));
}

static void run(fw_test_command *c, const char *name, int code, const char *words) {
    fw_test_run_args a;
    fw_test_run_make_args(&a, name, words);
    assert_int_equal(fw_test_command_run(c, a.argv, code, 120), code);
}

static void same_run(const char *name, const char *want, int step_n) {
    double a[FW_TEST_STEPS_MAX], b[FW_TEST_STEPS_MAX];
    assert_int_equal(fw_test_run_losses(name, a), step_n);
    assert_int_equal(fw_test_run_losses(want, b), step_n);
    for (int step = 1; step <= step_n; step++)
        if (memcmp(&a[step], &b[step], sizeof a[step]) != 0)
            fail_msg("%s, step %d: loss %.17g, not %.17g", name, step, a[step], b[step]);
    fw_test_run_same_final(want, name);
}

/* ---- what is on the way when the damage is found */

#define LORA "--use_peft --lora_r 2 --lora_dropout 0.1 "
static const struct {
    int rank_n;
    const char *words, *found_in;
} runs[] = {
    {2, "--strategy zero3 --optim adamw_8bit --gradient_accumulation_steps 2", "optimizer.state."},
    {3, "--strategy zero2 --optim adafactor --lr_scheduler_type constant", "optimizer.state."},
    {3, "--strategy zero1 --optim lamb --gradient_accumulation_steps 3", "optimizer.state."},
    {1, "--strategy ddp --optim lion --bf16 false", "optimizer.state."},
    {2, "--strategy ddp --optim lion_8bit --save_async", "optimizer.state."},
    {4, "--strategy hsdp --shard_group_size 2 --prefetch 2", "exp_avg_sq"},
    {2, "--strategy zero3 --bf16 false --packing", "exp_avg_sq"},
    {2, LORA "--strategy zero2", "exp_avg_sq"},
    {2, "--strategy zero3 --offload_optimizer nvme --offload_params nvme", "exp_avg_sq"}, /* read before the step */
    {2, "--strategy zero2 --optim sgd --max_grad_norm 0", "is damaged"},                  /* has no state: weights */
};

static void test_kinds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char words[512], straight[32], name[32], common[256];
        fw_test_command c;
        snprintf(common, sizeof common, "%s --num_processes %d --learning_rate 1e-3 --save_steps 1", runs[i].words,
                 runs[i].rank_n);
        snprintf(straight, sizeof straight, "straight-%zu", i);
        snprintf(name, sizeof name, "damaged-%zu", i);
        snprintf(words, sizeof words, "%s --max_steps 3 --lr_scheduler_type constant", common);
        train(straight, words);
        snprintf(words, sizeof words, "%s --max_steps 2 --lr_scheduler_type constant", common);
        train(name, words);
        fw_test_run_damage(name, 2, runs[i].rank_n);
        snprintf(words, sizeof words, "%s --max_steps 3 --lr_scheduler_type constant", common);
        run(&c, name, 0, words);
        must_say(&c, true, "does not count");
        must_say(&c, true, runs[i].found_in);
        must_say(&c, true, "resume    after step 1\n");
        must_say(&c, false, "resume    after step 2");
        fw_test_command_fini(&c);
        same_run(name, straight, 3);
    }
}

/* No step is left to do, as it seems: the checkpoint is read to its end all the same. */
static void test_nothing_left(void **state) {
    (void)state;
    fw_test_command c;
    train("left", "--max_steps 4 --save_steps 2 --num_processes 2 --strategy zero1");
    fw_test_run_damage("left", 4, 2);
    train("left-straight", "--max_steps 4 --save_steps 2 --num_processes 2 --strategy zero1");
    run(&c, "left", 0, "--max_steps 4 --save_steps 2 --num_processes 2 --strategy zero1");
    must_say(&c, true, "does not count");
    must_say(&c, true, "resume    after step 2\n");
    fw_test_command_fini(&c);
    same_run("left", "left-straight", 4);
}

/* ---- what must not be done before */

static void test_refused_strictly(void **state) {
    (void)state;
    fw_test_command c;
    train("strict", "--max_steps 4 --save_steps 2 --num_processes 2");
    fw_test_run_damage("strict", 4, 2);
    const char *metrics = fw_test_run_path("strict", "metrics.jsonl"), *kept = fw_test_path(fw_run_dir, "metrics");
    static const char lines[] =
        "{\"step\":4,\"loss\":1,\"num_tokens\":7}\n{\"step\":5,\"loss\":1}\n"; /* one of them too late */
    fw_test_write(metrics, lines, strlen(lines));
    assert_int_equal(fw_file_copy(metrics, kept), FW_OK);
    run(&c, "strict", 3, "--max_steps 6 --save_steps 2 --num_processes 2 --resume_strict");
    must_say(&c, false, "resume    after");
    must_say(&c, false, "changed since the checkpoint");
    must_say(&c, false, "step 5/6");
    fw_test_command_fini(&c);
    fw_test_same_file(metrics, kept);
    assert_true(fw_dir_exists(fw_test_run_path("strict", "step-00000002")));
    assert_true(fw_dir_exists(fw_test_run_path("strict", "step-00000004")));
}

/* The mirror gets the checkpoint that the run went on from, and never the damaged one. */
static void test_mirror(void **state) {
    (void)state;
    char words[1024];
    const char *mirror = fw_test_path(fw_run_dir, "mirror-of-damaged");
    train("mirrored", "--max_steps 4 --save_steps 2 --num_processes 2");
    fw_test_run_damage("mirrored", 4, 2);
    snprintf(words, sizeof words, "--max_steps 3 --save_strategy no --num_processes 2 --mirror %s", mirror);
    train("mirrored", words);
    char path[2 * FW_TEST_PATH_BYTES];
    snprintf(path, sizeof path, "%s/step-00000002", mirror);
    assert_true(fw_dir_exists(path));
    snprintf(path, sizeof path, "%s/step-00000004", mirror);
    assert_false(fw_dir_exists(path));
}

/* ---- in time */

/* The first span of this name in this lane of a rank; NULL: there is none. */
static const json_t *span(const json_t *file, int rank, fw_trace_lane lane, const char *name) {
    size_t i;
    const json_t *e;
    json_array_foreach(json_object_get(file, "traceEvents"), i, e) {
        if (json_integer_value(json_object_get(e, "pid")) == rank &&
            json_integer_value(json_object_get(e, "tid")) == lane &&
            strcmp(json_string_value(json_object_get(e, "name")), name) == 0 && json_object_get(e, "dur") != NULL)
            return e;
    }
    return NULL;
}

static double begin_of(const json_t *e) {
    assert_non_null(e);
    return json_number_value(json_object_get(e, "ts"));
}

/* The weights come before the step, the wait for the state after its gradients; with the state in a file all comes before. */
static void test_order(void **state) {
    (void)state;
    static const char *const words[] = {"--max_steps 3 --num_processes 2 --strategy zero2",
                                        "--max_steps 3 --num_processes 2 --strategy zero2 --offload_optimizer nvme"};
    for (int file = 0; file < 2; file++) {
        char more[1024], name[32];
        const char *trace = fw_test_path(fw_run_dir, "behind.json");
        json_t *t;
        snprintf(name, sizeof name, "order-%d", file);
        train(name, "--max_steps 2 --num_processes 2 --strategy zero2");
        snprintf(more, sizeof more, "%s --trace %s", words[file], trace);
        train(name, more);
        assert_int_equal(fw_json_load(&t, trace, 1 << 24), FW_OK);
        for (int rank = 0; rank < 2; rank++) {
            const double step = begin_of(span(t, rank, FW_TRACE_STEP, "step 3"));
            assert_true(begin_of(span(t, rank, FW_TRACE_HOST, "look for a checkpoint")) <
                        begin_of(span(t, rank, FW_TRACE_HOST, "read the weights")));
            assert_true(begin_of(span(t, rank, FW_TRACE_HOST, "read the weights")) < step);
            if (file == 1) {
                assert_true(begin_of(span(t, rank, FW_TRACE_HOST, "read the optimizer's state")) < step);
                continue;
            }
            const double wait = begin_of(span(t, rank, FW_TRACE_HOST, "wait for the optimizer's state"));
            assert_non_null(span(t, rank, FW_TRACE_BEHIND, "read the optimizer's state"));
            assert_true(wait > begin_of(span(t, rank, FW_TRACE_STEP, "backward")));
            assert_true(wait < begin_of(span(t, rank, FW_TRACE_STEP, "update")));
        }
        json_decref(t);
    }
}

/* A signal, and the death of a rank, from the moment on at which the checkpoint is looked for: whichever part of the load or of a
 * step it meets, the run goes on later as if there had been nothing. */
static void test_ended_in_it(void **state) {
    (void)state;
    static const char common[] = "--save_steps 2 --num_processes 2 --strategy zero1 --lr_scheduler_type constant";
    char words[512];
    fw_test_run_args a;
    snprintf(words, sizeof words, "--max_steps 2 %s", common);
    train("ended", words);
    for (int round = 0; round < 4; round++) {
        fw_test_command c;
        const char *const unfinished = fw_test_run_path("ended", "trace.json.unfinished");
        snprintf(words, sizeof words, "--max_steps 100000 %s --trace %s", common,
                 fw_test_run_path("ended", "trace.json"));
        fw_test_run_make_args(&a, "ended", words);
        if (fw_file_exists(unfinished)) assert_int_equal(remove(unfinished), 0);
        assert_int_equal(fw_test_command_start(&c, a.argv, NULL), 0);
        assert_true(wait_for_in(fw_test_run_path("ended", ""), "trace.json.unfinished", 1));
        const pid_t rank = fw_test_run_rank(c.pid, 1);
        assert_true(rank > 0);
        nap(0.004 * round);
        kill(round % 2 == 0 ? c.pid : rank, round % 2 == 0 ? SIGTERM : SIGKILL);
        const int code = fw_test_command_finish(&c, 120);
        if (code != (round % 2 == 0 ? 130 : 5)) fail_msg("round %d: %d: %s", round, code, fw_strbuf_text(&c.err));
        fw_test_command_fini(&c);
    }
    char **names;
    size_t n;
    int last = 0, step;
    assert_int_equal(fw_dir_list(&names, &n, fw_test_run_path("ended", "")), FW_OK);
    for (size_t i = 0; i < n; i++)
        if (sscanf(names[i], "step-%d", &step) == 1 && step > last) last = step;
    fw_dir_list_free(names, n);
    snprintf(words, sizeof words, "--max_steps %d %s", last + 1, common);
    train("ended", words);
    train("ended-straight", words);
    fw_test_run_same_final("ended-straight", "ended");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),  cmocka_unit_test(test_nothing_left), cmocka_unit_test(test_refused_strictly),
        cmocka_unit_test(test_mirror), cmocka_unit_test(test_order),        cmocka_unit_test(test_ended_in_it)};
    return cmocka_run_group_tests(tests, fw_test_run_setup, fw_test_run_teardown);
}
