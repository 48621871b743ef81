#include "store/run_folder.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUN_LIMIT_BYTES = 1 << 20 };

fw_status fw_output_lock_take(fw_output_lock *lock, const char *output_dir) {
    *lock = (fw_output_lock){.fd = -1, .exclusive = true};
    FW_TRY(fw_dir_make(output_dir));
    char *path;
    FW_TRY(fw_path_join(&path, output_dir, ".lock"));
    fw_status status = FW_OK;
    int dir_fd = open(output_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = dir_fd < 0 ? -1 : openat(dir_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = fw_fail(FW_ERR_IO, "cannot create %s: %s", path, strerror(errno));
        goto done;
    }
    char text[32] = "";
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            ssize_t n = read(fd, text, sizeof text - 1);
            text[n > 0 ? n : 0] = 0;
            status = fw_fail(FW_ERR_OPTION,
                             "%s is in use by another finewire (process %ld); wait for it or choose another "
                             "--output_dir",
                             output_dir, strtol(text, NULL, 10));
            close(fd);
            goto done;
        }
        lock->exclusive = false;
        fw_log_warning("%s cannot be locked here (%s): take care that no other run writes to it", output_dir,
                       strerror(errno));
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) /* the number is for the message only */
        fw_log_debug("cannot write to %s: %s", path, strerror(errno));
    lock->fd = fd;
    lock->dir_fd = dir_fd;
done:
    if (lock->fd < 0 && dir_fd >= 0) close(dir_fd);
    fw_free(path);
    return status;
}

fw_status fw_output_lock_check(const fw_output_lock *lock, const char *output_dir) {
    struct stat mine, there;
    if (fstat(lock->dir_fd, &mine) == 0 && stat(output_dir, &there) == 0 && mine.st_dev == there.st_dev &&
        mine.st_ino == there.st_ino)
        return FW_OK;
    return fw_fail(FW_ERR_IO,
                   "%s is not the folder any more that this run began in: it was moved, removed or unmounted; nothing "
                   "is written in its place. Put it back, or name the place where it is now as --output_dir, and the "
                   "same command goes on from the newest checkpoint in it",
                   output_dir);
}

void fw_output_lock_release(fw_output_lock *lock) {
    if (lock->fd >= 0) {
        close(lock->fd);
        close(lock->dir_fd);
    }
    lock->fd = -1;
}

static bool is_checkpoint_name(const char *name) {
    if (strncmp(name, ".tmp-step-", 10) == 0) return true;
    if (strncmp(name, FW_CHECKPOINT_ASIDE, strlen(FW_CHECKPOINT_ASIDE)) == 0) name += strlen(FW_CHECKPOINT_ASIDE);
    return fw_checkpoint_step_of(name) >= 0; /* not step-by-step, which is somebody's */
}

/* With remove: checkpoints, run.json and metrics.jsonl go. Without: *holds becomes the name of what a run left. */
static fw_status scan(const char *output_dir, bool remove, char **holds) {
    char **names;
    size_t name_n;
    FW_TRY(fw_dir_list(&names, &name_n, output_dir));
    fw_status status = FW_OK;
    for (size_t i = 0; i < name_n && status == FW_OK; i++) {
        bool extra = strcmp(names[i], "metrics.jsonl") == 0;
        if (!is_checkpoint_name(names[i]) && strcmp(names[i], "run.json") != 0 && !(remove && extra)) continue;
        if (remove) {
            char *path;
            status = fw_path_join(&path, output_dir, names[i]);
            if (status == FW_OK) status = fw_dir_remove(path);
            fw_free(path);
        } else if (*holds == NULL && names[i][0] != '.') {
            status = fw_strdup(holds, names[i]);
        }
    }
    fw_dir_list_free(names, name_n);
    return status;
}

