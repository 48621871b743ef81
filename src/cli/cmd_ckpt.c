/* finewire ckpt verify | export | reshard | rm */
#include "base/alloc.h"
#include "base/file.h"
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/terminal.h"
#include "store/checkpoint_tools.h"

#include <string.h>

/* ---- verify: all are looked at, then the first that is damaged makes the exit code */

static fw_status report(json_t *all, const char *path, fw_status status, bool fast) {
    const char *why = status == FW_OK ? NULL : fw_trail_message();
    if (all != NULL) {
        json_array_append_new(json_object_get(all, "checkpoints"),
                              json_pack("{s:s, s:b, s:s*}", "path", path, "sound", status == FW_OK, "why", why));
        return FW_OK;
    }
    if (why == NULL) return fw_terminal_printf("%s: sound%s\n", path, fast ? " (weights not read)" : "");
    return fw_terminal_printf("%s: %s: %s\n", path, status == FW_ERR_INPUT ? "damaged" : "cannot be checked", why);
}

fw_status fw_cli_ckpt_verify(const fw_options *o) {
    fw_checkpoint_found_list list;
    FW_TRY(fw_checkpoint_find_all(&list, o->checkpoint));
    json_t *all = o->json ? json_pack("{s:b, s:[]}", "fast", o->fast, "checkpoints") : NULL;
    size_t damaged_n = 0;
    fw_status first = FW_OK; /* that is no damage, of those that cannot be checked */
    fw_threads *threads = NULL;
    fw_status status = fw_threads_create_for_host(&threads);
    if (list.found_n == 0) status = fw_fail(FW_ERR_INPUT, "%s holds no checkpoints", o->checkpoint);
    for (size_t i = 0; i < list.found_n && status == FW_OK; i++) {
        const fw_checkpoint_found *f = &list.found[i];
        fw_status found = f->why != NULL
                              ? fw_fail(f->status, "%s", f->why)
                              : fw_checkpoint_verify_with(threads, f->path,
                                                          o->fast ? FW_CHECKPOINT_HEADERS : FW_CHECKPOINT_ALL_BYTES);
        damaged_n += found == FW_ERR_INPUT;
        if (found != FW_ERR_INPUT && first == FW_OK) first = found;
        status = report(all, f->path, found, o->fast);
    }
    if (o->json && status == FW_OK)
        status = fw_cli_write_json(all);
    else
        json_decref(all);
    if (status == FW_OK && damaged_n > 0)
        status = fw_fail(FW_ERR_INPUT, "%zu of %zu checkpoint%s damaged", damaged_n, list.found_n,
                         fw_plural_are((int64_t)list.found_n));
    else if (status == FW_OK && first != FW_OK)
        status = fw_fail(first, "not all checkpoints of %s can be checked", o->checkpoint);
    fw_threads_destroy(threads);
    fw_checkpoint_found_list_fini(&list);
    return status;
}

/* ---- export, reshard, rm */

/* An adapter is one file in fp32, as it was trained: an option that asks for something else is not passed over. */
static fw_status check_adapter_options(const fw_options *o, const char *path) {
    static const fw_option_id ids[] = {FW_OPTION_dtype, FW_OPTION_max_shard_size};
    bool adapter;
    FW_TRY(fw_dir_has_file(&adapter, path, "adapter_config.json"));
    for (size_t i = 0; adapter && i < sizeof ids / sizeof ids[0]; i++)
        if (fw_options_given(o, ids[i]) && !(ids[i] == FW_OPTION_dtype && o->dtype == FW_EXPORT_FP32))
            return fw_fail(FW_ERR_OPTION,
                           "%s is of an adapter, which is written as one file in fp32; leave out --%s, or merge the "
                           "adapter into its base (finewire merge)",
                           path, fw_option_get(ids[i])->name);
    return FW_OK;
}

fw_status fw_cli_ckpt_export(const fw_options *o) {
    static const fw_dtype dtypes[] = {[FW_EXPORT_BF16] = FW_BF16, [FW_EXPORT_FP32] = FW_F32, [FW_EXPORT_FP16] = FW_F16};
    const fw_export_options options = {.dtype = dtypes[o->dtype], .max_shard_bytes = (uint64_t)o->max_shard_size};
    char *path;
    FW_TRY(fw_checkpoint_resolve(&path, o->checkpoint));
    bool adapter = false;
    fw_status status = check_adapter_options(o, path);
    if (status == FW_OK) status = fw_checkpoint_export(o->output, path, &options, &adapter);
    const char *kind = adapter ? "adapter" : "model";
    const char *dtype = adapter ? "fp32" : fw_export_dtype_words[o->dtype];
    if (status == FW_OK)
        status =
            o->json
                ? fw_cli_write_json(json_pack("{s:s, s:s, s:s}", "checkpoint", path, kind, o->output, "dtype", dtype))
                : fw_terminal_printf("%s: written as %s\n%s = %s\n", path, dtype, kind, o->output);
    fw_free(path);
    return status;
}

fw_status fw_cli_ckpt_reshard(const fw_options *o) {
    char *path, *out = NULL;
    FW_TRY(fw_checkpoint_resolve(&path, o->checkpoint));
    fw_status status = fw_checkpoint_reshard(&out, o->output, path, (int)o->ranks, o->overwrite);
    if (status == FW_OK)
        status = o->json ? fw_cli_write_json(json_pack("{s:s, s:s, s:I}", "from", path, "checkpoint", out, "ranks",
                                                       (json_int_t)o->ranks))
                         : fw_terminal_printf("checkpoint = %s\n", out);
    fw_free(out);
    fw_free(path);
    return status;
}

fw_status fw_cli_ckpt_rm(const fw_options *o) {
    FW_TRY(fw_checkpoint_remove(o->checkpoint, o->force));
    return o->json ? fw_cli_write_json(json_pack("{s:s}", "removed", o->checkpoint))
                   : fw_terminal_printf("removed %s\n", o->checkpoint);
}
