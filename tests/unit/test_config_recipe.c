/* config: recipes, good and hostile. */
#include "base/alloc.h"
#include "config/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static fw_status read_bytes(fw_options *o, const char *text, size_t bytes) {
    fw_status status = fw_options_init(o, FW_COMMAND_TRAIN);
    return status == FW_OK ? fw_options_parse_recipe(o, text, bytes, "r.yaml") : status;
}

static void test_good(void **state) {
    (void)state;
    fw_options o;
    const char *text = "\xef\xbb\xbf# a recipe\r\n"
                       "model_name_or_path: \"models/a b\"\r\n"
                       "learning-rate: 1e-4 # dashes, too\r\n"
                       "max_seq_length: '512'\r\n"
                       "evaluation_strategy: no\r\n"
                       "packing: True\r\n"
                       "save_total_limit: null\r\n"
                       "seed:\r\n"
                       "data_seed: ~\r\n"
                       "eval_dataset: # nothing yet\r\n"
                       "output_dir: >-\r\n  out\r\n"
                       "max_shard_size: 200 MB\r\n";
    assert_int_equal(read_bytes(&o, text, strlen(text)), FW_OK);
    assert_string_equal(o.model_name_or_path, "models/a b");
    assert_string_equal(o.output_dir, "out");
    assert_true(o.learning_rate == 1e-4 && o.packing);
    assert_int_equal(o.max_length, 512);
    assert_int_equal(o.max_shard_size, 200000000);
    assert_false(fw_options_given(&o, FW_OPTION_save_total_limit)); /* null is as if not written */
    assert_false(fw_options_given(&o, FW_OPTION_seed));             /* and so is nothing */
    assert_false(fw_options_given(&o, FW_OPTION_data_seed));
    assert_null(o.eval_dataset);
    assert_int_equal(o.origin[FW_OPTION_learning_rate].from, FW_FROM_RECIPE);
    assert_int_equal(o.origin[FW_OPTION_learning_rate].line, 3);
    fw_options_fini(&o);
    text = "{model: m, seed: 3}"; /* flow style, and so JSON */
    assert_int_equal(read_bytes(&o, text, strlen(text)), FW_OK);
    assert_int_equal(o.seed, 3);
    fw_options_fini(&o);
    text = "use_peft: true\nlora_target_modules:\n  - q_proj\n  - mlp.up_proj\nlayers_to_transform: [0, 2]\n"
           "rank_pattern: {q_proj: 8, layers.1.mlp.up_proj: 4}\nmodules_to_save: []\n"
           "exclude_modules: [k_proj]\n"; /* PEFT's lists and maps */
    assert_int_equal(read_bytes(&o, text, strlen(text)), FW_OK);
    assert_string_equal(o.lora_target_modules, "q_proj,mlp.up_proj");
    assert_string_equal(o.lora_exclude_modules, "k_proj");
    assert_string_equal(o.lora_layers_to_transform, "0,2");
    assert_string_equal(o.lora_rank_pattern, "q_proj=8,layers.1.mlp.up_proj=4");
    assert_string_equal(o.lora_modules_to_save, "");
    assert_int_equal(o.origin[FW_OPTION_lora_target_modules].line, 2);
    fw_options_fini(&o);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *message; /* the message begins so */
    } cases[] = {
        {"seed: 1\nlearnin_rate: 1",
         "r.yaml:2: learnin_rate is not an option of finewire train; did you mean learning_rate?"},
        {"a: 1", "r.yaml:1: a is not an option of finewire train; finewire help train lists them"},
        {"load_in_8bit: true", "r.yaml:1: load_in_8bit is not supported yet by finewire; leave it out"},
        {"lora_target_modules: {q_proj: 1}", "r.yaml:1: lora_target_modules takes one value, not a list or a map"},
        {"target_modules: [[q_proj]]", "r.yaml:1: target_modules: \"q_proj\" has no place in a list of names"},
        {"target_modules: [q_proj, \"k v\"]", "r.yaml:1: target_modules: \"k v\" has no place in a list of names"},
        {"rank_pattern: [q_proj]", "r.yaml:1: rank_pattern takes one value, not a list or a map"},
        {"prompt: x", "r.yaml:1: prompt is an option of finewire generate, not of finewire train"},
        {"seed: 1\n\nseed: 2", "r.yaml:3: seed is given twice: line 1 says seed; keep one"},
        {"warmup_steps: 5\nwarmup_ratio: 0.1",
         "r.yaml:2: warmup_ratio is given twice: line 1 says warmup_steps; keep one"},
        {"seed: null\nseed: 2", "r.yaml:2: seed is given twice"},
        {"learning_rate: 50", "r.yaml:1: learning_rate is 50; it must be from 0 to 10"},
        {"learning_rate: .nan", "r.yaml:1: learning_rate is \".nan\": it must be a finite number"},
        {"learning_rate: .inf", "r.yaml:1: learning_rate is \".inf\": it must be a finite number"},
        {"seed: [1, 2]", "r.yaml:1: seed takes one value, not a list or a map"},
        {"seed:\n  x: 1", "r.yaml:1: seed takes one value, not a list or a map"},
        {"seed:\nseed: 2", "r.yaml:2: seed is given twice"},
        {"seed: \"\"", "r.yaml:1: seed is \"\": "},
        {"recipe: other.yaml", "r.yaml:1: recipe: a recipe cannot name another recipe"},
        {"config: other.yaml", "r.yaml:1: config: a recipe cannot name another recipe"},
        {"seed: &s 1\ndata_seed: *s", "r.yaml:1: an anchor (&) is not taken; a recipe is one `name: value` a line"},
        {"&s seed: 1", "r.yaml:1: an anchor (&) is not taken"},
        {"&s\nseed: 1", "r.yaml:1: an anchor (&) is not taken"},
        {"seed: *s", "r.yaml:1: an alias (*) is not taken"},
        {"<<: {seed: 1}", "r.yaml:1: a merge (<<) is not taken"},
        {"seed: !!int 1", "r.yaml:1: a tag (!) is not taken"},
        {"!x\nseed: 1", "r.yaml:1: a tag (!) is not taken"},
        {"? [a]\n: 1", "r.yaml:1: a list or a map is not a name"},
        {"'': 1", "r.yaml:1: a name is empty"},
        {"output_dir: \"a\\0b\"", "r.yaml:1: a zero byte is not taken"},
        {"seed: 1\n---\nseed: 2", "r.yaml:2: a second document is not taken"},
        {"- seed: 1", "r.yaml:1: there are no names here"},
        {"just words", "r.yaml:1: there are no names here"},
        {"", "r.yaml:1: the recipe is empty"},
        {"# only a comment\n", "r.yaml:"},
        {"seed: \"1", "r.yaml:1:"},
        {"seed: 1\n\tbf16: true", "r.yaml:2:1: not valid YAML: "},
        {"seed: 1\n bf16: true", "r.yaml:1: seed is \"1 bf16\": it is not a whole number"},
        {"{seed: 1", "r.yaml:"},
        {"output_dir: \xff", "r.yaml: not valid YAML: "},
        {"output_dir: a\x01", "r.yaml: not valid YAML: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fw_options o;
        assert_int_equal(read_bytes(&o, cases[i].text, strlen(cases[i].text)), FW_ERR_OPTION);
        if (strncmp(fw_trail_message(), cases[i].message, strlen(cases[i].message)) != 0)
            assert_string_equal(fw_trail_message(), cases[i].message);
        fw_options_fini(&o);
    }
}

