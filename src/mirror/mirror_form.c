#include "mirror/mirror_form.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"

#include <string.h>

static const char hub_scheme[] = "hf://";

/* ---- words */

/* One word from *at on, which is no blank; *at moves behind it. */
static fw_status read_word(fw_strbuf *word, const char **at, const char *option) {
    char quote = 0;
    const char *c = *at;
    for (; *c != 0 && (quote != 0 || strchr(" \t\n", *c) == NULL); c++) {
        if (quote == 0 && (*c == '\'' || *c == '"')) {
            quote = *c;
        } else if (quote != 0 && *c == quote) {
            quote = 0;
        } else {
            if (*c == '\\' && quote != '\'' && c[1] != 0) c++;
            FW_TRY(fw_strbuf_putc(word, *c));
        }
    }
    *at = c;
    if (quote == 0) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "%s: the quote %c is not closed", option, quote);
}

static fw_status read_words(fw_mirror_form *f, const char *option) {
    const char *at = f->text;
    for (;;) {
        at += strspn(at, " \t\n");
        if (*at == 0) return FW_OK;
        fw_strbuf word = {0};
        fw_status status = read_word(&word, &at, option);
        if (status == FW_OK) status = FW_GROW_ARRAY(f->word, f->word_n + 1);
        if (status == FW_OK) status = fw_strdup(&f->word[f->word_n], fw_strbuf_text(&word));
        fw_strbuf_fini(&word);
        FW_TRY(status);
        f->word_n++;
    }
}

/* ---- placeholders */

/* Bytes of the placeholder's name that begins behind the brace at text; 0: it is none. */
static size_t placeholder_bytes(const char *text) {
    size_t n = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");
    return text[0] == '{' && n > 0 && text[1 + n] == '}' ? n : 0;
}

static bool is_named(const char *text, size_t bytes, const char *name) {
    return strlen(name) == bytes && memcmp(text, name, bytes) == 0;
}

static fw_status fill_word(fw_strbuf *out, const char *word, const fw_mirror_values *v) {
    for (const char *c = word; *c != 0; c++) {
        const size_t bytes = placeholder_bytes(c);
        if ((*c == '{' || *c == '}') && c[1] == *c) {
            FW_TRY(fw_strbuf_putc(out, *c++));
        } else if (bytes == 0) {
            FW_TRY(fw_strbuf_putc(out, *c));
        } else {
            FW_TRY(fw_strbuf_puts(out, is_named(c + 1, bytes, "name") ? v->name : v->path));
            c += bytes + 1;
        }
    }
    return FW_OK;
}

/* Only {key} and {name} are known. */
static fw_status check_placeholders(const fw_mirror_form *f, const char *key, const char *option) {
    for (size_t i = 0; i < f->word_n; i++)
        for (const char *c = f->word[i]; *c != 0; c++) {
            const size_t bytes = placeholder_bytes(c);
            if ((*c == '{' || *c == '}') && c[1] == *c)
                c++;
            else if (bytes > 0 && !is_named(c + 1, bytes, key) && !is_named(c + 1, bytes, "name"))
                return fw_fail(FW_ERR_OPTION,
                               "%s: {%.*s} is not known; there are {%s} and {name}, and {{ and }} stand for braces",
                               option, (int)bytes, c + 1, key);
        }
    return FW_OK;
}

bool fw_mirror_form_has(const fw_mirror_form *f, const char *key) {
    for (size_t i = 0; i < f->word_n; i++)
        for (const char *c = f->word[i]; *c != 0; c++) {
            if ((*c == '{' || *c == '}') && c[1] == *c)
                c++;
            else if (is_named(c + 1, placeholder_bytes(c), key))
                return true;
        }
    return false;
}

