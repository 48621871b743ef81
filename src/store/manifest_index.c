#include "store/manifest_index.h"

#include "base/alloc.h"
#include "store/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_DIGITS = 16 };

static int by_file_name(const void *a, const void *b) {
    return strcmp(((const fw_manifest_file *)a)->name, ((const fw_manifest_file *)b)->name);
}

static int by_tensor_name(const void *a, const void *b) {
    return strcmp(((const fw_manifest_tensor *)a)->name, ((const fw_manifest_tensor *)b)->name);
}

static int by_first(const void *a, const void *b) {
    const fw_manifest_piece *x = a, *y = b;
    return x->box.first_n < y->box.first_n ? -1 : x->box.first_n > y->box.first_n;
}

static fw_status read_files(fw_manifest_index *x, const char *where) {
    json_t *files = json_object_get(x->manifest, "files"), *value;
    const char *name;
    FW_TRY(FW_NEW_ARRAY(x->file, json_object_size(files)));
    json_object_foreach(files, name, value) {
        fw_manifest_file *f = &x->file[x->file_n++];
        int64_t bytes, header = 0;
        *f = (fw_manifest_file){.name = name, .weights = json_object_get(value, "header_bytes") != NULL};
        FW_TRY(fw_json_need_int(&bytes, value, "bytes", 0, INT64_MAX, where));
        if (f->weights) FW_TRY(fw_json_need_int(&header, value, "header_bytes", 8, bytes, where));
        f->bytes = (uint64_t)bytes;
        f->header_bytes = (uint64_t)header;
        FW_TRY(fw_manifest_hex(&f->hash, value, f->weights ? "header_xxh64" : "xxh64", where));
    }
    if (x->file_n > 1) qsort(x->file, x->file_n, sizeof *x->file, by_file_name);
    return FW_OK;
}

/* Version 2 had none: a piece was one block. */
static fw_status read_block_bytes(fw_manifest_index *x, const char *where) {
    int64_t bytes = INT64_MAX;
    if (json_object_get(x->manifest, "block_bytes") != NULL)
        FW_TRY(fw_json_need_int(&bytes, x->manifest, "block_bytes", 4096, INT64_MAX, where));
    x->block_bytes = (uint64_t)bytes;
    return FW_OK;
}

/* One or two whole numbers; returns how many, 0: not that. */
static int read_sizes(int64_t out[2], const json_t *value) {
    size_t n = json_array_size(value);
    if (n < 1 || n > 2) return 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *size = json_array_get(value, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) return 0;
        out[i] = json_integer_value(size);
    }
    return (int)n;
}

static fw_status bad_piece(const fw_manifest_tensor *t, size_t i, const char *where, const char *what) {
    return fw_fail(FW_ERR_INPUT, "%s: piece %zu of tensor %.200s %s", where, i, t->name, what);
}

static fw_status read_piece(fw_manifest_piece *p, const fw_manifest_index *x, const fw_manifest_tensor *t, size_t i,
                            const json_t *value, const char *where) {
    const char *file = json_string_value(json_object_get(value, "file"));
    if (file == NULL) return bad_piece(t, i, where, "names no file");
    const fw_manifest_file key = {.name = file},
                           *found = x->file_n == 0 ? NULL : bsearch(&key, x->file, x->file_n, sizeof key, by_file_name);
    if (found == NULL || !found->weights) return bad_piece(t, i, where, "is in a file that \"files\" does not have");
    p->file = (size_t)(found - x->file);
    p->box.rank = read_sizes(p->box.offset, json_object_get(value, "offsets"));
    if (p->box.rank != t->rank || read_sizes(p->box.size, json_object_get(value, "shape")) != t->rank ||
        !fw_piece_run(&p->box.first_n, &p->box.n, p->box.offset, p->box.size, t->shape, t->rank))
        return bad_piece(t, i, where, "is not a run of rows inside the tensor's shape");
    int64_t start;
    FW_TRY(fw_json_need_int(&start, value, "start", 0, INT64_MAX, where));
    p->start_bytes = (uint64_t)start;
    if (p->start_bytes < found->header_bytes || p->start_bytes > found->bytes ||
        (found->bytes - p->start_bytes) / t->value_bytes < (uint64_t)p->box.n)
        return bad_piece(t, i, where, "lies outside of its file");
    p->hashes = json_string_value(json_object_get(value, "xxh64"));
    const uint64_t bytes = (uint64_t)p->box.n * t->value_bytes, block_n = (bytes - 1) / x->block_bytes + 1;
    if (p->hashes == NULL || strlen(p->hashes) / HASH_DIGITS != block_n || strlen(p->hashes) % HASH_DIGITS != 0 ||
        strspn(p->hashes, "0123456789abcdef") != strlen(p->hashes))
        return bad_piece(t, i, where, "has no \"xxh64\" of 16 hexadecimal digits for each block");
    return FW_OK;
}

