#include "mirror/mirror_links.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

fw_status fw_mirror_links_place(char **path, const char *output_dir) {
    char name[48];
    snprintf(name, sizeof name, ".tmp-mirror-%ld", (long)getpid());
    return fw_path_join(path, output_dir, name);
}

fw_status fw_mirror_links_remove(const char *output_dir) {
    char *place;
    FW_TRY(fw_mirror_links_place(&place, output_dir));
    fw_status status = fw_dir_remove(place);
    fw_free(place);
    return status;
}

/* The checkpoint may be renamed meanwhile, so its folder is opened once and asked for all names. *reason: errno, 0 when all
 * are linked. */
static fw_status link_all(int *reason, const char *from, const char *to) {
    char **names;
    size_t name_n;
    *reason = 0;
    int from_fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from_fd < 0) {
        *reason = errno;
        return FW_OK;
    }
    int to_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to_fd < 0) {
        close(from_fd);
        return fw_fail(FW_ERR_IO, "cannot open folder %s: %s", to, strerror(errno));
    }
    fw_status status = fw_dir_list(&names, &name_n, from);
    if (status != FW_OK) {
        *reason = ENOENT; /* it was there a moment ago */
        status = FW_OK;
    } else {
        for (size_t i = 0; i < name_n && *reason == 0; i++)
            if (linkat(from_fd, names[i], to_fd, names[i], 0) != 0) *reason = errno;
        fw_dir_list_free(names, name_n);
    }
    close(to_fd);
    close(from_fd);
    return status;
}

fw_status fw_mirror_links_make(char **dir, bool *held, bool *gone, const char *output_dir, const char *name) {
    char *place = NULL, *from = NULL, *to = NULL, *manifest = NULL;
    int reason;
    fw_status status;
    *dir = NULL;
    *held = *gone = false;
    FW_TRY_OR(fw_mirror_links_remove(output_dir), done);
    FW_TRY_OR(fw_mirror_links_place(&place, output_dir), done);
    FW_TRY_OR(fw_path_join(&from, output_dir, name), done);
    FW_TRY_OR(fw_path_join(&to, place, name), done);
    *gone = !fw_dir_exists(from); /* with the whole output folder, maybe: it must not be made anew */
    if (*gone) goto done;
    FW_TRY_OR(fw_dir_make(to), done);
    FW_TRY_OR(link_all(&reason, from, to), done);
    FW_TRY_OR(fw_path_join(&manifest, to, "manifest.json"), done);
    if (reason == 0 && fw_file_exists(manifest)) {
        *held = true;
        *dir = to;
        to = NULL;
        goto done;
    }
    FW_TRY_OR(fw_mirror_links_remove(output_dir), done);
    *gone = !fw_dir_exists(from);
    if (*gone) goto done;
    *dir = from; /* no links here (EPERM, EOPNOTSUPP, EMLINK, ...) */
    from = NULL;
done:
    fw_free(place);
    fw_free(from);
    fw_free(to);
    fw_free(manifest);
    return status;
}
