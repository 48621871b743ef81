/* The file of measurements:
 *
 *     {"format": "finewire measured 1",
 *      "records": [{"what": "all_reduce", "host": "...", "device": "cpu", "transport": "shm", "world": 2, "threads": 1,
 *                   "dtype": "fp32", "date": "2026-11-29", "points": [[4096, 1.2e-05], [8192, 1.3e-05]]}]}
 *
 * A point is amount and seconds. Whoever may write the user's configuration may write it, but it may also be of another
 * version or broken: all of it is checked. */
#include "machine/measured.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_LIMIT_BYTES = 32 << 20, WORLD_MOST = 1 << 20, THREADS_MOST = 4096 };
static const char format[] = "finewire measured 1";

fw_status fw_measured_path(char **out, const char *given) {
    const char *named = given != NULL && given[0] != 0 ? given : getenv("FINEWIRE_MEASURED");
    if (named != NULL && named[0] != 0) return fw_strdup(out, named);
    const char *config = getenv("XDG_CONFIG_HOME");
    if (config != NULL && config[0] == '/') return fw_path_join(out, config, "finewire/measured.json");
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == 0)
        return fw_fail(FW_ERR_OPTION, "there is no place for measurements: HOME is not set; name a file with "
                                      "--measured PATH, or set FINEWIRE_MEASURED");
    return fw_path_join(out, home, ".config/finewire/measured.json");
}

/* A text of the record, at most bytes - 1 long; without it "". */
static fw_status read_text(char *out, size_t bytes, const json_t *object, const char *key, const char *where) {
    const char *text;
    FW_TRY(fw_json_get_string(&text, object, key, "", where));
    if (strlen(text) >= bytes)
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" has %zu bytes; at most %zu are allowed", where, key, strlen(text),
                       bytes - 1);
    memcpy(out, text, strlen(text) + 1);
    return FW_OK;
}

static fw_status read_what(fw_measured_what *out, const json_t *object, const char *where) {
    const char *name;
    FW_TRY(fw_json_get_string(&name, object, "what", "", where));
    for (int i = 0; i < FW_MEASURED_WHAT_N; i++)
        if (strcmp(name, fw_measured_name((fw_measured_what)i)) == 0) {
            *out = (fw_measured_what)i;
            return FW_OK;
        }
    return fw_fail(FW_ERR_INPUT, "%s: \"what\" is \"%.50s\"; all_reduce, gemm and others are known", where, name);
}

static fw_status read_dtype(fw_dtype *out, const json_t *object, const char *where) {
    const char *name;
    FW_TRY(fw_json_get_string(&name, object, "dtype", "", where));
    *out = FW_DTYPE_N;
    if (strcmp(name, "fp32") == 0) *out = FW_F32;
    if (strcmp(name, "bf16") == 0) *out = FW_BF16;
    if (*out == FW_DTYPE_N && name[0] != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"dtype\" is \"%.50s\"; it must be fp32 or bf16", where, name);
    return FW_OK;
}

static fw_status read_points(fw_measured_record *out, const json_t *object, const char *where) {
    const json_t *points = json_object_get(object, "points");
    const size_t n = json_array_size(points);
    if (n < 1 || n > FW_MEASURED_POINTS)
        return fw_fail(FW_ERR_INPUT, "%s: \"points\" must be a list of 1 to %d pairs", where, FW_MEASURED_POINTS);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(points, i);
        const double amount = json_number_value(json_array_get(pair, 0));
        const double seconds = json_number_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || !(amount > 0 && amount < 1e30) || !(seconds > 0 && seconds < 1e30))
            return fw_fail(FW_ERR_INPUT, "%s: point %zu must be [amount, seconds], both numbers above 0", where, i);
        if (i > 0 && amount <= out->point[i - 1].amount)
            return fw_fail(FW_ERR_INPUT, "%s: the amount of point %zu is %g, which is not above the one before", where,
                           i, amount);
        out->point[i] = (fw_measured_point){amount, seconds};
    }
    out->point_n = (int)n;
    return FW_OK;
}

static fw_status read_record(fw_measured_record *out, const json_t *object, const char *where) {
    if (!json_is_object(object)) return fw_fail(FW_ERR_INPUT, "%s: it must be an object", where);
    *out = (fw_measured_record){0};
    fw_measured_key *key = &out->key;
    int64_t world, thread_n;
    FW_TRY(read_what(&key->what, object, where));
    FW_TRY(read_text(key->host, sizeof key->host, object, "host", where));
    FW_TRY(read_text(key->device, sizeof key->device, object, "device", where));
    FW_TRY(read_text(key->transport, sizeof key->transport, object, "transport", where));
    FW_TRY(read_text(out->date, sizeof out->date, object, "date", where));
    FW_TRY(fw_json_need_int(&world, object, "world", 1, WORLD_MOST, where));
    FW_TRY(fw_json_get_int(&thread_n, object, "threads", 0, 0, THREADS_MOST, where));
    key->world = (int)world;
    key->thread_n = (int)thread_n;
    FW_TRY(read_dtype(&key->dtype, object, where));
    return read_points(out, object, where);
}

