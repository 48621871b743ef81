#include "text/scan.h"

#include <stdbool.h>
#include <string.h>

/* The text that is scanned, and a look at one character of it. */
typedef struct scanner {
    const fw_char_classes *classes;
    const char *text;
    size_t text_bytes;
} scanner;

/* The class of the character at `at`, 0 at the end; *bytes its length, 0 at the end. */
static inline unsigned look(const scanner *s, size_t at, size_t *bytes) {
    *bytes = 0;
    return at < s->text_bytes ? fw_char_next(s->classes, s->text + at, bytes) : 0;
}

static inline bool is_break(char c) { return c == '\n' || c == '\r'; }

/* Where the characters of these classes end. */
static inline size_t run(const scanner *s, size_t at, unsigned classes) {
    while (at < s->text_bytes) {
        size_t bytes;
        if (!(fw_char_next(s->classes, s->text + at, &bytes) & classes)) break;
        at += bytes;
    }
    return at;
}

static inline size_t run_without(const scanner *s, size_t at, unsigned classes) {
    while (at < s->text_bytes) {
        size_t bytes;
        if (fw_char_next(s->classes, s->text + at, &bytes) & classes) break;
        at += bytes;
    }
    return at;
}

/* Up to max characters of these classes. */
static inline size_t few(const scanner *s, size_t at, unsigned classes, int max) {
    for (size_t bytes; max > 0 && (look(s, at, &bytes) & classes); max--) at += bytes;
    return at;
}

static inline size_t breaks(const scanner *s, size_t at, char also) {
    while (at < s->text_bytes && (is_break(s->text[at]) || s->text[at] == also)) at++;
    return at;
}

