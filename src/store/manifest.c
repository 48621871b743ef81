#include "store/manifest.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/plural.h"
#include "store/checkpoint_names.h"
#include "store/checkpoint_pieces.h"
#include "store/checkpoint_tools.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FORMAT_VERSION = 3, FORMAT_VERSION_MIN = 2, MANIFEST_LIMIT_BYTES = 256 << 20, FILE_MAX = 100000 };

fw_status fw_manifest_hex(uint64_t *out, const json_t *object, const char *key, const char *where) {
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" must be 16 hexadecimal digits", where, key);
    *out = strtoull(text, NULL, 16);
    return FW_OK;
}

/* Sets key to value, which is given away. */
static fw_status set(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0) return FW_OK;
    return fw_fail(FW_ERR_NOMEM, "out of memory while making a checkpoint's manifest");
}

static json_t *hex(uint64_t value) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

/* Every tensor with its shape, still without pieces. */
static fw_status add_tensors(json_t *manifest, const fw_param_table *table, fw_optimizer optimizer) {
    json_t *tensors = json_object();
    FW_TRY(set(manifest, "tensors", tensors));
    for (int array = 0; array < FW_CHECKPOINT_ARRAYS_MAX; array++)
        for (int32_t i = 0; i < table->param_n; i++) {
            fw_piece_tensor tensor[FW_CHECKPOINT_ARRAYS_MAX];
            if (array >= fw_piece_tensors(tensor, optimizer, &table->param[i])) continue;
            const fw_param *p = &tensor[array].shape;
            json_t *shape = p->cols == 0 ? json_pack("[I]", (json_int_t)p->rows)
                                         : json_pack("[I, I]", (json_int_t)p->rows, (json_int_t)p->cols);
            FW_TRY(set(tensors, tensor[array].name,
                       json_pack("{s:s, s:o, s:[]}", "dtype", fw_stored_dtype_name(tensor[array].dtype), "shape", shape,
                                 "pieces")));
        }
    return FW_OK;
}

