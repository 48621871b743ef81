/* Two bytes pick a variant of a tokenizer of characters, the rest is text: it must load; then the ids are the same with
 * and without offsets and from the cache, and what comes out token by token is what comes out at once. */
#include "support/piece_tokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_N = 256 };

typedef struct kept {
    unsigned variant;
    fw_tokenizer *tokenizer;
    fw_encoder *encoder;
} kept;

static kept slots[KEPT_N];
static char dir[] = "/tmp/fw_fuzz_XXXXXX";

static void need(int condition) {
    if (!condition) abort();
}

static void release(void) {
    for (int i = 0; i < KEPT_N; i++) {
        fw_encoder_destroy(slots[i].encoder);
        fw_tokenizer_destroy(slots[i].tokenizer);
    }
    (void)fw_dir_remove(dir);
}

static const kept *take(unsigned variant) {
    static int ready;
    if (!ready) {
        need(mkdtemp(dir) != NULL);
        atexit(release);
        ready = 1;
    }
    kept *k = &slots[(variant ^ variant >> 8) % KEPT_N];
    if (k->tokenizer != NULL && k->variant == variant) return k;
    fw_encoder_destroy(k->encoder);
    fw_tokenizer_destroy(k->tokenizer);
    k->variant = variant;
    need(fw_test_write_piece_tokenizer(dir, variant) == FW_OK);
    need(fw_tokenizer_load(&k->tokenizer, dir) == FW_OK);
    need(fw_encoder_create(&k->encoder, k->tokenizer) == FW_OK);
    return k;
}

static void check_stream(const fw_tokenizer *t, const fw_ids *ids, const fw_strbuf *whole) {
    fw_decoder decoder;
    fw_strbuf out = {0};
    fw_decoder_init(&decoder, t, false);
    for (size_t i = 0; i < ids->n; i++) need(fw_decoder_push(&decoder, &out, ids->id[i]) == FW_OK);
    need(fw_decoder_finish(&decoder, &out) == FW_OK);
    need(fw_utf8_find_invalid(fw_strbuf_text(&out), out.len_bytes) == out.len_bytes);
    /* A run of byte tokens that is no text is shown before its end is known. */
    if (whole->len_bytes > 0 && memmem(whole->data, whole->len_bytes, "\xef\xbf\xbd", 3) == NULL &&
        fw_utf8_find_invalid(whole->data, whole->len_bytes) == whole->len_bytes)
        need(out.len_bytes == whole->len_bytes && memcmp(out.data, whole->data, out.len_bytes) == 0);
    fw_decoder_fini(&decoder);
    fw_strbuf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    unsigned variant = data[0] | (unsigned)data[1] << 8;
    const kept *k = take(variant);
    const char *text = (const char *)data + 2;
    size_t text_bytes = size - 2;
    bool strips = (variant >> 6 & 7) == 6; /* this decoder changes what stands at a token's end: not for streams */
    for (unsigned flags = 0; flags < 2; flags++) {
        fw_ids a = {0}, b = {0};
        fw_offsets offsets = {0};
        fw_strbuf back = {0};
        fw_status status = fw_tokenizer_encode(k->encoder, &a, text, text_bytes, flags);
        need((status == FW_OK) == (fw_utf8_find_invalid(text, text_bytes) == text_bytes));
        if (status == FW_OK) {
            for (int again = 0; again < 2; again++) {
                fw_ids_clear(&b);
                offsets.n = 0;
                need(fw_tokenizer_encode_offsets(k->encoder, &b, &offsets, text, text_bytes, flags) == FW_OK);
                need(a.n == b.n && a.n == offsets.n && (a.n == 0 || memcmp(a.id, b.id, a.n * sizeof *a.id) == 0));
            }
            for (size_t i = 0; i < a.n; i++) {
                need(fw_tokenizer_token(k->tokenizer, a.id[i]) != NULL && offsets.offset[i] <= text_bytes);
                need(flags == FW_ENCODE_SPECIAL || !fw_tokenizer_is_special(k->tokenizer, a.id[i]));
            }
            need(fw_tokenizer_decode(k->tokenizer, &back, a.id, a.n, false) == FW_OK);
            if (!strips) check_stream(k->tokenizer, &a, &back);
        }
        fw_strbuf_fini(&back);
        fw_offsets_fini(&offsets);
        fw_ids_fini(&a);
        fw_ids_fini(&b);
    }
    return 0;
}
