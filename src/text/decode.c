/* Ids -> text. */
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#include <string.h>

/* A spelling in which each character stands for a byte; one with any other character is text as it is. */
static fw_status append_token(fw_strbuf *out, const char *token) {
    size_t before = out->len_bytes, token_bytes = strlen(token);
    FW_TRY(fw_strbuf_reserve(out, token_bytes));
    for (size_t i = 0; i < token_bytes;) {
        uint32_t code;
        i += fw_utf8_next(&code, token + i);
        int byte = fw_vocab_char_byte(code);
        if (byte < 0) {
            out->len_bytes = before;
            return fw_strbuf_append(out, token, token_bytes);
        }
        out->data[out->len_bytes++] = (char)byte;
    }
    out->data[out->len_bytes] = 0;
    return FW_OK;
}

fw_status fw_tokenizer_decode(const fw_tokenizer *t, fw_strbuf *out, const int32_t *ids, size_t id_n,
                              bool skip_special) {
    for (size_t i = 0; i < id_n; i++) {
        const char *token = fw_vocab_token(&t->vocab, ids[i]);
        if (token == NULL || (skip_special && fw_tokenizer_is_special(t, ids[i]))) continue;
        FW_TRY(append_token(out, token));
    }
    return FW_OK;
}

void fw_decoder_init(fw_decoder *d, const fw_tokenizer *t, bool skip_special) {
    *d = (fw_decoder){.tokenizer = t, .skip_special = skip_special};
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Emit whole characters of bytes; at the end of the text also what is incomplete, as U+FFFD. */
static fw_status emit(fw_decoder *d, fw_strbuf *out, const unsigned char *bytes, size_t n_bytes, bool at_end) {
    size_t i = 0;
    while (i < n_bytes) {
        int complete;
        size_t n = fw_utf8_measure(bytes + i, n_bytes - i, &complete);
        if (complete) {
            FW_TRY(fw_strbuf_append(out, bytes + i, n));
        } else if (i + n == n_bytes && !at_end && bytes[i] >= 0xc2 && bytes[i] < 0xf5) {
            break; /* may still become a character */
        } else {
            FW_TRY(fw_strbuf_puts(out, replacement));
        }
        i += n;
    }
    d->pending_n = (int)(n_bytes - i);
    memcpy(d->pending, bytes + i, n_bytes - i);
    return FW_OK;
}

fw_status fw_decoder_push(fw_decoder *d, fw_strbuf *out, int32_t id) {
    fw_strbuf bytes = {0};
    fw_status status;
    FW_TRY_OR(fw_strbuf_append(&bytes, d->pending, (size_t)d->pending_n), done);
    FW_TRY_OR(fw_tokenizer_decode(d->tokenizer, &bytes, &id, 1, d->skip_special), done);
    FW_TRY_OR(emit(d, out, (const unsigned char *)bytes.data, bytes.len_bytes, false), done);
done:
    fw_strbuf_fini(&bytes);
    return status;
}

fw_status fw_decoder_finish(fw_decoder *d, fw_strbuf *out) {
    unsigned char rest[sizeof d->pending];
    memcpy(rest, d->pending, sizeof rest);
    return emit(d, out, rest, (size_t)d->pending_n, true);
}
