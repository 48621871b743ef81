#include "text/jinja/jinja_unicode.h"

#include "text/utf8.h"

#include <utf8proc.h>

#include "text/jinja/jinja_case.inc"

bool fw_jinja_is_space(uint32_t code) {
    if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool fw_jinja_is_line_end(uint32_t code) {
    return (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

bool fw_jinja_is_printable(uint32_t code) {
    if (code < 0x7f) return code >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}

size_t fw_jinja_char_before(const char *text, size_t at, uint32_t *code) {
    size_t start = at - 1;
    while (start > 0 && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
    fw_utf8_next(code, text + start);
    return start;
}

void fw_jinja_strip_space(const char **text, size_t *bytes, bool left, bool right) {
    const char *start = *text, *end = *text + *bytes;
    uint32_t code;
    while (left && start < end) {
        size_t n = fw_utf8_next(&code, start);
        if (!fw_jinja_is_space(code)) break;
        start += n;
    }
    while (right && end > start) {
        size_t before = fw_jinja_char_before(start, (size_t)(end - start), &code);
        if (!fw_jinja_is_space(code)) break;
        end = start + before;
    }
    *text = start;
    *bytes = (size_t)(end - start);
}

size_t fw_jinja_count_chars(const char *text, size_t bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

size_t fw_jinja_char_offset(const char *text, size_t bytes, size_t char_at) {
    size_t at = 0;
    for (; at < bytes; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && char_at-- == 0) break;
    return at;
}

int fw_jinja_change_case(uint32_t out[3], uint32_t code, fw_jinja_case to) {
    if (code < 0x80) {
        bool lower = code >= 'a' && code <= 'z', upper = code >= 'A' && code <= 'Z';
        bool down = to == FW_JINJA_LOWER || to == FW_JINJA_FOLD;
        out[0] = down ? code + (upper ? 32 : 0) : code - (lower ? 32 : 0);
        return 1;
    }
    if (to == FW_JINJA_FOLD) {
        utf8proc_int32_t folded[4];
        int boundary = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, folded, 3, UTF8PROC_CASEFOLD, &boundary);
        for (utf8proc_ssize_t i = 0; i < n && n <= 3; i++) out[i] = (uint32_t)folded[i];
        return n > 0 && n <= 3 ? (int)n : 0;
    }
    if (to == FW_JINJA_LOWER && code == 0x130) { /* the only long one */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    if (to != FW_JINJA_LOWER) {
        size_t low = 0, high = sizeof long_cases / sizeof *long_cases;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (long_cases[middle].code < code)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < sizeof long_cases / sizeof *long_cases && long_cases[low].code == code) {
            const uint32_t *from = to == FW_JINJA_UPPER ? long_cases[low].upper : long_cases[low].title;
            int n = 0;
            while (n < 3 && from[n] != 0) {
                out[n] = from[n];
                n++;
            }
            return n;
        }
    }
    utf8proc_int32_t c = (utf8proc_int32_t)code;
    out[0] = (uint32_t)(to == FW_JINJA_LOWER   ? utf8proc_tolower(c)
                        : to == FW_JINJA_UPPER ? utf8proc_toupper(c)
                                               : utf8proc_totitle(c));
    return 1;
}

bool fw_jinja_is_upper(uint32_t code) { return utf8proc_isupper((utf8proc_int32_t)code) != 0; }
bool fw_jinja_is_lower(uint32_t code) { return utf8proc_islower((utf8proc_int32_t)code) != 0; }

bool fw_jinja_is_alpha(uint32_t code) {
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
    }
}

bool fw_jinja_is_decimal(uint32_t code) {
    return code < 0x80 ? code >= '0' && code <= '9' : utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_ND;
}

static const struct number_range *find_number(uint32_t code) {
    size_t low = 0, high = sizeof number_ranges / sizeof *number_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (number_ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == sizeof number_ranges / sizeof *number_ranges || number_ranges[low].first > code) return NULL;
    return &number_ranges[low];
}

bool fw_jinja_is_digit(uint32_t code) {
    const struct number_range *range = find_number(code);
    return fw_jinja_is_decimal(code) || (range != NULL && range->is_digit);
}

bool fw_jinja_is_numeric(uint32_t code) { return fw_jinja_is_decimal(code) || find_number(code) != NULL; }

/* Digits of a script stand together from 0 to 9; where scripts touch, the next ten begin. */
int fw_jinja_decimal_value(uint32_t code) {
    uint32_t zero = code;
    if (!fw_jinja_is_decimal(code)) return -1;
    while (fw_jinja_is_decimal(zero - 1)) zero--;
    return (int)((code - zero) % 10);
}
