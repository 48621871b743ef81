#include "base/json.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;

/* jansson's reader goes on when its buffer for a string could not grow, and then reads and writes behind the buffer. So
 * while it reads, an allocation that failed is tried once more; that one failed is remembered, and reported when jansson is
 * done (fw_alloc_raw_failed). */
static _Thread_local int reading;
static void *allocate(size_t bytes) {
    void *block = fw_alloc_raw(bytes);
    return block == NULL && reading ? malloc(bytes ? bytes : 1) : block;
}
static void install_hooks(void) { json_set_alloc_funcs(allocate, fw_free); }

static json_t *read_text(const char *text, size_t text_bytes, size_t flags, json_error_t *error) {
    reading = 1;
    json_t *value = json_loadb(text, text_bytes, flags, error);
    reading = 0;
    return value;
}

/* JSON sets no bound to integers, and files have them: tokenizer_config.json writes 10^30 for "no limit". jansson
 * refuses what does not fit 64 bits, so such integers are made reals of the same length, digits "ab" at the end
 * becoming "e2": positions in messages stay right, and 17 digits were all a double could hold. */
static void soften_big_integers(char *text, size_t text_bytes) {
    int in_string = 0;
    for (size_t i = 0; i < text_bytes; i++) {
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\') i++;
        if (in_string || !isdigit((unsigned char)text[i])) continue;
        size_t first = i > 0 && text[i - 1] == '-' ? i - 1 : i;
        while (i < text_bytes && isdigit((unsigned char)text[i])) i++;
        if (i < text_bytes && strchr(".eE", text[i]) != NULL && text[i] != 0) { /* a real: go to its end */
            while (i < text_bytes && (isdigit((unsigned char)text[i]) || strchr(".eE+-", text[i]) != NULL) && text[i])
                i++;
        } else if (i - first >= 19) {
            errno = 0;
            strtoll(text + first, NULL, 10); /* the text ends with a zero byte */
            if (errno == ERANGE) memcpy(text + i - 2, "e2", 2);
        }
        i--;
    }
}

static json_t *parse_big_integers(const char *text, size_t text_bytes, size_t flags, json_error_t *error) {
    char *copy = fw_alloc_raw(text_bytes + 1); /* its failure is noticed as jansson's own are */
    if (copy == NULL) return NULL;
    memcpy(copy, text, text_bytes);
    copy[text_bytes] = 0;
    soften_big_integers(copy, text_bytes);
    json_t *value = read_text(copy, text_bytes, flags, error);
    fw_free(copy);
    return value;
}

/* jansson reports positions inside the text it was given; `where` starts at first_line. */
fw_status fw_json_parse_at(json_t **out, const char *text, size_t text_bytes, const char *where, size_t first_line,
                           size_t first_column) {
    pthread_once(&hooks_once, install_hooks);
    *out = NULL;
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        text_bytes -= 3;
    }
    fw_alloc_raw_failed(); /* forget earlier failures */
    json_error_t error = {0};
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *value = fw_json_read(text, text_bytes);
    int failed = fw_alloc_raw_failed();
    if (value == NULL && !failed) value = read_text(text, text_bytes, flags, &error);
    if (value == NULL && !failed && json_error_code(&error) == json_error_numeric_overflow)
        value = parse_big_integers(text, text_bytes, flags, &error);
    if (fw_alloc_raw_failed() || failed) { /* also when there is a value: jansson overlooks a failure inside a string */
        json_decref(value);
        return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", where);
    }
    if (value == NULL) {
        size_t line = error.line > 0 ? (size_t)error.line - 1 : 0, column = error.column > 0 ? (size_t)error.column : 0;
        return fw_fail(FW_ERR_INPUT, "%s:%zu:%zu: not valid JSON: %s", where, first_line + line,
                       line == 0 ? column + first_column - 1 : column, error.text);
    }
    *out = value;
    return FW_OK;
}

fw_status fw_json_parse(json_t **out, const char *text, size_t text_bytes, const char *where, size_t first_line) {
    return fw_json_parse_at(out, text, text_bytes, where, first_line, 1);
}

