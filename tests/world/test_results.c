/* What a run leaves behind, as a user meets it: the final folder, what the model says, and what it scores. */
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "store/safetensors.h"
#include "support/command.h"
#include "support/scratch.h"
#include "support/tiny_model.h"
#include "support/tiny_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double deadline_s = 240;
static char dir[FW_TEST_PATH_BYTES];

static int set_up(void **state) {
    (void)state;
    fw_test_scratch_make(dir);
    assert_int_equal(fw_test_write_model(fw_test_path(dir, "model"), "llama_tied", FW_TEST_VOCAB_N), FW_OK);
    assert_int_equal(fw_test_write_tokenizer(fw_test_path(dir, "model"), FW_TEST_SMOLLM2), FW_OK);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fw_test_scratch_remove(dir);
    return 0;
}

static void write_text(const char *name, const char *text) {
    fw_test_write(fw_test_path(dir, name), text, strlen(text));
}

/* Run; *out = the standard output as JSON when wanted. */
static void run(const char *const *argv, json_t **out) {
    fw_test_command c;
    assert_int_equal(fw_test_command_run(&c, argv, 0, deadline_s), 0);
    if (out != NULL) assert_int_equal(fw_json_parse(out, fw_strbuf_text(&c.out), c.out.len_bytes, "stdout", 1), FW_OK);
    fw_test_command_fini(&c);
}

static void train(const char *output, const char *data, const char *ranks, const char *steps, const char *rate) {
    char o[FW_TEST_PATH_BYTES], d[FW_TEST_PATH_BYTES], m[FW_TEST_PATH_BYTES];
    snprintf(o, sizeof o, "%s", fw_test_path(dir, output));
    snprintf(d, sizeof d, "%s", fw_test_path(dir, data));
    snprintf(m, sizeof m, "%s", fw_test_path(dir, "model"));
    const char *argv[] = {FW_BINARY,
                          "train",
                          "--model",
                          m,
                          "--dataset",
                          d,
                          "--output_dir",
                          o,
                          "--num_processes",
                          ranks,
                          "--max_steps",
                          steps,
                          "--learning_rate",
                          rate,
                          "--save_strategy",
                          "no",
                          "--disable_tqdm",
                          "--lr_scheduler_type",
                          "constant",
                          "--per_device_train_batch_size",
                          "2",
                          NULL};
    run(argv, NULL);
}