static json_t *now(void) {
    char text[32];
    time_t t = time(NULL);
    struct tm utc;
    gmtime_r(&t, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

fw_status fw_manifest_make(json_t **out, const fw_checkpoint_state *s, const fw_param_table *table) {
    json_t *m = json_object();
    fw_status status;
    FW_TRY_OR(set(m, "format", json_string(FW_CHECKPOINT_FORMAT)), fail);
    FW_TRY_OR(set(m, "format_version", json_integer(FORMAT_VERSION)), fail);
    FW_TRY_OR(set(m, "finewire_version", json_string(FW_VERSION)), fail);
    FW_TRY_OR(set(m, "saved_at", now()), fail);
    FW_TRY_OR(set(m, "step", json_integer(s->step)), fail);
    FW_TRY_OR(set(m, "optimizer", json_string(fw_optimizer_name(s->optimizer))), fail);
    FW_TRY_OR(set(m, "optimizer_step", json_integer(s->optimizer_step)), fail);
    FW_TRY_OR(set(m, "epoch", json_real(s->epoch)), fail);
    FW_TRY_OR(set(m, "epoch_i", json_integer(s->epoch_i)), fail);
    FW_TRY_OR(set(m, "position", json_integer(s->position)), fail);
    FW_TRY_OR(set(m, "seed", hex(s->seed)), fail);
    FW_TRY_OR(set(m, "data_seed", hex(s->data_seed)), fail);
    FW_TRY_OR(set(m, "data_hash", hex(s->data_hash)), fail);
    FW_TRY_OR(set(m, "world_size", json_integer(s->world_size)), fail);
    FW_TRY_OR(set(m, "strategy", json_string(s->strategy)), fail);
    FW_TRY_OR(set(m, "parameter_n", json_integer(table->parameter_n)), fail);
    FW_TRY_OR(set(m, "block_bytes", json_integer(FW_CHECKPOINT_BLOCK_BYTES)), fail);
    if (s->options != NULL) FW_TRY_OR(set(m, "options", json_incref(s->options)), fail);
    if (s->run != NULL) FW_TRY_OR(set(m, "run", json_incref(s->run)), fail);
    if (s->schedule != NULL) FW_TRY_OR(set(m, "schedule", json_incref(s->schedule)), fail);
    if (s->metrics != NULL) FW_TRY_OR(set(m, "metrics", json_incref(s->metrics)), fail);
    FW_TRY_OR(set(m, "files", json_object()), fail);
    FW_TRY_OR(add_tensors(m, table, s->optimizer), fail);
    *out = m;
    return FW_OK;
fail:
    json_decref(m);
    *out = NULL;
    return status;
}

static fw_status put_key(fw_strbuf *out, const char *key) {
    json_t *text = json_string(key);
    fw_status status = text == NULL ? fw_fail(FW_ERR_NOMEM, "out of memory while writing a manifest")
                                    : fw_json_dump(out, text, JSON_ENCODE_ANY);
    json_decref(text);
    return status == FW_OK ? fw_strbuf_puts(out, ": ") : status;
}

/* A member a line, which is what people can read and diff; below that, compact. */
static fw_status put_members(fw_strbuf *out, const json_t *object, const char *indent, bool nested) {
    const char *key, *comma = "";
    json_t *value;
    FW_TRY(fw_strbuf_puts(out, "{"));
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        FW_TRY(fw_strbuf_printf(out, "%s\n%s", comma, indent));
        FW_TRY(put_key(out, key));
        comma = ",";
        if (nested && (strcmp(key, "files") == 0 || strcmp(key, "tensors") == 0)) {
            FW_TRY(put_members(out, value, "    ", false));
            FW_TRY(fw_strbuf_puts(out, "\n  }"));
        } else
            FW_TRY(fw_json_dump(out, value, JSON_COMPACT | JSON_ENCODE_ANY));
    }
    return FW_OK;
}

fw_status fw_manifest_seal(fw_strbuf *text) {
    uint64_t hash = fw_hash_bytes(text->data, text->len_bytes);
    return fw_strbuf_printf(text, "\"manifest_xxh64\": \"%016" PRIx64 "\"\n}\n", hash);
}

fw_status fw_manifest_save(const json_t *manifest, const char *dir) {
    fw_strbuf text = {0};
    char *path = NULL;
    fw_status status;
    FW_TRY_OR(put_members(&text, manifest, "  ", true), done);
    FW_TRY_OR(fw_strbuf_puts(&text, ",\n  "), done);
    FW_TRY_OR(fw_manifest_seal(&text), done);
    FW_TRY_OR(fw_path_join(&path, dir, "manifest.json"), done);
    FW_TRY_OR(fw_file_write(path, text.data, text.len_bytes), done);
done:
    fw_strbuf_fini(&text);
    fw_free(path);
    return status;
}

/* The last line and its checksum of all before it. */
static fw_status check_seal(const char *text, size_t text_bytes, const char *where) {
    enum { SEAL_BYTES = 39 }; /* "manifest_xxh64": "16 digits"\n}\n */
    fw_strbuf want = {0};
    fw_status status = FW_OK;
    if (text_bytes < SEAL_BYTES || memcmp(text + text_bytes - SEAL_BYTES, "\"manifest_xxh64\": ", 18) != 0)
        return fw_fail(FW_ERR_INPUT, "%s: the manifest is damaged: it does not end with \"manifest_xxh64\"", where);
    size_t body_bytes = text_bytes - SEAL_BYTES;
    FW_TRY_OR(fw_strbuf_append(&want, text, body_bytes), done);
    FW_TRY_OR(fw_manifest_seal(&want), done);
    if (memcmp(text + body_bytes, want.data + body_bytes, SEAL_BYTES) != 0)
        status = fw_fail(FW_ERR_INPUT, "%s: the manifest is damaged: its checksum is %.16s, not %.16s", where,
                         want.data + body_bytes + 19, text + body_bytes + 19);
done:
    fw_strbuf_fini(&want);
    return status;
}

static fw_status check_files(const json_t *manifest, const char *where) {
    json_t *files = json_object_get(manifest, "files");
    if (!json_is_object(files) || json_object_size(files) == 0 || json_object_size(files) > FILE_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"files\" is missing or empty", where);
    const char *name;
    json_t *file;
    json_object_foreach(files, name, file) {
        if (name[0] == 0 || name[0] == '.' || strchr(name, '/') != NULL)
            return fw_fail(FW_ERR_INPUT, "%s: \"files\" has \"%.200s\", which is not a plain name", where, name);
        int64_t bytes;
        if (!json_is_object(file)) return fw_fail(FW_ERR_INPUT, "%s: \"%.200s\" is not an object", where, name);
        FW_TRY(fw_json_need_int(&bytes, file, "bytes", 0, INT64_MAX, where));
    }
    return FW_OK;
}

fw_status fw_manifest_parse(json_t **out, const char *text, size_t text_bytes, const char *where) {
    *out = NULL;
    json_t *m = NULL;
    fw_status status;
    FW_TRY_OR(fw_json_parse(&m, text, text_bytes, where, 1), fail);
    const char *format = json_string_value(json_object_get(m, "format"));
    if (format == NULL || strcmp(format, FW_CHECKPOINT_FORMAT) != 0) {
        status = fw_fail(FW_ERR_INPUT, "%s: \"format\" is not \"%s\": not the manifest of a checkpoint", where,
                         FW_CHECKPOINT_FORMAT);
        goto fail;
    }
    int64_t version;
    FW_TRY_OR(fw_json_need_int(&version, m, "format_version", 1, INT32_MAX, where), fail);
    if (version > FORMAT_VERSION) {
        FW_TRY_OR(check_seal(text, text_bytes, where), fail); /* else the number is what is damaged */
        status = fw_fail(FW_ERR_OPTION, "%s: format version %d, this finewire reads up to %d; use a newer finewire",
                         where, (int)version, FORMAT_VERSION);
        goto fail;
    }
    if (version < FORMAT_VERSION_MIN) {
        status = fw_fail(FW_ERR_INPUT,
                         "%s: format version %d, of a finewire before 0.1.0, which no released one reads; train from "
                         "its model.safetensors with --model, into another --output_dir",
                         where, (int)version);
        goto fail;
    }
    FW_TRY_OR(check_seal(text, text_bytes, where), fail);
    json_object_del(m, "manifest_xxh64");
    FW_TRY_OR(check_files(m, where), fail);
    *out = m;
    return FW_OK;
fail:
    json_decref(m);
    return status;
}

static fw_status check_sizes(const json_t *manifest, const char *dir) {
    const char *name;
    json_t *file;
    json_object_foreach(json_object_get(manifest, "files"), name, file) {
        char *path;
        FW_TRY(fw_path_join(&path, dir, name));
        int64_t bytes = json_integer_value(json_object_get(file, "bytes"));
        fw_mapping mapping = {0};
        fw_status status;
        if (!fw_file_exists(path))
            status = fw_fail(FW_ERR_INPUT, "%s is missing: the checkpoint's manifest names it", path);
        else
            status = fw_file_map(&mapping, path);
        if (status == FW_OK && mapping.bytes != (size_t)bytes)
            status = fw_fail(FW_ERR_INPUT, "%s has %zu byte%s, the checkpoint's manifest says %" PRId64, path,
                             mapping.bytes, fw_plural((int64_t)mapping.bytes), bytes);
        fw_file_unmap(&mapping);
        fw_free(path);
        FW_TRY(status);
    }
    return FW_OK;
}

fw_status fw_manifest_load(json_t **out, const char *dir) {
    *out = NULL;
    char *path = NULL;
    fw_strbuf text = {0};
    json_t *m = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&path, dir, "manifest.json"), done);
    if (!fw_file_exists(path)) {
        FW_TRY_OR(fw_checkpoint_refuse_foreign(dir), done);
        status = fw_fail(FW_ERR_INPUT, "%s is missing: %s is not a complete checkpoint", path, dir);
        goto done;
    }
    FW_TRY_OR(fw_file_read(&text, path, MANIFEST_LIMIT_BYTES), done);
    FW_TRY_OR(fw_manifest_parse(&m, fw_strbuf_text(&text), text.len_bytes, path), done);
    FW_TRY_OR(check_sizes(m, dir), done);
    *out = m;
    m = NULL;
