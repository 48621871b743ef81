/* The trace of several ranks: one file, every rank's lanes in it; a rank that cannot write is everybody's error. */
#include "base/file.h"
#include "base/json.h"
#include "base/trace.h"
#include "support/command.h"
#include "support/scratch.h"
#include "support/tiny_model.h"
#include "support/tiny_tokenizer.h"
#include "support/world.h"
#include "train/run_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { WORLD = 5 };

static char dir[FW_TEST_PATH_BYTES];
static const char *path;

static int set_up(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    path = fw_test_path(dir, "trace.json");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

static int write_trace(fw_comm *c, void *context) {
    (void)context;
    int rank = fw_comm_rank(c);
    FW_RANK_CHECK(fw_run_trace_begin(c, path) == FW_OK);
    FW_RANK_CHECK(fw_trace_on());
    for (int i = 0; i <= rank; i++)
        fw_trace_span(FW_TRACE_COMPUTE, "work", 1000 * (uint64_t)i, 1000 * (uint64_t)i + 500);
    FW_RANK_CHECK(fw_run_trace_end(c, path) == FW_OK);
    FW_RANK_CHECK(!fw_trace_on());
    return 0;
}

static void test_all_ranks(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(WORLD, write_trace, NULL), 0);
    assert_int_equal(fw_test_count_entries(dir), 1);
    json_t *file;
    assert_int_equal(fw_json_load(&file, path, 1 << 20), FW_OK);
    int span_n[WORLD] = {0}, name_n[WORLD] = {0};
    size_t i;
    const json_t *e;
    json_array_foreach(json_object_get(file, "traceEvents"), i, e) {
        json_int_t rank = json_integer_value(json_object_get(e, "pid"));
        assert_in_range(rank, 0, WORLD - 1);
        const char *name = json_string_value(json_object_get(e, "name"));
        span_n[rank] += strcmp(name, "work") == 0;
        name_n[rank] += strcmp(name, "process_name") == 0;
    }
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(span_n[rank], rank + 1);
        assert_int_equal(name_n[rank], 1);
    }
    json_decref(file);
}

static int bad_path(fw_comm *c, void *context) {
    (void)context;
    FW_RANK_CHECK(fw_run_trace_begin(c, dir) == FW_ERR_OPTION);
    FW_RANK_CHECK(strstr(fw_trail_message(), "a folder") != NULL);
    FW_RANK_CHECK(!fw_trace_on());
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK); /* the group goes on */
    return 0;
}

/* Rank 1 has no room for its part. */
static int full_disk(fw_comm *c, void *context) {
    (void)context;
    FW_RANK_CHECK(fw_run_trace_begin(c, path) == FW_OK);
    if (fw_comm_rank(c) == 1) fw_file_fail_write_at(1);
    FW_RANK_CHECK(fw_run_trace_end(c, path) == FW_ERR_IO);
    fw_file_fail_write_at(0);
    FW_RANK_CHECK(fw_comm_barrier(c) == FW_OK);
    return 0;
}

static int no_trace(fw_comm *c, void *context) {
    (void)context;
    FW_RANK_CHECK(fw_run_trace_begin(c, NULL) == FW_OK);
    FW_RANK_CHECK(!fw_trace_on());
    FW_RANK_CHECK(fw_run_trace_end(c, NULL) == FW_OK);
    fw_run_trace_abandon(c, NULL);
    fw_run_trace_abandon(NULL, path); /* a job that never met */
    return 0;
}

static void test_failures(void **state) {
    (void)state;
    assert_int_equal(fw_test_world(3, bad_path, NULL), 0);
    assert_int_equal(fw_test_world(3, full_disk, NULL), 0);
    assert_int_equal(fw_test_world(2, no_trace, NULL), 0);
    assert_int_equal(fw_test_count_entries(dir), 0); /* nothing half-written is left */
}

