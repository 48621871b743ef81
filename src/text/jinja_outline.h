/* A chat template (Jinja) in a normal form, so that templates that mean the same compare equal.
 *
 * Done: white space as transformers sets it (trim_blocks, lstrip_blocks, the - of {%- and -%}); comments
 * out; quotes and escapes of strings unified; x['name'] written x.name; output split at top-level +, text
 * and string constants joined; and what cannot matter here taken out: branches about tools, tool calls, tool
 * messages and documents, which conversations of this room do not have.
 *
 * The form is a line an item: "T text", "E expression", "S statement"; strings in E and S are between \x01
 * and \x02; a line break inside a text or string is \x03. Source: the Jinja template designer manual. */
#ifndef FW_TEXT_JINJA_OUTLINE_H
#define FW_TEXT_JINJA_OUTLINE_H

#include "base/strbuf.h"

/* Append the normal form. Errors: FW_ERR_INPUT (not Jinja: where and byte), FW_ERR_NOMEM. */
fw_status fw_jinja_outline(fw_strbuf *out, const char *jinja, const char *where);

#endif
