/* Byte-pair merging by its definition, slow and plain, to compare with. */
#ifndef FW_TESTS_BPE_PLAIN_H
#define FW_TESTS_BPE_PLAIN_H

#include "text/vocab.h"

/* Look at all pairs, merge the leftmost of the lowest rank, begin again. Returns how many of the n ids are left. */
size_t fw_test_merge_plainly(int32_t *id, size_t n, const fw_vocab *vocab);

#endif
