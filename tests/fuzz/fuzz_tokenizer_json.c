/* The bytes are a tokenizer.json. If it loads, it must also encode and decode. */
#include "base/alloc.h"
#include "text/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/fw_fuzz_XXXXXX";

static void clean_up(void) {
    char path[64];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    remove(path);
    remove(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int ready;
    if (!ready && mkdtemp(dir) == NULL) abort();
    if (!ready) atexit(clean_up);
    ready = 1;
    char path[64];
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
    fw_tokenizer *tokenizer;
    if (fw_tokenizer_load(&tokenizer, dir) != FW_OK) {
        if (fw_trail_message()[0] == 0) abort(); /* an error says what is wrong */
        return 0;
    }
    fw_encoder *encoder;
    if (fw_encoder_create(&encoder, tokenizer) != FW_OK) abort();
    static const char text[] = "Hello  w\xc3\xb6rld e\xcc\x81 123 <|im_end|>\n\n \xf0\x9f\x98\x80 abcabc";
    fw_ids ids = {0};
    fw_offsets offsets = {0};
    fw_strbuf back = {0};
    for (unsigned flags = 0; flags < 4; flags++)
        if (fw_tokenizer_encode_offsets(encoder, &ids, &offsets, text, sizeof text - 1, flags) == FW_OK) {
            if (ids.n != offsets.n) abort();
            for (size_t i = 0; i < ids.n; i++)
                if (ids.id[i] < 0 || ids.id[i] >= fw_tokenizer_vocab_n(tokenizer) || offsets.offset[i] > sizeof text)
                    abort();
        }
    if (fw_tokenizer_decode(tokenizer, &back, ids.id, ids.n, false) != FW_OK) abort();
    fw_strbuf_fini(&back);
    fw_ids_fini(&ids);
    fw_offsets_fini(&offsets);
    fw_encoder_destroy(encoder);
    fw_tokenizer_destroy(tokenizer);
    return 0;
}
