#include "support/checkpoint_lab.h"

#include "base/alloc.h"
#include "base/log.h"
#include "support/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

fw_test_checkpoint_lab fw_lab;

static void collect(fw_log_level level, const char *line, void *context) {
    (void)context;
    if (level != FW_LOG_WARNING) return;
    size_t used = strlen(fw_lab.warnings);
    snprintf(fw_lab.warnings + used, sizeof fw_lab.warnings - used, "%s\n", line);
}

void fw_test_must(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

void fw_test_expect(fw_status status, fw_status want, const char *part) {
    if (status != want || strstr(fw_trail_message(), part) == NULL)
        fail_msg("status %s, message \"%s\"; wanted %s and \"%s\"", fw_status_name(status),
                 status == FW_OK ? "" : fw_trail_message(), fw_status_name(want), part);
}

int fw_test_checkpoint_setup(void **state) {
    (void)state;
    fw_test_scratch_make(fw_lab.root);
    snprintf(fw_lab.source, sizeof fw_lab.source, "%s/source", fw_lab.root);
    fw_test_must(fw_test_write_model(fw_lab.source, "qwen2_tied", 0));
    fw_test_write(fw_test_path(fw_lab.source, "tokenizer.json"), "{\"version\": \"1.0\"}", 18);
    fw_test_must(fw_test_memory_model_init(&fw_lab.model, fw_lab.source));
    for (int k = 0; k < 2; k++) {
        fw_test_must(FW_NEW_ARRAY(fw_lab.moment[k], (size_t)fw_lab.model.table.total_n));
        for (int64_t i = 0; i < fw_lab.model.table.total_n; i++)
            fw_lab.moment[k][i] = (float)(i % 977) * 1e-9f * (float)(k + 1);
    }
    fw_lab.place_n = 2;
    fw_log_set_sink(collect, NULL, FW_LOG_DEBUG);
    return 0;
}

int fw_test_checkpoint_teardown(void **state) {
    (void)state;
    fw_log_set_sink(NULL, NULL, FW_LOG_ERROR);
    fw_test_memory_model_fini(&fw_lab.model);
    fw_free(fw_lab.moment[0]);
    fw_free(fw_lab.moment[1]);
    fw_test_scratch_remove(fw_lab.root);
    return 0;
}

fw_status fw_test_from_memory(void *context, fw_checkpoint_array array, const fw_param *p, int64_t first_n, int64_t n,
                              void *out) {
    (void)context;
    const float *flat =
        array == FW_CHECKPOINT_WEIGHT ? fw_lab.model.flat : fw_lab.moment[array - FW_CHECKPOINT_EXP_AVG];
    assert_true(n <= FW_CHECKPOINT_CHUNK_N && first_n + n <= p->n);
    memcpy(out, flat + fw_lab.model.table.unit_offset_n[p->unit] + p->offset_n + first_n, (size_t)n * sizeof *flat);
    return FW_OK;
}

/* All units of one array. */
fw_status fw_test_load_array(const fw_checkpoint_files *files, fw_checkpoint_array array, float *flat) {
    for (int32_t unit = 0; unit < fw_lab.model.table.unit_n; unit++)
        FW_TRY(fw_checkpoint_read(files, array, unit, 0, fw_lab.model.table.unit_size_n[unit],
                                  flat + fw_lab.model.table.unit_offset_n[unit]));
    return FW_OK;
}

static fw_status load_all(const char *path, int64_t *step) {
    fw_checkpoint_files files = {0};
    fw_checkpoint_state state = {0};
    float *flat = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(flat, (size_t)fw_lab.model.table.total_n), done);
    FW_TRY_OR(fw_checkpoint_open(&files, path, &fw_lab.model.table, &state), done);
    *step = state.step;
    for (int k = 0; k < FW_CHECKPOINT_ARRAY_N; k++)
        FW_TRY_OR(fw_test_load_array(&files, (fw_checkpoint_array)k, flat), done);
done:
    fw_checkpoint_state_fini(&state);
    fw_checkpoint_close(&files);
    fw_free(flat);
    return status;
}

fw_status fw_test_load_newest(char **path, const char *out) {
    for (int64_t before = INT64_MAX;;) {
        FW_TRY(fw_checkpoint_newest(path, out, before, false));
        if (*path == NULL) return FW_OK;
        fw_status status = load_all(*path, &before);
        if (status == FW_OK) return FW_OK;
        if (status == FW_ERR_INPUT) fw_log_warning("checkpoint %s does not count: %s", *path, fw_trail_message());
        fw_free(*path);
        *path = NULL;
        if (status != FW_ERR_INPUT) return status;
    }
}

fw_status fw_test_save(const char *out, int64_t step) {
    fw_checkpoint_state state = {.step = step,
                                 .optimizer_step = step,
                                 .epoch = 0.1,
                                 .epoch_i = 1,
                                 .position = 17,
                                 .seed = UINT64_MAX,
                                 .data_seed = 7,
                                 .world_size = fw_lab.place_n,
                                 .strategy = "zero3",
                                 .data_hash = 0x8123456789abcdefu};
    json_t *options = json_pack("{s:f, s:s}", "learning_rate", 1e-5, "lr_scheduler_type", "cosine");
    state.options = options;
    fw_status status = options == NULL ? fw_fail(FW_ERR_NOMEM, "test")
                                       : fw_checkpoint_save(NULL, out, fw_lab.source, &fw_lab.model.table,
                                                            fw_lab.place_n, fw_test_from_memory, NULL, &state);
    json_decref(options);
    return status;
}

const char *fw_test_step_path(const char *out, int step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return fw_test_path(out, name);
}
