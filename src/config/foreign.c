#include "config/foreign.h"

#include "base/file.h"
#include "base/nearest.h"
#include "config/lookup.h"

#include <stdio.h>
#include <string.h>

/* The leaf's path as the rows write it; NULL: it is not below. */
static const char *path_of(const fw_foreign *f, const fw_leaf *leaf) {
    size_t n = strlen(f->below);
    return strncmp(leaf->path, f->below, n) == 0 ? leaf->path + n : NULL;
}

const fw_leaf *fw_foreign_find(const fw_foreign *f, const char *path) {
    for (size_t i = 0; i < f->leaves->n; i++) {
        const char *own = path_of(f, &f->leaves->leaf[i]);
        if (own != NULL && strcmp(own, path) == 0) return &f->leaves->leaf[i];
    }
    return NULL;
}

static fw_option_place place_of(const fw_foreign *f, const fw_leaf *leaf) {
    return (fw_option_place){f->where, leaf->line};
}

fw_status fw_foreign_refuse(const fw_foreign *f, const fw_leaf *leaf, const char *remark) {
    char label[FW_LABEL_BYTES];
    return fw_fail(FW_ERR_OPTION, "%s is %.100s; %s", fw_option_label(label, leaf->path, place_of(f, leaf)),
                   leaf->null ? "null" : leaf->text, remark);
}

/* ---- setting an option ---- */

static bool same_value(const fw_options *a, const fw_options *b, const fw_option_info *info) {
    const char *x = (const char *)a + info->offset, *y = (const char *)b + info->offset;
    switch (info->type) {
    case FW_TYPE_BOOL: return memcmp(x, y, sizeof(bool)) == 0;
    case FW_TYPE_INT:
    case FW_TYPE_SIZE: return memcmp(x, y, sizeof(int64_t)) == 0;
    case FW_TYPE_FLOAT: return memcmp(x, y, sizeof(double)) == 0;
    case FW_TYPE_CHOICE: return memcmp(x, y, sizeof(int)) == 0;
    case FW_TYPE_TEXT:
    case FW_TYPE_PATH: {
        char *s, *t;
        memcpy(&s, x, sizeof s);
        memcpy(&t, y, sizeof t);
        return s != NULL && t != NULL && strcmp(s, t) == 0;
    }
    }
    return false;
}

/* Check a value that is not stored; it must be the option's where `must_agree`. */
static fw_status compare(const fw_foreign *f, const fw_leaf *leaf, fw_option_id id, const fw_option_spelling *spelling,
                         const char *text, bool must_agree) {
    const fw_option_info *info = fw_option_get(id);
    fw_options other = {.command = f->o->command};
    char label[FW_LABEL_BYTES], origin[FW_LABEL_BYTES];
    fw_status status;
    FW_TRY_OR(fw_option_set(&other, id, spelling, leaf->path, text, place_of(f, leaf), true), done);
    if (must_agree && !same_value(&other, f->o, info))
        status = fw_fail(FW_ERR_OPTION, "%s is %.100s, which contradicts %s (%s); make them equal, or leave out one",
                         fw_option_label(label, leaf->path, place_of(f, leaf)), leaf->text, info->name,
                         fw_options_origin(f->o, id, origin, sizeof origin));
done:
    fw_options_fini(&other);
    return status;
}

fw_status fw_foreign_set(fw_foreign *f, const fw_leaf *leaf, const char *option, const char *text) {
    fw_option_id id;
    const fw_option_spelling *spelling;
    fw_option_place place = place_of(f, leaf);
    FW_TRY(fw_option_find(&id, &spelling, fw_option_reader(f->o->command, option), option, place));
    const fw_option_origin given = f->o->origin[id].from;
    if (given == FW_FROM_FILE) return compare(f, leaf, id, spelling, text, true);
    if (given > f->from || (given != FW_FROM_DEFAULT && f->gives_way))
        return compare(f, leaf, id, spelling, text, false);
    if (given == f->from) return compare(f, leaf, id, spelling, text, true);
    FW_TRY(fw_option_set(f->o, id, spelling, leaf->path, text, place, true));
    f->o->origin[id].from = FW_FROM_FILE;
    f->o->origin[id].line = leaf->line;
    f->o->origin[id].file = f->where;
    return FW_OK;
}

/* ---- the table ---- */

static bool matches(const char *row, const char *path) {
    size_t n = strlen(row);
    if (n < 2 || strcmp(row + n - 2, ".*") != 0) return strcmp(row, path) == 0;
    n -= 2;
    return strncmp(row, path, n) == 0 && (path[n] == '.' || path[n] == 0);
}

static const fw_foreign_row *find_row(const fw_foreign *f, const fw_foreign_row *rows, size_t row_n, const char *path) {
    size_t prefix_n = f->prefix != NULL ? strlen(f->prefix) : 0;
    if (prefix_n > 0 && strncmp(path, f->prefix, prefix_n) == 0) path += prefix_n;
    for (size_t i = 0; i < row_n; i++)
        if (matches(rows[i].path, path)) return &rows[i];
    return NULL;
}

