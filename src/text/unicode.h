/* Which Unicode the reference means.
 *
 * The tokenizers package freezes one version of Unicode for its regexes (16.0 now), an older one for its
 * normaliser and a newer one for digits; PCRE2 and utf8proc here have whatever version the system gave
 * them. Ids must not depend on that. Code points never change their class once assigned, so the versions
 * differ about newly assigned code points only, and those are in tables (unicode_tables.inc). */
#ifndef FW_TEXT_UNICODE_H
#define FW_TEXT_UNICODE_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/* A code point with as many UTF-8 bytes as `code`, of the class that the reference gives `code`, and that
 * PCRE2 of every version knows; `code` itself for nearly all. Regexes are matched on text in which newer
 * code points are so replaced; U+180E too, which PCRE2 counts as white space and the reference does not. */
uint32_t fw_unicode_stand_in(uint32_t code);
/* Could fw_unicode_stand_in change it? Quick, sometimes true for nothing. */
static inline bool fw_unicode_may_be_newer(uint32_t code) {
    return code >= 0x558 && !(code >= 0x3100 && code < 0x31e0) && !(code >= 0x3200 && code < 0xa7c0) &&
           !(code >= 0xac00 && code < 0xfb00);
}

/* Does the reference's normaliser know no property of it, though later versions of Unicode give it one? */
bool fw_unicode_is_inert(uint32_t code);
/* The reference's digits: classes Nd, Nl and No. */
bool fw_unicode_is_numeric(uint32_t code);
/* White_Space. */
bool fw_unicode_is_space(uint32_t code);
/* \w of the reference: Alphabetic, marks, Nd, Pc, Join_Control. */
bool fw_unicode_is_word(uint32_t code);
/* ASCII punctuation and class P. */
bool fw_unicode_is_punctuation(uint32_t code);
/* What StripAccents takes away: combining marks. */
bool fw_unicode_is_accent(uint32_t code);
/* Lower case of one code point; U+0130 alone becomes two (i and U+0307) and is the caller's. */
uint32_t fw_unicode_lower(uint32_t code);

/* *shape = the text (valid UTF-8) for regexes: itself, or a copy in which stand-ins are put byte for byte in place.
 * Errors: FW_ERR_NOMEM. */
fw_status fw_unicode_shape(const char **shape, fw_strbuf *copy, const char *text, size_t text_bytes);

#endif