static fw_status check_whole(const fw_manifest_tensor *t, const char *where) {
    int64_t end = 0;
    for (size_t i = 0; i < t->piece_n; i++) {
        int64_t first = t->piece[i].box.first_n;
        if (first != end)
            return fw_fail(FW_ERR_INPUT,
                           "%s: the pieces of tensor %.200s %s: one ends at element %" PRId64
                           ", the next begins at %" PRId64,
                           where, t->name, first > end ? "leave a gap" : "overlap", end, first);
        end += t->piece[i].box.n;
    }
    if (end == t->n) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "%s: the pieces of tensor %.200s end at element %" PRId64 ", the tensor has %" PRId64,
                   where, t->name, end, t->n);
}

static fw_status read_tensor(fw_manifest_tensor *t, const fw_manifest_index *x, const json_t *value,
                             const char *where) {
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (dtype == NULL || (strcmp(dtype, "F32") != 0 && strcmp(dtype, "U8") != 0))
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s is neither F32 nor U8, as all tensors of a checkpoint are",
                       where, t->name);
    t->dtype = strcmp(dtype, "F32") == 0 ? FW_STORED_F32 : FW_STORED_U8;
    t->value_bytes = fw_stored_dtype_bytes(t->dtype);
    t->rank = read_sizes(t->shape, json_object_get(value, "shape"));
    t->n = t->shape[0];
    if (t->rank == 0 || (t->rank == 2 && __builtin_mul_overflow(t->n, t->shape[1], &t->n)) || t->n > INT64_MAX / 8)
        return fw_fail(FW_ERR_INPUT, "%s: tensor %.200s has no shape of one or two whole numbers", where, t->name);
    const json_t *pieces = json_object_get(value, "pieces");
    size_t piece_n = json_array_size(pieces);
    FW_TRY(FW_NEW_ARRAY(t->piece, piece_n));
    for (; t->piece_n < piece_n; t->piece_n++)
        FW_TRY(read_piece(&t->piece[t->piece_n], x, t, t->piece_n, json_array_get(pieces, t->piece_n), where));
    if (t->piece_n > 1) qsort(t->piece, t->piece_n, sizeof *t->piece, by_first);
    return check_whole(t, where);
}

fw_status fw_manifest_index_init(fw_manifest_index *x, json_t *manifest, const char *where) {
    *x = (fw_manifest_index){.manifest = json_incref(manifest)};
    json_t *tensors = json_object_get(manifest, "tensors"), *value;
    const char *name;
    fw_status status;
    FW_TRY_OR(read_files(x, where), fail);
    FW_TRY_OR(read_block_bytes(x, where), fail);
    if (!json_is_object(tensors)) {
        status = fw_fail(FW_ERR_INPUT, "%s: \"tensors\" is missing", where);
        goto fail;
    }
    FW_TRY_OR(FW_NEW_ARRAY(x->tensor, json_object_size(tensors)), fail);
    json_object_foreach(tensors, name, value) {
        fw_manifest_tensor *t = &x->tensor[x->tensor_n++];
        *t = (fw_manifest_tensor){.name = name};
        FW_TRY_OR(read_tensor(t, x, value, where), fail);
    }
    if (x->tensor_n > 1) qsort(x->tensor, x->tensor_n, sizeof *x->tensor, by_tensor_name);
    return FW_OK;
fail:
    fw_manifest_index_fini(x);
    return status;
}

void fw_manifest_index_fini(fw_manifest_index *x) {
    for (size_t i = 0; i < x->tensor_n; i++) fw_free(x->tensor[i].piece);
    fw_free(x->tensor);
    fw_free(x->file);
    json_decref(x->manifest);
    *x = (fw_manifest_index){0};
}

const fw_manifest_tensor *fw_manifest_find(const fw_manifest_index *x, const char *name) {
    const fw_manifest_tensor key = {.name = name};
    return x->tensor_n == 0 ? NULL : bsearch(&key, x->tensor, x->tensor_n, sizeof key, by_tensor_name);
}
