#include "text/jinja/jinja_escape.h"

#include "text/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int hex_value(char c) { return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10; }

/* \xHH, \uHHHH, \UHHHHHHHH: returns how many bytes of `from` were read after the letter. */
static fw_status read_hex(uint32_t *code, const char *from, size_t left, size_t digits) {
    *code = 0;
    for (size_t i = 0; i < digits; i++) {
        if (i >= left || !isxdigit((unsigned char)from[i]))
            return fw_fail(FW_ERR_INPUT, "an escape of a string has too few hexadecimal digits");
        *code = *code << 4 | (uint32_t)hex_value(from[i]);
    }
    if (*code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
        return fw_fail(FW_ERR_INPUT, "the escape of U+%04X in a string is no character", (unsigned)*code);
    return FW_OK;
}

/* The escape whose letter is at from[0]; *used bytes are read, *written are put. */
static fw_status escape(const char *from, size_t left, char *out, size_t *used, size_t *written) {
    static const char letters[] = "abfnrtv\\'\"", meanings[] = "\a\b\f\n\r\t\v\\'\"";
    const char *known = memchr(letters, *from, sizeof letters - 1);
    uint32_t code = 0;
    *used = 1;
    *written = 1;
    if (known != NULL) {
        *out = meanings[known - letters];
        return FW_OK;
    }
    if (*from == '\n') {
        *written = 0;
        return FW_OK;
    }
    if (*from == 'x' || *from == 'u' || *from == 'U') {
        size_t digits = *from == 'x' ? 2 : *from == 'u' ? 4 : 8;
        FW_TRY(read_hex(&code, from + 1, left - 1, digits));
        *used = 1 + digits;
    } else if (*from >= '0' && *from <= '7') {
        *used = 0;
        while (*used < 3 && *used < left && from[*used] >= '0' && from[*used] <= '7')
            code = code * 8 + (uint32_t)(from[(*used)++] - '0');
    } else if (*from == 'N') {
        return fw_fail(FW_ERR_INPUT, "\\N{...} in a string is not supported; write the character itself");
    } else if ((unsigned char)*from >= 0x80) { /* the reference turns the character into an escape first */
        *used = fw_utf8_next(&code, from);
        *written = (size_t)snprintf(out, 12,
                                    code < 0x100     ? "\\x%02x"
                                    : code < 0x10000 ? "\\u%04x"
                                                     : "\\U%08x",
                                    (unsigned)code);
        return FW_OK;
    } else { /* not an escape: stays as it is */
        out[0] = '\\';
        out[1] = *from;
        *written = 2;
        return FW_OK;
    }
    *written = fw_utf8_put(out, code);
    return FW_OK;
}

fw_status fw_jinja_unescape(fw_jinja_memory *memory, const char *from, size_t from_bytes, const char **out,
                            size_t *out_bytes) {
    *out = from;
    *out_bytes = from_bytes;
    if (from_bytes == 0 || memchr(from, '\\', from_bytes) == NULL) return FW_OK;
    char *text;
    size_t n = 0;
    FW_TRY(fw_jinja_take(memory, (void **)&text, 4 * from_bytes + 12)); /* a backslash and 2 bytes may become 10 */
    for (size_t i = 0; i < from_bytes;) {
        if (from[i] != '\\' || i + 1 == from_bytes) {
            text[n++] = from[i++];
            continue;
        }
        size_t used, written;
        FW_TRY(escape(from + i + 1, from_bytes - i - 1, text + n, &used, &written));
        i += 1 + used;
        n += written;
    }
    *out = text;
    *out_bytes = n;
    return FW_OK;
}