done:
    json_decref(m);
    fw_strbuf_fini(&text);
    fw_free(path);
    return status;
}

fw_status fw_manifest_state(fw_checkpoint_state *out, const json_t *m, const char *where) {
    fw_checkpoint_state s = {0};
    FW_TRY(fw_json_need_int(&s.step, m, "step", 0, INT64_MAX, where));
    FW_TRY(fw_json_need_int(&s.optimizer_step, m, "optimizer_step", 0, INT64_MAX, where));
    FW_TRY(fw_json_get_double(&s.epoch, m, "epoch", 0, 0, 1e18, where));
    FW_TRY(fw_json_need_int(&s.epoch_i, m, "epoch_i", 0, INT64_MAX, where));
    FW_TRY(fw_json_need_int(&s.position, m, "position", 0, INT64_MAX, where));
    FW_TRY(fw_json_need_int(&s.world_size, m, "world_size", 1, INT32_MAX, where));
    FW_TRY(fw_manifest_hex(&s.seed, m, "seed", where));
    FW_TRY(fw_manifest_hex(&s.data_seed, m, "data_seed", where));
    FW_TRY(fw_manifest_hex(&s.data_hash, m, "data_hash", where));
    const char *strategy;
    FW_TRY(fw_json_get_string(&strategy, m, "strategy", "", where));
    snprintf(s.strategy, sizeof s.strategy, "%s", strategy);
    const char *optimizer;
    FW_TRY(fw_json_get_string(&optimizer, m, "optimizer", fw_optimizer_name(FW_OPTIMIZER_ADAMW), where));
    s.optimizer = fw_optimizer_by_name(optimizer);
    if (s.optimizer == FW_OPTIMIZER_N)
        return fw_fail(FW_ERR_INPUT, "%s: \"optimizer\" is \"%.40s\", which this finewire does not know", where,
                       optimizer);
    s.options = json_incref(json_object_get(m, "options"));
    s.run = json_incref(json_object_get(m, "run"));
    s.schedule = json_incref(json_object_get(m, "schedule"));
    s.metrics = json_incref(json_object_get(m, "metrics"));
    *out = s;
    return FW_OK;
}
