/* Files and folders. Every error message names the path and the system's reason; "No space left on
 * device" and other write errors are FW_ERR_IO, a missing or unreadable input is FW_ERR_INPUT; where the machine is the
 * reason and not the file, it is FW_ERR_NOMEM, or FW_ERR_IO for a failing disk and for too many open files.
 *
 * Nothing is ever half-written under its final name: fw_file_writer writes "PATH.tmp-PID", and
 * fw_file_writer_commit syncs, renames over PATH and syncs the folder. Where PATH is a link, that is done to the file behind
 * it; a pipe, a character device and the file that standard output goes to are written as they are. A folder, a socket, a
 * block device and a link to nothing are FW_ERR_IO. */
#ifndef FW_BASE_FILE_H
#define FW_BASE_FILE_H

#include "base/status.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/* A whole file mapped read-only; pages are brought in when touched and shared between processes. */
typedef struct fw_mapping {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
} fw_mapping;

/* *fd: for fw_file_read_at; close it. Errors as those of fw_file_map. */
fw_status fw_file_open(int *fd, const char *path);
fw_status fw_file_map(fw_mapping *out, const char *path);
void fw_file_unmap(fw_mapping *mapping);
/* Exactly `bytes` bytes from offset on, of a file that was opened for reading. Errors: FW_ERR_INPUT (it ends before), FW_ERR_IO,
 * both naming path. Any thread. */
fw_status fw_file_read_at(int fd, void *out, size_t bytes, uint64_t offset, const char *path);
/* Tell the system that these bytes are not needed for now: resident memory shrinks, data stays valid. */
void fw_file_unmap_pages(const fw_mapping *mapping, size_t offset, size_t bytes);

/* Append the whole file to *out; FW_ERR_INPUT when it is larger than limit_bytes. */
fw_status fw_file_read(fw_strbuf *out, const char *path, size_t limit_bytes);
/* Write a whole small file, atomically (see above). */
fw_status fw_file_write(const char *path, const void *bytes, size_t n_bytes);
/* Append to a file that is there. */
fw_status fw_file_append(const char *path, const void *bytes, size_t n_bytes);
/* Copy a file, atomically. */
fw_status fw_file_copy(const char *from, const char *to);

bool fw_file_exists(const char *path); /* a regular file */
bool fw_dir_exists(const char *path);
bool fw_dir_same(const char *a, const char *b); /* two names of one folder that is there */
/* Is there a regular file of that name in a folder? Errors: FW_ERR_NOMEM. */
fw_status fw_dir_has_file(bool *has, const char *dir, const char *name);
/* mkdir -p. */
fw_status fw_dir_make(const char *path);
/* Remove a folder and all in it; a missing one is no error. Never follows symbolic links. */
fw_status fw_dir_remove(const char *path);
/* Make renames inside the folder durable. */
fw_status fw_dir_sync(const char *path);
/* Names in a folder, sorted, without "." and ".."; release each and the array with fw_dir_list_free. */
fw_status fw_dir_list(char ***names, size_t *name_n, const char *path);
void fw_dir_list_free(char **names, size_t name_n);
/* *path = given without slashes at its end, *parent = the folder that it is in, "." for a plain name; fw_free both, also after
 * a failure. */
fw_status fw_path_split(char **path, char **parent, const char *given);
/* *out = "a/b" (heap); b absolute gives b alone. */
fw_status fw_path_join(char **out, const char *a, const char *b);
/* Free bytes for us on the disk that holds path. */
fw_status fw_disk_free(uint64_t *bytes, const char *path);

/* A file that appears under its name only when complete. */
typedef struct fw_file_writer {
    char *path, *path_tmp; /* path_tmp NULL: a stream, written as it is */
    int fd;
    uint8_t *buffer; /* collects small writes */
    size_t buffered_bytes;
    uint64_t written_bytes;
    uint64_t out_bytes, started_bytes; /* given to the system; of these, told to go to the disk */
} fw_file_writer;

fw_status fw_file_writer_open(fw_file_writer *w, const char *path);
fw_status fw_file_writer_write(fw_file_writer *w, const void *bytes, size_t n_bytes);
fw_status fw_file_writer_commit(fw_file_writer *w);
/* Release; removes the temporary file when commit has not succeeded. Takes a zeroed or finished writer. */
void fw_file_writer_close(fw_file_writer *w);

/* Tests: the n-th write call from now fails with ENOSPC (1 = the next); 0 switches it off. */
void fw_file_fail_write_at(uint64_t n);
/* The same of the n-th sync, of a file or a folder, with EIO. */
void fw_file_fail_sync_at(uint64_t n);
/* The n-th write call from now takes so many seconds more, as on a disk in trouble. */
void fw_file_slow_write_at(uint64_t n, unsigned seconds);

#endif
