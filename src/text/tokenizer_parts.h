/* Inside of a tokenizer: for the files of this room only. */
#ifndef FW_TEXT_TOKENIZER_PARTS_H
#define FW_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe_atoms.h"
#include "text/decode_steps.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#include <jansson.h>

/* An added token that the normaliser rewrites, as decoders see it. */
typedef struct fw_respelt {
    int32_t id;
    char *text;
} fw_respelt;

#define FW_METASPACE "\xe2\x96\x81" /* U+2581, a space in tokens of SentencePiece */

struct fw_tokenizer {
    fw_vocab vocab;
    fw_normalizer norm;
    fw_pre_steps pre;
    fw_decode_steps decode;
    fw_added_set added_raw, added_normalized; /* looked for before and after normalising */
    bool takes_bytes;         /* words are bytes, which the vocabulary spells as characters; else they are characters */
    fw_bpe_atoms *atoms;      /* NULL: words start as bytes or as characters */
    int32_t unk_id;           /* for symbols without a token; -1: they vanish, as in the reference */
    bool fuse_unk;            /* one unknown for a run of them */
    bool ignore_merges;       /* a word that is a token is not merged */
    bool byte_fallback;       /* characters without a token become the tokens of their bytes, where all are there */
    int32_t fallback_id[256]; /* <0x00>..<0xFF>; -1: none */
    int32_t ascii_id[128];    /* tokens of one ASCII character; -1: none */
    bool cuts_at_spaces;      /* no merge goes from another character to U+2581 */
    char *prefix, *suffix;    /* of characters inside and at the end of a word, maybe empty */
    fw_ids before, after;     /* post_processor: ids around a text */
    int32_t bos_id, eos_id;
    fw_respelt *respelt; /* by id */
    size_t respelt_n;
};

/* tokenizer_normalizer.c, tokenizer_pretokenizer.c, tokenizer_decoder.c: the parts of tokenizer.json of these names. */
fw_status fw_tokenizer_read_normalizer(fw_tokenizer *tokenizer, const json_t *file, const char *where);
fw_status fw_tokenizer_read_pretokenizer(fw_tokenizer *tokenizer, const json_t *file, const char *where);
fw_status fw_tokenizer_read_decoder(fw_tokenizer *tokenizer, const json_t *file, const char *where);
/* tokenizer_postprocessor.c; the vocabulary must be there. */
fw_status fw_tokenizer_read_post_processor(fw_tokenizer *tokenizer, const json_t *file, const char *where);
/* tokenizer_model.c: model. */
fw_status fw_tokenizer_read_model(fw_tokenizer *tokenizer, const json_t *file, const char *where);
/* tokenizer_added.c: added_tokens; the vocabulary and the normaliser must be there. */
fw_status fw_tokenizer_read_added(fw_tokenizer *tokenizer, const json_t *file, const char *where);

/* tokenizer_json.c. *type borrows "type" of a step. */
fw_status fw_tokenizer_step_type(const char **type, const json_t *step, const char *what, const char *where);
/* A step of type Sequence: *is_sequence, and then `read` was called for each step of its list under `key`. */
typedef fw_status (*fw_tokenizer_step_fn)(fw_tokenizer *tokenizer, const json_t *step, int depth, const char *where);
fw_status fw_tokenizer_sequence(bool *is_sequence, fw_tokenizer *tokenizer, const json_t *step, const char *key,
                                fw_tokenizer_step_fn read, int depth, const char *what, const char *where);
/* The options of Metaspace, which stands among pre-tokenizers and decoders. *replacement is borrowed: one character. */
fw_status fw_tokenizer_metaspace(const char **replacement, fw_prepend *prepend, bool *split, const json_t *step,
                                 const char *what, const char *where);
/* One character under `key`, borrowed. */
fw_status fw_tokenizer_character(const char **character, const json_t *step, const char *key, const char *what,
                                 const char *where);
/* "pattern" of a step: {"Regex": ..} or {"String": ..}; exactly one of *regex and *string is borrowed, not empty. */
fw_status fw_tokenizer_pattern(const char **regex, const char **string, const json_t *step, const char *what,
                               const char *where);
/* A text without a zero byte, at most 1024 bytes; owned by the caller. */
fw_status fw_tokenizer_text(char **text, size_t *text_bytes, const json_t *step, const char *key, const char *what,
                            const char *where);
/* Refuse keys of the object that are not among known (ends with NULL): FW_ERR_INPUT naming key and value. */
fw_status fw_tokenizer_check_keys(const json_t *object, const char *const *known, const char *what, const char *where);
/* FW_ERR_INPUT: "where: what KEY is VALUE; EXPECTED". */
fw_status fw_tokenizer_refuse(const json_t *value, const char *what, const char *expected, const char *where);

/* BPE of one word: its ids, and for each the byte of the word where it starts. bpe.c; scratch is reused. */
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
    fw_strbuf spelling; /* of one character with prefix and suffix */
} fw_bpe_scratch;

/* Leaves the word's symbols in symbol[0 .. *symbol_n). */
fw_status fw_bpe_run(fw_bpe_scratch *scratch, const fw_tokenizer *tokenizer, const char *word, size_t word_bytes,
                     size_t *symbol_n);
/* bpe_symbols.c: the word before any merge, in scratch->symbol. */
fw_status fw_bpe_make_symbols(fw_bpe_scratch *scratch, const fw_tokenizer *tokenizer, const char *word,
                              size_t word_bytes, size_t *symbol_n);
/* The same merges as the heap of fw_bpe_run makes; those that are merged into others get id -1. bpe_long.c, for words of
 * this many symbols and more. Errors: FW_ERR_NOMEM. */
enum { FW_BPE_LONG_N = 1 << 15 };
fw_status fw_bpe_merge_long(fw_bpe_symbol *symbol, const fw_vocab *vocab, size_t symbol_n);
void fw_bpe_scratch_fini(fw_bpe_scratch *scratch);

#endif
