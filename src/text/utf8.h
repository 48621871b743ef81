/* UTF-8, code point by code point. */
#ifndef FW_TEXT_UTF8_H
#define FW_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Offset of the first byte that is not valid UTF-8 (overlong forms, surrogates and values above U+10FFFF
 * are not); text_bytes when all of it is. */
size_t fw_utf8_find_invalid(const char *text, size_t text_bytes);

/* Bytes of the maximal valid start of one character at s: 1..4 when complete (*complete = 1); less when it
 * breaks off or goes wrong (*complete = 0, then at least 1: what a decoder replaces by one U+FFFD). */
size_t fw_utf8_measure(const unsigned char *s, size_t s_bytes, int *complete);

/* The code point at s, which is valid; returns its bytes. */
static inline size_t fw_utf8_next(uint32_t *code, const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    if (s[0] < 0xe0) {
        *code = (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3f);
        return 2;
    }
    if (s[0] < 0xf0) {
        *code = (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
        return 3;
    }
    *code =
        (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 | (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3f);
    return 4;
}

/* Write a code point; returns its bytes (1..4). */
size_t fw_utf8_put(char *out, uint32_t code);

#endif
