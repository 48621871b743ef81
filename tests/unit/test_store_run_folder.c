/* The folder of a run: one run at a time, its identity. */
#include "base/alloc.h"
#include "base/file.h"
#include "store/run_folder.h"
#include "support/checkpoint_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_lock(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "locked");
    fw_output_lock lock;
    fw_test_must(fw_output_lock_take(&lock, out));
    pid_t child = fork();
    if (child == 0) { /* another process, which does not share our lock */
        fw_output_lock second;
        fw_status status = fw_output_lock_take(&second, out);
        char want[64];
        snprintf(want, sizeof want, "(process %ld)", (long)getppid());
        _exit(status == FW_ERR_OPTION && second.fd == -1 && strstr(fw_trail_message(), want) != NULL ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    fw_output_lock_release(&lock);
    fw_test_must(fw_output_lock_take(&lock, out));
    fw_output_lock_release(&lock);
    fw_output_lock_release(&lock);
}

static void test_run_identity(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "run");
    json_t *one = json_pack("{s:s, s:i, s:i}", "model", "a", "seed", 1, "gone", 5);
    json_t *two = json_pack("{s:s, s:i, s:b}", "model", "b", "seed", 1, "new", 1);
    fw_test_must(fw_run_begin(out, one, FW_RUN_FRESH));
    fw_test_expect(fw_run_begin(out, one, FW_RUN_FRESH), FW_ERR_OPTION, "holds another run (run.json)");
    fw_test_must(fw_run_begin(out, one, FW_RUN_RESUME));
    fw_test_expect(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_OPTION, "model was \"a\" and is \"b\"");
    fw_test_expect(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_OPTION, "gone was 5 and is not set");
    fw_test_expect(fw_run_begin(out, two, FW_RUN_RESUME), FW_ERR_OPTION, "new was not set and is true");
    fw_test_must(fw_test_save(out, 10));
    fw_test_write(fw_test_path(out, "mine.txt"), "x", 1);
    fw_test_must(fw_run_begin(out, two, FW_RUN_OVERWRITE));
    assert_false(fw_dir_exists(fw_test_step_path(out, 10)));
    assert_true(fw_file_exists(fw_test_path(out, "mine.txt"))); /* what is not a run's stays */
    fw_test_must(fw_run_begin(out, two, FW_RUN_RESUME));
    fw_test_must(fw_dir_remove(fw_test_path(out, "run.json")));
    fw_test_must(fw_test_save(out, 10));
    fw_test_expect(fw_run_begin(out, two, FW_RUN_FRESH), FW_ERR_OPTION, "holds another run (step-00000010)");
    fw_test_write(fw_test_path(out, "run.json"), "[1]", 3);
    fw_test_must(fw_run_begin(out, two, FW_RUN_RESUME)); /* damaged: made again */
    fw_test_expect(fw_run_begin(out, one, FW_RUN_RESUME), FW_ERR_OPTION, "model was \"b\" and is \"a\"");
    json_decref(one);
    json_decref(two);
}

/* Of an adapter's configuration, which is kept as one text, what differs. */
static void test_adapter_identity(void **unused) {
    (void)unused;
    json_t *was = json_pack("{s:s}", "adapter", "{\"lora_alpha\":8,\"peft_type\":\"LORA\",\"r\":4}");
    json_t *is = json_pack("{s:s}", "adapter", "{\"lora_alpha\":8,\"peft_type\":\"LORA\",\"r\":5}");
    json_t *none = json_object();
    fw_test_expect(fw_run_compare(was, is, "x"), FW_ERR_OPTION,
                   "x is of another run: adapter's r was 4 and is 5; choose another");
    fw_test_expect(fw_run_compare(none, is, "x"), FW_ERR_OPTION, "adapter was not set and is ");
    fw_test_must(fw_run_compare(was, was, "x"));
    json_decref(was);
    json_decref(is);
    json_decref(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lock), cmocka_unit_test(test_run_identity),
                                       cmocka_unit_test(test_adapter_identity)};
    return cmocka_run_group_tests(tests, fw_test_checkpoint_setup, fw_test_checkpoint_teardown);
}
