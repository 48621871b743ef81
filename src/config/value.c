/* Texts to values. The process never calls setlocale, so numbers are read in the C locale. */
#include "config/lookup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *fw_value_read_bool(bool *out, const char *text) {
    static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int value = 0; value < 2; value++) {
            if (strcasecmp(text, words[i][value]) != 0) continue;
            *out = value != 0;
            return NULL;
        }
    }
    return "it must be true or false";
}

/* Only what decimal numbers are made of: keeps out nan, inf, hexadecimal, spaces. */
static bool is_decimal(const char *text) { return *text != 0 && text[strspn(text, "+-.eE0123456789")] == 0; }

const char *fw_value_read_float(double *out, const char *text) {
    static const char *const not_finite[] = {"nan", "inf", "infinity"};
    const char *word = text + (*text == '+' || *text == '-' || *text == '.');
    for (size_t i = 0; i < sizeof not_finite / sizeof not_finite[0]; i++)
        if (strcasecmp(word, not_finite[i]) == 0) return "it must be a finite number";
    if (!is_decimal(text)) return "it is not a number";
    char *end;
    double value = strtod(text, &end);
    if (*end != 0 || end == text) return "it is not a number";
    if (!(value >= -0x1.fffffffffffffp1023 && value <= 0x1.fffffffffffffp1023)) return "the number is too large";
    *out = value;
    return NULL;
}

const char *fw_value_read_int(int64_t *out, const char *text) {
    if (!is_decimal(text)) return "it is not a whole number";
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (*end == 0 && end != text) {
        if (errno == ERANGE) return "the number is too large";
        *out = whole;
        return NULL;
    }
    /* 1e3 and 8.0 are whole numbers, too; above 2^53 a double cannot tell */
    double value;
    const char *wrong = fw_value_read_float(&value, text);
    if (wrong != NULL) return wrong[0] == 't' ? wrong : "it is not a whole number";
    if (value != floor(value)) return "it is not a whole number";
    if (fabs(value) > 0x1p53) return "the number is too large";
    *out = (int64_t)value;
    return NULL;
}

const char *fw_value_read_size(int64_t *out, const char *text) {
    static const struct {
        const char *unit;
        int64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"KB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"TB", 1000000000000},
                 {"K", INT64_C(1) << 10}, /* as nccl-tests and dd have it */
                 {"M", INT64_C(1) << 20},
                 {"G", INT64_C(1) << 30},
                 {"T", INT64_C(1) << 40},
                 {"KiB", INT64_C(1) << 10},
                 {"MiB", INT64_C(1) << 20},
                 {"GiB", INT64_C(1) << 30},
                 {"TiB", INT64_C(1) << 40}};
    static const char *const shape = "it is not a size; write 5GB or 512MiB";
    size_t digits = strspn(text, "0123456789.");
    char number[32];
    if (digits == 0 || digits >= sizeof number) return shape;
    memcpy(number, text, digits);
    number[digits] = 0;
    double value;
    if (fw_value_read_float(&value, number) != NULL) return shape;
    const char *unit = text + digits + strspn(text + digits, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(unit, units[i].unit) != 0) continue;
        double bytes = value * (double)units[i].bytes;
        if (!(bytes < 0x1p62)) return "the size is too large";
        *out = (int64_t)bytes;
        return NULL;
    }
    return shape;
}

/* The Unicode Standard 15, table 3-7: well-formed UTF-8. */
const char *fw_value_check_text(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    while (*s != 0) {
        int more = *s < 0x80                 ? 0
                   : *s >= 0xc2 && *s < 0xe0 ? 1
                   : *s >= 0xe0 && *s < 0xf0 ? 2
                   : *s >= 0xf0 && *s < 0xf5 ? 3
                                             : -1;
        if (more < 0) return "it is not valid UTF-8";
        unsigned char low = *s == 0xe0 ? 0xa0 : *s == 0xf0 ? 0x90 : 0x80;
        unsigned char high = *s == 0xed ? 0x9f : *s == 0xf4 ? 0x8f : 0xbf;
        s++;
        for (; more > 0; more--, s++) {
            if (*s < low || *s > high) return "it is not valid UTF-8";
            low = 0x80;
            high = 0xbf;
        }
    }
    return NULL;
}
