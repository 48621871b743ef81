#include "text/char_class.h"

#include "base/alloc.h"
#include "text/unicode.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

static uint8_t find_class(uint32_t code) {
    if (fw_unicode_is_space(code)) return FW_CHAR_SPACE;
    switch (utf8proc_category((utf8proc_int32_t)fw_unicode_stand_in(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return FW_CHAR_LETTER | FW_CHAR_UPPER;
    case UTF8PROC_CATEGORY_LL: return FW_CHAR_LETTER | FW_CHAR_LOWER;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return FW_CHAR_LETTER | FW_CHAR_UPPER | FW_CHAR_LOWER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return FW_CHAR_MARK | FW_CHAR_UPPER | FW_CHAR_LOWER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return FW_CHAR_NUMBER;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return FW_CHAR_PUNCT;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return FW_CHAR_SYMBOL;
    default: return 0;
    }
}

/* Planes 4 to 13 and the end of plane 3, to which no character was ever assigned; private use; tags, but for two blocks. */
static bool is_empty(uint32_t block) { return block >= 0x340 && block != 0xe00 && block != 0xe01; }

/* The block's place among those that are there, from the newest on; a new one when there is none like it. */
static fw_status keep_block(fw_char_classes *c, const uint8_t *classes, uint16_t *place) {
    for (size_t i = c->block_n; i-- > 0;)
        if (memcmp(c->classes[i], classes, FW_CHAR_BLOCK) == 0) {
            *place = (uint16_t)i;
            return FW_OK;
        }
    if (c->block_n == c->block_cap) {
        size_t cap = c->block_cap ? 2 * c->block_cap : 128;
        FW_TRY(FW_GROW_ARRAY(c->classes, cap));
        c->block_cap = cap;
    }
    *place = (uint16_t)c->block_n++;
    memcpy(c->classes[*place], classes, FW_CHAR_BLOCK);
    return FW_OK;
}

fw_status fw_char_classes_create(fw_char_classes **out) {
    *out = NULL;
    fw_char_classes *c = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW(c), done);
    for (uint32_t block = 0; block < FW_CHAR_BLOCK_N; block++) {
        uint8_t classes[FW_CHAR_BLOCK] = {0};
        for (uint32_t i = 0; i < FW_CHAR_BLOCK && !is_empty(block); i++)
            classes[i] = find_class(block * FW_CHAR_BLOCK + i);
        FW_TRY_OR(keep_block(c, classes, &c->block[block]), done);
    }
    memcpy(c->ascii, c->classes[c->block[0]], sizeof c->ascii);
    *out = c;
    c = NULL;
done:
    fw_char_classes_destroy(c);
    return status;
}

void fw_char_classes_destroy(fw_char_classes *c) {
    if (c == NULL) return;
    fw_free(c->classes);
    fw_free(c);
}
