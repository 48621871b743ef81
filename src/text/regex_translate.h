#ifndef FW_TEXT_REGEX_TRANSLATE_H
#define FW_TEXT_REGEX_TRANSLATE_H

#include "base/strbuf.h"

#include <stdbool.h>

/* Append to *out the PCRE2 pattern that means what `pattern` means in the reference (see text/regex.h). *asks_unicode: what it
 * matches hangs on properties or cases of characters, and so on the version of Unicode that one has.
 * Errors: FW_ERR_INPUT naming the construct that is not known, FW_ERR_NOMEM. */
fw_status fw_regex_translate(fw_strbuf *out, bool *asks_unicode, const char *pattern, const char *where);

#endif
