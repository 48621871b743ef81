/* Inside of a tokenizer: for the files of this room only. */
#ifndef FW_TEXT_TOKENIZER_PARTS_H
#define FW_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#include <jansson.h>

struct fw_tokenizer {
    fw_vocab vocab;
    fw_norm_form norm;
    fw_pre_step step[FW_PRE_STEP_MAX];
    int step_n;
    fw_added_set added_raw, added_normalized; /* looked for before and after normalising */
    int32_t unk_id;                           /* for bytes without a token; -1: they vanish, as in the reference */
    bool fuse_unk, ignore_merges;
    fw_ids before, after; /* post_processor: ids around a text */
    int32_t bos_id, eos_id;
};

/* tokenizer_steps.c: normalizer, pre_tokenizer and decoder of tokenizer.json; and, once the vocabulary is
 * there, post_processor. */
fw_status fw_tokenizer_read_steps(fw_tokenizer *tokenizer, const json_t *file, const char *where);
fw_status fw_tokenizer_read_post_processor(fw_tokenizer *tokenizer, const json_t *file, const char *where);
/* tokenizer_model.c: model and added_tokens. */
fw_status fw_tokenizer_read_model(fw_tokenizer *tokenizer, const json_t *file, const char *where);
/* Refuse keys of the object that are not among known (ends with NULL): FW_ERR_INPUT naming key and value. */
fw_status fw_tokenizer_check_keys(const json_t *object, const char *const *known, const char *what, const char *where);
/* FW_ERR_INPUT: "where: what KEY is VALUE; EXPECTED". */
fw_status fw_tokenizer_refuse(const json_t *value, const char *what, const char *expected, const char *where);

/* BPE of one word: its ids, and for each the byte of the word where it starts (start_at NULL: not wanted).
 * bpe.c; scratch is reused. */
typedef struct fw_bpe_symbol {
    int32_t id, previous, next;
    uint32_t start;
} fw_bpe_symbol;

typedef struct fw_bpe_candidate {
    uint32_t rank;
    int32_t at; /* the left symbol */
    int32_t id; /* what the pair becomes */
} fw_bpe_candidate;

typedef struct fw_bpe_scratch {
    fw_bpe_symbol *symbol;
    size_t symbol_cap;
    fw_bpe_candidate *heap;
    size_t heap_n, heap_cap;
} fw_bpe_scratch;

/* Leaves the word's symbols as a linked list from symbol[0]; *symbol_n = 0 when nothing is left of it. */
fw_status fw_bpe_run(fw_bpe_scratch *scratch, const fw_tokenizer *tokenizer, const char *word, size_t word_bytes,
                     size_t *symbol_n);
/* The same merges as the heap of fw_bpe_run makes, for *symbol_n symbols in a row; bpe_long.c, for words of this many
 * bytes and more. Errors: FW_ERR_NOMEM. */
enum { FW_BPE_LONG_BYTES = 1 << 15 };
fw_status fw_bpe_merge_long(fw_bpe_symbol *symbol, const fw_vocab *vocab, size_t *symbol_n);
void fw_bpe_scratch_fini(fw_bpe_scratch *scratch);

#endif