/* Is `text` among the words "a|b|c"? */
static bool is_allowed(const char *words, const char *text) {
    while (words != NULL && *words != 0) {
        size_t n = strcspn(words, "|");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), words);
        if (fw_words_equal(word, text)) return true;
        words += n + (words[n] == '|');
    }
    return false;
}

static fw_status refuse_name(const fw_foreign *f, const fw_leaf *leaf, const fw_foreign_row *rows, size_t row_n) {
    char label[FW_LABEL_BYTES];
    fw_nearest nearest;
    fw_nearest_start(&nearest, path_of(f, leaf));
    for (size_t i = 0; i < row_n; i++) fw_nearest_offer(&nearest, rows[i].path);
    return fw_fail(FW_ERR_OPTION, "%s is not known in a file of %s; %s%s%s",
                   fw_option_label(label, leaf->path, place_of(f, leaf)), f->what,
                   nearest.best != NULL ? "did you mean " : "leave it out", nearest.best != NULL ? nearest.best : "",
                   nearest.best != NULL ? "?" : "");
}

fw_status fw_foreign_apply(fw_foreign *f, const fw_foreign_row *rows, size_t row_n) {
    for (size_t i = 0; i < f->leaves->n; i++) {
        const fw_leaf *leaf = &f->leaves->leaf[i];
        const char *path = path_of(f, leaf);
        if (path == NULL) continue;
        const fw_foreign_row *row = find_row(f, rows, row_n, path);
        if (row == NULL) return refuse_name(f, leaf, rows, row_n);
        if (leaf->null || fw_words_equal(leaf->text, "auto")) continue;
        if (is_allowed(row->allowed, leaf->text)) continue;
        if (row->call != NULL)
            FW_TRY(row->call(f, leaf));
        else if (row->option != NULL)
            FW_TRY(fw_foreign_set(f, leaf, row->option, leaf->text));
        else if (row->allowed != NULL)
            return fw_foreign_refuse(f, leaf, row->remark);
    }
    return FW_OK;
}

/* ---- the files ---- */

enum { FILE_LIMIT_BYTES = 1 << 20 };

typedef fw_status (*read_leaves)(fw_leaves *l, const char *text, size_t text_bytes, const char *where);
typedef fw_status (*apply_leaves)(fw_options *o, const fw_leaves *leaves, const char *where, fw_option_origin from);

static fw_status read_file(fw_options *o, fw_option_id id, const char *path, read_leaves read, apply_leaves apply) {
    if (path == NULL) return FW_OK;
    fw_strbuf text = {0};
    fw_leaves leaves = {0};
    fw_option_origin from = o->origin[id].from;
    if (from == FW_FROM_FILE) from = FW_FROM_RECIPE; /* an accelerate file named it */
    fw_status status = fw_file_read(&text, path, FILE_LIMIT_BYTES);
    if (status != FW_OK) {
        char origin[FW_LABEL_BYTES];
        if (status == FW_ERR_INPUT) status = FW_ERR_OPTION;
        status = fw_fail_context(status, "%s (%s): ", fw_option_get(id)->name,
                                 fw_options_origin(o, id, origin, sizeof origin));
        goto done;
    }
    FW_TRY_OR(read(&leaves, fw_strbuf_text(&text), text.len_bytes, path), done);
    FW_TRY_OR(apply(o, &leaves, path, from), done);
done:
    fw_leaves_fini(&leaves);
    fw_strbuf_fini(&text);
    return status;
}

/* A JSON object that is the value itself. */
static fw_status read_checkpointing(fw_options *o) {
    static const char name[] = "gradient_checkpointing_kwargs";
    fw_leaves leaves = {0};
    fw_status status = FW_OK;
    if (o->gradient_checkpointing_kwargs == NULL) return FW_OK;
    const char *text = o->gradient_checkpointing_kwargs;
    FW_TRY_OR(fw_leaves_read_json(&leaves, text, strlen(text), name), done);
    FW_TRY_OR(fw_foreign_checkpointing(o, &leaves, name, o->origin[FW_OPTION_gradient_checkpointing_kwargs].from),
              done);
done:
    fw_leaves_fini(&leaves);
    return status;
}

fw_status fw_options_read_foreign(fw_options *o) {
    FW_TRY(read_checkpointing(o));
    FW_TRY(read_file(o, FW_OPTION_config_file, o->config_file, fw_leaves_read_yaml, fw_foreign_accelerate));
    FW_TRY(read_file(o, FW_OPTION_fsdp_config, o->fsdp_config, fw_leaves_read_json, fw_foreign_fsdp));
    return read_file(o, FW_OPTION_deepspeed, o->deepspeed, fw_leaves_read_json, fw_foreign_deepspeed);
}