fw_status fw_json_load(json_t **out, const char *path, size_t limit_bytes) {
    *out = NULL;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(fw_file_read(&text, path, limit_bytes), done);
    FW_TRY_OR(fw_json_parse(out, fw_strbuf_text(&text), text.len_bytes, path, 1), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

static const char *type_name(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a fraction";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "unknown";
}

/* The value, or NULL when it is missing or null. */
static json_t *find(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return value == NULL || json_is_null(value) ? NULL : value;
}

fw_status fw_json_get_int(int64_t *out, const json_t *object, const char *key, int64_t fallback, int64_t min,
                          int64_t max, const char *where) {
    *out = fallback;
    const json_t *value = find(object, key);
    if (value == NULL) return FW_OK;
    if (json_is_real(value) && (json_real_value(value) >= 0x1p63 || json_real_value(value) < -0x1p63))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %g; it must be from %lld to %lld", where, key,
                       json_real_value(value), (long long)min, (long long)max);
    if (!json_is_integer(value))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %s; an integer is needed", where, key, type_name(value));
    int64_t number = json_integer_value(value);
    if (number < min || number > max)
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %lld; it must be from %lld to %lld", where, key, (long long)number,
                       (long long)min, (long long)max);
    *out = number;
    return FW_OK;
}

fw_status fw_json_need_int(int64_t *out, const json_t *object, const char *key, int64_t min, int64_t max,
                           const char *where) {
    if (find(object, key) == NULL) return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is missing", where, key);
    return fw_json_get_int(out, object, key, 0, min, max, where);
}

fw_status fw_json_get_double(double *out, const json_t *object, const char *key, double fallback, double min,
                             double max, const char *where) {
    *out = fallback;
    const json_t *value = find(object, key);
    if (value == NULL) return FW_OK;
    if (!json_is_number(value))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %s; a number is needed", where, key, type_name(value));
    double number = json_number_value(value);
    if (!(number >= min && number <= max))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %g; it must be from %g to %g", where, key, number, min, max);
    *out = number;
    return FW_OK;
}

fw_status fw_json_get_bool(bool *out, const json_t *object, const char *key, bool fallback, const char *where) {
    *out = fallback;
    const json_t *value = find(object, key);
    if (value == NULL) return FW_OK;
    if (!json_is_boolean(value))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %s; true or false is needed", where, key, type_name(value));
    *out = json_is_true(value);
    return FW_OK;
}

fw_status fw_json_get_string(const char **out, const json_t *object, const char *key, const char *fallback,
                             const char *where) {
    *out = fallback;
    const json_t *value = find(object, key);
    if (value == NULL) return FW_OK;
    if (!json_is_string(value))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" is %s; a string is needed", where, key, type_name(value));
    if (strlen(json_string_value(value)) != json_string_length(value))
        return fw_fail(FW_ERR_INPUT, "%s: \"%s\" has a zero byte in it", where, key);
    *out = json_string_value(value);
    return FW_OK;
}

static bool has_real(const json_t *value) {
    if (json_is_real(value)) return true;
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)value, key, member) if (has_real(member)) return true;
    json_array_foreach(value, i, member) if (has_real(member)) return true;
    return false;
}

fw_status fw_json_dump(fw_strbuf *out, const json_t *value, size_t flags) {
    pthread_once(&hooks_once, install_hooks);
    bool reals = has_real(value);
    for (size_t digits = reals ? 15 : 17;; digits++) {
        fw_alloc_raw_failed(); /* forget earlier failures */
        char *text = json_dumps(value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *again = NULL;
        if (text != NULL && digits < 17) again = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        bool same = digits == 17 || json_equal(value, again);
        json_decref(again);
        /* jansson overlooks a failure while it writes a key or reads a string: a piece would be lost. */
        int failed = fw_alloc_raw_failed();
        fw_status status = FW_OK;
        if (text == NULL || failed)
            status = fw_fail(FW_ERR_NOMEM, "out of memory while writing JSON");
        else if (same)
            status = fw_strbuf_puts(out, text);
        fw_free(text);
        if (same || status != FW_OK) return status;
    }
}

json_t *fw_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

fw_status fw_json_save(const json_t *value, const char *path) {
    fw_strbuf s = {0};
    fw_status status;
    FW_TRY_OR(fw_json_dump(&s, value, JSON_INDENT(2)), done);
    FW_TRY_OR(fw_strbuf_putc(&s, '\n'), done);
    FW_TRY_OR(fw_file_write(path, s.data, s.len_bytes), done);
done:
    fw_strbuf_fini(&s);
    return status;
}