/* Zero bytes, deep nesting, endless names: refused at once, without stack or memory beyond the text. */
static void test_hostile(void **state) {
    (void)state;
    enum { BYTES = 100000 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    fw_options o;
    for (const char *c = "[{-:&*! ax\n\t\"'|>%#?"; *c != 0; c++) {
        memset(text, *c, BYTES);
        assert_int_equal(read_bytes(&o, text, BYTES), FW_ERR_OPTION);
        assert_non_null(strstr(fw_trail_message(), "r.yaml"));
        fw_options_fini(&o);
    }
    memset(text, 0, BYTES);
    assert_int_equal(read_bytes(&o, text, BYTES), FW_ERR_OPTION);
    fw_options_fini(&o);
    memset(text, 'k', BYTES);
    memcpy(text + BYTES - 4, ": 1\n", 4);
    assert_int_equal(read_bytes(&o, text, BYTES), FW_ERR_OPTION);
    fw_options_fini(&o);
    memset(text, '9', BYTES); /* a number of very many digits */
    memcpy(text, "seed: ", 6);
    assert_int_equal(read_bytes(&o, text, BYTES), FW_ERR_OPTION);
    fw_options_fini(&o);
    free(text);
}

/* A byte order mark right before the first name, as Windows editors write it. */
static void test_byte_order_mark(void **state) {
    (void)state;
    const char *text = "\xef\xbb\xbfmodel: m\r\nseed: 7\r\n";
    fw_options o;
    assert_int_equal(read_bytes(&o, text, strlen(text)), FW_OK);
    assert_string_equal(o.model_name_or_path, "m");
    assert_int_equal(o.seed, 7);
    fw_options_fini(&o);
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    const char *text = "model: m\ndataset: d\noutput_dir: o\nresume_from_checkpoint: never\n";
    uint64_t n = 1;
    for (;; n++) {
        fw_options o;
        fw_alloc_fail_at(n);
        fw_status status = read_bytes(&o, text, strlen(text));
        fw_alloc_fail_at(0);
        fw_options_fini(&o);
        if (status == FW_OK) break;
        assert_int_equal(status, FW_ERR_NOMEM);
    }
    assert_true(n > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
