/* The first byte picks a tokenizer, the rest is text: refused when it is not UTF-8, else encoded, with the same
 * ids with and without offsets and from the cache, and decoded; without normaliser the text must come back. */
#include "support/tiny_tokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include "base/file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static fw_tokenizer *tokenizers[FW_TEST_STYLE_N];
static fw_encoder *encoders[FW_TEST_STYLE_N];

static void release(void) {
    for (int style = 0; style < FW_TEST_STYLE_N; style++) {
        fw_encoder_destroy(encoders[style]);
        fw_tokenizer_destroy(tokenizers[style]);
    }
}

static void need(int condition) {
    if (!condition) abort();
}

static void set_up(void) {
    char dir[] = "/tmp/fw_fuzz_XXXXXX";
    need(mkdtemp(dir) != NULL);
    for (int style = 0; style < FW_TEST_STYLE_N; style++) {
        need(fw_test_write_tokenizer(dir, (fw_test_tokenizer_style)style) == FW_OK);
        need(fw_tokenizer_load(&tokenizers[style], dir) == FW_OK);
        need(fw_encoder_create(&encoders[style], tokenizers[style]) == FW_OK);
    }
    need(fw_dir_remove(dir) == FW_OK);
    atexit(release);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (tokenizers[0] == NULL) set_up();
    if (size == 0) return 0;
    int style = data[0] % FW_TEST_STYLE_N;
    unsigned flags = data[0] & 0x80 ? FW_ENCODE_SPECIAL : FW_ENCODE_LITERAL;
    const char *text = (const char *)data + 1;
    size_t text_bytes = size - 1;
    fw_ids a = {0}, b = {0};
    fw_offsets offsets = {0};
    fw_strbuf back = {0};
    fw_status status = fw_tokenizer_encode(encoders[style], &a, text, text_bytes, flags);
    need((status == FW_OK) == (fw_utf8_find_invalid(text, text_bytes) == text_bytes));
    if (status == FW_OK) {
        need(fw_tokenizer_encode_offsets(encoders[style], &b, &offsets, text, text_bytes, flags) == FW_OK);
        need(a.n == b.n && a.n == offsets.n && (a.n == 0 || memcmp(a.id, b.id, a.n * sizeof *a.id) == 0));
        for (size_t i = 0; i < a.n; i++) {
            need(a.id[i] >= 0 && a.id[i] < FW_TEST_VOCAB_N && offsets.offset[i] < text_bytes);
            need(i == 0 || offsets.offset[i - 1] <= offsets.offset[i]);
            need(flags == FW_ENCODE_SPECIAL || !fw_tokenizer_is_special(tokenizers[style], a.id[i]));
        }
        need(fw_tokenizer_decode(tokenizers[style], &back, a.id, a.n, false) == FW_OK);
        if (style == FW_TEST_SMOLLM2)
            need(back.len_bytes == text_bytes && (text_bytes == 0 || memcmp(back.data, text, text_bytes) == 0));
    }
    fw_strbuf_fini(&back);
    fw_offsets_fini(&offsets);
    fw_ids_fini(&a);
    fw_ids_fini(&b);
    return 0;
}
