/* A small byte-level BPE tokenizer for tests, made on the spot: 256 bytes, some hundred merges, the three
 * ChatML control tokens (<|endoftext|>, <|im_start|>, <|im_end|>) and a chat template. */
#ifndef FW_TESTS_TINY_TOKENIZER_H
#define FW_TESTS_TINY_TOKENIZER_H

#include "base/status.h"

typedef enum fw_test_tokenizer_style {
    FW_TEST_SMOLLM2, /* control tokens first (0, 1, 2), Digits + ByteLevel, default system message */
    FW_TEST_QWEN2,   /* control tokens last, NFC, regex split, default system message */
    FW_TEST_QWEN3,   /* as QWEN2, also <think> and </think> (not special) and the thinking template */
    FW_TEST_STYLE_N
} fw_test_tokenizer_style;

/* Largest id + 1 of every style: the model's vocab_size may be this or more. */
enum { FW_TEST_VOCAB_N = 400 };

/* Write tokenizer.json and tokenizer_config.json into the folder, which exists. Same bytes on every call. */
fw_status fw_test_write_tokenizer(const char *dir, fw_test_tokenizer_style style);

#endif
