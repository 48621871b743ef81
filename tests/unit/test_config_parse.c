/* config: the command line, the rules between options, the configuration as JSON. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "config/options.h"
#include "config/options_sharding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MOST = 16 };

/* Parse arguments separated by '|'; *o is always valid for fini. */
static fw_status parse(fw_options *o, fw_command command, const char *line) {
    static char text[1024];
    char *argv[ARGUMENTS_MOST];
    int argc = 0;
    snprintf(text, sizeof text, "%s", line);
    for (char *rest = text; line[0] != 0 && rest != NULL && argc < ARGUMENTS_MOST;) {
        argv[argc++] = rest;
        rest = strchr(rest, '|');
        if (rest != NULL) *rest++ = 0;
    }
    fw_status status = fw_options_init(o, command);
    return status == FW_OK ? fw_options_parse(o, argc, argv) : status;
}

/* The message when parse and check refuse the line as an option error; "" when they take it. */
static const char *refusal(fw_command command, const char *line) {
    fw_options o;
    fw_status status = parse(&o, command, line);
    if (status == FW_OK) status = fw_options_check(&o);
    fw_options_fini(&o);
    if (status == FW_OK) return "";
    assert_int_equal(status, FW_ERR_OPTION);
    return fw_trail_message();
}

/* Names of TrainingArguments for one optimizer. */
static void test_optimizer_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        fw_optim optim;
    } cases[] = {{"adamw", FW_OPTIM_ADAMW},
                 {"adamw_torch", FW_OPTIM_ADAMW},
                 {"adamw_torch_fused", FW_OPTIM_ADAMW},
                 {"adamw_8bit", FW_OPTIM_ADAMW_8BIT},
                 {"adamw_bnb_8bit", FW_OPTIM_ADAMW_8BIT},
                 {"paged_adamw", FW_OPTIM_PAGED_ADAMW},
                 {"paged_adamw_32bit", FW_OPTIM_PAGED_ADAMW},
                 {"paged_adamw_8bit", FW_OPTIM_PAGED_ADAMW_8BIT},
                 {"lion", FW_OPTIM_LION},
                 {"lion_32bit", FW_OPTIM_LION},
                 {"lion_8bit", FW_OPTIM_LION_8BIT},
                 {"lamb", FW_OPTIM_LAMB},
                 {"adafactor", FW_OPTIM_ADAFACTOR},
                 {"sgd", FW_OPTIM_SGD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fw_options o;
        char line[64];
        snprintf(line, sizeof line, "--optim|%s", cases[i].name);
        assert_int_equal(parse(&o, FW_COMMAND_TRAIN, line), FW_OK);
        assert_int_equal(o.optim, cases[i].optim);
        fw_options_fini(&o);
    }
}

