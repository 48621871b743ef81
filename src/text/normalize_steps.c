/* The normalisers that look at one character or one match at a time. */
#include "text/normalize.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab.h"

#include <string.h>

/* What one code point becomes: *with holds up to 8 bytes; -1: it stays. */
static int map_code(fw_norm_kind kind, uint32_t code, char *with) {
    uint32_t to = code;
    switch (kind) {
    case FW_NORM_LOWERCASE:
        if (code == 0x130) { /* the one letter whose small form is two code points */
            memcpy(with, "i\xcc\x87", 3);
            return 3;
        }
        to = fw_unicode_lower(code);
        break;
    case FW_NORM_STRIP_ACCENTS: return code >= 0x80 && fw_unicode_is_accent(code) ? 0 : -1;
    case FW_NORM_NMT: /* Source: the normaliser of SentencePiece of this name */
        if ((code >= 1 && code <= 8) || code == 0xb || (code >= 0xe && code <= 0x1f) || code == 0x7f || code == 0x8f ||
            code == 0x9f)
            return 0;
        if (code == '\t' || code == '\n' || code == '\f' || code == '\r' || code == 0x1680 ||
            (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
            code == 0xfeff || code == 0xfffd)
            to = ' ';
        break;
    default: break;
    }
    return to == code ? -1 : (int)fw_utf8_put(with, to);
}

static fw_status map_all(fw_norm_layer *l, fw_norm_kind kind) {
    for (size_t i = 0; i < l->input_bytes;) {
        uint32_t code;
        char with[8];
        size_t bytes = fw_utf8_next(&code, l->input + i);
        int with_bytes = map_code(kind, code, with);
        if (with_bytes >= 0) FW_TRY(fw_norm_edit(l, i, i + bytes, with, (size_t)with_bytes));
        i += bytes;
    }
    return FW_OK;
}

static fw_status byte_level(fw_norm_layer *l) {
    for (size_t i = 0; i < l->input_bytes; i++) {
        char with[4];
        unsigned char byte = (unsigned char)l->input[i];
        uint32_t code = fw_vocab_byte_char(byte);
        if (code == byte && byte < 0x80) continue;
        FW_TRY(fw_norm_edit(l, i, i + 1, with, fw_utf8_put(with, code)));
    }
    return FW_OK;
}

static fw_status strip(fw_norm_layer *l, bool left, bool right) {
    size_t start = 0, end = l->input_bytes;
    uint32_t code;
    while (left && start < end) {
        size_t bytes = fw_utf8_next(&code, l->input + start);
        if (!fw_unicode_is_space(code)) break;
        start += bytes;
    }
    while (right && end > start) {
        size_t at = end - 1;
        while (((unsigned char)l->input[at] & 0xc0) == 0x80) at--;
        fw_utf8_next(&code, l->input + at);
        if (!fw_unicode_is_space(code)) break;
        end = at;
    }
    if (start > 0) FW_TRY(fw_norm_edit(l, 0, start, "", 0));
    return end < l->input_bytes ? fw_norm_edit(l, end, l->input_bytes, "", 0) : FW_OK;
}

/* What replaces a match belongs to its last byte, or to the byte before an empty one. */
static fw_status replace(fw_norm_layer *l, const fw_norm_step *step, size_t start, size_t end) {
    return fw_norm_edit_owned(l, start, end, step->with, step->with_bytes, end > 0 ? end - 1 : 0);
}

static fw_status replace_string(fw_norm_layer *l, const fw_norm_step *step) {
    for (size_t from = 0; from < l->input_bytes;) {
        const char *at = memmem(l->input + from, l->input_bytes - from, step->find, step->find_bytes);
        if (at == NULL) break;
        size_t start = (size_t)(at - l->input);
        from = start + step->find_bytes;
        FW_TRY(replace(l, step, start, from));
    }
    return FW_OK;
}

static fw_status replace_regex(fw_normal *n, fw_norm_layer *l, const fw_norm_step *step, fw_regex_scratch *regex) {
    const char *shape = l->input;
    if (fw_regex_asks_unicode(step->regex)) FW_TRY(fw_unicode_shape(&shape, &n->shape, l->input, l->input_bytes));
    fw_regex_walk walk = {.regex = step->regex, .scratch = regex, .text = shape, .text_bytes = l->input_bytes};
    for (;;) {
        bool found;
        size_t start = 0, end = 0;
        FW_TRY(fw_regex_next(&walk, &found, &start, &end));
        if (!found) return FW_OK;
        FW_TRY(replace(l, step, start, end));
    }
}

fw_status fw_norm_run_step(fw_normal *n, fw_norm_layer *l, const fw_norm_step *step, fw_regex_scratch *regex) {
    if (l->input_bytes == 0) return FW_OK;
    switch (step->kind) {
    case FW_NORM_BYTE_LEVEL: return byte_level(l);
    case FW_NORM_STRIP: return strip(l, step->left, step->right);
    case FW_NORM_PREPEND: return fw_norm_edit(l, 0, 0, step->with, step->with_bytes);
    case FW_NORM_REPLACE_STRING: return replace_string(l, step);
    case FW_NORM_REPLACE_REGEX: return replace_regex(n, l, step, regex);
    default: return map_all(l, step->kind);
    }
}
