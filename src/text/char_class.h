/* Classes of code points as the reference's regexes see them, in a table for quick look-up. */
#ifndef FW_TEXT_CHAR_CLASS_H
#define FW_TEXT_CHAR_CLASS_H

#include "base/status.h"
#include "text/utf8.h"

enum {
    FW_CHAR_LETTER = 1,  /* \p{L} */
    FW_CHAR_NUMBER = 2,  /* \p{N} */
    FW_CHAR_SPACE = 4,   /* \s */
    FW_CHAR_MARK = 8,    /* \p{M} */
    FW_CHAR_PUNCT = 16,  /* \p{P} */
    FW_CHAR_SYMBOL = 32, /* \p{S} */
    FW_CHAR_UPPER = 64,  /* may stand at the front of a word: Lu Lt Lm Lo M */
    FW_CHAR_LOWER = 128, /* may stand behind: Ll Lm Lo M */
};

enum { FW_CHAR_BLOCK = 256, FW_CHAR_BLOCK_N = 0x110000 / FW_CHAR_BLOCK };

/* Blocks of the same content are there once. */
typedef struct fw_char_classes {
    uint8_t ascii[128];
    uint16_t block[FW_CHAR_BLOCK_N];
    uint8_t (*classes)[FW_CHAR_BLOCK];
    size_t block_n, block_cap;
} fw_char_classes;

/* A few milliseconds. Release with fw_char_classes_destroy. */
fw_status fw_char_classes_create(fw_char_classes **out);
void fw_char_classes_destroy(fw_char_classes *classes);

static inline unsigned fw_char_class(const fw_char_classes *c, uint32_t code) {
    return c->classes[c->block[code / FW_CHAR_BLOCK]][code % FW_CHAR_BLOCK];
}

/* The class of the character at text, which is valid UTF-8, and its bytes. */
static inline unsigned fw_char_next(const fw_char_classes *c, const char *text, size_t *bytes) {
    unsigned char first = (unsigned char)*text;
    if (first < 0x80) {
        *bytes = 1;
        return c->ascii[first];
    }
    uint32_t code;
    *bytes = fw_utf8_next(&code, text);
    return fw_char_class(c, code);
}

#endif
