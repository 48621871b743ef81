#include "machine/fields.h"

#include "base/alloc.h"
#include "machine/sysfs.h"

#include <string.h>

static void *member(void *object, const fw_field *f) { return (char *)object + f->offset; }
static const void *member_const(const void *object, const fw_field *f) { return (const char *)object + f->offset; }

void fw_fields_clear(void *object, const fw_field *fields) {
    for (const fw_field *f = fields; f->key != NULL; f++) {
        void *p = member(object, f);
        switch (f->kind) {
        case FW_FIELD_INT: *(int *)p = FW_MACHINE_UNKNOWN; break;
        case FW_FIELD_INT64:
        case FW_FIELD_LIMIT: *(int64_t *)p = FW_MACHINE_UNKNOWN; break;
        case FW_FIELD_DOUBLE: *(double *)p = FW_MACHINE_UNKNOWN; break;
        case FW_FIELD_WORD: *(int *)p = (int)f->min; break;
        case FW_FIELD_TEXT:
        case FW_FIELD_BOOL:
        case FW_FIELD_CHAR:
        case FW_FIELD_BITS: memset(p, 0, f->bytes); break;
        }
    }
}

/* ---- writing ---- */

/* *out = NULL with FW_OK: unknown, nothing is written. */
static fw_status write_one(json_t **out, const void *p, const fw_field *f) {
    char words[256] = "";
    *out = NULL;
    switch (f->kind) {
    case FW_FIELD_TEXT:
        if (((const char *)p)[0] == 0) return FW_OK;
        *out = json_string(p);
        break;
    case FW_FIELD_INT:
        if (*(const int *)p == FW_MACHINE_UNKNOWN) return FW_OK;
        *out = json_integer(*(const int *)p);
        break;
    case FW_FIELD_INT64:
    case FW_FIELD_LIMIT:
        if (*(const int64_t *)p == FW_MACHINE_UNKNOWN) return FW_OK;
        if (f->kind == FW_FIELD_LIMIT && *(const int64_t *)p == FW_MACHINE_UNLIMITED)
            *out = json_string("unlimited");
        else
            *out = json_integer(*(const int64_t *)p);
        break;
    case FW_FIELD_DOUBLE:
        if (*(const double *)p < 0) return FW_OK;
        *out = json_real(*(const double *)p);
        break;
    case FW_FIELD_BOOL: *out = json_boolean(*(const bool *)p); break;
    case FW_FIELD_CHAR:
        if (*(const char *)p == 0) return FW_OK;
        *out = json_stringn(p, 1);
        break;
    case FW_FIELD_WORD:
        if (*(const int *)p < 0) return FW_OK;
        *out = json_string(f->words[*(const int *)p]);
        break;
    case FW_FIELD_BITS:
        for (int i = 0; f->words[i] != NULL; i++)
            if (*(const unsigned *)p & 1u << i)
                snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", words[0] != 0 ? " " : "",
                         f->words[i]);
        if (words[0] == 0) return FW_OK;
        *out = json_string(words);
        break;
    }
    return *out != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "no memory for the snapshot of the machine");
}

fw_status fw_fields_write(json_t **out, const void *object, const fw_field *fields) {
    *out = json_object();
    if (*out == NULL) return fw_fail(FW_ERR_NOMEM, "no memory for the snapshot of the machine");
    for (const fw_field *f = fields; f->key != NULL; f++) {
        json_t *value;
        fw_status status = write_one(&value, member_const(object, f), f);
        if (status == FW_OK && value != NULL && json_object_set_new(*out, f->key, value) != 0)
            status = fw_fail(FW_ERR_NOMEM, "no memory for the snapshot of the machine");
        if (status != FW_OK) {
            json_decref(*out);
            *out = NULL;
            return status;
        }
    }
    return FW_OK;
}

/* ---- reading ---- */

static bool is_known(const char *key, const fw_field *fields, const char *const *extra) {
    for (const fw_field *f = fields; f->key != NULL; f++)
        if (strcmp(f->key, key) == 0) return true;
    for (; extra != NULL && *extra != NULL; extra++)
        if (strcmp(*extra, key) == 0) return true;
    return false;
}

