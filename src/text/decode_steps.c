#include "text/decode_steps.h"

#include "base/alloc.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocab.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

fw_status fw_token_list_close(fw_token_list *list) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        FW_TRY(FW_GROW_ARRAY(list->end, cap));
        list->cap = cap;
    }
    list->end[list->n++] = list->text.len_bytes;
    return FW_OK;
}

void fw_token_list_fini(fw_token_list *list) {
    fw_strbuf_fini(&list->text);
    fw_free(list->end);
    *list = (fw_token_list){0};
}

void fw_decode_steps_fini(fw_decode_steps *steps) {
    for (int i = 0; i < steps->step_n; i++) {
        fw_regex_destroy(steps->step[i].regex);
        fw_free(steps->step[i].find);
        fw_free(steps->step[i].with);
    }
    steps->step_n = 0;
}

/* Token i of a list, borrowed. */
static const char *token(const fw_token_list *list, size_t i, size_t *bytes) {
    size_t start = i > 0 ? list->end[i - 1] : 0;
    *bytes = list->end[i] - start;
    return fw_strbuf_text(&list->text) + start;
}

/* Valid UTF-8 of bytes: each maximal wrong part is one U+FFFD. */
static fw_status append_valid(fw_strbuf *out, const char *bytes, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes;) {
        int complete;
        size_t n = fw_utf8_measure((const unsigned char *)bytes + i, n_bytes - i, &complete);
        FW_TRY(complete ? fw_strbuf_append(out, bytes + i, n) : fw_strbuf_puts(out, replacement));
        i += n;
    }
    return FW_OK;
}

/* A spelling in which each character stands for a byte; one with any other character is text as it is. */
static fw_status append_byte_level(fw_strbuf *out, const char *text, size_t text_bytes) {
    size_t before = out->len_bytes;
    FW_TRY(fw_strbuf_reserve(out, text_bytes));
    for (size_t i = 0; i < text_bytes;) {
        uint32_t code;
        i += fw_utf8_next(&code, text + i);
        int byte = fw_vocab_char_byte(code);
        if (byte < 0) {
            out->len_bytes = before;
            return fw_strbuf_append(out, text, text_bytes);
        }
        out->data[out->len_bytes++] = (char)byte;
    }
    out->data[out->len_bytes] = 0;
    return FW_OK;
}

