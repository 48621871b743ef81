/* Escapes in the strings of a template: those of Python's "unicode-escape". */
#ifndef FW_TEXT_JINJA_ESCAPE_H
#define FW_TEXT_JINJA_ESCAPE_H

#include "text/jinja/jinja_memory.h"

/* What stands between the quotes -> the text it means. Errors: FW_ERR_INPUT. */
fw_status fw_jinja_unescape(fw_jinja_memory *memory, const char *from, size_t from_bytes, const char **out,
                            size_t *out_bytes);

#endif
