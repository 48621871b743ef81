#include "store/export.h"

#include "base/alloc.h"
#include "store/small_files.h"
#include "store/staged_folder.h"
#include "store/write_weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

fw_status fw_param_read_flat(void *context, const fw_param *param, int64_t first_n, int64_t n, float *out) {
    const fw_flat_params *source = context;
    memcpy(out, source->flat + source->table->unit_offset_n[param->unit] + param->offset_n + first_n,
           (size_t)n * sizeof *out);
    return FW_OK;
}

static bool is_known_name(const char *name) {
    if (strcmp(name, "config.json") == 0 || strcmp(name, "model.safetensors") == 0 ||
        strcmp(name, "model.safetensors.index.json") == 0 || strcmp(name, "adapter_config.json") == 0 ||
        strcmp(name, "adapter_model.safetensors") == 0)
        return true;
    int shard, shard_n, used = 0;
    if (sscanf(name, "model-%5d-of-%5d.safetensors%n", &shard, &shard_n, &used) == 2 && used > 0 && name[used] == 0)
        return true;
    for (int i = 0; fw_small_file_names[i] != NULL; i++)
        if (strcmp(name, fw_small_file_names[i]) == 0) return true;
    return false;
}

static bool is_weights_name(const char *name) {
    size_t n = strlen(name);
    return n > 12 && strcmp(name + n - 12, ".safetensors") == 0;
}

/* Does this file of weights carry our mark? One that can be read and makes no sense is damaged: whose it is, other files
 * must tell. One that cannot be read is an error, and nobody's. */
static fw_status read_mark(bool *known, bool *marked, const char *path) {
    fw_mapping mapping;
    FW_TRY(fw_file_map(&mapping, path)); /* its reasons are the machine's */
    fw_safetensors file;
    fw_status status = fw_safetensors_parse(&file, mapping.data, mapping.bytes, path);
    if (status == FW_OK) {
        *known = fw_weights_are_ours(&file);
        *marked = *marked || *known;
        fw_safetensors_close(&file);
    }
    fw_file_unmap(&mapping);
    return status == FW_ERR_INPUT ? FW_OK : status;
}

/* Only what an export writes is in the folder, and its weights carry our mark. */
static fw_status check_ours(const char *dir) {
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    fw_status status = FW_OK;
    bool marked = name_n == 0;
    for (size_t i = 0; i < name_n && status == FW_OK; i++) {
        char *path;
        FW_TRY_OR(fw_path_join(&path, dir, names[i]), done);
        bool known = is_known_name(names[i]) && fw_file_exists(path);
        if (known && is_weights_name(names[i])) status = read_mark(&known, &marked, path);
        if (status == FW_OK && !known)
            status = fw_fail(FW_ERR_OPTION,
                             "%s exists and holds %s, which finewire did not write; choose another folder or remove it",
                             dir, names[i]);
        fw_free(path);
    }
    if (status == FW_OK && !marked)
        status =
            fw_fail(FW_ERR_OPTION,
                    "%s exists and holds files that finewire did not write; choose another folder or remove it", dir);
done:
    fw_dir_list_free(names, name_n);
    return status;
}

fw_status fw_export_holds_only_known(bool *only, const char *dir) {
    char **names;
    size_t name_n;
    *only = false;
    FW_TRY(fw_dir_list(&names, &name_n, dir));
    fw_status status = FW_OK;
    bool known = true;
    for (size_t i = 0; i < name_n && known; i++) {
        char *path, *tmp = strstr(names[i], ".tmp-");
        FW_TRY_OR(fw_path_join(&path, dir, names[i]), done);
        struct stat info;
        if (lstat(path, &info) == 0)
            known = S_ISREG(info.st_mode);
        else if (errno != ENOENT) /* it may have gone meanwhile */
            status =
                fw_fail(errno == ENOMEM ? FW_ERR_NOMEM : FW_ERR_IO, "cannot look at %s: %s", path, strerror(errno));
        fw_free(path);
        FW_TRY_OR(status, done);
        if (tmp != NULL && tmp[5] != 0 && strspn(tmp + 5, "0123456789") == strlen(tmp + 5)) *tmp = 0;
        known = known && is_known_name(names[i]);
    }
    *only = known;
done:
    fw_dir_list_free(names, name_n);
    return status;
}

fw_status fw_export_check_target(const char *dir, const char *source_dir) {
    struct stat target;
    if (stat(dir, &target) != 0) return FW_OK;
    if (!S_ISDIR(target.st_mode))
        return fw_fail(FW_ERR_OPTION, "%s exists and is not a folder; choose another name", dir);
    if (source_dir != NULL && fw_dir_same(dir, source_dir))
        return fw_fail(FW_ERR_OPTION, "%s is the folder of the model that is read; choose another one to write to",
                       dir);
    return check_ours(dir);
}

fw_status fw_export_model(const char *dir, const char *source_dir, const fw_param_table *table,
                          const fw_export_options *options, fw_param_reader reader, void *context) {
    FW_ASSERT(options->dtype == FW_BF16 || options->dtype == FW_F32 || options->dtype == FW_F16);
    fw_staged_folder staged = {0};
    uint64_t need_bytes = fw_weights_bytes(table, options->dtype);
    fw_status status;
    FW_TRY_OR(fw_export_check_target(dir, source_dir), done);
    FW_TRY_OR(fw_small_files_bytes(&need_bytes, source_dir), done);
    FW_TRY_OR(fw_store_check_space(dir, need_bytes, dir), done);
    FW_TRY_OR(fw_staged_folder_begin(&staged, dir, false), done);
    FW_TRY_OR(fw_small_files_copy(source_dir, staged.path_tmp, options->dtype, options->untie), done);
    FW_TRY_OR(fw_weights_write(staged.path_tmp, table, options, reader, context), done);
    FW_TRY_OR(fw_weights_verify(staged.path_tmp, table, options->dtype), done);
    FW_TRY_OR(fw_staged_folder_commit(&staged), done);
done:
    fw_staged_folder_close(&staged);
    return status;
}
