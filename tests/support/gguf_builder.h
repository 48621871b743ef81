/* Small GGUF files for tests, made in memory. */
#ifndef FW_TESTS_SUPPORT_GGUF_BUILDER_H
#define FW_TESTS_SUPPORT_GGUF_BUILDER_H

#include "base/strbuf.h"
#include "model/param_table.h"

#include <stdbool.h>
#include <stdint.h>

/* {0} is an empty one; fw_test_gguf_fini releases. Running out of memory aborts. */
typedef struct fw_test_gguf {
    fw_strbuf values, tensors, data;
    uint64_t value_n, tensor_n;
} fw_test_gguf;

void fw_test_gguf_u32(fw_test_gguf *g, const char *key, uint32_t value);
void fw_test_gguf_f32(fw_test_gguf *g, const char *key, float value);
void fw_test_gguf_bool(fw_test_gguf *g, const char *key, bool value);
void fw_test_gguf_string(fw_test_gguf *g, const char *key, const char *value);
void fw_test_gguf_strings(fw_test_gguf *g, const char *key, const char *const *values, uint64_t n);
void fw_test_gguf_f32s(fw_test_gguf *g, const char *key, const float *values, uint64_t n);
void fw_test_gguf_i32s(fw_test_gguf *g, const char *key, const int32_t *values, uint64_t n);
/* type: a number of ggml; shape slowest first; data is padded to 32 bytes. */
void fw_test_gguf_tensor(fw_test_gguf *g, const char *name, uint32_t type, const int64_t *shape, int rank,
                         const void *data, size_t bytes);
/* The whole file. */
void fw_test_gguf_write(const fw_test_gguf *g, const char *path);
void fw_test_gguf_bytes(const fw_test_gguf *g, fw_strbuf *out);
void fw_test_gguf_fini(fw_test_gguf *g);

/* Keys, tokenizer and fp32 tensors of a model of the test weights, as llama.cpp's converter writes them.
 * architecture: "llama", "qwen2", "qwen3"; pre: tokenizer.ggml.pre, or "sentencepiece". */
void fw_test_gguf_model(fw_test_gguf *g, const fw_model_config *config, const char *architecture, const char *pre);

#endif
