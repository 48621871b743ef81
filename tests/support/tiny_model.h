/* Tiny models of each supported family, made on the spot: a Hugging Face folder in a few milliseconds.
 *
 * A variant is the name of a config.json in tests/parity/models, without ".json": "llama_tied" (SmolLM2's shape in
 * small), "llama_rope_llama3", "llama_rope_linear", "llama_bias", "qwen2_tied", "qwen2_untied", "qwen3_tied",
 * "qwen3_untied", "mistral". Weights are a function of the parameter's name and the element's index alone, each
 * exact in fp32, and tests/parity/make_reference.py makes the same ones: the numbers of the public reference in
 * tests/parity/reference belong to these models as long as vocab_n is 0. */
#ifndef FW_TESTS_SUPPORT_TINY_MODEL_H
#define FW_TESTS_SUPPORT_TINY_MODEL_H

#include "base/status.h"

#include <stdint.h>

/* The variants above, ended by NULL. */
extern const char *const fw_test_model_variants[];

/* Write DIR/config.json and DIR/model.safetensors (fp32); the folder is made when missing. vocab_n: 0, or another
 * size of the vocabulary, such as FW_TEST_VOCAB_N of tiny_tokenizer.h. Same bytes on every call. */
fw_status fw_test_write_model(const char *dir, const char *variant, int64_t vocab_n);

/* The family of "llama_tied", large enough for its parts to show in the memory of a process, for few tokens at a time:
 * 28.8 million parameters in bf16 that look random, hidden size 384, 8 layers. Its values belong to no reference. */
enum { FW_TEST_BIG_MODEL_N = 28828032, FW_TEST_BIG_VOCAB_N = 30000 };
fw_status fw_test_write_big_model(const char *dir);

/* Element i of the parameter of that name. */
float fw_test_weight(const char *name, int64_t i);

#endif
