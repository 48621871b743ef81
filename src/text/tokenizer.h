/* BPE tokenizers of Hugging Face folders: text -> ids -> text.
 *
 * Read are tokenizer.json and tokenizer_config.json as the families Qwen, Llama, Mistral, SmolLM, Gemma, Phi, DeepSeek
 * and GPT write them: bytes as symbols, or characters with bytes to fall back to (SentencePiece). The ids are those of
 * the public `tokenizers` package. What a file asks for and is not known here is refused by the name of its key and
 * value before anything is encoded, never skipped.
 *
 * A loaded fw_tokenizer is constant and may be shared by threads. What changes while encoding (word
 * cache, scratch) lies in an fw_encoder: one per thread.
 *
 * Text is UTF-8 and may hold zero bytes; invalid UTF-8 is FW_ERR_INPUT with the byte offset.
 * Time and memory grow as n log n at worst, whatever the text.
 *
 * Source: Sennrich, Haddow, Birch 2016 (BPE); Radford et al. 2019 (bytes as symbols); the tokenizer.json
 * format of the tokenizers package. */
#ifndef FW_TEXT_TOKENIZER_H
#define FW_TEXT_TOKENIZER_H

#include "base/status.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fw_tokenizer fw_tokenizer;

/* Errors: FW_ERR_INPUT (file missing, malformed, or asks for something unknown), FW_ERR_NOMEM.
 * tokenizer_config.json may be missing: then there are no bos and eos ids. */
fw_status fw_tokenizer_load(fw_tokenizer **out, const char *model_dir);
void fw_tokenizer_destroy(fw_tokenizer *tokenizer);

/* Largest id + 1. A model may have more rows than this (padding), never fewer. */
int32_t fw_tokenizer_vocab_n(const fw_tokenizer *tokenizer);
/* The id of a token as the file spells it ("<|im_end|>", "\u0120the" for " the"), or -1. */
int32_t fw_tokenizer_id(const fw_tokenizer *tokenizer, const char *token);
/* The spelling in the file, borrowed; NULL for an id without a token. */
const char *fw_tokenizer_token(const fw_tokenizer *tokenizer, int32_t id);
/* Is this an added token with "special": true? False for unknown ids. */
bool fw_tokenizer_is_special(const fw_tokenizer *tokenizer, int32_t id);
/* Is the spelling of such a token somewhere in the text? */
bool fw_tokenizer_spells_special(const fw_tokenizer *tokenizer, const char *text, size_t text_bytes);
/* From tokenizer_config.json; -1 when it names none. */
int32_t fw_tokenizer_bos_id(const fw_tokenizer *tokenizer);
int32_t fw_tokenizer_eos_id(const fw_tokenizer *tokenizer);

/* Ids that grow. Zero-initialise; release with fw_ids_fini. An append that fails leaves it as it was. */
typedef struct fw_ids {
    int32_t *id;
    size_t n, cap;
} fw_ids;

fw_status fw_ids_append(fw_ids *ids, const int32_t *id, size_t n);
fw_status fw_ids_push(fw_ids *ids, int32_t id);
static inline void fw_ids_clear(fw_ids *ids) { ids->n = 0; }
void fw_ids_fini(fw_ids *ids);

/* Scratch and word cache of one thread (a few MiB at most). Borrows the tokenizer. */
typedef struct fw_encoder fw_encoder;
fw_status fw_encoder_create(fw_encoder **out, const fw_tokenizer *tokenizer);
void fw_encoder_destroy(fw_encoder *encoder);
const fw_tokenizer *fw_encoder_tokenizer(const fw_encoder *encoder);

/* How to read tokens that the file marks "special": true (control tokens) when they are spelt in the text.
 * Added tokens with "special": false (Qwen3's <think>, <tool_call>) are ordinary vocabulary: always found. */
enum {
    FW_ENCODE_LITERAL = 0,    /* text stays text: what a user typed never becomes a control token */
    FW_ENCODE_SPECIAL = 1,    /* they become their ids: for text of our own making, such as templates */
    FW_ENCODE_ADD_SPECIAL = 2 /* also put around the text what post_processor says (BOS); not for chats */
};

/* Append the ids of the text; flags from the enum above. On failure *ids is as it was.
 * Errors: FW_ERR_INPUT (invalid UTF-8: offset), FW_ERR_NOMEM. */
fw_status fw_tokenizer_encode(fw_encoder *encoder, fw_ids *ids, const char *text, size_t text_bytes, unsigned flags);
/* The same, and for each new id the offset in `text` of the first byte it came from (appended to *offset;
 * text that the normaliser rewrote counts as coming from the start of the rewritten stretch). */
typedef struct fw_offsets {
    size_t *offset;
    size_t n, cap;
} fw_offsets;
fw_status fw_tokenizer_encode_offsets(fw_encoder *encoder, fw_ids *ids, fw_offsets *offsets, const char *text,
                                      size_t text_bytes, unsigned flags);
void fw_offsets_fini(fw_offsets *offsets);

/* The same for a text of which only some stretches may hold control tokens: sorted, not touching. A control token is
 * found where one stretch holds all of its spelling; elsewhere that stays text. */
typedef struct fw_stretch {
    size_t start, end;
} fw_stretch;
fw_status fw_tokenizer_encode_trusted(fw_encoder *encoder, fw_ids *ids, fw_offsets *offsets, const char *text,
                                      size_t text_bytes, const fw_stretch *trusted, size_t trusted_n);

/* Append the bytes that the ids stand for. One token may be a part of a character, so the bytes of some
 * ids need not be valid UTF-8: use fw_decoder to show text. Ids without a token add nothing. */
fw_status fw_tokenizer_decode(const fw_tokenizer *tokenizer, fw_strbuf *out, const int32_t *ids, size_t id_n,
                              bool skip_special);

/* Decode token by token: only whole characters come out, bytes that are not UTF-8 come out as U+FFFD
 * (one for each maximal invalid part). The caller's storage; borrows the tokenizer. */
typedef struct fw_decoder {
    const fw_tokenizer *tokenizer;
    bool skip_special;
    unsigned char pending[4]; /* byte-level: the start of a character that is not complete yet */
    int pending_n;
    fw_ids window; /* others: ids that were shown last, then those that wait */
    size_t shown_n;
} fw_decoder;

void fw_decoder_init(fw_decoder *decoder, const fw_tokenizer *tokenizer, bool skip_special);
fw_status fw_decoder_push(fw_decoder *decoder, fw_strbuf *out, int32_t id);
/* The end: an incomplete character comes out as U+FFFD. */
fw_status fw_decoder_finish(fw_decoder *decoder, fw_strbuf *out);
void fw_decoder_fini(fw_decoder *decoder);

#endif
