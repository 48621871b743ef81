/* What saving, checking and exporting a checkpoint take of memory: buffers, however large the model is. The checkpoint here
 * has 190 MB of weights and moments; what is resident may grow by a sixth of that, half of what a save may take. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/host.h"
#include "store/checkpoint_tools.h"
#include "support/checkpoint_lab.h"
#include "support/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_BYTES = 32 << 20 };

static fw_param_table table;
static char out[FW_TEST_PATH_BYTES], source[FW_TEST_PATH_BYTES];

static fw_status make(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                      void *raw) {
    float *to = raw;
    (void)context;
    for (int64_t i = 0; i < n; i++) to[i] = (float)((p->offset_n + first_n + i) % 8191) * 0.125f + (float)array;
    return FW_OK;
}

static int setup(void **state) {
    static const char config[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 512, "
        "\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"head_dim\": 64, \"intermediate_size\": 1408, "
        "\"num_hidden_layers\": 2, \"vocab_size\": 20000, \"tie_word_embeddings\": true, \"rms_norm_eps\": 1e-5, "
        "\"max_position_embeddings\": 2048, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\"}\n";
    fw_model_config c;
    fw_test_checkpoint_setup(state);
    fw_test_scratch_make(out);
    snprintf(source, sizeof source, "%s", fw_test_path(fw_lab.root, "large"));
    fw_test_must(fw_dir_make(source));
    fw_test_write(fw_test_path(source, "config.json"), config, sizeof config - 1);
    fw_test_must(fw_model_config_load(&c, source));
    fw_test_must(fw_param_table_init(&table, &c));
    assert_true(table.parameter_n * 12 > 5 * (int64_t)LIMIT_BYTES);
    return 0;
}

static int teardown(void **state) {
    fw_test_scratch_remove(out);
    fw_param_table_fini(&table);
    return fw_test_checkpoint_teardown(state);
}

/* The peak counts from here on; false where the system has no such thing. */
static bool begin(uint64_t *resident) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool reset = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0) close(fd);
    *resident = fw_host_resident_bytes();
    return reset;
}

static void end(uint64_t resident, const char *what) {
    uint64_t peak = fw_host_peak_resident_bytes(), more = peak > resident ? peak - resident : 0;
    printf("%s: %.1f MB more at most\n", what, (double)more / 1e6);
    if (more > LIMIT_BYTES) fail_msg("%s takes %.1f MB", what, (double)more / 1e6);
}

static void test_peaks(void **unused) {
    (void)unused;
    char one[FW_TEST_PATH_BYTES];
    uint64_t resident;
    if (FW_TEST_SANITIZED) {
        printf("skipped: what a sanitizer keeps of freed memory is no measure\n");
        return;
    }
    if (!begin(&resident)) {
        printf("skipped: /proc/self/clear_refs cannot be written\n");
        return;
    }
    const fw_checkpoint_state at = {.step = 1, .world_size = 1, .strategy = "ddp"};
    fw_test_must(fw_checkpoint_save(NULL, out, source, &table, 1, make, NULL, &at));
    end(resident, "a save");
    snprintf(one, sizeof one, "%s", fw_test_step_path(out, 1));

    fw_threads *threads;
    fw_test_must(fw_threads_create(&threads, 4, NULL));
    begin(&resident);
    fw_test_must(fw_checkpoint_verify_with(threads, one, FW_CHECKPOINT_ALL_BYTES));
    end(resident, "a full check by four threads");
    fw_threads_destroy(threads);

    begin(&resident);
    const fw_export_options bf16 = {.dtype = FW_BF16};
    fw_test_must(fw_checkpoint_export(fw_test_path(out, "model"), one, &bf16, NULL));
    end(resident, "an export");

    begin(&resident);
    char *path = NULL;
    fw_test_must(fw_checkpoint_reshard(&path, fw_test_path(out, "cut"), one, 3, false));
    end(resident, "cutting anew");
    fw_free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peaks)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
