#include "support/bpe_plain.h"

#include <string.h>

size_t fw_test_merge_plainly(int32_t *id, size_t n, const fw_vocab *vocab) {
    for (;;) {
        uint32_t best = FW_NO_RANK;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t rank = fw_vocab_merge(vocab, id[i], id[i + 1]);
            if (rank >= best) continue;
            best = rank;
            at = i;
        }
        if (best == FW_NO_RANK) return n;
        id[at] = vocab->merge_to[best];
        memmove(&id[at + 1], &id[at + 2], (n - at - 2) * sizeof *id);
        n--;
    }
}
