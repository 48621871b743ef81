#include "store/checkpoint_verify.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "store/checkpoint_blocks.h"
#include "store/manifest.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static fw_status open_file(fw_safetensors *file, int *fd, const char *dir, const char *name) {
    char *path;
    FW_TRY(fw_path_join(&path, dir, name));
    fw_status status = fw_safetensors_open(file, path);
    if (status == FW_OK) status = fw_file_open(fd, path);
    fw_free(path);
    return status;
}

fw_status fw_verify_open_files(fw_safetensors **out_file, int **out_fd, const fw_manifest_index *x, const char *dir) {
    fw_safetensors *file = NULL;
    int *fd = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW_ARRAY(file, x->file_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(fd, x->file_n), fail);
    for (size_t i = 0; i < x->file_n; i++) fd[i] = -1;
    for (size_t i = 0; i < x->file_n; i++)
        if (x->file[i].weights) FW_TRY_OR(open_file(&file[i], &fd[i], dir, x->file[i].name), fail);
    *out_file = file;
    *out_fd = fd;
    return FW_OK;
fail:
    fw_verify_close_files(file, fd, x->file_n);
    return status;
}

void fw_verify_close_files(fw_safetensors *file, int *fd, size_t file_n) {
    for (size_t i = 0; file != NULL && i < file_n; i++) fw_safetensors_close(&file[i]);
    for (size_t i = 0; fd != NULL && i < file_n; i++)
        if (fd[i] >= 0) close(fd[i]);
    fw_free(file);
    fw_free(fd);
}

static fw_status check_hash(const char *path, const char *what, uint64_t is, uint64_t said) {
    if (is == said) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s is damaged: the checksum of %s is %016" PRIx64 ", the manifest says %016" PRIx64,
                   path, what, is, said);
}

static fw_status check_piece(const fw_safetensors *file, const fw_manifest_tensor *t, const fw_manifest_piece *p) {
    const fw_stored_tensor *s = fw_safetensors_find(file, t->name);
    if (s != NULL && s->dtype == t->dtype && s->rank == t->rank && s->offset_bytes == p->start_bytes &&
        memcmp(s->shape, p->box.size, (size_t)t->rank * sizeof *s->shape) == 0)
        return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s is %s", file->path, t->name,
                   s == NULL ? "missing: the manifest says it is there" : "not what the manifest says");
}

fw_status fw_verify_headers(const fw_manifest_index *x, const fw_safetensors *file) {
    for (size_t i = 0; i < x->file_n; i++) {
        const fw_manifest_file *f = &x->file[i];
        if (!f->weights) continue;
        if (f->header_bytes > file[i].mapping.bytes)
            return fw_fail(FW_ERR_INPUT, "%s is shorter than its header", file[i].path);
        FW_TRY(check_hash(file[i].path, "its header", fw_hash_bytes(file[i].mapping.data, f->header_bytes), f->hash));
    }
    size_t piece_n = 0, stored_n = 0;
    for (size_t i = 0; i < x->tensor_n; piece_n += x->tensor[i++].piece_n)
        for (size_t k = 0; k < x->tensor[i].piece_n; k++)
            FW_TRY(check_piece(&file[x->tensor[i].piece[k].file], &x->tensor[i], &x->tensor[i].piece[k]));
    for (size_t i = 0; i < x->file_n; i++) stored_n += file[i].tensor_n;
    if (stored_n == piece_n) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "the files of weights have %zu tensors, the manifest says %zu", stored_n, piece_n);
}

static fw_status verify_small(const fw_manifest_index *x, const char *dir) {
    for (size_t i = 0; i < x->file_n; i++) {
        char *path;
        uint64_t hash, bytes;
        if (x->file[i].weights) continue;
        FW_TRY(fw_path_join(&path, dir, x->file[i].name));
        fw_status status = fw_hash_file(&hash, &bytes, path);
        if (status == FW_OK) status = check_hash(path, "the file", hash, x->file[i].hash);
        fw_free(path);
        FW_TRY(status);
    }
    return FW_OK;
}

/* Tensor by tensor, so that the list of blocks stays short. */
static fw_status verify_pieces(const fw_manifest_index *x, const fw_safetensors *file, const int *fd,
                               fw_threads *threads) {
    fw_block_list blocks = {0};
    fw_status status = FW_OK;
    for (size_t i = 0; i < x->tensor_n && status == FW_OK; i++) {
        const fw_manifest_tensor *t = &x->tensor[i];
        blocks.block_n = 0;
        for (size_t k = 0; k < t->piece_n && status == FW_OK; k++) {
            const fw_manifest_piece *p = &t->piece[k];
            const fw_block_file from = {fd[p->file], file[p->file].path, t->name, x->block_bytes, t->value_bytes};
            status = fw_blocks_add(&blocks, &from, p, 0, p->box.n, NULL);
        }
        if (status == FW_OK) status = fw_blocks_read(&blocks, threads);
    }
    fw_blocks_fini(&blocks);
    return status;
}

fw_status fw_checkpoint_verify_with(fw_threads *threads, const char *path, fw_checkpoint_depth depth) {
    json_t *manifest = NULL;
    fw_manifest_index index = {0};
    fw_safetensors *file = NULL;
    int *fd = NULL;
    fw_status status;
    FW_TRY_OR(fw_manifest_load(&manifest, path), done);
    FW_TRY_OR(fw_manifest_index_init(&index, manifest, path), done);
    FW_TRY_OR(fw_verify_open_files(&file, &fd, &index, path), done);
    FW_TRY_OR(fw_verify_headers(&index, file), done);
    if (depth >= FW_CHECKPOINT_SMALL_FILES) FW_TRY_OR(verify_small(&index, path), done);
    if (depth >= FW_CHECKPOINT_ALL_BYTES) FW_TRY_OR(verify_pieces(&index, file, fd, threads), done);
done:
    fw_verify_close_files(file, fd, index.file_n);
    fw_manifest_index_fini(&index);
    json_decref(manifest);
    return status;
}

fw_status fw_checkpoint_verify(const char *path, bool full) {
    return fw_checkpoint_verify_with(NULL, path, full ? FW_CHECKPOINT_ALL_BYTES : FW_CHECKPOINT_HEADERS);
}
