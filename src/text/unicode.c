#include "text/unicode.h"

#include "text/utf8.h"

#include <stddef.h>
#include <utf8proc.h>

typedef enum fw_unicode_category {
    FW_CLASS_CN,
    FW_CLASS_CF,
    FW_CLASS_LL,
    FW_CLASS_LU,
    FW_CLASS_LM,
    FW_CLASS_LO,
    FW_CLASS_LT,
    FW_CLASS_MN,
    FW_CLASS_ND,
    FW_CLASS_NO,
    FW_CLASS_PO,
    FW_CLASS_SO,
    FW_CLASS_N
} fw_unicode_category;

typedef struct fw_unicode_class {
    uint32_t first, last;
    fw_unicode_category category;
} fw_unicode_class;

typedef struct fw_unicode_range {
    uint32_t first, last;
} fw_unicode_range;

/* first, first + step, .. last each become itself + by. */
typedef struct fw_unicode_mapping {
    uint32_t first, last, step;
    int32_t by;
} fw_unicode_mapping;

#include "text/unicode_tables.inc"

/* Long known code points of each class with 2, 3 and 4 bytes. U+FFFE and U+1FFFE will never be assigned. */
static const uint32_t stand_ins[FW_CLASS_N][3] = {
    [FW_CLASS_CN] = {0x378, 0xfffe, 0x1fffe}, [FW_CLASS_CF] = {0xad, 0x200b, 0x110bd},
    [FW_CLASS_LL] = {0xe9, 0x2c61, 0x10428},  [FW_CLASS_LU] = {0xc9, 0x2c60, 0x10400},
    [FW_CLASS_LM] = {0x2b0, 0x1d2c, 0x16f93}, [FW_CLASS_LO] = {0x5d0, 0x4e00, 0x10280},
    [FW_CLASS_LT] = {0x1c5, 0x1f88, 0x1f88},  [FW_CLASS_MN] = {0x300, 0x20d0, 0x1d167},
    [FW_CLASS_ND] = {0x660, 0xff11, 0x1d7ce}, [FW_CLASS_NO] = {0xb2, 0x2460, 0x10107},
    [FW_CLASS_PO] = {0xa7, 0x2022, 0x10100},  [FW_CLASS_SO] = {0xa6, 0x2600, 0x1f300},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

uint32_t fw_unicode_stand_in(uint32_t code) {
    if (!fw_unicode_may_be_newer(code)) return code;
    if (code == 0x180e) return stand_ins[FW_CLASS_CF][1];
    size_t low = 0, high = COUNT(newer_classes);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > newer_classes[middle].last)
            low = middle + 1;
        else if (code < newer_classes[middle].first)
            high = middle;
        else
            return stand_ins[newer_classes[middle].category][code < 0x800 ? 0 : code < 0x10000 ? 1 : 2];
    }
    return code;
}

static bool contains(const fw_unicode_range *range, size_t range_n, uint32_t code) {
    size_t low = 0, high = range_n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > range[middle].last)
            low = middle + 1;
        else if (code < range[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

bool fw_unicode_is_inert(uint32_t code) { return code >= inert[0].first && contains(inert, COUNT(inert), code); }

bool fw_unicode_is_numeric(uint32_t code) {
    if (code < 0x80) return code >= '0' && code <= '9';
    return contains(numeric, COUNT(numeric), code);
}

bool fw_unicode_is_space(uint32_t code) {
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool fw_unicode_is_word(uint32_t code) {
    switch (utf8proc_category((utf8proc_int32_t)fw_unicode_stand_in(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
    }
    /* Join_Control, and the symbols that are Alphabetic (circled and squared letters). */
    return code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) ||
           (code >= 0x1f130 && code <= 0x1f149) || (code >= 0x1f150 && code <= 0x1f169) ||
           (code >= 0x1f170 && code <= 0x1f189);
}

bool fw_unicode_is_punctuation(uint32_t code) {
    if (code < 0x80)
        return (code > ' ' && code < '0') || (code > '9' && code < 'A') || (code > 'Z' && code < 'a') ||
               (code > 'z' && code < 0x7f);
    return contains(punctuation, COUNT(punctuation), code);
}

bool fw_unicode_is_accent(uint32_t code) { return code >= accents[0].first && contains(accents, COUNT(accents), code); }

uint32_t fw_unicode_lower(uint32_t code) {
    if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
    size_t low = 0, high = COUNT(lower);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > lower[middle].last)
            low = middle + 1;
        else if (code < lower[middle].first)
            high = middle;
        else
            return (code - lower[middle].first) % lower[middle].step ? code
                                                                     : (uint32_t)((int32_t)code + lower[middle].by);
    }
    return code;
}

fw_status fw_unicode_shape(const char **shape, fw_strbuf *copy, const char *text, size_t text_bytes) {
    *shape = text;
    for (size_t i = 0; i < text_bytes;) {
        uint32_t code;
        size_t bytes = fw_utf8_next(&code, text + i);
        if (code >= 0x558 && fw_unicode_may_be_newer(code)) {
            uint32_t stand_in = fw_unicode_stand_in(code);
            if (stand_in != code) {
                if (*shape == text) {
                    fw_strbuf_clear(copy);
                    FW_TRY(fw_strbuf_append(copy, text, text_bytes));
                    *shape = copy->data;
                }
                fw_utf8_put(copy->data + i, stand_in);
            }
        }
        i += bytes;
    }
    return FW_OK;
}
