#include "text/jinja/jinja_number.h"

#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES_MAX = 400 };

static int compare_int_real(int64_t a, double b) {
    if (isnan(b)) return 2;
    if (b >= 9223372036854775808.0) return -1;
    if (b < -9223372036854775808.0) return 1;
    double whole = floor(b);
    int64_t i = (int64_t)whole;
    if (a != i) return a < i ? -1 : 1;
    return b > whole ? -1 : 0;
}

int fw_jinja_compare_numbers(const fw_jinja_value *a, const fw_jinja_value *b) {
    if (fw_jinja_is_integer(a) && fw_jinja_is_integer(b)) {
        int64_t x = fw_jinja_as_integer(a), y = fw_jinja_as_integer(b);
        return x < y ? -1 : x > y;
    }
    if (fw_jinja_is_integer(a)) return compare_int_real(fw_jinja_as_integer(a), b->real);
    if (fw_jinja_is_integer(b)) {
        int c = compare_int_real(fw_jinja_as_integer(b), a->real);
        return c == 2 ? 2 : -c;
    }
    if (isnan(a->real) || isnan(b->real)) return 2;
    return a->real < b->real ? -1 : a->real > b->real;
}

int fw_jinja_print_real(char out[FW_JINJA_REAL_BYTES], double value) {
    if (isnan(value)) return snprintf(out, FW_JINJA_REAL_BYTES, "nan");
    if (isinf(value)) return snprintf(out, FW_JINJA_REAL_BYTES, value < 0 ? "-inf" : "inf");
    char digits[40];
    int precision = 1;
    for (; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
        double back = strtod(digits, NULL);
        if (memcmp(&back, &value, sizeof back) == 0) break;
    }
    snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = precision - 1 - exponent;
        int n = snprintf(out, FW_JINJA_REAL_BYTES, "%.*f", decimals > 0 ? decimals : 0, value);
        if (decimals <= 0) n += snprintf(out + n, (size_t)(FW_JINJA_REAL_BYTES - n), ".0");
        return n;
    }
    return snprintf(out, FW_JINJA_REAL_BYTES, "%s", digits); /* C's e+16 and e-05 are Python's */
}

/* Without the white space around it; *negative from a sign, which is taken off. */
static void trim(const char **text, size_t *bytes, bool *negative) {
    fw_jinja_strip_space(text, bytes, true, true);
    *negative = false;
    if (*bytes > 0 && (**text == '-' || **text == '+')) {
        *negative = **text == '-';
        *text += 1;
        *bytes -= 1;
    }
}

/* Decimal digits of any script count as those of ASCII. copy holds the text then. */
static bool to_ascii(char *copy, size_t copy_bytes, const char **text, size_t *bytes) {
    size_t n = 0, at = 0;
    while (at < *bytes && (unsigned char)(*text)[at] < 0x80) at++;
    if (at == *bytes) return true;
    for (at = 0; at < *bytes; n++) {
        uint32_t code;
        if (n == copy_bytes) return false;
        at += fw_utf8_next(&code, *text + at);
        int digit = code < 0x80 ? -1 : fw_jinja_decimal_value(code);
        if (code >= 0x80 && digit < 0) return false;
        copy[n] = digit >= 0 ? (char)('0' + digit) : (char)code;
    }
    *text = copy;
    *bytes = n;
    return true;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

bool fw_jinja_read_int(int64_t *out, const char *text, size_t bytes, int base) {
    bool negative, prefixed = false;
    char ascii[NUMBER_BYTES_MAX];
    trim(&text, &bytes, &negative);
    if (!to_ascii(ascii, sizeof ascii, &text, &bytes)) return false;
    if (bytes > 2 && text[0] == '0' && isalpha((unsigned char)text[1])) {
        int named = strchr("xX", text[1]) ? 16 : strchr("oO", text[1]) ? 8 : strchr("bB", text[1]) ? 2 : 0;
        if (named != 0 && (base == 0 || base == named)) {
            base = named;
            prefixed = true;
            text += 2;
            bytes -= 2;
        }
    }
    if (base == 0 && bytes > 1 && text[0] == '0')
        for (size_t i = 0; i < bytes; i++)
            if (text[i] != '0' && text[i] != '_') return false;
    if (base == 0) base = 10;
    uint64_t value = 0, limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    bool digit_before = prefixed; /* an underscore needs a digit on both sides */
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '_') {
            if (!digit_before || i + 1 == bytes) return false;
            digit_before = false;
            continue;
        }
        int digit = digit_value(text[i]);
        if (digit >= base || value > (limit - (uint64_t)digit) / (uint64_t)base) return false;
        value = value * (uint64_t)base + (uint64_t)digit;
        digit_before = true;
    }
    if (bytes == 0) return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool fw_jinja_read_real(double *out, const char *text, size_t bytes) {
    bool negative;
    char copy[NUMBER_BYTES_MAX], ascii[NUMBER_BYTES_MAX];
    trim(&text, &bytes, &negative);
    if (!to_ascii(ascii, sizeof ascii, &text, &bytes)) return false;
    size_t n = 0;
    static const char *const words[] = {"inf", "infinity", "nan"};
    for (int w = 0; w < 3; w++)
        if (bytes == strlen(words[w]) && strncasecmp(text, words[w], bytes) == 0) {
            *out = w == 2 ? (double)NAN : negative ? -(double)INFINITY : (double)INFINITY;
            return true;
        }
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '_') {
            bool between =
                i > 0 && i + 1 < bytes && isdigit((unsigned char)text[i - 1]) && isdigit((unsigned char)text[i + 1]);
            if (!between) return false;
            continue;
        }
        if (!isdigit((unsigned char)c) && strchr(".eE+-", c) == NULL) return false;
        if (c == 0 || n + 1 == sizeof copy) return false;
        copy[n++] = c;
    }
    copy[n] = 0;
    if (n == 0 || copy[0] == '+' || copy[0] == '-') return false;
    char *end;
    double value = strtod(copy, &end);
    if (*end != 0) return false;
    *out = negative ? -value : value;
    return true;
}

bool fw_jinja_fits_int(double value) { return value >= -9223372036854775808.0 && value < 9223372036854775808.0; }
