/* What one writer of a checkpoint says about its files, and how it comes into the manifest. */
#include "store/manifest.h"

#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint_pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static fw_status nomem(void) { return fw_fail(FW_ERR_NOMEM, "out of memory while describing a checkpoint"); }

static const char *hex(char text[20], uint64_t value) {
    snprintf(text, 20, "%016" PRIx64, value);
    return text;
}

fw_status fw_manifest_make_part(json_t **out) {
    *out = json_pack("{s:{}, s:{}}", "files", "pieces");
    return *out != NULL ? FW_OK : nomem();
}

fw_status fw_manifest_add_file(json_t *part, const char *name, uint64_t bytes, uint64_t hash) {
    char text[20];
    json_t *file = json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "xxh64", hex(text, hash));
    return json_object_set_new(json_object_get(part, "files"), name, file) == 0 ? FW_OK : nomem();
}

fw_status fw_manifest_add_shard(json_t *part, const char *name, uint64_t bytes, uint64_t header_bytes,
                                uint64_t header_hash) {
    char text[20];
    json_t *file = json_pack("{s:I, s:I, s:s}", "bytes", (json_int_t)bytes, "header_bytes", (json_int_t)header_bytes,
                             "header_xxh64", hex(text, header_hash));
    return json_object_set_new(json_object_get(part, "files"), name, file) == 0 ? FW_OK : nomem();
}

static json_t *sizes(const int64_t *size, int rank) {
    return rank == 1 ? json_pack("[I]", (json_int_t)size[0])
                     : json_pack("[I, I]", (json_int_t)size[0], (json_int_t)size[1]);
}

fw_status fw_manifest_add_piece(json_t *part, const char *tensor, const char *file, const fw_piece *piece,
                                uint64_t start_bytes, uint64_t bytes, const char *hashes) {
    json_t *all = json_object_get(part, "pieces"), *list = json_object_get(all, tensor);
    if (list == NULL) {
        list = json_array();
        if (json_object_set_new(all, tensor, list) != 0) return nomem();
    }
    json_t *value = json_pack("{s:s, s:o, s:o, s:I, s:I, s:s}", "file", file, "offsets",
                              sizes(piece->offset, piece->rank), "shape", sizes(piece->size, piece->rank), "start",
                              (json_int_t)start_bytes, "bytes", (json_int_t)bytes, "xxh64", hashes);
    return json_array_append_new(list, value) == 0 ? FW_OK : nomem();
}

fw_status fw_manifest_merge(json_t *manifest, const json_t *part) {
    json_t *tensors = json_object_get(manifest, "tensors"), *list;
    const char *name;
    if (json_object_update(json_object_get(manifest, "files"), json_object_get(part, "files")) != 0) return nomem();
    json_object_foreach(json_object_get(part, "pieces"), name, list) {
        json_t *pieces = json_object_get(json_object_get(tensors, name), "pieces");
        if (pieces == NULL) return fw_fail(FW_ERR_INTERNAL, "tensor %.200s is not in the table of the model", name);
        if (json_array_extend(pieces, list) != 0) return nomem();
    }
    return FW_OK;
}

fw_status fw_manifest_see_files(const json_t *part, const char *dir, const char *who) {
    const char *name;
    json_t *file;
    json_object_foreach(json_object_get(part, "files"), name, file) {
        char *path;
        struct stat info;
        FW_TRY(fw_path_join(&path, dir, name));
        json_int_t bytes = json_integer_value(json_object_get(file, "bytes"));
        fw_status status = FW_OK;
        if (stat(path, &info) != 0 || (json_int_t)info.st_size != bytes)
            status = fw_fail(FW_ERR_IO,
                             "%s, which %s has written with %lld bytes, is not seen from here; all ranks must write to "
                             "the same file system: choose another --output_dir",
                             path, who, (long long)bytes);
        fw_free(path);
        FW_TRY(status);
    }
    return FW_OK;
}
