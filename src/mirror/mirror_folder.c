/* A mirror that is a folder: on another disk, as a rule one that comes over a network and may go at any time. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "mirror/mirror_target.h"
#include "store/staged_folder.h"
#include "store/stale.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 4 << 20, RUN_LIMIT_BYTES = 1 << 20 };

/* ---- the folder itself */

/* run.json says whose it is. *has: there is one. */
static fw_status check_run(bool *has, const char *dir, const json_t *identity) {
    char *path = NULL;
    json_t *was = NULL;
    fw_status status;
    FW_TRY(fw_path_join(&path, dir, "run.json"));
    *has = fw_file_exists(path);
    status = FW_OK;
    if (!*has) goto done;
    FW_TRY_OR(fw_json_load(&was, path, RUN_LIMIT_BYTES), done);
    status = json_is_object(was) ? fw_run_compare(was, identity, path)
                                 : fw_fail(FW_ERR_OPTION, "%s: not a JSON object", path);
    if (status == FW_ERR_OPTION)
        fw_fail_context(status, "--mirror %s holds another run; choose another folder for the mirror: ", dir);
done:
    fw_free(path);
    json_decref(was);
    return status;
}

fw_status fw_mirror_folder_check(const char *dir, const char *output_dir, const json_t *identity) {
    bool has;
    if (fw_dir_same(dir, output_dir))
        return fw_fail(FW_ERR_OPTION, "--mirror %s is the --output_dir itself; choose another folder, on another disk",
                       dir);
    struct stat info;
    if (stat(dir, &info) == 0 && !S_ISDIR(info.st_mode))
        return fw_fail(FW_ERR_OPTION, "--mirror %s is a file and no folder; choose another name", dir);
    fw_status status = check_run(&has, dir, identity);
    return status == FW_ERR_OPTION ? status : FW_OK; /* what else is wrong may be right when it is written to */
}

/* Only its last part is made, and only once: where a disk is not mounted, a run must not fill the one below. */
static fw_status see_folder(const fw_mirror_target *t) {
    const char *dir = t->form.text;
    FW_TRY(fw_mirror_folder_check(dir, t->options->output_dir, t->options->identity));
    if (fw_dir_exists(dir)) return FW_OK;
    if (t->met) return fw_fail(FW_ERR_IO, "the folder %s is gone", dir);
    if (mkdir(dir, 0777) == 0) return FW_OK;
    return fw_fail(FW_ERR_IO, "cannot make folder %s: %s", dir, strerror(errno));
}

/* run.json says, too, that it is still the same folder. */
static fw_status see_run(const fw_mirror_target *t) {
    char *path = NULL;
    bool has;
    fw_status status;
    FW_TRY(fw_path_join(&path, t->form.text, "run.json"));
    FW_TRY_OR(check_run(&has, t->form.text, t->options->identity), done);
    if (!has && t->met)
        status = fw_fail(FW_ERR_IO, "%s is gone: is the disk of the mirror still mounted?", path);
    else if (!has)
        FW_TRY_OR(fw_json_save(t->options->identity, path), done);
done:
    fw_free(path);
    return status;
}

static void warn_of_same_disk(const fw_mirror_target *t) {
    struct stat here, there;
    if (stat(t->options->output_dir, &here) == 0 && stat(t->form.text, &there) == 0 && here.st_dev == there.st_dev)
        fw_log_warning(
            "--mirror %s is on the same file system as --output_dir %s: it does not survive the loss of that disk",
            t->form.text, t->options->output_dir);
}

fw_status fw_mirror_folder_meet(fw_mirror_target *t) {
    FW_TRY(see_folder(t));
    if (!t->met) {
        fw_output_lock_release(&t->lock);
        fw_status status = fw_output_lock_take(&t->lock, t->form.text);
        if (status != FW_OK) return fw_fail_context(status, "--mirror: ");
    }
    FW_TRY(see_run(t));
    if (t->met) return FW_OK;
    FW_TRY(fw_stale_remove(t->form.text, &t->lock));
    FW_TRY(fw_checkpoint_set_aside_after(t->form.text, t->options->from_step));
    warn_of_same_disk(t);
    t->met = true;
    return FW_OK;
}

/* ---- one file */

