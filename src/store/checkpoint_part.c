/* One rank's part of a checkpoint: its files, and what the manifest will say about them. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "store/checkpoint_pieces.h"
#include "store/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A file on its way. */
typedef struct part_file {
    const char *dir;
    const fw_param_table *table;
    const fw_checkpoint_share *share;
    int file, file_n;
    char name[FW_PIECE_FILE_BYTES];
    json_t *part;
    void *chunk;
} part_file;

/* How many pieces the share has of an array of a parameter. */
static int cut(fw_piece piece[FW_PIECES_MAX], const part_file *f, const fw_param *param, const fw_piece_tensor *t) {
    const fw_checkpoint_range run = fw_piece_values(t, param, fw_pieces_of_param(param, f->share->range[param->unit]));
    return fw_pieces_cut(piece, &t->shape, run.first_n, run.n);
}

/* The file's piece of an array of a parameter; false when it has none. */
static bool piece_of(fw_piece *out, fw_piece_tensor *t, const part_file *f, const fw_param *param, int array) {
    fw_piece_tensor tensor[FW_CHECKPOINT_ARRAYS_MAX];
    fw_piece piece[FW_PIECES_MAX];
    if (array >= fw_piece_tensors(tensor, f->share->optimizer, param)) return false;
    if (cut(piece, f, param, &tensor[array]) <= f->file) return false;
    *out = piece[f->file];
    *t = tensor[array];
    return true;
}

static fw_status nomem(void) { return fw_fail(FW_ERR_NOMEM, "out of memory while describing a checkpoint"); }

/* Boxes of all tensors in the file, as PyTorch's readers want them: {"NAME": {"saved_offsets": [3, 0]}, ...}. */
static fw_status make_metadata(json_t **out, const fw_safetensors_entry *entry, const fw_piece *piece, size_t n) {
    json_t *boxes = json_object();
    fw_strbuf text = {0};
    fw_status status = FW_OK;
    *out = NULL;
    for (size_t i = 0; i < n; i++) {
        json_t *offsets = piece[i].rank == 1
                              ? json_pack("[I]", (json_int_t)piece[i].offset[0])
                              : json_pack("[I, I]", (json_int_t)piece[i].offset[0], (json_int_t)piece[i].offset[1]);
        if (json_object_set_new(boxes, entry[i].name, json_pack("{s:o}", "saved_offsets", offsets)) != 0) {
            status = nomem();
            goto done;
        }
    }
    FW_TRY_OR(fw_json_dump(&text, boxes, JSON_COMPACT), done);
    *out = json_pack("{s:s, s:s, s:s, s:s}", "format", "pt", "producer", "finewire", "DCP_VERSION", "1.0",
                     "DCP_SHARDING_INFO", fw_strbuf_text(&text));
    if (*out == NULL) status = nomem();
done:
    json_decref(boxes);
    fw_strbuf_fini(&text);
    return status;
}

/* Tensors of the file in the order in which they are written: array by array, in the order of the table. */
static fw_status list_pieces(const part_file *f, fw_safetensors_entry *entry, fw_piece *piece,
                             char (*name)[FW_PIECE_NAME_BYTES], size_t *n) {
    *n = 0;
    for (int array = 0; array < FW_CHECKPOINT_ARRAYS_MAX; array++)
        for (int32_t i = 0; i < f->table->param_n; i++) {
            fw_piece_tensor t;
            if (!piece_of(&piece[*n], &t, f, &f->table->param[i], array)) continue;
            memcpy(name[*n], t.name, sizeof t.name);
            const fw_piece *p = &piece[*n];
            entry[*n] = (fw_safetensors_entry){name[*n], t.dtype, p->rank, {p->size[0], p->size[1]}};
            ++*n;
        }
    return FW_OK;
}

/* *hashes: 16 digits for each block. */
static fw_status write_piece(const part_file *f, fw_safetensors_writer *w, fw_checkpoint_array array,
                             const fw_param *param, const fw_piece *piece, size_t value_bytes, fw_strbuf *hashes) {
    const int64_t block_n = FW_CHECKPOINT_BLOCK_BYTES / (int64_t)value_bytes;
    const char *values =
        f->share->view == NULL ? NULL : f->share->view(f->share->context, array, param, piece->first_n);
    for (int64_t at = 0; at < piece->n; at += block_n) {
        int64_t n = piece->n - at < block_n ? piece->n - at : block_n;
        if (values == NULL) FW_TRY(f->share->read(f->share->context, array, param, piece->first_n + at, n, f->chunk));
        const void *from = values == NULL ? f->chunk : values + (size_t)at * value_bytes;
        fw_hash_init(&w->hash);                                                    /* of this block from here on */
        FW_TRY(fw_safetensors_writer_put_bytes(w, from, (size_t)n * value_bytes)); /* little-endian: as it is */
        FW_TRY(fw_strbuf_printf(hashes, "%016" PRIx64, fw_hash_value(&w->hash)));
    }
    return FW_OK;
}

