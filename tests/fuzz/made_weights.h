/* A safetensors file made in memory, tensor by tensor, for drivers that want what stands behind its header read. */
#ifndef FW_TESTS_FUZZ_MADE_WEIGHTS_H
#define FW_TESTS_FUZZ_MADE_WEIGHTS_H

#include "store/safetensors.h"

#include <stdio.h>
#include <string.h>

enum { MADE_HEADER_BYTES = 1 << 15, MADE_DATA_BYTES = 1 << 17 };

typedef struct made_weights {
    char header[MADE_HEADER_BYTES];
    size_t at; /* bytes of the header so far */
    uint8_t data[MADE_DATA_BYTES];
    size_t bytes;
    uint8_t file[8 + MADE_HEADER_BYTES + MADE_DATA_BYTES];
} made_weights;

static inline void made_begin(made_weights *w) {
    w->at = w->bytes = 0;
    w->header[w->at++] = '{';
}

/* One more, [rows, cols] or with cols = 0 [rows], of bytes that are `from` again and again. The name is plain text. */
static inline void made_put(made_weights *w, const char *name, const char *dtype, int64_t rows, int64_t cols,
                            size_t bytes, const uint8_t *from, size_t from_n) {
    char shape[64];
    snprintf(shape, sizeof shape, cols == 0 ? "[%lld]" : "[%lld,%lld]", (long long)rows, (long long)cols);
    const size_t left = sizeof w->header - w->at;
    const int n =
        snprintf(w->header + w->at, left, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                 w->at == 1 ? "" : ",", name, dtype, shape, w->bytes, w->bytes + bytes);
    FW_ASSERT(n > 0 && (size_t)n + 16 < left && w->bytes + bytes <= sizeof w->data);
    w->at += (size_t)n;
    for (size_t i = 0; i < bytes; i++) w->data[w->bytes + i] = from_n == 0 ? 0 : from[i % from_n];
    w->bytes += bytes;
}

static inline fw_status made_open(fw_safetensors *out, made_weights *w, const char *where) {
    w->header[w->at++] = '}';
    while (w->at % 8 != 0) w->header[w->at++] = ' ';
    const uint64_t header_n = w->at;
    memcpy(w->file, &header_n, sizeof header_n);
    memcpy(w->file + 8, w->header, w->at);
    memcpy(w->file + 8 + w->at, w->data, w->bytes);
    return fw_safetensors_parse(out, w->file, 8 + w->at + w->bytes, where);
}

#endif