static const char three[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"one?\"}, {\"role\": \"assistant\", "
                            "\"content\": \"1 it is\"}]}\n"
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"two and a longer question?\"}, "
                            "{\"role\": \"assistant\", \"content\": \"2\"}]}\n"
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"3\"}, {\"role\": \"assistant\", "
                            "\"content\": \"three three three\"}]}\n";

/* At a learning rate of 0 nothing may change: whatever the number of ranks, the files are byte for byte the same, hold
 * the source's weights rounded to bf16, two bytes a parameter, and config.json says so. */
static void test_export(void **state) {
    (void)state;
    write_text("three.jsonl", three);
    const char *ranks[] = {"1", "2", "4"}, *names[] = {"out1", "out2", "out4"};
    fw_mapping file[3];
    for (int i = 0; i < 3; i++) {
        char path[FW_TEST_PATH_BYTES + 64];
        train(names[i], "three.jsonl", ranks[i], "2", "0");
        snprintf(path, sizeof path, "%s/final/model.safetensors", fw_test_path(dir, names[i]));
        assert_int_equal(fw_file_map(&file[i], path), FW_OK);
        assert_int_equal(file[i].bytes, file[0].bytes);
        assert_memory_equal(file[i].data, file[0].data, file[0].bytes);
    }
    for (int i = 0; i < 3; i++) fw_file_unmap(&file[i]);

    char path[FW_TEST_PATH_BYTES + 64];
    fw_safetensors source, final;
    assert_int_equal(fw_safetensors_open(&source, fw_test_path(fw_test_path(dir, "model"), "model.safetensors")),
                     FW_OK);
    snprintf(path, sizeof path, "%s/final/model.safetensors", fw_test_path(dir, "out2"));
    assert_int_equal(fw_safetensors_open(&final, path), FW_OK);
    assert_int_equal(final.tensor_n, source.tensor_n);
    for (size_t i = 0; i < source.tensor_n; i++) {
        const fw_stored_tensor *a = &source.tensor[i], *b = fw_safetensors_find(&final, a->name);
        assert_non_null(b);
        assert_int_equal(b->bytes, a->bytes / 2);
        const uint8_t *x = source.mapping.data + a->offset_bytes; /* no multiple of 4 as a rule */
        const uint8_t *y = final.mapping.data + b->offset_bytes;
        for (size_t k = 0; k < a->bytes / sizeof(float); k++) {
            float value;
            fw_bf16 rounded;
            memcpy(&value, x + k * sizeof value, sizeof value);
            memcpy(&rounded, y + k * sizeof rounded, sizeof rounded);
            assert_int_equal(rounded, fw_bf16_from_f32(value));
        }
    }
    fw_safetensors_close(&source);
    fw_safetensors_close(&final);

    json_t *config;
    snprintf(path, sizeof path, "%s/final/config.json", fw_test_path(dir, "out2"));
    assert_int_equal(fw_json_load(&config, path, 1 << 20), FW_OK);
    const char *dtype = json_string_value(json_object_get(config, "torch_dtype"));
    if (dtype == NULL) dtype = json_string_value(json_object_get(config, "dtype"));
    assert_string_equal(dtype, "bfloat16");
    json_decref(config);
    const char *carried[] = {"tokenizer.json", "tokenizer_config.json"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/final/%s", fw_test_path(dir, "out2"), carried[i]);
        assert_true(fw_file_exists(path));
    }
}

/* Trained long enough on two answers, the model gives them word for word and stops: the end of the turn is a target. */
static void test_learns_to_stop(void **state) {
    (void)state;
    write_text("two.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"who?\"}, {\"role\": \"assistant\", "
                            "\"content\": \"It is me, <|im_end|> or not.\"}]}\n"
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"what?\"}, {\"role\": \"assistant\", "
                            "\"content\": \"\\u00fcber \\ud83d\\ude80\\nx\"}]}\n");
    train("learnt", "two.jsonl", "2", "150", "1e-2");
    char model[FW_TEST_PATH_BYTES];
    snprintf(model, sizeof model, "%s/final", fw_test_path(dir, "learnt"));
    const char *question[] = {"who?", "what?"}, *answer[] = {"It is me, <|im_end|> or not.", "\u00fcber \U0001F680\nx"};
    for (int i = 0; i < 2; i++) {
        const char *argv[] = {FW_BINARY,   "generate",         "--model", model,    "--prompt",
                              question[i], "--max_new_tokens", "100",     "--json", NULL};
        json_t *said;
        run(argv, &said);
        assert_string_equal(json_string_value(json_object_get(said, "text")), answer[i]);
        assert_true(json_is_true(json_object_get(said, "ended")));
        json_decref(said);
        /* the same as plain text, streamed; and cut off where the limit is */
        const char *plain[] = {FW_BINARY, "generate", "--model", model, "--prompt", question[i], NULL};
        fw_test_command c;
        assert_int_equal(fw_test_command_run(&c, plain, 0, deadline_s), 0);
        assert_int_equal(c.out.len_bytes, strlen(answer[i]) + 1);
        assert_memory_equal(c.out.data, answer[i], strlen(answer[i]));
        fw_test_command_fini(&c);
        const char *cut[] = {FW_BINARY,   "generate",         "--model", model,    "--prompt",
                             question[i], "--max_new_tokens", "2",       "--json", NULL};
        run(cut, &said);
        assert_int_equal(json_integer_value(json_object_get(said, "answer_tokens")), 2);
        assert_true(json_is_false(json_object_get(said, "ended")));
        json_decref(said);
    }
}

static double eval_loss(const char *ranks, const char *batch, const char *bf16, int64_t *target_n) {
    char m[FW_TEST_PATH_BYTES], d[FW_TEST_PATH_BYTES];
    snprintf(m, sizeof m, "%s", fw_test_path(dir, "model"));
    snprintf(d, sizeof d, "%s", fw_test_path(dir, "many.jsonl"));
    const char *argv[] = {FW_BINARY,
                          "eval",
                          "--model",
                          m,
                          "--dataset",
                          d,
                          "--num_processes",
                          ranks,
                          "--per_device_eval_batch_size",
                          batch,
                          "--bf16",
                          bf16,
                          "--json",
                          NULL};
    json_t *result;
    run(argv, &result);
    double loss = json_number_value(json_object_get(result, "loss"));
    assert_true(fabs(log(json_number_value(json_object_get(result, "perplexity"))) - loss) < 1e-6);
    *target_n = json_integer_value(json_object_get(result, "targets"));
    json_decref(result);
    return loss;
}

/* One number for one model and one file, whatever the batch size and the number of ranks: to the last digit. */
static void test_eval(void **state) {
    (void)state;
    fw_strbuf text = {0};
    for (int i = 0; i < 23; i++) {
        fw_strbuf_printf(&text, "{\"messages\": [{\"role\": \"user\", \"content\": \"%d", i);
        for (int k = 0; k < i * i % 31; k++) fw_strbuf_printf(&text, " and %d", k * 17);
        fw_strbuf_printf(&text, "\"}, {\"role\": \"assistant\", \"content\": \"%d", i * 3);
        for (int k = 0; k < i * 7 % 12; k++) fw_strbuf_printf(&text, " then %d", k * 5);
        fw_strbuf_puts(&text, "\"}]}\n");
    }
    write_text("many.jsonl", text.data);
    fw_strbuf_fini(&text);
    const char *settings[][2] = {{"1", "8"}, {"1", "1"}, {"1", "64"}, {"2", "3"}, {"3", "5"}};
    const char *bf16[] = {"false", "true"};
    for (int t = 0; t < 2; t++) {
        double first = 0;
        int64_t first_n = 0;
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
            int64_t target_n;
            double loss = eval_loss(settings[i][0], settings[i][1], bf16[t], &target_n);
            if (i == 0) {
                first = loss;
                first_n = target_n;
            }
            if (loss != first)
                fprintf(stderr, "ranks %s, batch %s, bf16 %s: %.9f, not %.9f\n", settings[i][0], settings[i][1],
                        bf16[t], loss, first);
            assert_true(loss == first);
            assert_int_equal(target_n, first_n);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_learns_to_stop),
        cmocka_unit_test(test_eval),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