static fw_status write_pieces(const part_file *f, fw_safetensors_writer *w, const fw_safetensors_entry *entry,
                              uint64_t start) {
    fw_strbuf hashes = {0};
    fw_status status = FW_OK;
    size_t at = 0;
    for (int array = 0; array < FW_CHECKPOINT_ARRAYS_MAX; array++)
        for (int32_t i = 0; i < f->table->param_n; i++) {
            fw_piece piece;
            fw_piece_tensor t;
            if (!piece_of(&piece, &t, f, &f->table->param[i], array)) continue;
            const uint64_t bytes = (uint64_t)piece.n * t.value_bytes;
            fw_strbuf_clear(&hashes);
            FW_TRY_OR(
                write_piece(f, w, (fw_checkpoint_array)array, &f->table->param[i], &piece, t.value_bytes, &hashes),
                done);
            FW_TRY_OR(fw_manifest_add_piece(f->part, entry[at++].name, f->name, &piece, start, bytes,
                                            fw_strbuf_text(&hashes)),
                      done);
            start += bytes;
        }
done:
    fw_strbuf_fini(&hashes);
    return status;
}

static fw_status write_file(part_file *f) {
    size_t most = (size_t)f->table->param_n * FW_CHECKPOINT_ARRAYS_MAX, n;
    fw_safetensors_writer w = {.file = {.fd = -1}};
    fw_safetensors_entry *entry = NULL;
    fw_piece *piece = NULL;
    char(*name)[FW_PIECE_NAME_BYTES] = NULL, *path = NULL;
    json_t *metadata = NULL;
    fw_status status;
    fw_piece_file_name(f->name, f->share->place, f->file, f->file_n);
    FW_TRY_OR(FW_NEW_ARRAY(entry, most), done);
    FW_TRY_OR(FW_NEW_ARRAY(piece, most), done);
    FW_TRY_OR(FW_NEW_ARRAY(name, most), done);
    FW_TRY_OR(list_pieces(f, entry, piece, name, &n), done);
    FW_TRY_OR(make_metadata(&metadata, entry, piece, n), done);
    FW_TRY_OR(fw_path_join(&path, f->dir, f->name), done);
    FW_TRY_OR(fw_safetensors_writer_open(&w, path, entry, n, metadata), done);
    uint64_t header_bytes = w.hash.total_bytes, header_hash = fw_hash_value(&w.hash);
    FW_TRY_OR(write_pieces(f, &w, entry, header_bytes), done);
    FW_TRY_OR(fw_safetensors_writer_commit(&w), done);
    FW_TRY_OR(fw_manifest_add_shard(f->part, f->name, w.file_bytes, header_bytes, header_hash), done);
done:
    fw_safetensors_writer_close(&w);
    json_decref(metadata);
    fw_free(path);
    fw_free(name);
    fw_free(piece);
    fw_free(entry);
    return status;
}

/* Into how many pieces the share's runs are cut at most. */
static int count_files(const part_file *f) {
    int most = 0;
    for (int32_t i = 0; i < f->table->param_n; i++) {
        fw_piece_tensor tensor[FW_CHECKPOINT_ARRAYS_MAX];
        fw_piece piece[FW_PIECES_MAX];
        fw_piece_tensors(tensor, f->share->optimizer, &f->table->param[i]);
        int n = cut(piece, f, &f->table->param[i], &tensor[0]); /* no array has more than the weights */
        if (n > most) most = n;
    }
    return most;
}

fw_status fw_checkpoint_write_part(json_t **out, const char *dir, const fw_param_table *table,
                                   const fw_checkpoint_share *share) {
    part_file f = {.dir = dir, .table = table, .share = share};
    fw_status status;
    *out = NULL;
    FW_TRY_OR(fw_manifest_make_part(&f.part), fail);
    FW_TRY_OR(fw_calloc(&f.chunk, FW_CHECKPOINT_BLOCK_BYTES, 1), fail);
    f.file_n = count_files(&f);
    for (f.file = 0; f.file < f.file_n; f.file++) FW_TRY_OR(write_file(&f), fail);
    fw_free(f.chunk);
    *out = f.part;
    return FW_OK;
fail:
    fw_free(f.chunk);
    json_decref(f.part);
    return status;
}
