/* What filters and methods of texts share. Every result keeps the origin of each character. */
#ifndef FW_TEXT_JINJA_STRINGS_H
#define FW_TEXT_JINJA_STRINGS_H

#include "text/jinja/jinja_run.h"

typedef enum fw_jinja_casing {
    FW_JINJA_ALL_UPPER,
    FW_JINJA_FOLDED,
    FW_JINJA_ALL_LOWER,
    FW_JINJA_EACH_WORD,  /* str.title: a letter after none */
    FW_JINJA_FIRST_ONLY, /* str.capitalize */
    FW_JINJA_SWAPPED,
    FW_JINJA_WORDS, /* the filter `title`: words begin after white space and opening brackets */
} fw_jinja_casing;
fw_status fw_jinja_recase(fw_jinja *j, const fw_jinja_value *text, fw_jinja_casing how, fw_jinja_value *out);

/* chars: a text whose characters are taken off; NULL: white space. */
fw_status fw_jinja_strip(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *chars, bool left, bool right,
                         fw_jinja_value *out);
/* most < 0: all of them. */
fw_status fw_jinja_replace(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *old,
                           const fw_jinja_value *with, int64_t most, fw_jinja_value *out);
/* A list of texts; separator NULL: runs of white space. most < 0: no limit. */
fw_status fw_jinja_split(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *separator, int64_t most,
                         fw_jinja_value *out);
fw_status fw_jinja_split_right(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *separator, int64_t most,
                               fw_jinja_value *out);
fw_status fw_jinja_split_lines(fw_jinja *j, const fw_jinja_value *text, bool keep_ends, fw_jinja_value *out);
/* The items, which must be texts unless `convert`. */
fw_status fw_jinja_join(fw_jinja *j, const fw_jinja_value *separator, const fw_jinja_value *item, size_t n,
                        bool convert, fw_jinja_value *out);
/* Pad to `width` characters: how much goes left of it is left_of(missing). */
fw_status fw_jinja_pad(fw_jinja *j, const fw_jinja_value *text, size_t left, size_t right, const fw_jinja_value *fill,
                       fw_jinja_value *out);

#endif
