#include "text/utf8.h"

#include <string.h>

size_t fw_utf8_measure(const unsigned char *s, size_t s_bytes, int *complete) {
    *complete = 0;
    unsigned char lead = s[0];
    if (lead < 0x80) {
        *complete = 1;
        return 1;
    }
    size_t need = lead >= 0xc2 && lead < 0xe0   ? 2
                  : lead >= 0xe0 && lead < 0xf0 ? 3
                  : lead >= 0xf0 && lead < 0xf5 ? 4
                                                : 0;
    if (need == 0) return 1;
    /* The second byte's range is narrower after some leads: no overlong forms, surrogates, or > U+10FFFF. */
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < need; i++) {
        if (i >= s_bytes || s[i] < low || s[i] > high) return i;
        low = 0x80;
        high = 0xbf;
    }
    *complete = 1;
    return need;
}

size_t fw_utf8_find_invalid(const char *text, size_t text_bytes) {
    size_t i = 0;
    while (i < text_bytes) {
        uint64_t eight;
        while (text_bytes - i >= 8 && (memcpy(&eight, text + i, 8), (eight & 0x8080808080808080u) == 0)) i += 8;
        if (i == text_bytes) break;
        /* three bytes, but for the leads whose second byte has a narrower range: most text that is not ASCII */
        const unsigned char *u = (const unsigned char *)text + i;
        if (text_bytes - i >= 3 && u[0] > 0xe0 && u[0] < 0xf0 && u[0] != 0xed && (u[1] & 0xc0) == 0x80 &&
            (u[2] & 0xc0) == 0x80) {
            i += 3;
            continue;
        }
        int complete;
        size_t n = fw_utf8_measure((const unsigned char *)text + i, text_bytes - i, &complete);
        if (!complete) return i;
        i += n;
    }
    return text_bytes;
}

size_t fw_utf8_put(char *out, uint32_t code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}
