/* Settings of NCCL and CUDA: the environment, and below it the files that NCCL reads at start (its guide, "Environment
 * Variables"): /etc/nccl.conf, and NCCL_CONF_FILE or ~/.nccl.conf. An inherited line there is seen by nobody. */
#include "machine/read.h"

#include "base/alloc.h"
#include "machine/sysfs.h"

#include <stdlib.h>
#include <string.h>

enum { SETTING_CAP = 512, TEXT_BYTES = 256 };

/* file NULL: the environment. The first that is said of a variable counts. */
static fw_status add(fw_machine *m, const char *name, size_t name_n, const char *value, const char *file) {
    char clean_name[TEXT_BYTES], clean_value[TEXT_BYTES];
    fw_sysfs_clean(clean_name, sizeof clean_name, name, name_n);
    fw_sysfs_clean(clean_value, sizeof clean_value, value, strlen(value));
    if (m->setting_n == SETTING_CAP || fw_machine_find_setting(m, clean_name) != NULL) return FW_OK;
    fw_machine_setting *setting = &m->setting[m->setting_n];
    FW_TRY(fw_strdup(&setting->name, clean_name));
    m->setting_n++; /* from here on it is released with the rest */
    FW_TRY(fw_strdup(&setting->value, clean_value));
    return file != NULL ? fw_strdup(&setting->file, file) : FW_OK;
}

/* Lines "NAME=value"; what follows a blank or # is none of the value. */
static fw_status read_file(fw_machine *m, const char *root, const char *path) {
    FILE *f = fw_sysfs_open(root, "%s", path);
    char line[1024];
    fw_status status = FW_OK;
    if (f == NULL) return FW_OK;
    while (status == FW_OK && fgets(line, sizeof line, f) != NULL) {
        const char *name = line + strspn(line, " \t"), *equal = strchr(name, '=');
        if (strncmp(name, "NCCL_", 5) != 0 || equal == NULL) continue;
        line[strcspn(line, "#\r\n")] = 0;
        char *value = line + (equal - line) + 1;
        if (value > line + strlen(line)) continue; /* the = stands in a comment */
        value[strcspn(value, " \t")] = 0;
        status = add(m, name, (size_t)(equal - name), value, path);
    }
    fclose(f);
    return status;
}

extern char **environ;

fw_status fw_machine_read_settings(fw_machine *m, const char *root) {
    char path[FW_SYSFS_PATH_BYTES];
    FW_TRY(FW_NEW_ARRAY(m->setting, SETTING_CAP));
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equal = strchr(*at, '=');
        if (equal == NULL || (strncmp(*at, "NCCL_", 5) != 0 && strncmp(*at, "CUDA_", 5) != 0)) continue;
        FW_TRY(add(m, *at, (size_t)(equal - *at), equal + 1, NULL));
    }
    const char *own = fw_machine_setting_of(m, "NCCL_CONF_FILE"), *home = getenv("HOME");
    if (own != NULL)
        FW_TRY(read_file(m, root, own));
    else if (home != NULL && snprintf(path, sizeof path, "%s/.nccl.conf", home) < (int)sizeof path)
        FW_TRY(read_file(m, root, path));
    return read_file(m, root, "/etc/nccl.conf");
}