fw_status fw_mirror_form_fill(char ***argv, const fw_mirror_form *f, const fw_mirror_values *values) {
    fw_status status = FW_OK;
    *argv = NULL;
    FW_TRY(FW_NEW_ARRAY(*argv, f->word_n + 1));
    for (size_t i = 0; i < f->word_n && status == FW_OK; i++) {
        fw_strbuf word = {0};
        status = fill_word(&word, f->word[i], values);
        if (status == FW_OK) status = fw_strdup(&(*argv)[i], fw_strbuf_text(&word));
        fw_strbuf_fini(&word);
    }
    if (status == FW_OK) return FW_OK;
    fw_mirror_words_free(*argv);
    *argv = NULL;
    return status;
}

void fw_mirror_words_free(char **argv) {
    for (size_t i = 0; argv != NULL && argv[i] != NULL; i++) fw_free(argv[i]);
    fw_free(argv);
}

/* ---- kinds */

/* user/repository[@branch]: letters, digits, "-", "_" and "." as the Hub has them. */
static fw_status read_repository(fw_mirror_form *f, const char *option) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *name = f->text + strlen(hub_scheme), *at = strchr(name, '@');
    const size_t bytes = at != NULL ? (size_t)(at - name) : strlen(name);
    const size_t user = strspn(name, allowed);
    const bool good = user > 0 && name[user] == '/' && name[user + 1] != 0 &&
                      strspn(name + user + 1, allowed) == bytes - user - 1 && bytes > user + 1;
    if (!good || (at != NULL && (at[1] == 0 || strspn(at + 1, allowed) != strlen(at + 1))))
        return fw_fail(FW_ERR_OPTION, "%s: \"%s\" is not a repository of the Hub; write hf://USER/REPOSITORY", option,
                       f->text);
    FW_TRY(fw_strndup(&f->repository, name, bytes));
    return fw_strdup(&f->branch, at != NULL ? at + 1 : "main");
}

/* s3://bucket/x, user@host:/x: a place that a program reaches, and no folder here. A folder that is there is one whatever its
 * name is. */
static bool is_elsewhere(const char *text) {
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    return colon != NULL && colon > text && (slash == NULL || colon < slash) && !fw_dir_exists(text);
}

static fw_status read_kind(fw_mirror_form *f, const char *key, const char *option) {
    if (strncmp(f->text, hub_scheme, strlen(hub_scheme)) == 0) {
        f->kind = FW_MIRROR_HUB;
        return read_repository(f, option);
    }
    FW_TRY(read_words(f, option));
    if (fw_mirror_form_has(f, key)) {
        f->kind = FW_MIRROR_COMMAND;
        return check_placeholders(f, key, option);
    }
    f->kind = FW_MIRROR_FOLDER;
    if (f->word_n == 0) return fw_fail(FW_ERR_OPTION, "%s is empty", option);
    if (f->word_n > 1 && !fw_dir_exists(f->text))
        return fw_fail(
            FW_ERR_OPTION,
            "%s is \"%s\": a command needs {%s} where the folder is to be put in; a folder with blanks in its "
            "name must exist",
            option, f->text, key);
    if (is_elsewhere(f->text))
        return fw_fail(
            FW_ERR_OPTION,
            "%s is \"%s\", which is no folder of this machine: give the command that copies {%s} there (with "
            "rsync, rclone, aws: docs/mirror.md has examples); a folder of such a name must exist",
            option, f->text, key);
    return FW_OK;
}

fw_status fw_mirror_form_read(fw_mirror_form *out, const char *text, const char *key, const char *option) {
    *out = (fw_mirror_form){0};
    fw_status status;
    FW_TRY_OR(fw_strdup(&out->text, text), fail);
    FW_TRY_OR(read_kind(out, key, option), fail);
    return FW_OK;
fail:
    fw_mirror_form_fini(out);
    return status;
}

void fw_mirror_form_fini(fw_mirror_form *f) {
    for (size_t i = 0; i < f->word_n; i++) fw_free(f->word[i]);
    fw_free(f->word);
    fw_free(f->text);
    fw_free(f->repository);
    fw_free(f->branch);
    *f = (fw_mirror_form){0};
}
