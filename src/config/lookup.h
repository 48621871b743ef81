/* From a name somebody wrote to an option, and from a text to its value. Private to the config room. */
#ifndef FW_CONFIG_LOOKUP_H
#define FW_CONFIG_LOOKUP_H

#include "config/options.h"

/* Where something was written: a line of a file (0: not known), or the command line (file NULL). */
typedef struct fw_option_place {
    const char *file;
    int line;
} fw_option_place;

/* Another name of an option; has_max: values above max are refused under this name. */
typedef struct fw_option_spelling {
    const char *name;
    fw_option_id id;
    double max;
    bool has_max;
} fw_option_spelling;

/* Under the name (of an option or a spelling) `written` stands for `meant`; only: no other words are taken. */
typedef struct fw_option_word {
    const char *name, *written, *meant;
    bool only;
} fw_option_word;

int fw_option_by_name(const char *name);                   /* the exact name; -1 */
int fw_option_by_letter(char letter, fw_command command);  /* `-b` of this command; -1 */
const fw_option_spelling *fw_option_spelling_at(size_t i); /* NULL after the last */
const fw_option_word *fw_option_word_at(size_t i);         /* NULL after the last */
/* The i-th further word of these choices and its value; NULL after the last. */
const char *fw_choice_also_at(size_t i, const char *const *choices, int *value);
bool fw_option_comes_later(const char *name); /* known elsewhere, not supported yet */

/* A name as written (with underscores) -> the option. *spelling is NULL for its own name. Errors: FW_ERR_OPTION:
 * misspelt (names the nearest), of another command, not supported yet. */
fw_status fw_option_find(fw_option_id *id, const fw_option_spelling **spelling, fw_command command, const char *name,
                         fw_option_place place);

/* For which command a file's name is read: a plan is made from the files of a run, and what of them has no part in it is
 * read, and checked, as the run does. */
fw_command fw_option_reader(fw_command command, const char *name);

/* "--name", or "FILE:LINE: name": how messages begin. Returns `out`. */
enum { FW_LABEL_BYTES = 256 };
const char *fw_option_label(char *out, const char *name, fw_option_place place);

/* Read `text` as the option's type, check its bounds, and store it in its field when `store`. name: as
 * written, for messages. Errors: FW_ERR_OPTION, FW_ERR_NOMEM; the field is unchanged then. */
fw_status fw_option_set(fw_options *o, fw_option_id id, const fw_option_spelling *spelling, const char *name,
                        const char *text, fw_option_place place, bool store);

/* Are they the same word, case and dashes aside? */
bool fw_words_equal(const char *a, const char *b);
/* The value of a word among an option's choices, their own or another; -1. */
int fw_choice_by_word(const char *const *choices, const char *word);
/* *meant = what `text` stands for under this name: itself, unless a FW_WORD says otherwise. Errors: FW_ERR_OPTION. */
fw_status fw_option_translate(const char **meant, fw_option_id id, const fw_option_spelling *spelling,
                              const char *label, const char *text);
/* The error for a word that is none of an option's choices: lists them and names the nearest. */
fw_status fw_option_refuse_word(fw_option_id id, const char *label, const char *text);

/* Texts to numbers: NULL when good, else what is wrong with the text, e.g. "it is not a whole number". */
const char *fw_value_read_bool(bool *out, const char *text);
const char *fw_value_read_int(int64_t *out, const char *text);
const char *fw_value_read_float(double *out, const char *text);
const char *fw_value_read_size(int64_t *out, const char *text);
const char *fw_value_check_text(const char *text); /* valid UTF-8 */

#endif