/* All tokens become one, which need not be valid UTF-8 when nothing comes after (`last`). */
static fw_status byte_level(const fw_token_list *in, fw_token_list *out, bool last) {
    fw_strbuf bytes = {0};
    fw_status status = FW_OK;
    for (size_t i = 0; i < in->n; i++) {
        size_t n;
        const char *text = token(in, i, &n);
        FW_TRY_OR(append_byte_level(last ? &out->text : &bytes, text, n), done);
    }
    if (!last) FW_TRY_OR(append_valid(&out->text, fw_strbuf_text(&bytes), bytes.len_bytes), done);
    status = fw_token_list_close(out);
done:
    fw_strbuf_fini(&bytes);
    return status;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte of a token <0x..>, or -1. The reference reads two digits as Rust does: a + sign and one digit will do. */
static int fallback_byte(const char *text, size_t bytes) {
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

static fw_status flush_bytes(fw_token_list *out, fw_strbuf *bytes) {
    if (bytes->len_bytes == 0) return FW_OK;
    if (fw_utf8_find_invalid(bytes->data, bytes->len_bytes) == bytes->len_bytes) {
        FW_TRY(fw_strbuf_append(&out->text, bytes->data, bytes->len_bytes));
        FW_TRY(fw_token_list_close(out));
    } else {
        for (size_t i = 0; i < bytes->len_bytes; i++) { /* one for each byte, the right ones among them too */
            FW_TRY(fw_strbuf_puts(&out->text, replacement));
            FW_TRY(fw_token_list_close(out));
        }
    }
    fw_strbuf_clear(bytes);
    return FW_OK;
}

static fw_status byte_fallback(const fw_token_list *in, fw_token_list *out) {
    fw_strbuf bytes = {0};
    fw_status status = FW_OK;
    for (size_t i = 0; i < in->n; i++) {
        size_t n;
        const char *text = token(in, i, &n);
        int byte = fallback_byte(text, n);
        if (byte >= 0) {
            FW_TRY_OR(fw_strbuf_putc(&bytes, (char)byte), done);
            continue;
        }
        FW_TRY_OR(flush_bytes(out, &bytes), done);
        FW_TRY_OR(fw_strbuf_append(&out->text, text, n), done);
        FW_TRY_OR(fw_token_list_close(out), done);
    }
    FW_TRY_OR(flush_bytes(out, &bytes), done);
done:
    fw_strbuf_fini(&bytes);
    return status;
}

static fw_status replace_string(fw_strbuf *out, const char *text, size_t text_bytes, const char *find,
                                size_t find_bytes, const char *with, size_t with_bytes) {
    for (;;) {
        const char *at = memmem(text, text_bytes, find, find_bytes);
        size_t before = at ? (size_t)(at - text) : text_bytes;
        FW_TRY(fw_strbuf_append(out, text, before));
        if (at == NULL) return FW_OK;
        FW_TRY(fw_strbuf_append(out, with, with_bytes));
        text += before + find_bytes;
        text_bytes -= before + find_bytes;
    }
}

static fw_status replace_regex(fw_strbuf *out, const char *text, size_t text_bytes, const fw_decode_step *step) {
    fw_regex_scratch *scratch = NULL;
    fw_strbuf copy = {0};
    fw_status status;
    fw_regex_walk walk = {.regex = step->regex, .text = text, .text_bytes = text_bytes};
    FW_TRY_OR(fw_regex_scratch_create(&scratch), done);
    if (fw_regex_asks_unicode(step->regex)) FW_TRY_OR(fw_unicode_shape(&walk.text, &copy, text, text_bytes), done);
    walk.scratch = scratch;
    for (size_t at = 0;;) {
        bool found;
        size_t start = 0, end = 0;
        FW_TRY_OR(fw_regex_next(&walk, &found, &start, &end), done);
        FW_TRY_OR(fw_strbuf_append(out, text + at, (found ? start : text_bytes) - at), done);
        if (!found) break;
        FW_TRY_OR(fw_strbuf_append(out, step->with, step->with_bytes), done);
        at = end;
    }
done:
    fw_regex_scratch_destroy(scratch);
    fw_strbuf_fini(&copy);
    return status;
}

static void strip(const fw_decode_step *step, const char **text, size_t *text_bytes) {
    for (uint32_t i = 0; i < step->left && *text_bytes >= step->find_bytes; i++) {
        if (memcmp(*text, step->find, step->find_bytes) != 0) break;
        *text += step->find_bytes;
        *text_bytes -= step->find_bytes;
    }
    for (uint32_t i = 0; i < step->right && *text_bytes >= step->find_bytes; i++) {
        if (memcmp(*text + *text_bytes - step->find_bytes, step->find, step->find_bytes) != 0) break;
        *text_bytes -= step->find_bytes;
    }
}

static fw_status change_token(const fw_decode_step *step, const fw_token_list *in, size_t i, fw_strbuf *out) {
    size_t n;
    const char *text = token(in, i, &n);
    switch (step->kind) {
    case FW_DECODE_STRIP: strip(step, &text, &n); return fw_strbuf_append(out, text, n);
    case FW_DECODE_REPLACE_REGEX: return replace_regex(out, text, n, step);
    case FW_DECODE_METASPACE:
        return replace_string(out, text, n, step->find, step->find_bytes, " ", i == 0 && step->left > 0 ? 0 : 1);
    case FW_DECODE_WORD_SUFFIX:
        return replace_string(out, text, n, step->find, step->find_bytes, " ", i + 1 == in->n ? 0 : 1);
    default: return replace_string(out, text, n, step->find, step->find_bytes, step->with, step->with_bytes);
    }
}

static fw_status run_step(const fw_decode_step *step, const fw_token_list *in, fw_token_list *out, bool last) {
    switch (step->kind) {
    case FW_DECODE_BYTE_LEVEL: return byte_level(in, out, last);
    case FW_DECODE_BYTE_FALLBACK: return byte_fallback(in, out);
    case FW_DECODE_FUSE: FW_TRY(fw_strbuf_append(&out->text, in->text.data, in->text.len_bytes)); break;
    default:
        for (size_t i = 0; i < in->n; i++) {
            FW_TRY(change_token(step, in, i, &out->text));
            FW_TRY(fw_token_list_close(out));
        }
        return FW_OK;
    }
    return fw_token_list_close(out);
}

fw_status fw_decode_run(const fw_decode_steps *steps, fw_token_list *tokens, fw_strbuf *out) {
    fw_token_list other = {0};
    fw_status status = FW_OK;
    for (int i = 0; i < steps->step_n; i++) {
        fw_strbuf_clear(&other.text);
        other.n = 0;
        FW_TRY_OR(run_step(&steps->step[i], tokens, &other, i + 1 == steps->step_n), done);
        fw_token_list swapped = *tokens;
        *tokens = other;
        other = swapped;
    }
    for (size_t i = 0; i < tokens->n; i++) {
        size_t n;
        const char *text = token(tokens, i, &n);
        if (i > 0 && steps->joins_with_space) FW_TRY_OR(fw_strbuf_putc(out, ' '), done);
        FW_TRY_OR(fw_strbuf_append(out, text, n), done);
    }
done:
    fw_token_list_fini(&other);
    return status;
}
