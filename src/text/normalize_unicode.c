/* NFC, NFD, NFKC and NFKD as the reference's version of Unicode has them. */
#include "text/normalize.h"

#include "base/alloc.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ASCII begins a new stretch in every form: it never changes and never joins with what stands before it.
 * A stretch is an ASCII character and what follows that is not ASCII. */
static size_t next_ascii(const char *text, size_t from, size_t text_bytes) {
    while (from < text_bytes && (unsigned char)text[from] >= 0x80) from++;
    return from;
}

static size_t next_non_ascii(const char *text, size_t from, size_t text_bytes) {
    uint64_t eight;
    while (text_bytes - from >= 8 && (memcpy(&eight, text + from, 8), (eight & 0x8080808080808080u) == 0)) from += 8;
    while (from < text_bytes && (unsigned char)text[from] < 0x80) from++;
    return from;
}

/* Blocks whose characters are their own NFC and do not join with one before them: most text of the world.
 * They are stable in every version of Unicode. */
static bool is_plain_nfc(uint32_t c) {
    return c < 0x300 || (c >= 0x400 && c < 0x483) || (c >= 0x3041 && c <= 0x3096) || (c >= 0x30a1 && c <= 0x30fa) ||
           (c >= 0x4e00 && c < 0x9fa6) || (c >= 0xac00 && c < 0xd7a4) || (c >= 0x2010 && c < 0x2027) ||
           (c >= 0x3001 && c < 0x3020) || (c >= 0xff01 && c < 0xff5f) || (c >= 0x1f300 && c < 0x1f650);
}

static bool run_is_plain_nfc(const char *text, size_t text_bytes) {
    for (size_t i = 0; i < text_bytes;) {
        uint32_t code;
        unsigned char lead = (unsigned char)text[i];
        if (lead > 0xe4 && lead < 0xe9) { /* U+5000..U+8FFF */
            i += 3;
            continue;
        }
        i += fw_utf8_next(&code, text + i);
        if (!is_plain_nfc(code)) return false;
    }
    return true;
}

/* Append the normal form of a piece without inert code points to the scratch. */
static fw_status append_form(fw_normal *n, fw_norm_kind form, const char *text, size_t text_bytes) {
    if (text_bytes == 0) return FW_OK;
    int options = UTF8PROC_STABLE;
    options |= form == FW_NORM_NFC || form == FW_NORM_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    if (form == FW_NORM_NFKC || form == FW_NORM_NFKD) options |= UTF8PROC_COMPAT;
    utf8proc_ssize_t code_n;
    for (;;) {
        code_n = utf8proc_decompose((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)text_bytes, n->code,
                                    (utf8proc_ssize_t)n->code_cap, (utf8proc_option_t)options);
        if (code_n < 0) return fw_fail(FW_ERR_INTERNAL, "utf8proc refused valid text: %s", utf8proc_errmsg(code_n));
        if ((size_t)code_n <= n->code_cap) break;
        FW_TRY(FW_GROW_ARRAY(n->code, (size_t)code_n + 64));
        n->code_cap = (size_t)code_n + 64;
    }
    code_n = utf8proc_normalize_utf32(n->code, code_n, (utf8proc_option_t)options);
    if (code_n < 0) return fw_fail(FW_ERR_INTERNAL, "utf8proc refused valid text: %s", utf8proc_errmsg(code_n));
    FW_TRY(fw_strbuf_reserve(&n->scratch, (size_t)code_n * 4));
    for (utf8proc_ssize_t i = 0; i < code_n; i++)
        n->scratch.len_bytes += fw_utf8_put(n->scratch.data + n->scratch.len_bytes, (uint32_t)n->code[i]);
    n->scratch.data[n->scratch.len_bytes] = 0;
    return FW_OK;
}

/* U+11A7 stands right before the Hangul finals that join with the syllable before them; Unicode counts from it
 * (TBase), and utf8proc takes it for a final itself and swallows it. */
bool fw_norm_is_inert(uint32_t code) { return fw_unicode_is_inert(code) || code == 0x11a7; }

static fw_status append_stretch(fw_normal *n, fw_norm_kind form, const char *text, size_t text_bytes) {
    size_t from = 0;
    for (size_t i = 0; i < text_bytes;) {
        uint32_t code;
        size_t bytes = fw_utf8_next(&code, text + i);
        if (fw_norm_is_inert(code)) {
            FW_TRY(append_form(n, form, text + from, i - from));
            FW_TRY(fw_strbuf_append(&n->scratch, text + i, bytes));
            from = i + bytes;
        }
        i += bytes;
    }
    return append_form(n, form, text + from, text_bytes - from);
}

static fw_status add_head(fw_norm_layer *layer, fw_norm_kind form, size_t start, size_t end) {
    size_t bytes;
    FW_TRY(fw_norm_unicode_head(&bytes, form, layer->input + start, end - start, layer->head_bytes - start));
    layer->head_copied += bytes;
    return FW_OK;
}

fw_status fw_norm_unicode(fw_normal *n, fw_norm_layer *layer, fw_norm_kind form) {
    const char *text = layer->input;
    const size_t text_bytes = layer->input_bytes;
    bool composes = form == FW_NORM_NFC;
    for (size_t at = next_non_ascii(text, 0, text_bytes); at < text_bytes;) {
        size_t end = next_ascii(text, at, text_bytes);
        if (!(composes && run_is_plain_nfc(text + at, end - at))) {
            size_t start = at > 0 ? at - 1 : at; /* with the ASCII letter that marks may join */
            fw_strbuf_clear(&n->scratch);
            FW_TRY(append_stretch(n, form, text + start, end - start));
            bool changed =
                n->scratch.len_bytes != end - start || memcmp(n->scratch.data, text + start, end - start) != 0;
            if (changed) {
                FW_TRY(fw_norm_edit_owned(layer, start, end, n->scratch.data, n->scratch.len_bytes, SIZE_MAX));
                if (start < layer->head_bytes) FW_TRY(add_head(layer, form, start, end));
            }
        }
        at = next_non_ascii(text, end, text_bytes);
    }
    return FW_OK;
}
