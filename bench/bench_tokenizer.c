/* CPU seconds to encode documents on one thread: once with a fresh encoder, then again with its words in the cache.
 *
 *   bench_tokenizer DIR < documents     DIR holds a tokenizer.json; documents end with a zero byte each
 *
 * Prints cold seconds, warm seconds, number of ids, a hash of the ids. bench/bench_tokenizer.py compares them with the
 * tokenizers package's. */
#include "base/alloc.h"
#include "text/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static fw_status read_all(fw_strbuf *text) {
    size_t n;
    do {
        FW_TRY(fw_strbuf_reserve(text, 1 << 20));
        n = fread(text->data + text->len_bytes, 1, 1 << 20, stdin);
        text->len_bytes += n;
    } while (n > 0);
    return FW_OK;
}

static fw_status encode_all(fw_encoder *encoder, fw_ids *ids, const fw_strbuf *text, double *seconds) {
    double start = now_s();
    fw_ids_clear(ids);
    for (size_t at = 0, n; at < text->len_bytes; at += n + 1) {
        n = strlen(text->data + at);
        FW_TRY(fw_tokenizer_encode(encoder, ids, text->data + at, n, FW_ENCODE_SPECIAL));
    }
    *seconds = now_s() - start;
    return FW_OK;
}

int main(int argc, char **argv) {
    fw_tokenizer *tokenizer = NULL;
    fw_encoder *encoder = NULL;
    fw_strbuf text = {0};
    fw_ids ids = {0};
    double cold = 0, warm = 0;
    fw_status status = FW_OK;
    if (argc != 2) {
        puts("bench_tokenizer DIR < documents; bench/bench_tokenizer.py runs it");
        return 0;
    }
    FW_TRY_OR(fw_tokenizer_load(&tokenizer, argv[1]), done);
    FW_TRY_OR(fw_encoder_create(&encoder, tokenizer), done);
    FW_TRY_OR(read_all(&text), done);
    FW_TRY_OR(fw_strbuf_putc(&text, 0), done);
    text.len_bytes--;
    FW_TRY_OR(encode_all(encoder, &ids, &text, &cold), done);
    FW_TRY_OR(encode_all(encoder, &ids, &text, &warm), done);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV */
    for (size_t i = 0; i < ids.n; i++) hash = (hash ^ (uint64_t)ids.id[i]) * 0x100000001b3u;
    printf("%.6f %.6f %zu %016" PRIx64 "\n", cold, warm, ids.n, hash);
done:
    if (status != FW_OK) fprintf(stderr, "bench_tokenizer: %s\n", fw_trail_message());
    fw_ids_fini(&ids);
    fw_strbuf_fini(&text);
    fw_encoder_destroy(encoder);
    fw_tokenizer_destroy(tokenizer);
    return status == FW_OK ? 0 : 1;
}
