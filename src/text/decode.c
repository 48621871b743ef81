/* Ids -> text, at once and token by token. */
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static const char *respelt(const fw_tokenizer *t, int32_t id) {
    size_t low = 0, high = t->respelt_n; /* it is there */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (t->respelt[middle].id <= id)
            low = middle;
        else
            high = middle;
    }
    return t->respelt[low].text;
}

/* The spelling that decoders see, NULL for an id that adds nothing. An added token that the normaliser rewrites is seen
 * as rewritten, and by that name it is not special: so does the reference. */
static const char *spelling(const fw_tokenizer *t, int32_t id, bool skip_special) {
    const char *token = fw_vocab_token(&t->vocab, id);
    if (token == NULL) return NULL;
    if (t->vocab.flags[id] & FW_TOKEN_RESPELT) return respelt(t, id);
    return skip_special && (t->vocab.flags[id] & FW_TOKEN_SPECIAL) ? NULL : token;
}

fw_status fw_tokenizer_decode(const fw_tokenizer *t, fw_strbuf *out, const int32_t *ids, size_t id_n,
                              bool skip_special) {
    fw_token_list tokens = {0};
    fw_status status = FW_OK;
    for (size_t i = 0; i < id_n; i++) {
        const char *token = spelling(t, ids[i], skip_special);
        if (token == NULL) continue;
        FW_TRY_OR(fw_strbuf_puts(&tokens.text, token), done);
        FW_TRY_OR(fw_token_list_close(&tokens), done);
    }
    status = fw_decode_run(&t->decode, &tokens, out);
done:
    fw_token_list_fini(&tokens);
    return status;
}

void fw_decoder_init(fw_decoder *d, const fw_tokenizer *t, bool skip_special) {
    *d = (fw_decoder){.tokenizer = t, .skip_special = skip_special};
}

void fw_decoder_fini(fw_decoder *d) {
    fw_ids_fini(&d->window);
    d->pending_n = 0;
}

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

static fw_status push_bytes(fw_decoder *d, fw_strbuf *out, int32_t id) {
    fw_strbuf bytes = {0};
    fw_status status;
    FW_TRY_OR(fw_strbuf_append(&bytes, d->pending, (size_t)d->pending_n), done);
    FW_TRY_OR(fw_tokenizer_decode(d->tokenizer, &bytes, &id, 1, d->skip_special), done);
    FW_TRY_OR(emit(d, out, (const unsigned char *)bytes.data, bytes.len_bytes, false), done);
done:
    fw_strbuf_fini(&bytes);
    return status;
}

/* Other decoders look at the neighbours of a token, so a window of ids is decoded again with each new one: those shown
 * last, then those that wait. Text that ends with U+FFFD waits, up to a limit that no character needs. */
enum { WAITING_MAX = 64 };

static fw_status push_window(fw_decoder *d, fw_strbuf *out, bool at_end) {
    fw_strbuf shown = {0}, all = {0};
    fw_status status;
    FW_TRY_OR(fw_tokenizer_decode(d->tokenizer, &shown, d->window.id, d->shown_n, d->skip_special), done);
    FW_TRY_OR(fw_tokenizer_decode(d->tokenizer, &all, d->window.id, d->window.n, d->skip_special), done);
    bool waits = all.len_bytes <= shown.len_bytes ||
                 (all.len_bytes >= 3 && memcmp(all.data + all.len_bytes - 3, replacement, 3) == 0);
    if (waits && !at_end && d->window.n - d->shown_n < WAITING_MAX) goto done;
    if (all.len_bytes > shown.len_bytes)
        FW_TRY_OR(fw_strbuf_append(out, all.data + shown.len_bytes, all.len_bytes - shown.len_bytes), done);
    d->window.n -= d->shown_n;
    memmove(d->window.id, d->window.id + d->shown_n, d->window.n * sizeof *d->window.id);
    d->shown_n = d->window.n;
done:
    fw_strbuf_fini(&shown);
    fw_strbuf_fini(&all);
    return status;
}

static bool takes_bytes(const fw_tokenizer *t) {
    return t->decode.step_n == 1 && t->decode.step[0].kind == FW_DECODE_BYTE_LEVEL;
}

fw_status fw_decoder_push(fw_decoder *d, fw_strbuf *out, int32_t id) {
    if (takes_bytes(d->tokenizer)) return push_bytes(d, out, id);
    if (spelling(d->tokenizer, id, d->skip_special) == NULL) return FW_OK;
    FW_TRY(fw_ids_push(&d->window, id));
    return push_window(d, out, false);
}

fw_status fw_decoder_finish(fw_decoder *d, fw_strbuf *out) {
    if (!takes_bytes(d->tokenizer)) return d->window.n > d->shown_n ? push_window(d, out, true) : FW_OK;
    unsigned char rest[sizeof d->pending];
    memcpy(rest, d->pending, sizeof rest);
    return emit(d, out, rest, (size_t)d->pending_n, true);
}
