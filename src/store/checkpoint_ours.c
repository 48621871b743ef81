/* Is a folder a checkpoint of ours? Asked before one is removed: a name that looks like one, or a manifest.json, which half of
 * the programs in the world have, is not enough. */
#include "store/checkpoint_names.h"

#include "base/alloc.h"
#include "base/file.h"
#include "store/small_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first lines of a manifest say what it is. It may be damaged further on. */
static fw_status has_our_manifest(bool *ours, const char *dir) {
    char *path, text[256] = "";
    *ours = false;
    FW_TRY(fw_path_join(&path, dir, "manifest.json"));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    fw_free(path);
    if (fd < 0) return FW_OK;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    *ours = n > 0 && strstr(text, "\"" FW_CHECKPOINT_FORMAT "\"") != NULL;
    return FW_OK;
}

static bool is_known(const char *name) {
    int writer, file, file_n, used = 0;
    if (sscanf(name, "shard-%5d-model-%5d-of-%5d.safetensors%n", &writer, &file, &file_n, &used) == 3 && used > 0 &&
        name[used] == 0)
        return true;
    for (int i = 0; fw_small_file_names[i] != NULL; i++)
        if (strcmp(name, fw_small_file_names[i]) == 0) return true;
    return strcmp(name, "manifest.json") == 0 || strcmp(name, "config.json") == 0 ||
           strcmp(name, "adapter_config.json") == 0;
}

fw_status fw_checkpoint_is_ours(bool *ours, const char *path, const char *name) {
    FW_TRY(has_our_manifest(ours, path));
    if (strncmp(name, FW_CHECKPOINT_ASIDE, strlen(FW_CHECKPOINT_ASIDE)) == 0) name += strlen(FW_CHECKPOINT_ASIDE);
    if (*ours || fw_checkpoint_step_of(name) < 0) return FW_OK;
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, path));
    *ours = true; /* its manifest is lost: a part of a checkpoint, and nothing else */
    for (size_t i = 0; i < name_n; i++) *ours = *ours && is_known(names[i]);
    fw_dir_list_free(names, name_n);
    return FW_OK;
}
