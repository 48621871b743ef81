#include "store/checkpoint_later.h"

#include "base/trace.h"

fw_status fw_checkpoint_later_add(fw_checkpoint_later *l, const fw_checkpoint_files *files, fw_checkpoint_array array,
                                  int32_t unit, int64_t first_n, int64_t n, float *out) {
    return fw_checkpoint_collect(&l->blocks, files, array, unit, first_n, n, out);
}

fw_status fw_checkpoint_later_add_values(fw_checkpoint_later *l, const fw_checkpoint_files *files,
                                         fw_checkpoint_array array, int32_t param, int64_t first_n, int64_t n,
                                         void *out) {
    return fw_checkpoint_collect_values(&l->blocks, files, array, param, first_n, n, out);
}

/* What went wrong is known to the reading, and told by its end. */
static fw_status read_behind(void *context) {
    fw_checkpoint_later *l = context;
    uint64_t start_ns = fw_trace_now();
    fw_blocks_help(&l->reading, 0, 1);
    fw_trace_since(FW_TRACE_BEHIND, "read the optimizer's state", start_ns);
    return FW_OK;
}

void fw_checkpoint_later_start(fw_checkpoint_later *l, const fw_threads *pool) {
    fw_blocks_begin(&l->reading, &l->blocks);
    fw_behind_start(&l->thread, read_behind, l, pool);
}

bool fw_checkpoint_later_is_started(const fw_checkpoint_later *l) { return fw_behind_is_started(&l->thread); }

static fw_status end(fw_checkpoint_later *l) {
    if (!fw_checkpoint_later_is_started(l)) return FW_OK;
    (void)fw_behind_wait(&l->thread); /* which has nothing to say */
    return fw_blocks_end(&l->reading);
}

fw_status fw_checkpoint_later_finish(fw_checkpoint_later *l, fw_threads *threads) {
    const bool behind = fw_checkpoint_later_is_started(l);
    if (behind) fw_threads_run(threads, fw_blocks_help, &l->reading);
    const fw_status status = behind ? end(l) : fw_blocks_read(&l->blocks, threads);
    fw_blocks_fini(&l->blocks);
    return status;
}

void fw_checkpoint_later_stop(fw_checkpoint_later *l) {
    if (fw_checkpoint_later_is_started(l)) fw_blocks_stop(&l->reading);
    (void)end(l);
    fw_blocks_fini(&l->blocks);
}