static fw_status read_records(fw_measured *out, const json_t *file, const char *path) {
    const char *found;
    if (!json_is_object(file)) return fw_fail(FW_ERR_INPUT, "%s: it must be an object", path);
    FW_TRY(fw_json_get_string(&found, file, "format", "", path));
    if (strcmp(found, format) != 0)
        return fw_fail(FW_ERR_INPUT,
                       "%s: \"format\" is \"%.50s\" and not \"%s\": another version of finewire wrote it, or it is no "
                       "file of measurements; remove it, or name another with --measured",
                       path, found, format);
    const json_t *records = json_object_get(file, "records");
    if (!json_is_array(records)) return fw_fail(FW_ERR_INPUT, "%s: \"records\" must be a list", path);
    for (size_t i = 0; i < json_array_size(records); i++) {
        char where[600];
        fw_measured_record record;
        snprintf(where, sizeof where, "%.500s: records[%zu]", path, i);
        FW_TRY(read_record(&record, json_array_get(records, i), where));
        FW_TRY(fw_measured_put(out, &record));
    }
    return FW_OK;
}

fw_status fw_measured_parse(fw_measured *out, const char *text, size_t text_bytes, const char *where) {
    json_t *file = NULL;
    fw_status status;
    *out = (fw_measured){0};
    FW_TRY_OR(fw_json_parse(&file, text, text_bytes, where, 1), done);
    FW_TRY_OR(read_records(out, file, where), done);
done:
    json_decref(file);
    if (status != FW_OK) fw_measured_fini(out);
    return status;
}

fw_status fw_measured_load(fw_measured *out, const char *path) {
    fw_strbuf text = {0};
    fw_status status;
    *out = (fw_measured){0};
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) return FW_OK;
    FW_TRY_OR(fw_file_read(&text, path, FILE_LIMIT_BYTES), done);
    FW_TRY_OR(fw_measured_parse(out, fw_strbuf_text(&text), text.len_bytes, path), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

/* Lists are made by hand: json_pack loses one that it cannot fill. Not 0: memory ran out. */
static int append_point(json_t *points, const fw_measured_point *p) {
    json_t *pair = json_array();
    if (json_array_append_new(points, pair) != 0) return 1;
    return json_array_append_new(pair, json_real(p->amount)) != 0 ||
           json_array_append_new(pair, json_real(p->seconds)) != 0;
}

/* NULL when memory ran out. */
static json_t *record_to_json(const fw_measured_record *r) {
    const fw_measured_key *key = &r->key;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s}", "what", fw_measured_name(key->what), "host", key->host,
                  "device", key->device, "transport", key->transport, "world", key->world, "threads", key->thread_n,
                  "dtype", key->dtype == FW_DTYPE_N ? "" : fw_dtype_name(key->dtype), "date", r->date);
    json_t *points = json_array();
    bool good = json_object_set_new(object, "points", points) == 0;
    for (int i = 0; good && i < r->point_n; i++) good = append_point(points, &r->point[i]) == 0;
    if (good) return object;
    json_decref(object);
    return NULL;
}

static fw_status make_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) return FW_OK;
    char *folder;
    FW_TRY(fw_strndup(&folder, path, (size_t)(slash - path)));
    fw_status status = fw_dir_make(folder);
    fw_free(folder);
    return status;
}

fw_status fw_measured_save(const fw_measured *m, const char *path) {
    json_t *file;
    fw_status status;
    FW_TRY(fw_json_parse(&file, "{}", 2, "measured", 1)); /* not json_object(): this installs our allocator */
    bool good = json_object_set_new(file, "format", json_string(format)) == 0;
    json_t *records = json_array();
    good = json_object_set_new(file, "records", records) == 0 && good; /* given away in any case */
    for (int i = 0; good && i < m->record_n; i++)
        good = json_array_append_new(records, record_to_json(&m->record[i])) == 0;
    if (!good) FW_TRY_OR(fw_fail(FW_ERR_NOMEM, "out of memory while writing down measurements"), done);
    FW_TRY_OR(make_folder_of(path), done);
    FW_TRY_OR(fw_json_save(file, path), done);
done:
    json_decref(file);
    return status;
}
