/* The regexes of tokenizer files, matched by PCRE2 with the meaning that the reference's library (Oniguruma,
 * Ruby syntax) gives them.
 *
 * Only constructs that mean the same in both, or can be written so, are let through, others are refused by name:
 * literals and their escapes, ^ $ . (about lines, as in Ruby), classes with ranges and classes in them, \s \S \d \D,
 * \p{..} \P{..} of general categories (one letter, or Lu Ll Lt Lm Lo Nd), groups (?:..) (?i:..) (..) and look-around,
 * alternation, greedy, lazy and possessive quantifiers. \s is written out: PCRE2 counts U+180E as a space, the reference does not. */
#ifndef FW_TEXT_REGEX_H
#define FW_TEXT_REGEX_H

#include "base/status.h"

#include <stdbool.h>

typedef struct fw_regex fw_regex;
/* Scratch of one thread: serves every regex. */
typedef struct fw_regex_scratch fw_regex_scratch;

/* Errors: FW_ERR_INPUT with the construct and its position. */
fw_status fw_regex_create(fw_regex **out, const char *pattern, const char *where);
void fw_regex_destroy(fw_regex *regex);
/* Does what it matches hang on properties or cases of characters? Then it is run on stand-ins (fw_unicode_shape), which have
 * those that the reference's version of Unicode knows; else on the text itself, whose code points ranges are about. */
bool fw_regex_asks_unicode(const fw_regex *regex);
fw_status fw_regex_scratch_create(fw_regex_scratch **out);
void fw_regex_scratch_destroy(fw_regex_scratch *scratch);

/* The next match in text (valid UTF-8) at or after `from`. *found false: none. *end may equal *start.
 * Errors: FW_ERR_INPUT when matching needs more steps or memory than allowed, FW_ERR_NOMEM. */
fw_status fw_regex_find(const fw_regex *regex, fw_regex_scratch *scratch, const char *text, size_t text_bytes,
                        size_t from, bool *found, size_t *start, size_t *end);

/* All matches in order, as the reference iterates: an empty match right after another match is not one, and after an
 * empty match the search goes on one character later. The caller sets the first four; the rest is zero. */
typedef struct fw_regex_walk {
    const fw_regex *regex;
    fw_regex_scratch *scratch;
    const char *text;
    size_t text_bytes;
    size_t from, done; /* where the search goes on, and where the last match ended */
    bool after_match;
} fw_regex_walk;

fw_status fw_regex_next(fw_regex_walk *walk, bool *found, size_t *start, size_t *end);

#endif