/* What has been written is to be read from the mirror, not from memory. */
static void forget_pages(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static fw_status copy_bytes(fw_file_writer *to, int from_fd, const char *from, uint8_t *chunk, uint64_t *hash,
                            fw_mirror_work *work) {
    struct stat info;
    fw_hash sum;
    fw_hash_init(&sum);
    if (fstat(from_fd, &info) != 0) return fw_fail(FW_ERR_IO, "cannot read %s: %s", from, strerror(errno));
    const uint64_t bytes = (uint64_t)info.st_size;
    for (uint64_t at = 0; at < bytes;) {
        const size_t n = bytes - at < CHUNK_BYTES ? (size_t)(bytes - at) : CHUNK_BYTES;
        FW_TRY(fw_mirror_work_check(work));
        FW_TRY(fw_file_read_at(from_fd, chunk, n, at, from));
        FW_TRY(fw_file_writer_write(to, chunk, n));
        fw_hash_update(&sum, chunk, n);
        at += n;
        atomic_fetch_add(&work->done_bytes, n);
    }
    *hash = fw_hash_value(&sum);
    return FW_OK;
}

/* *hash: of what was read. */
static fw_status copy_file(const char *from, const char *to, uint8_t *chunk, uint64_t *hash, fw_mirror_work *work) {
    int fd;
    fw_file_writer w = {.fd = -1};
    fw_status status;
    FW_TRY(fw_file_open(&fd, from));
    FW_TRY_OR(fw_file_writer_open(&w, to), done);
    FW_TRY_OR(copy_bytes(&w, fd, from, chunk, hash, work), done);
    FW_TRY_OR(fw_file_writer_commit(&w), done);
    forget_pages(to);
done:
    fw_file_writer_close(&w);
    close(fd);
    return status;
}

static fw_status check_file(const char *path, uint64_t hash) {
    uint64_t is, bytes;
    FW_TRY(fw_hash_file(&is, &bytes, path));
    if (is == hash) return FW_OK;
    return fw_fail(FW_ERR_IO, "%s is not what was written to it: its checksum is %016llx, %016llx was expected", path,
                   (unsigned long long)is, (unsigned long long)hash);
}

/* ---- a folder of them */

typedef struct copying {
    const fw_mirror_item *item;
    const char *to;
    fw_mirror_work *work;
    char **name;
    size_t name_n;
    uint64_t *hash; /* [name_n] */
    uint8_t *chunk;
} copying;

static fw_status copy_files(copying *c) {
    for (size_t i = 0; i < c->name_n; i++) {
        char *from = NULL, *to = NULL;
        fw_status status = fw_path_join(&from, c->item->dir, c->name[i]);
        if (status == FW_OK) status = fw_path_join(&to, c->to, c->name[i]);
        if (status == FW_OK) status = copy_file(from, to, c->chunk, &c->hash[i], c->work);
        fw_free(from);
        fw_free(to);
        FW_TRY(status);
    }
    return FW_OK;
}

/* A checkpoint's manifest knows what every byte must be; of a model we know what we have read. */
static fw_status check_copy(const copying *c) {
    if (!c->item->is_model) return fw_checkpoint_verify(c->to, true);
    for (size_t i = 0; i < c->name_n; i++) {
        char *path;
        FW_TRY(fw_mirror_work_check(c->work));
        FW_TRY(fw_path_join(&path, c->to, c->name[i]));
        fw_status status = check_file(path, c->hash[i]);
        fw_free(path);
        FW_TRY(status);
    }
    return FW_OK;
}

static fw_status count_bytes(uint64_t *sum, const copying *c) {
    *sum = 0;
    for (size_t i = 0; i < c->name_n; i++) {
        struct stat info;
        char *path;
        FW_TRY(fw_path_join(&path, c->item->dir, c->name[i]));
        if (stat(path, &info) == 0) *sum += (uint64_t)info.st_size;
        fw_free(path);
    }
    return FW_OK;
}

static fw_status copy_all(const fw_mirror_item *item, const char *to, fw_mirror_work *work) {
    copying c = {.item = item, .to = to, .work = work};
    uint64_t bytes;
    fw_status status;
    FW_TRY(fw_dir_list(&c.name, &c.name_n, item->dir));
    FW_TRY_OR(FW_NEW_ARRAY(c.hash, c.name_n), done);
    FW_TRY_OR(FW_NEW_ARRAY(c.chunk, CHUNK_BYTES), done);
    FW_TRY_OR(count_bytes(&bytes, &c), done);
    atomic_store(&work->total_bytes, bytes);
    FW_TRY_OR(fw_store_check_space(to, bytes, "the copy"), done);
    FW_TRY_OR(copy_files(&c), done);
    FW_TRY_OR(check_copy(&c), done);
done:
    fw_free(c.chunk);
    fw_free(c.hash);
    fw_dir_list_free(c.name, c.name_n);
    return status;
}

/* Is the same checkpoint there, whole? Its manifest has the checksums of all the rest. */
static fw_status has_already(bool *has, const fw_mirror_item *item, const char *path) {
    char *ours = NULL, *theirs = NULL;
    uint64_t a, b, bytes;
    fw_status status;
    *has = false;
    FW_TRY_OR(fw_path_join(&ours, item->dir, "manifest.json"), done);
    FW_TRY_OR(fw_path_join(&theirs, path, "manifest.json"), done);
    if (!fw_file_exists(theirs)) goto done;
    FW_TRY_OR(fw_hash_file(&a, &bytes, ours), done);
    FW_TRY_OR(fw_hash_file(&b, &bytes, theirs), done);
    *has = a == b && fw_checkpoint_verify(path, false) == FW_OK;
done:
    fw_free(ours);
    fw_free(theirs);
    return status;
}

/* Begins the copy, and looks once more: had the folder gone in this instant, a new one would have been made in its place. */
static fw_status begin(fw_staged_folder *staged, const fw_mirror_target *t, const char *path, bool hidden) {
    FW_TRY(fw_staged_folder_begin(staged, path, hidden));
    fw_status status = see_run(t);
    if (status == FW_OK) return FW_OK;
    fw_staged_folder_close(staged);
    rmdir(t->form.text); /* if it is ours, it is empty */
    return status;
}

fw_status fw_mirror_folder_copy(fw_mirror_target *t, const fw_mirror_item *item, fw_mirror_work *work) {
    char *path = NULL;
    bool has = false;
    fw_staged_folder staged = {0};
    fw_status status;
    FW_TRY(fw_mirror_folder_meet(t));
    FW_TRY_OR(fw_path_join(&path, t->form.text, item->name), done);
    if (!item->is_model) FW_TRY_OR(has_already(&has, item, path), done);
    if (!has) {
        FW_TRY_OR(begin(&staged, t, path, !item->is_model), done);
        FW_TRY_OR(copy_all(item, staged.path_tmp, work), done);
        FW_TRY_OR(fw_mirror_work_check(work), done);
        FW_TRY_OR(fw_staged_folder_commit(&staged), done);
    }
    if (!item->is_model) FW_TRY_OR(fw_checkpoint_prune(t->form.text, &t->options->rules), done);
done:
    fw_staged_folder_close(&staged);
    fw_free(path);
    return status;
}
