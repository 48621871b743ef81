/* Every file of a checkpoint cut at 50 places and with a bit flipped at 200, drawn with seed 11: found and named, and never
 * loaded. What cannot be found without reading every byte is found by the full check. */
#include "base/alloc.h"
#include "base/file.h"
#include "support/checkpoint_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUT_N = 50, FLIP_N = 200 };

/* A path of the checkpoint at hand, its bytes, and its name for messages. */
typedef struct victim {
    char path[FW_TEST_PATH_BYTES];
    const char *name;
    fw_strbuf bytes;
} victim;

static void open_victim(victim *v, const char *folder, const char *name) {
    *v = (victim){.name = name};
    snprintf(v->path, sizeof v->path, "%s", fw_test_path(folder, name));
    fw_test_must(fw_file_read(&v->bytes, v->path, 1 << 26));
}

static void put_back(const victim *v) { fw_test_write(v->path, v->bytes.data, v->bytes.len_bytes); }

/* Damaged as it is now: the full check names the file, and a run does not take it. */
static void must_be_found(const victim *v, const char *out, const char *what, uint64_t at) {
    fw_status status = fw_checkpoint_verify(fw_test_step_path(out, 2), true);
    if (status != FW_ERR_INPUT || strstr(fw_trail_message(), v->name) == NULL)
        fail_msg("%s %s at %d: %s", v->name, what, (int)at, status == FW_OK ? "not found" : fw_trail_message());
    char *newest;
    fw_test_must(fw_test_load_newest(&newest, out));
    assert_string_equal(newest, fw_test_step_path(out, 1));
    fw_free(newest);
}

static uint64_t draw(uint64_t below) { return ((uint64_t)rand() << 16 ^ (uint64_t)rand()) % below; }

static void test_everywhere(void **unused) {
    (void)unused;
    const char *out = fw_test_path(fw_lab.root, "damaged");
    fw_test_must(fw_test_save(out, 1));
    fw_test_must(fw_test_save(out, 2));
    char **names, folder[FW_TEST_PATH_BYTES];
    size_t name_n;
    snprintf(folder, sizeof folder, "%s", fw_test_step_path(out, 2));
    fw_test_must(fw_dir_list(&names, &name_n, folder));
    srand(11);
    for (size_t f = 0; f < name_n; f++) {
        victim v;
        open_victim(&v, folder, names[f]);
        for (int i = 0; i < CUT_N; i++) {
            const uint64_t left = i == 0 ? 0 : i == 1 ? v.bytes.len_bytes - 1 : draw(v.bytes.len_bytes);
            fw_test_resize(v.path, left);
            must_be_found(&v, out, "cut", left);
            put_back(&v);
        }
        for (int i = 0; i < FLIP_N; i++) {
            const uint64_t at = i == 0 ? 0 : i == 1 ? v.bytes.len_bytes - 1 : draw(v.bytes.len_bytes);
            fw_test_flip_bit(v.path, at);
            must_be_found(&v, out, "flipped", at);
            put_back(&v);
        }
        fw_strbuf_fini(&v.bytes);
    }
    fw_dir_list_free(names, name_n);
    fw_test_must(fw_checkpoint_verify(folder, true)); /* all is as it was */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everywhere)};
    return cmocka_run_group_tests(tests, fw_test_checkpoint_setup, fw_test_checkpoint_teardown);
}