/* finewire train --trace FILE: the exit code. */
static int train(const char *trace) {
    static const char conversation[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"one?\"}, "
                                       "{\"role\": \"assistant\", \"content\": \"1 it is\"}]}\n";
    const char *data = fw_test_path(dir, "one.jsonl"), *model = fw_test_path(dir, "model");
    const char *output = fw_test_path(dir, "out");
    fw_test_write(data, conversation, sizeof conversation - 1);
    assert_int_equal(fw_test_write_model(model, "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(model, FW_TEST_SMOLLM2), FW_OK);
    const char *argv[] = {FW_BINARY,
                          "train",
                          "--model",
                          model,
                          "--dataset",
                          data,
                          "--output_dir",
                          output,
                          "--trace",
                          trace,
                          "--strategy",
                          "zero3",
                          "--num_processes",
                          "2",
                          "--max_steps",
                          "2",
                          "--overwrite_output_dir",
                          "--save_strategy",
                          "no",
                          "--num_threads",
                          "1",
                          NULL};
    fw_test_command c;
    assert_int_equal(fw_test_command_start(&c, argv, NULL), 0);
    int code = fw_test_command_finish(&c, 120);
    fw_test_command_fini(&c);
    return code;
}

/* Is there a span of this name in this lane of this rank, that lies inside the span `outer` of the lane of steps? */
static bool holds(const json_t *file, int rank, fw_trace_lane lane, const char *name, const char *outer) {
    size_t i;
    const json_t *e;
    double first = 0, last = 0;
    for (int round = 0; round < 2; round++) {
        json_array_foreach(json_object_get(file, "traceEvents"), i, e) {
            if (json_integer_value(json_object_get(e, "pid")) != rank) continue;
            if (json_integer_value(json_object_get(e, "tid")) != (round == 0 ? FW_TRACE_STEP : lane)) continue;
            if (strcmp(json_string_value(json_object_get(e, "name")), round == 0 ? outer : name) != 0) continue;
            double start = json_number_value(json_object_get(e, "ts"));
            double end = start + json_number_value(json_object_get(e, "dur"));
            if (round == 0) {
                first = start;
                last = end;
            } else if (start >= first - 1e-3 && end <= last + 1e-3) {
                return true;
            }
        }
    }
    return false;
}

/* The trace of a real run says what each rank did in each step, unit by unit, in all of its lanes. */
static void test_run(void **state) {
    (void)state;
    assert_int_equal(train(path), 0);
    json_t *file;
    assert_int_equal(fw_json_load(&file, path, 1 << 24), FW_OK);
    for (int rank = 0; rank < 2; rank++) {
        for (int step = 1; step <= 2; step++) {
            const char *outer = step == 1 ? "step 1" : "step 2";
            static const char *const phases[] = {"batch", "forward", "loss", "backward", "norm", "update"};
            for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
                assert_true(holds(file, rank, FW_TRACE_STEP, phases[i], outer));
            static const char *const units[] = {"forward edge", "forward layers.0", "loss edge", "backward layers.0"};
            for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
                assert_true(holds(file, rank, FW_TRACE_COMPUTE, units[i], outer));
            assert_true(holds(file, rank, FW_TRACE_COMM, "all_gather layers.0", outer));
            assert_true(holds(file, rank, FW_TRACE_COMM, "reduce_scatter layers.0", outer));
        }
        assert_false(holds(file, rank, FW_TRACE_COMPUTE, "forward layers.0", "no such step"));
    }
    json_decref(file);
    assert_false(fw_file_exists(fw_test_path(dir, "trace.json.unfinished")));

    /* A path that cannot be is found before the run that is there is removed. */
    const char *kept = fw_test_path(dir, "out/step-00000001");
    assert_int_equal(mkdir(kept, 0777), 0);
    assert_int_equal(train(fw_test_path(dir, "out")), 2); /* a folder */
    assert_int_equal(train(fw_test_path(dir, "nowhere/trace.json")), 6);
    assert_true(fw_dir_exists(kept));
    assert_int_equal(train(fw_test_path(dir, "out/trace.json")), 0);
    assert_true(fw_file_exists(fw_test_path(dir, "out/trace.json")));
    assert_false(fw_dir_exists(kept));
    assert_int_equal(fw_dir_remove(fw_test_path(dir, "out")), FW_OK);
    assert_int_equal(train(fw_test_path(dir, "out/trace.json")), 0); /* in a folder that is made for it */
    assert_int_equal(train(path), 0);                                /* an older trace is replaced */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_ranks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_run, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
