/* config: the table of options holds together, and names are found, misspelt or not. */
#include "base/nearest.h"
#include "config/lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static void test_every_option_is_complete(void **state) {
    (void)state;
    char text[512];
    for (int i = 0; i < FW_OPTION_N; i++) {
        const fw_option_info *info = fw_option_get((fw_option_id)i);
        assert_true(info->commands != 0 && info->commands < 1u << FW_COMMAND_N);
        assert_true(strlen(info->help) > 5);
        assert_true(info->help[strlen(info->help) - 1] != '.'); /* the printers add what follows */
        assert_int_equal(fw_option_by_name(info->name), i);     /* no name twice */
        assert_false(fw_option_comes_later(info->name));
        assert_int_not_equal(strncmp(info->name, "no_", 3), 0); /* would be read as a negation */
        assert_true(info->type == FW_TYPE_TEXT || info->type == FW_TYPE_PATH ||
                    strlen(fw_option_bounds((fw_option_id)i, text, sizeof text)) > 0);
    }
    const fw_option_spelling *spelling;
    for (size_t i = 0; (spelling = fw_option_spelling_at(i)) != NULL; i++) {
        assert_int_equal(fw_option_by_name(spelling->name), -1);
        assert_false(fw_option_comes_later(spelling->name));
        assert_non_null(strstr(fw_option_aliases(spelling->id, text, sizeof text), spelling->name));
    }
}

static void test_every_command_starts_from_its_defaults(void **state) {
    (void)state;
    for (int c = 0; c < FW_COMMAND_N; c++) {
        fw_options o;
        assert_int_equal(fw_options_init(&o, (fw_command)c), FW_OK);
        fw_command_info command = fw_command_get((fw_command)c);
        assert_true(command.positional < 0 ||
                    (fw_option_get((fw_option_id)command.positional)->commands & (1u << c)) != 0);
        fw_options_fini(&o);
    }
    fw_options o;
    assert_int_equal(fw_options_init(&o, FW_COMMAND_TRAIN), FW_OK);
    assert_int_equal(o.per_device_train_batch_size, 8);
    assert_true(o.learning_rate == 2e-5 && o.num_train_epochs == 3 && o.adam_beta2 == 0.999 && o.adam_epsilon == 1e-8);
    assert_int_equal(o.max_steps, -1);
    assert_int_equal(o.max_shard_size, 5000000000);
    assert_int_equal(o.lr_scheduler_type, FW_LR_LINEAR);
    assert_int_equal(o.save_strategy, FW_WHEN_STEPS);
    assert_int_equal(o.eval_strategy, FW_WHEN_NO);
    assert_true(o.bf16 && o.gradient_checkpointing && o.assistant_only_loss && !o.packing);
    assert_string_equal(o.resume_from_checkpoint, "auto");
    assert_null(o.model_name_or_path);
    fw_options_fini(&o);
}

static const char *nearest(const char *name) {
    static const char *const known[] = {"train", "eval", "learning_rate", "warmup_steps",
                                        "per_device_train_batch_size"};
    fw_nearest n;
    fw_nearest_start(&n, name);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) fw_nearest_offer(&n, known[i]);
    return n.best;
}

static void test_nearest(void **state) {
    (void)state;
    assert_string_equal(nearest("trian"), "train"); /* two swapped */
    assert_string_equal(nearest("tran"), "train");
    assert_string_equal(nearest("leanring_rat"), "learning_rate");
    assert_string_equal(nearest("warmup_step"), "warmup_steps");
    assert_string_equal(nearest("batch_size"), "per_device_train_batch_size");
    assert_string_equal(nearest("learning"), "learning_rate");
    assert_null(nearest("zzz"));
    assert_null(nearest(""));
    char endless[5000];
    memset(endless, 'e', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    assert_null(nearest(endless));
}

#define READS(kind, c_type, text, expected)                                                                            \
    do {                                                                                                               \
        c_type got;                                                                                                    \
        assert_null(fw_value_read_##kind(&got, text));                                                                 \
        assert_true(got == (expected));                                                                                \
    } while (0)
#define REFUSES(kind, c_type, text)                                                                                    \
    do {                                                                                                               \
        c_type got = 7 != 0;                                                                                           \
        assert_non_null(fw_value_read_##kind(&got, text));                                                             \
    } while (0)

static void test_values(void **state) {
    (void)state;
    READS(int, int64_t, "-1", -1);
    READS(int, int64_t, "+12", 12);
    READS(int, int64_t, "1e3", 1000);
    READS(int, int64_t, "8.0", 8);
    READS(int, int64_t, "9223372036854775807", INT64_MAX);
    static const char *const no_int[] = {"",     "x",   "1.5",   "1e-3",  "0x10", " 1",  "1 ", "9223372036854775808",
                                         "1e99", "--1", "1,000", "1_000", "nan",  "inf", "1e", "1e400"};
    for (size_t i = 0; i < sizeof no_int / sizeof no_int[0]; i++) REFUSES(int, int64_t, no_int[i]);

    READS(float, double, "2e-5", 2e-5);
    READS(float, double, ".5", 0.5);
    READS(float, double, "1E+2", 100);
    READS(float, double, "1e-400", 0);
    static const char *const no_float[] = {"",      "nan",    "NaN",   "inf",   "-inf", "Infinity", ".nan", "-.inf",
                                           "1e400", "-1e400", "0x1p3", "1.2.3", "e5",   "1e",       "+-1",  "1 2"};
    for (size_t i = 0; i < sizeof no_float / sizeof no_float[0]; i++) REFUSES(float, double, no_float[i]);

    READS(size, int64_t, "5GB", 5000000000);
    READS(size, int64_t, "5 gib", INT64_C(5) << 30);
    READS(size, int64_t, "1.5KB", 1500);
    READS(size, int64_t, "4096", 4096);
    static const char *const no_size[] = {"", "GB", "-5GB", "5GBs", "5XB", "1e3", "1..2GB", "99999999999TB", "nanGB"};
    for (size_t i = 0; i < sizeof no_size / sizeof no_size[0]; i++) REFUSES(size, int64_t, no_size[i]);

    READS(bool, bool, "True", true);
    READS(bool, bool, "no", false);
    READS(bool, bool, "0", false);
    REFUSES(bool, bool, "2");
    REFUSES(bool, bool, "");
    REFUSES(bool, bool, "truee");

    static const char *const good[] = {"", "abc", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_null(fw_value_check_text(good[i]));
    /* alone, overlong, cut off, a surrogate, beyond U+10FFFF */
    static const char *const bad[] = {"\x80", "\xff",         "\xc0\xaf",         "\xe0\x80\xaf",  "\xe2\x82",
                                      "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xf0\x9f\x98", "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_non_null(fw_value_check_text(bad[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_is_complete),
        cmocka_unit_test(test_every_command_starts_from_its_defaults),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
