#include "store/manifest.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_VERSION = 1, MANIFEST_LIMIT_BYTES = 64 << 20, FILE_MAX = 100000 };
static const char FORMAT[] = "finewire-checkpoint";

static fw_status nomem(void) { return fw_fail(FW_ERR_NOMEM, "out of memory while making a checkpoint's manifest"); }

/* Sets key to value, which is given away. */
static fw_status set(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0 ? FW_OK : nomem();
}

static json_t *hex(uint64_t value) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

static fw_status parse_hex(uint64_t *out, const json_t *value, const char *where, const char *key) {
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" must be 16 hexadecimal digits", where, key);
    *out = strtoull(text, NULL, 16);
    return FW_OK;
}

fw_status fw_manifest_make(json_t **out, const fw_checkpoint_state *s, const fw_param_table *table) {
    json_t *m = json_object();
    fw_status status;
    FW_TRY_OR(set(m, "format", json_string(FORMAT)), fail);
    FW_TRY_OR(set(m, "format_version", json_integer(FORMAT_VERSION)), fail);
    FW_TRY_OR(set(m, "finewire_version", json_string(FW_VERSION)), fail);
    FW_TRY_OR(set(m, "step", json_integer(s->step)), fail);
    FW_TRY_OR(set(m, "optimizer_step", json_integer(s->optimizer_step)), fail);
    FW_TRY_OR(set(m, "epoch", json_real(s->epoch)), fail);
    FW_TRY_OR(set(m, "epoch_i", json_integer(s->epoch_i)), fail);
    FW_TRY_OR(set(m, "position", json_integer(s->position)), fail);
    FW_TRY_OR(set(m, "seed", hex(s->seed)), fail);
    FW_TRY_OR(set(m, "data_seed", hex(s->data_seed)), fail);
    FW_TRY_OR(set(m, "data_hash", hex(s->data_hash)), fail);
    FW_TRY_OR(set(m, "world_size", json_integer(s->world_size)), fail);
    FW_TRY_OR(set(m, "parameter_n", json_integer(table->parameter_n)), fail);
    if (s->options != NULL) FW_TRY_OR(set(m, "options", json_incref(s->options)), fail);
    if (s->extra != NULL) FW_TRY_OR(set(m, "extra", json_incref(s->extra)), fail);
    FW_TRY_OR(set(m, "files", json_object()), fail);
    *out = m;
    return FW_OK;
fail:
    json_decref(m);
    *out = NULL;
    return status;
}

fw_status fw_manifest_add_file(json_t *manifest, const char *name, uint64_t bytes, uint64_t hash) {
    json_t *file = json_object();
    fw_status status;
    FW_TRY_OR(set(file, "bytes", json_integer((json_int_t)bytes)), fail);
    FW_TRY_OR(set(file, "xxh64", hex(hash)), fail);
    return set(json_object_get(manifest, "files"), name, file);
fail:
    json_decref(file);
    return status;
}

static fw_status own_hash(uint64_t *out, const json_t *manifest) {
    fw_strbuf text = {0};
    fw_status status = fw_json_dump(&text, manifest, JSON_COMPACT);
    if (status == FW_OK) *out = fw_hash_bytes(text.data, text.len_bytes);
    fw_strbuf_fini(&text);
    return status;
}

fw_status fw_manifest_save(json_t *manifest, const char *dir) {
    uint64_t hash = 0;
    FW_TRY(own_hash(&hash, manifest));
    FW_TRY(set(manifest, "manifest_xxh64", hex(hash)));
    char *path;
    FW_TRY(fw_path_join(&path, dir, "manifest.json"));
    fw_status status = fw_json_save(manifest, path);
    fw_free(path);
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
        uint64_t hash;
        if (!json_is_object(file)) return fw_fail(FW_ERR_INPUT, "%s: \"%.200s\" is not an object", where, name);
        FW_TRY(fw_json_need_int(&bytes, file, "bytes", 0, INT64_MAX, where));
        FW_TRY(parse_hex(&hash, json_object_get(file, "xxh64"), where, "xxh64"));
    }
    return FW_OK;
}

fw_status fw_manifest_parse(json_t **out, const char *text, size_t text_bytes, const char *where) {
    *out = NULL;
    json_t *m = NULL;
    fw_status status;
    FW_TRY_OR(fw_json_parse(&m, text, text_bytes, where, 1), fail);
    const char *format = json_string_value(json_object_get(m, "format"));
    if (format == NULL || strcmp(format, FORMAT) != 0) {
        status = fw_fail(FW_ERR_INPUT, "%s: \"format\" is not \"%s\": not the manifest of a checkpoint", where, FORMAT);
        goto fail;
    }
    int64_t version;
    FW_TRY_OR(fw_json_need_int(&version, m, "format_version", 1, INT32_MAX, where), fail);
    if (version > FORMAT_VERSION) {
        status = fw_fail(FW_ERR_INPUT, "%s: format version %d, this finewire reads up to %d; use a newer finewire",
                         where, (int)version, FORMAT_VERSION);
        goto fail;
    }
    uint64_t said = 0, is = 0;
    FW_TRY_OR(parse_hex(&said, json_object_get(m, "manifest_xxh64"), where, "manifest_xxh64"), fail);
    json_object_del(m, "manifest_xxh64");
    FW_TRY_OR(own_hash(&is, m), fail);
    if (said != is) {
        status = fw_fail(FW_ERR_INPUT, "%s: the manifest is damaged: its checksum is %016" PRIx64 ", not %016" PRIx64,
                         where, is, said);
        goto fail;
    }
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
    FW_TRY(parse_hex(&s.seed, json_object_get(m, "seed"), where, "seed"));
    FW_TRY(parse_hex(&s.data_seed, json_object_get(m, "data_seed"), where, "data_seed"));
    FW_TRY(parse_hex(&s.data_hash, json_object_get(m, "data_hash"), where, "data_hash"));
    s.options = json_incref(json_object_get(m, "options"));
    s.extra = json_incref(json_object_get(m, "extra"));
    *out = s;
    return FW_OK;
}
