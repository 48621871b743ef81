/* Tiny tokenizers whose symbols are characters, in many variants: for fuzzing and for failing allocations. */
#ifndef FW_TESTS_PIECE_TOKENIZER_H
#define FW_TESTS_PIECE_TOKENIZER_H

#include "base/status.h"

/* Bits 0-2: normalizer, 3-5: pre_tokenizer, 6-8: decoder, then one each: byte_fallback, fuse_unk, no unk_token,
 * ignore_merges, continuing_subword_prefix, end_of_word_suffix, byte tokens missing. Every value is a valid file. */
enum { FW_TEST_PIECE_VARIANT_N = 1 << 16 };

fw_status fw_test_write_piece_tokenizer(const char *dir, unsigned variant);

#endif