static int find_word(const fw_field *f, const char *word, size_t word_n) {
    for (int i = 0; f->words[i] != NULL; i++)
        if (strlen(f->words[i]) == word_n && memcmp(f->words[i], word, word_n) == 0) return i;
    return -1;
}

static fw_status read_words(unsigned *bits, const fw_field *f, const char *text, const char *where) {
    for (; *text != 0; text += strspn(text, " ")) {
        const size_t n = strcspn(text, " ");
        const int i = find_word(f, text, n);
        if (i < 0) return fw_fail(FW_ERR_INPUT, "%s: %s: \"%.*s\" is not known", where, f->key, (int)n, text);
        *bits |= 1u << i;
        text += n;
    }
    return FW_OK;
}

static fw_status read_text(void *p, const fw_field *f, const char *text, const char *where) {
    char clean[FW_MACHINE_LIST_BYTES];
    const size_t n = strlen(text), most = f->kind == FW_FIELD_CHAR ? 1 : f->bytes - 1;
    if (n > most)
        return fw_fail(FW_ERR_INPUT, "%s: %s has %zu bytes; at most %zu are expected", where, f->key, n, most);
    fw_sysfs_clean(clean, sizeof clean, text, n);
    memcpy(p, clean, f->kind == FW_FIELD_CHAR ? 1 : n + 1);
    return FW_OK;
}

static fw_status read_number(void *p, const json_t *from, const fw_field *f, const char *where) {
    int64_t value;
    FW_TRY(fw_json_get_int(&value, from, f->key, FW_MACHINE_UNKNOWN, f->min, f->max, where));
    if (f->kind == FW_FIELD_INT)
        *(int *)p = (int)value;
    else
        *(int64_t *)p = value;
    return FW_OK;
}

static fw_status read_one(void *p, const json_t *from, const fw_field *f, const char *where) {
    const char *text = NULL;
    if (f->kind == FW_FIELD_INT || f->kind == FW_FIELD_INT64) return read_number(p, from, f, where);
    if (f->kind == FW_FIELD_LIMIT && !json_is_string(json_object_get(from, f->key)))
        return read_number(p, from, f, where);
    if (f->kind == FW_FIELD_BOOL) return fw_json_get_bool(p, from, f->key, false, where);
    if (f->kind == FW_FIELD_DOUBLE)
        return fw_json_get_double(p, from, f->key, FW_MACHINE_UNKNOWN, (double)f->min, (double)f->max, where);
    FW_TRY(fw_json_get_string(&text, from, f->key, NULL, where));
    if (text == NULL) return FW_OK;
    if (f->kind == FW_FIELD_BITS) return read_words(p, f, text, where);
    if (f->kind == FW_FIELD_TEXT || f->kind == FW_FIELD_CHAR) return read_text(p, f, text, where);
    if (f->kind == FW_FIELD_LIMIT) {
        if (strcmp(text, "unlimited") != 0)
            return fw_fail(FW_ERR_INPUT, "%s: %s is \"%.40s\"; it must be a number or \"unlimited\"", where, f->key,
                           text);
        *(int64_t *)p = FW_MACHINE_UNLIMITED;
        return FW_OK;
    }
    const int i = find_word(f, text, strlen(text));
    if (i < 0) return fw_fail(FW_ERR_INPUT, "%s: %s is \"%.40s\", which is not known", where, f->key, text);
    *(int *)p = i;
    return FW_OK;
}

fw_status fw_fields_read(void *object, const json_t *from, const fw_field *fields, const char *const *extra,
                         const char *where) {
    if (!json_is_object(from)) return fw_fail(FW_ERR_INPUT, "%s is not a JSON object", where);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value) {
        if (!is_known(key, fields, extra))
            return fw_fail(FW_ERR_INPUT, "%s: \"%.60s\" is not a key of a machine's snapshot", where, key);
    }
    fw_fields_clear(object, fields);
    for (const fw_field *f = fields; f->key != NULL; f++) FW_TRY(read_one(member(object, f), from, f, where));
    return FW_OK;
}
