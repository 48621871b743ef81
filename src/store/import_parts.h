/* The steps of a GGUF import. Internal to the room; import.c puts them together. */
#ifndef FW_STORE_IMPORT_PARTS_H
#define FW_STORE_IMPORT_PARTS_H

#include "base/json.h"
#include "model/param_table.h"
#include "store/gguf.h"

/* config.json in the keys of transformers 4, which every version reads. torch_dtype is left to the caller.
 * Errors: FW_ERR_INPUT: an architecture, rope scaling or feature that is not supported, by the name of the key. */
fw_status fw_import_make_config(json_t **out, const fw_gguf *file);

/* The GGUF tensor of a Hugging Face parameter, its shape compared. Errors: FW_ERR_INPUT. */
fw_status fw_import_find_tensor(const fw_gguf_tensor **out, const fw_gguf *file, const fw_param *param);
/* Every tensor of the file belongs to a parameter of the table (rope_freqs aside). Errors: FW_ERR_INPUT. */
fw_status fw_import_check_extra(const fw_gguf *file, const fw_param_table *table);

/* tokenizer.json and tokenizer_config.json. Errors: FW_ERR_INPUT: a tokenizer that is neither byte-level BPE nor
 * SentencePiece, or a pre-tokenizer that is not known. */
fw_status fw_import_make_tokenizer(json_t **tokenizer, json_t **tokenizer_config, const fw_gguf *file);
/* import_pieces.c: what a SentencePiece tokenizer has in place of merges, and its spaces. vocab: pieces and ids.
 * prefix: a space is put before the text. Errors: FW_ERR_INPUT, FW_ERR_NOMEM; the latter two give NULL then. */
enum { FW_IMPORT_TOKEN_NORMAL = 1 };
fw_status fw_import_piece_merges(json_t *merges, const fw_gguf *file, const json_t *vocab, const fw_gguf_value *tokens,
                                 const fw_gguf_value *types);
json_t *fw_import_piece_normalizer(bool prefix);
json_t *fw_import_piece_decoder(bool prefix);
/* generation_config.json. */
fw_status fw_import_make_generation_config(json_t **out, const fw_gguf *file);

/* A JSON string of bytes in the file; refuses what is not UTF-8 (FW_ERR_INPUT). */
fw_status fw_import_json_string(json_t **out, const fw_gguf *file, const char *key, fw_gguf_string s);
/* "tokenizer.ggml.NAME": the id, or -1 when the file has none. Errors: FW_ERR_INPUT: out of the vocabulary. */
fw_status fw_import_token_id(int64_t *id, const fw_gguf *file, const char *name);
/* Set key of object to value, which is given away; NULL is a failed allocation. */
fw_status fw_import_set(json_t *object, const char *key, json_t *value);

#endif
