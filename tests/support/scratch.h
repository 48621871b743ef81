/* A folder of its own for a test, and small helpers around files in it. */
#ifndef FW_TESTS_SUPPORT_SCRATCH_H
#define FW_TESTS_SUPPORT_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

enum { FW_TEST_PATH_BYTES = 512 };

/* Make a new empty folder under TMPDIR or /tmp. Aborts the test when it cannot. */
void fw_test_scratch_make(char path[FW_TEST_PATH_BYTES]);
void fw_test_scratch_remove(const char *path);
/* "DIR/NAME"; stays valid until the process ends. */
const char *fw_test_path(const char *dir, const char *name);
/* Write these bytes under that path. */
void fw_test_write(const char *path, const void *bytes, size_t n_bytes);
/* Write a safetensors file: this header (any text) and data_bytes bytes of data counting up from 0. */
void fw_test_write_safetensors(const char *path, const char *header, size_t data_bytes);
/* Entries of a folder, all levels, files and folders, hidden ones too. */
int fw_test_count_entries(const char *dir);
/* Cut or flip: change one bit of a byte; set the size of a file. */
void fw_test_flip_bit(const char *path, uint64_t byte);
void fw_test_resize(const char *path, uint64_t bytes);
uint64_t fw_test_file_bytes(const char *path);

#endif
