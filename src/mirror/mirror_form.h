/* What the user wrote after --mirror: a folder, a command with placeholders, or a repository of the Hub.
 *
 *   /mnt/backup/run7                                a folder
 *   rsync -a {source}/ host:/backup/{name}/         a command: it has {source} (--mirror) or {target} (to fetch)
 *   hf://user/repository                            the Hub; hf://user/repository@branch
 *
 * A command is cut into words as a shell would (blanks, '...', "...", \x), but there is no shell: each word is one argument,
 * whatever is put in for its placeholders. {{ and }} stand for braces. */
#ifndef FW_MIRROR_MIRROR_FORM_H
#define FW_MIRROR_MIRROR_FORM_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum fw_mirror_kind { FW_MIRROR_FOLDER, FW_MIRROR_COMMAND, FW_MIRROR_HUB } fw_mirror_kind;

typedef struct fw_mirror_form {
    fw_mirror_kind kind;
    char *text;  /* as it was written */
    char **word; /* COMMAND: [word_n], placeholders in place */
    size_t word_n;
    char *repository, *branch; /* HUB */
} fw_mirror_form;

/* key: "source" for a mirror or its check, "target" for a command that fetches. option: for messages.
 * Errors: FW_ERR_OPTION (a quote that is not closed, an unknown placeholder, none where one is needed), FW_ERR_NOMEM. */
fw_status fw_mirror_form_read(fw_mirror_form *out, const char *text, const char *key, const char *option);
void fw_mirror_form_fini(fw_mirror_form *f); /* takes a zeroed one */
/* Does the text have that placeholder? */
bool fw_mirror_form_has(const fw_mirror_form *f, const char *key);

/* What stands for {source} or {target}, and for {name}. */
typedef struct fw_mirror_values {
    const char *key, *path, *name;
} fw_mirror_values;
/* *argv: [word_n + 1], NULL-terminated, to be released with fw_mirror_words_free. */
fw_status fw_mirror_form_fill(char ***argv, const fw_mirror_form *f, const fw_mirror_values *values);
void fw_mirror_words_free(char **argv); /* takes NULL */

#endif