/* 's 't 're 've 'm 'll 'd, of any case: the long s is an s, too. */
static inline size_t contraction(const scanner *s, size_t at, bool any_case) {
    const char *c = s->text + at;
    size_t left = s->text_bytes - at;
    if (left < 2 || c[0] != '\'') return at;
    char fold = any_case ? 0x20 : 0, first = (char)(c[1] | fold), second = left > 2 ? (char)(c[2] | fold) : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    return any_case && left > 2 && memcmp(c + 1, "\xc5\xbf", 2) == 0 ? at + 3 : at;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at a white space; without the first alternative when !lines. */
static inline size_t spaces(const scanner *s, size_t from, bool lines) {
    size_t at = from, last = from, after_break = from, bytes;
    while (look(s, at, &bytes) & FW_CHAR_SPACE) {
        last = at;
        at += bytes;
        if (is_break(s->text[last])) after_break = at;
    }
    if (lines && after_break > from) return after_break;
    return at < s->text_bytes && last > from ? last : at; /* the last one goes with the word behind it */
}

/* GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t scan_gpt2(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    const scanner s = {classes, text, text_bytes};
    size_t bytes, at = from + (text[from] == ' '), end = contraction(&s, from, false);
    if (end > from) return end;
    unsigned class = look(&s, at, &bytes);
    if (bytes == 0 || (class & FW_CHAR_SPACE)) return spaces(&s, from, false);
    if (class & FW_CHAR_LETTER) return run(&s, at + bytes, FW_CHAR_LETTER);
    if (class & FW_CHAR_NUMBER) return run(&s, at + bytes, FW_CHAR_NUMBER);
    return run_without(&s, at + bytes, FW_CHAR_LETTER | FW_CHAR_NUMBER | FW_CHAR_SPACE);
}

/* cl100k and its kin, all of which match the same but for the digits: contractions, then
 * [^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static inline size_t scan_cl100k(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from,
                                 int digits) {
    const scanner s = {classes, text, text_bytes};
    size_t bytes, next_bytes;
    unsigned class = look(&s, from, &bytes);
    if (class & FW_CHAR_LETTER) return run(&s, from + bytes, FW_CHAR_LETTER);
    if (class & FW_CHAR_NUMBER) return few(&s, from + bytes, FW_CHAR_NUMBER, digits - 1);
    size_t end = contraction(&s, from, true);
    if (end > from) return end;
    unsigned next = look(&s, from + bytes, &next_bytes);
    if ((next & FW_CHAR_LETTER) && !is_break(text[from])) return run(&s, from + bytes + next_bytes, FW_CHAR_LETTER);
    const unsigned others = FW_CHAR_LETTER | FW_CHAR_NUMBER | FW_CHAR_SPACE;
    if (!(class & FW_CHAR_SPACE)) return breaks(&s, run_without(&s, from + bytes, others), '\n');
    if (text[from] == ' ' && next_bytes > 0 && !(next & others))
        return breaks(&s, run_without(&s, from + 1 + next_bytes, others), '\n');
    return spaces(&s, from, true);
}

static size_t scan_qwen2(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    return scan_cl100k(classes, text, text_bytes, from, 1);
}

static size_t scan_llama3(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    return scan_cl100k(classes, text, text_bytes, from, 3);
}

/* [UPPER]*[LOWER]+|[UPPER]+[LOWER]* at `at`; `at`: no match. In the first alternative UPPER gives back what LOWER
 * needs, so it ends behind the last character that is both. *second: only the second alternative matches. */
static inline size_t cased_word(const scanner *s, size_t at, bool *second) {
    size_t bytes, after_both = at, start = at;
    unsigned class;
    while ((class = look(s, at, &bytes)) & FW_CHAR_UPPER) {
        at += bytes;
        if (class & FW_CHAR_LOWER) after_both = at;
    }
    *second = false;
    if (class & FW_CHAR_LOWER) return run(s, at, FW_CHAR_LOWER);
    if (after_both > start) return after_both;
    *second = true;
    return at;
}

/* [^\r\n\p{L}\p{N}]? before each of the two: the first is tried with and without it, then the second. */
static inline size_t prefixed_cased_word(const scanner *s, size_t from) {
    size_t bytes;
    bool second;
    unsigned class = look(s, from, &bytes);
    if ((class & (FW_CHAR_LETTER | FW_CHAR_NUMBER)) || is_break(s->text[from])) return cased_word(s, from, &second);
    size_t end = cased_word(s, from + bytes, &second);
    if (!second) return end;
    if (class & FW_CHAR_MARK) return from + bytes; /* without the prefix, which is a word of its own */
    return end > from + bytes ? end : from;
}

/* o200k and Tekken: cased words, with a contraction behind them or not, \p{N}{1,digits},
 * ` ?[^\s\p{L}\p{N}]+[\r\n/]*`, and white space as in cl100k. */
static inline size_t scan_cased(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from,
                                int digits, bool contractions) {
    const scanner s = {classes, text, text_bytes};
    size_t bytes, next_bytes, end = prefixed_cased_word(&s, from);
    if (end > from) return contractions && end < text_bytes ? contraction(&s, end, true) : end;
    unsigned class = look(&s, from, &bytes);
    if (class & FW_CHAR_NUMBER) return few(&s, from + bytes, FW_CHAR_NUMBER, digits - 1);
    const unsigned others = FW_CHAR_LETTER | FW_CHAR_NUMBER | FW_CHAR_SPACE;
    if (!(class & FW_CHAR_SPACE)) return breaks(&s, run_without(&s, from + bytes, others), '/');
    unsigned next = look(&s, from + bytes, &next_bytes);
    if (text[from] == ' ' && next_bytes > 0 && !(next & others))
        return breaks(&s, run_without(&s, from + 1 + next_bytes, others), '/');
    return spaces(&s, from, true);
}

static size_t scan_o200k(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    return scan_cased(classes, text, text_bytes, from, 3, true);
}

static size_t scan_tekken(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    return scan_cased(classes, text, text_bytes, from, 1, false);
}

static inline bool is_ascii_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* DeepSeek 3: [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*, white space as in
 * cl100k; numbers and controls alone match nothing. */
static size_t scan_deepseek3(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    const scanner s = {classes, text, text_bytes};
    const unsigned word = FW_CHAR_LETTER | FW_CHAR_MARK, mark = FW_CHAR_PUNCT | FW_CHAR_SYMBOL;
    size_t bytes, next_bytes;
    unsigned class = look(&s, from, &bytes);
    if (class & word) return run(&s, from + bytes, word);
    unsigned next = look(&s, from + bytes, &next_bytes);
    if (class & mark) {
        size_t at = from + 1;
        if ((unsigned char)text[from] < 0x80)
            while (at < text_bytes && is_ascii_letter(text[at])) at++;
        return at > from + 1 ? at : breaks(&s, run(&s, from + bytes, mark), '\n');
    }
    if ((next & word) && !is_break(text[from])) return run(&s, from + bytes + next_bytes, word);
    if (text[from] == ' ' && (next & mark)) return breaks(&s, run(&s, from + 1 + next_bytes, mark), '\n');
    return class & FW_CHAR_SPACE ? spaces(&s, from, true) : from;
}

/* \p{N}{1,3} */
static size_t scan_three_digits(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    const scanner s = {classes, text, text_bytes};
    return few(&s, from, FW_CHAR_NUMBER, 3);
}

/* The letters of Chinese and Japanese that DeepSeek 3 names. */
static size_t scan_cjk(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from) {
    (void)classes;
    while (from < text_bytes && (unsigned char)text[from] >= 0xe3) {
        uint32_t code;
        size_t bytes = fw_utf8_next(&code, text + from);
        if (!(code >= 0x4e00 && code <= 0x9fa5) && !(code >= 0x3040 && code <= 0x30ff)) break;
        from += bytes;
    }
    return from;
}

#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const struct {
    const char *pattern;
    fw_scan_fn scan;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", scan_gpt2},
    {CONTRACTIONS WORDS "\\p{N}" TAIL, scan_qwen2},
    {CONTRACTIONS WORDS "\\p{N}{1,3}" TAIL, scan_llama3},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
     "\\s+(?!\\S)|\\s+",
     scan_llama3},
    {PREFIX UPPER "*" LOWER "+" CONTRACTIONS "?|" PREFIX UPPER "+" LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}" CASED_TAIL,
     scan_o200k},
    {PREFIX UPPER "*" LOWER "+|" PREFIX UPPER "+" LOWER "*|\\p{N}" CASED_TAIL, scan_tekken},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     scan_deepseek3},
    {"\\p{N}{1,3}", scan_three_digits},
    {"[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+", scan_cjk},
};

fw_scan_fn fw_scan_find(const char *pattern) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].pattern, pattern) == 0) return known[i].scan;
    return NULL;
}

const char *fw_scan_pattern(size_t index) { return index < sizeof known / sizeof *known ? known[index].pattern : NULL; }
