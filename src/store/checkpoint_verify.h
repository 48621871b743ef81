/* A checkpoint against its manifest. Internal to the room. */
#ifndef FW_STORE_CHECKPOINT_VERIFY_H
#define FW_STORE_CHECKPOINT_VERIFY_H

#include "store/manifest_index.h"

/* *file: [index->file_n], the files of weights mapped and their headers parsed; *fd: the same, open; small files stay empty
 * and -1. */
fw_status fw_verify_open_files(fw_safetensors **file, int **fd, const fw_manifest_index *index, const char *dir);
void fw_verify_close_files(fw_safetensors *file, int *fd, size_t file_n); /* takes NULL */
/* Headers have the checksums that the manifest says, and say of every piece what it says. Errors: FW_ERR_INPUT. */
fw_status fw_verify_headers(const fw_manifest_index *index, const fw_safetensors *file);

#endif