static void test_forms(void **state) {
    (void)state;
    fw_options o;
    assert_int_equal(parse(&o, FW_COMMAND_TRAIN,
                           "--learning_rate|1e-4|--max-steps=20|--packing|--bf16|false|--no-gradient-checkpointing|"
                           "--assistant_only_loss=no|--model|m|--lr-scheduler-type|cosine|--max_steps|-1|--seed=1e3"),
                     FW_OK);
    assert_true(o.learning_rate == 1e-4);
    assert_int_equal(o.max_steps, -1); /* the last one counts */
    assert_int_equal(o.seed, 1000);
    assert_true(o.packing && !o.bf16 && !o.gradient_checkpointing && !o.assistant_only_loss);
    assert_string_equal(o.model_name_or_path, "m");
    assert_int_equal(o.lr_scheduler_type, FW_LR_COSINE);
    assert_true(fw_options_given(&o, FW_OPTION_packing));
    assert_false(fw_options_given(&o, FW_OPTION_weight_decay));
    char origin[64];
    assert_string_equal(fw_options_origin(&o, FW_OPTION_seed, origin, sizeof origin), "the command line");
    assert_string_equal(fw_options_origin(&o, FW_OPTION_weight_decay, origin, sizeof origin), "the default");
    fw_options_fini(&o);

    /* a text may be empty, begin with one dash, or hold anything behind the sign */
    assert_int_equal(parse(&o, FW_COMMAND_GENERATE, "--prompt=--a=b|--system_prompt|-x|--json"), FW_OK);
    assert_string_equal(o.prompt, "--a=b");
    assert_string_equal(o.system_prompt, "-x");
    assert_true(o.json);
    fw_options_fini(&o);

    assert_int_equal(parse(&o, FW_COMMAND_IMPORT, "--output|dir|--overwrite|--|--odd.gguf"), FW_OK);
    assert_string_equal(o.file, "--odd.gguf");
    assert_true(o.overwrite);
    fw_options_fini(&o);

    assert_int_equal(parse(&o, FW_COMMAND_TRAIN, "--nonsense|1|--help"), FW_OK);
    assert_true(o.help_asked);
    fw_options_fini(&o);
    assert_int_equal(parse(&o, FW_COMMAND_TRAIN, ""), FW_OK);
    assert_false(o.help_asked);
    fw_options_fini(&o);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        fw_command command;
        const char *line, *message;
    } cases[] = {
        {FW_COMMAND_TRAIN, "--learnin_rate|1",
         "--learnin_rate is not an option of finewire train; did you mean --learning_rate?"},
        {FW_COMMAND_TRAIN, "--batch-size=4",
         "--batch_size is not an option of finewire train; did you mean --per_device_train_batch_size?"},
        {FW_COMMAND_TRAIN, "--qqqq", "--qqqq is not an option of finewire train; finewire help train lists them"},
        {FW_COMMAND_TRAIN, "--prompt|x", "--prompt is an option of finewire generate, not of finewire train"},
        {FW_COMMAND_GENERATE, "--eval_dataset|x",
         "--eval_dataset is an option of finewire train and bench step, not of finewire generate"},
        {FW_COMMAND_TRAIN, "--load_in_8bit", "--load_in_8bit is not supported yet by finewire; leave it out"},
        {FW_COMMAND_TRAIN, "--learning_rate", "--learning_rate needs a value"},
        {FW_COMMAND_TRAIN, "--learning_rate|--seed|1",
         "--learning_rate needs a value; for one that begins with two dashes write --NAME=VALUE"},
        {FW_COMMAND_TRAIN, "--learning_rate|nan", "--learning_rate is \"nan\": it must be a finite number"},
        {FW_COMMAND_TRAIN, "--learning_rate|-1", "--learning_rate is -1; it must be from 0 to 10"},
        {FW_COMMAND_TRAIN, "--seed|-1", "--seed is -1; it must be at least 0"},
        {FW_COMMAND_TRAIN, "--max_steps|1.5", "--max_steps is \"1.5\": it is not a whole number"},
        {FW_COMMAND_TRAIN, "--max_steps|99999999999999999999",
         "--max_steps is \"99999999999999999999\": the number is too large"},
        {FW_COMMAND_TRAIN, "--bf16=maybe", "--bf16 is \"maybe\": it must be true or false"},
        {FW_COMMAND_TRAIN, "--no_bf16=true", "--no_bf16 takes no value; write --bf16 true"},
        {FW_COMMAND_TRAIN, "--no_seed", "--no_seed: seed takes a value, there is no \"no\" to it"},
        {FW_COMMAND_TRAIN, "--no_bf1", "--bf1 is not an option of finewire train; did you mean --bf16?"},
        {FW_COMMAND_TRAIN, "--no_cuda", "--no_cuda is not supported yet by finewire; leave it out"},
        {FW_COMMAND_TRAIN, "--lr_scheduler_type|constant_with_warmups",
         "--lr_scheduler_type is constant_with_warmups; it must be linear, cosine, constant or constant_with_warmup; "
         "did you mean constant_with_warmup?"},
        {FW_COMMAND_TRAIN, "--eval_strategy|never", "--eval_strategy is never; it must be no, steps or epoch"},
        {FW_COMMAND_TRAIN, "--max_shard_size|5XB",
         "--max_shard_size is \"5XB\": it is not a size; write 5GB or 512MiB"},
        {FW_COMMAND_TRAIN, "--warmup_ratio|5", "--warmup_ratio is 5; it must be from 0 to 0.999"},
        {FW_COMMAND_TRAIN, "--output_dir=", "--output_dir is \"\": it is empty"},
        {FW_COMMAND_TRAIN, "--output_dir|a\xff", "--output_dir is \"a\xff\": it is not valid UTF-8"},
        {FW_COMMAND_TRAIN, "a.yaml|b.yaml", "finewire train takes one recipe; \"b.yaml\" is a second one"},
        {FW_COMMAND_EVAL, "x", "finewire eval does not know what to do with \"x\"; options are --NAME VALUE"},
        {FW_COMMAND_EVAL, "-m|x", "-m is not an option of finewire; options begin with two dashes"},
        /* a word after a flag that stands alone */
        {FW_COMMAND_TRAIN, "--packing|maybe",
         "--packing is followed by \"maybe\", which is neither true nor false nor a recipe that exists; write "
         "--packing "
         "true, --packing false, or the flag alone"},
        {FW_COMMAND_TRAIN, "--no-packing|true",
         "--no_packing is followed by \"true\", which is neither true nor false nor a recipe that exists; write "
         "--packing true, --packing false, or the flag alone"},
        {FW_COMMAND_IMPORT, "--output|o|--overwrite|none.gguf",
         "--overwrite is followed by \"none.gguf\", which is neither true nor false nor a file that exists; write "
         "--overwrite true, --overwrite false, or the flag alone"},
        {FW_COMMAND_EVAL, "--json|maybe",
         "--json is followed by \"maybe\"; write --json true, --json false, or the flag alone"},
        {FW_COMMAND_TRAIN, "--packing|-x", "-x is not an option of finewire; options begin with two dashes"},
        {FW_COMMAND_TRAIN, "--packing|none/none.yaml|--seed|1",
         "--packing is followed by \"none/none.yaml\", which is neither true nor false nor a recipe that exists; write "
         "--packing true, --packing false, or the flag alone"},
        {FW_COMMAND_TRAIN, "none/none.yaml",
         "there is no recipe none/none.yaml; check the path (a recipe is a YAML file of options, finewire help train "
         "lists them), or give the options as --NAME VALUE"},
        {FW_COMMAND_TRAIN, "--=x", "--=x is not an option of finewire"},
        /* rules between options */
        {FW_COMMAND_TRAIN, "", "finewire train needs --model_name_or_path PATH (or a line of the recipe)"},
        {FW_COMMAND_TRAIN, "--model|m|--dataset|d", "finewire train needs --output_dir PATH (or a line of the recipe)"},
        {FW_COMMAND_EVAL, "--model|m", "finewire eval needs --dataset_name PATH"},
        {FW_COMMAND_GENERATE, "--model|m", "finewire generate needs --prompt TEXT"},
        {FW_COMMAND_IMPORT, "--output|o", "finewire import needs a file: finewire import PATH"},
        {FW_COMMAND_TRAIN, "--model|m|--dataset|d|--output_dir|o|--eval_strategy|steps",
         "eval_strategy is steps, but there is no eval_dataset; name a file, hold some conversations out (val_size), "
         "or set eval_strategy to no"},
        {FW_COMMAND_TRAIN, "--model|m|--dataset|d|--output_dir|o|--max_steps|0",
         "max_steps is 0, which trains nothing; it must be at least 1, or -1 to go by num_train_epochs"},
        {FW_COMMAND_TRAIN, "--model|m|--dataset|d|--output_dir|o|--warmup_steps|1.5",
         "warmup_steps is 1.5; it must be a whole number of steps, or below 1 for a part of all steps"},
        {FW_COMMAND_TRAIN, "--model|m|--dataset|d|--output_dir|o|--resume_from_checkpoint=",
         "resume_from_checkpoint is empty; write auto, never or a folder"},
        {FW_COMMAND_GENERATE, "--model|m|--prompt|p|--top_p|0.9",
         "--top_p needs --temperature above 0: at 0 the likeliest token is taken"},
        {FW_COMMAND_GENERATE, "--model|m|--prompt|p|--raw|--system_prompt|s",
         "--system_prompt has no place in a raw prompt; leave out one of --raw and --system_prompt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(refusal(cases[i].command, cases[i].line), cases[i].message);
    /* a name too long for any table */
    char endless[600] = "--";
    memset(endless + 2, 'e', sizeof endless - 3);
    assert_non_null(strstr(refusal(FW_COMMAND_TRAIN, endless), "is not an option of finewire"));
}

static void test_what_follows_from_others(void **state) {
    (void)state;
    fw_options o;
    assert_int_equal(
        parse(&o, FW_COMMAND_TRAIN,
              "--model|m|--dataset|d|--output_dir|o|--seed|7|--logging_steps|3|--resume_from_checkpoint|False"),
        FW_OK);
    assert_int_equal(fw_options_check(&o), FW_OK);
    assert_int_equal(o.data_seed, 7);
    assert_int_equal(o.eval_steps, 3);
    assert_string_equal(o.resume_from_checkpoint, "never");
    fw_options_fini(&o);
    assert_int_equal(parse(&o, FW_COMMAND_TRAIN, "--model|m|--dataset|d|--output_dir|o|--data_seed|0|--eval_steps|5"),
                     FW_OK);
    assert_int_equal(fw_options_check(&o), FW_OK);
    assert_int_equal(o.data_seed, 0);
    assert_int_equal(o.eval_steps, 5);
    fw_options_fini(&o);

    static const struct {
        const char *line;
        int64_t total, warmup;
    } cases[] = {{"--warmup_steps|10", 100, 10}, {"--warmup_steps=0.1", 100, 10},  {"--warmup_ratio|0.05", 30, 2},
                 {"--warmup_steps|0", 100, 0},   {"--warmup_steps|200", 100, 200}, {"--warmup_steps|1", 100, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(&o, FW_COMMAND_TRAIN, cases[i].line), FW_OK);
        assert_int_equal(fw_options_warmup_steps(&o, cases[i].total), cases[i].warmup);
        fw_options_fini(&o);
    }
}

static int warning_n;
static void count_warning(fw_log_level level, const char *line, void *context) {
    (void)line;
    (void)context;
    warning_n += level == FW_LOG_WARNING;
}

static void test_warnings(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int n;
    } cases[] = {{"--warmup_ratio|0.03|--lr_scheduler_type|constant", 1},
                 {"--warmup_ratio|0.03|--lr_scheduler_type|linear", 0},
                 {"--eval_dataset|e", 1},
                 {"--eval_dataset|e|--eval_strategy|epoch", 0},
                 {"--max_steps|5", 0},
                 {"--strategy|zero2|--prefetch|2", 1},
                 {"--strategy|zero2|--prefetch|0", 1},
                 {"--strategy|zero3|--prefetch|1|--wrap|model", 1},
                 {"--strategy|zero3|--wrap|model", 0},
                 {"--sync_each_batch|true", 1},
                 {"--sync_each_batch|false|--gradient_accumulation_steps|1", 1},
                 {"--sync_each_batch|true|--gradient_accumulation_steps|2", 0},
                 {"--sync_each_batch|auto", 0},
                 {"--strategy|zero3|--prefetch|2", 0},
                 {"--prefetch|2", 0},
                 {"--strategy|ddp|--backward_prefetch|backward_pre", 1},
                 {"--fsdp_min_num_params|5", 1}, /* before wrap follows from it */
                 {"--max_steps|5|--num_train_epochs|2", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        assert_int_equal(parse(&o, FW_COMMAND_TRAIN, cases[i].line), FW_OK);
        warning_n = 0;
        fw_log_set_sink(count_warning, NULL, FW_LOG_INFO);
        fw_options_warn(&o);
        fw_log_set_sink(NULL, NULL, FW_LOG_INFO);
        assert_int_equal(warning_n, cases[i].n);
        fw_options_fini(&o);
    }
}

/* What auto chose, or one rank made of it, is known later. */
static void test_warnings_of_choice(void **state) {
    (void)state;
    static const struct {
        const char *line;
        fw_strategy chosen;
        int n;
    } cases[] = {{"--prefetch|2", FW_STRATEGY_DDP, 1},
                 {"--prefetch|0", FW_STRATEGY_ZERO2, 1},
                 {"--prefetch|0|--forward_prefetch|false", FW_STRATEGY_ZERO2, 1},
                 {"--forward_prefetch|false", FW_STRATEGY_ZERO2, 0}, /* as files of FSDP have it */
                 {"--forward_prefetch|true", FW_STRATEGY_ZERO2, 1},
                 {"--prefetch|2", FW_STRATEGY_ZERO3, 0},
                 {"--seed|2", FW_STRATEGY_DDP, 0},
                 {"--prefetch|2|--wrap|model", FW_STRATEGY_DDP, 0}, /* that much was known before */
                 {"--prefetch|2|--strategy|ddp", FW_STRATEGY_DDP, 0},
                 {"--prefetch|2|--strategy|hsdp", FW_STRATEGY_DDP, 1},
                 {"--prefetch|2|--strategy|hsdp", FW_STRATEGY_HSDP, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        assert_int_equal(parse(&o, FW_COMMAND_TRAIN, cases[i].line), FW_OK);
        assert_int_equal(fw_options_resolve_sharding(&o), FW_OK);
        warning_n = 0;
        fw_log_set_sink(count_warning, NULL, FW_LOG_INFO);
        fw_options_warn_of_choice(&o, cases[i].chosen);
        fw_log_set_sink(NULL, NULL, FW_LOG_INFO);
        assert_int_equal(warning_n, cases[i].n);
        fw_options_fini(&o);
    }
}

static void test_json(void **state) {
    (void)state;
    fw_options o;
    json_t *object;
    assert_int_equal(parse(&o, FW_COMMAND_TRAIN, "--model|m|--lr_scheduler_type|cosine|--no_bf16|--learning_rate|0.5"),
                     FW_OK);
    assert_int_equal(fw_options_to_json(&object, &o), FW_OK);
    assert_string_equal(json_string_value(json_object_get(object, "model_name_or_path")), "m");
    assert_string_equal(json_string_value(json_object_get(object, "lr_scheduler_type")), "cosine");
    assert_true(json_is_false(json_object_get(object, "bf16")));
    assert_true(json_is_null(json_object_get(object, "output_dir")));
    assert_true(json_real_value(json_object_get(object, "learning_rate")) == 0.5);
    assert_int_equal(json_integer_value(json_object_get(object, "max_shard_size")), 5000000000);
    assert_null(json_object_get(object, "prompt")); /* not an option of train */
    json_decref(object);
    fw_options_fini(&o);
}

static void test_recipe_and_command_line(void **state) {
    (void)state;
    char path[] = "/tmp/fw-recipe-XXXXXX", line[256], origin[128], expected[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const char *text = "model: from_recipe\nlearning_rate: 1e-3\nwarmup_ratio: 0.1\n";
    assert_int_equal(fw_file_write(path, text, strlen(text)), FW_OK);
    fw_options o;
    snprintf(line, sizeof line, "--learning_rate|1e-5|%s|--warmup-steps|3",
             path); /* wins on either side of the recipe */
    assert_int_equal(parse(&o, FW_COMMAND_TRAIN, line), FW_OK);
    assert_true(o.learning_rate == 1e-5 && o.warmup_steps == 3);
    assert_string_equal(o.model_name_or_path, "from_recipe");
    snprintf(expected, sizeof expected, "%s:1", path);
    assert_string_equal(fw_options_origin(&o, FW_OPTION_model_name_or_path, origin, sizeof origin), expected);
    fw_options_fini(&o);
    unlink(path);
    snprintf(line, sizeof line, "--recipe|%s", path);
    assert_non_null(strstr(refusal(FW_COMMAND_TRAIN, line), "there is no recipe /tmp/fw-recipe-"));
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    uint64_t n = 1;
    for (;; n++) {
        fw_options o;
        json_t *object = NULL;
        fw_alloc_fail_at(n);
        fw_status status =
            parse(&o, FW_COMMAND_TRAIN, "--model|m|--dataset|d|--output_dir|o|--resume_from_checkpoint|true");
        if (status == FW_OK) status = fw_options_check(&o);
        if (status == FW_OK) status = fw_options_to_json(&object, &o);
        fw_alloc_fail_at(0);
        fw_options_fini(&o);
        if (status == FW_OK) {
            json_decref(object);
            break;
        }
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_optimizer_names),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_warnings_of_choice),
        cmocka_unit_test(test_what_follows_from_others),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_recipe_and_command_line),
        cmocka_unit_test(test_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