/* What a number stands for that nobody has given: who reads that it has changed has changed one of these. */
static const char *meaning_of(const char *key) {
    static const char *const meanings[][2] = {
        {"weights_hash", " (the weights of the model)"},
        {"tokenizer_hash", " (tokenizer.json)"},
        {"data_hash",
         " (the conversations as tokens: rows, chat template, max_length, which of them are learnt and how much)"},
        {"group_by_length",
         " (the sequences of a step, which its order follows from; --train_batch_size N keeps them)"},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (strcmp(key, meanings[i][0]) == 0) return meanings[i][1];
    return "";
}

/* Of an object that the other run does not have, that it is there is all that helps. */
static fw_status put_value(fw_strbuf *out, const json_t *value, bool is_object) {
    if (value == NULL) return fw_strbuf_puts(out, "not set");
    return is_object ? fw_strbuf_puts(out, "set") : fw_json_dump(out, value, JSON_COMPACT);
}

static fw_status add_difference(fw_strbuf *out, const char *key, const json_t *was, bool was_object, const json_t *is,
                                bool is_object) {
    FW_TRY(fw_strbuf_printf(out, "%s%s%s was ", out->len_bytes ? "; " : "", key, meaning_of(key)));
    FW_TRY(put_value(out, was, was_object));
    FW_TRY(fw_strbuf_puts(out, " and is "));
    return put_value(out, is, is_object);
}

/* A key of which the value is an object written as one text; NULL for another, and for what cannot be read. */
static json_t *object_in(const json_t *text) {
    const char *written = json_string_value(text);
    json_t *object = written == NULL || written[0] != '{' ? NULL : json_loads(written, 0, NULL);
    if (json_is_object(object)) return object;
    json_decref(object);
    return NULL;
}

static fw_status add_differences(fw_strbuf *out, const json_t *was, const json_t *is, const char *prefix);

/* An adapter's configuration is long: only what differs in it is told. */
static fw_status add_value(fw_strbuf *out, const char *prefix, const char *key, const json_t *was, const json_t *is) {
    char path[128];
    json_t *inner[2] = {object_in(was), object_in(is)};
    fw_status status;
    snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "'s " : "", key);
    if (inner[0] != NULL && inner[1] != NULL && prefix[0] == 0)
        status = add_differences(out, inner[0], inner[1], key);
    else
        status = add_difference(out, path, was, inner[0] != NULL, is, inner[1] != NULL);
    json_decref(inner[0]);
    json_decref(inner[1]);
    return status;
}

static fw_status add_differences(fw_strbuf *out, const json_t *was, const json_t *is, const char *prefix) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)is, key, value) {
        const json_t *old = json_object_get(was, key);
        if (old == NULL || !json_equal(old, value)) FW_TRY(add_value(out, prefix, key, old, value));
    }
    json_object_foreach((json_t *)(uintptr_t)was, key, value) if (json_object_get(is, key) == NULL)
        FW_TRY(add_value(out, prefix, key, value, NULL));
    return FW_OK;
}

/* Every key of either object that is not the same in both. */
fw_status fw_run_compare(const json_t *was, const json_t *is, const char *path) {
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(add_differences(&text, was, is, ""), done);
    if (text.len_bytes > 0)
        status = fw_fail(FW_ERR_OPTION,
                         "%s is of another run: %s; choose another --output_dir, or start afresh with "
                         "--overwrite_output_dir",
                         path, text.data);
done:
    fw_strbuf_fini(&text);
    return status;
}

/* run.json is damaged or lost: its newest checkpoint says whose the folder is. A folder without one has nothing to lose. */
static fw_status compare_with_checkpoint(const char *output_dir, const json_t *identity) {
    char *newest;
    fw_checkpoint_state state = {0};
    FW_TRY(fw_checkpoint_newest(&newest, output_dir, INT64_MAX, false));
    fw_status status = newest == NULL ? FW_OK : fw_checkpoint_load_state(&state, newest);
    if (status == FW_OK && state.run != NULL) status = fw_run_compare(state.run, identity, newest);
    fw_checkpoint_state_fini(&state);
    fw_free(newest);
    return status;
}

static fw_status compare_with_run(const char *output_dir, const json_t *identity, const char *path) {
    json_t *was = NULL;
    fw_status status = fw_json_load(&was, path, RUN_LIMIT_BYTES);
    if (status == FW_OK && !json_is_object(was)) status = fw_fail(FW_ERR_INPUT, "%s: not a JSON object", path);
    if (status == FW_OK) {
        status = fw_run_compare(was, identity, path);
    } else if (status == FW_ERR_INPUT) {
        fw_log_warning("%s; it is written anew, and checkpoints say whether they are of this run", fw_trail_message());
        FW_TRY(compare_with_checkpoint(output_dir, identity));
        status = fw_json_save(identity, path);
    }
    json_decref(was);
    return status;
}

fw_status fw_run_begin(const char *output_dir, const json_t *identity, fw_run_mode mode) {
    char *path = NULL, *holds = NULL;
    fw_status status;
    FW_TRY_OR(fw_dir_make(output_dir), done);
    FW_TRY_OR(fw_path_join(&path, output_dir, "run.json"), done);
    if (mode == FW_RUN_RESUME && fw_file_exists(path)) {
        status = compare_with_run(output_dir, identity, path);
        goto done;
    }
    if (mode == FW_RUN_RESUME) FW_TRY_OR(compare_with_checkpoint(output_dir, identity), done);
    if (mode == FW_RUN_OVERWRITE) FW_TRY_OR(scan(output_dir, true, NULL), done);
    if (mode == FW_RUN_FRESH) FW_TRY_OR(scan(output_dir, false, &holds), done);
    if (holds != NULL) {
        status = fw_fail(FW_ERR_OPTION,
                         "%s holds another run (%s); go on with it by --resume_from_checkpoint auto, start afresh by "
                         "--overwrite_output_dir, or choose another --output_dir",
                         output_dir, holds);
        goto done;
    }
    FW_TRY_OR(fw_json_save(identity, path), done);
done:
    fw_free(path);
    fw_free(holds);
    return status;
}
