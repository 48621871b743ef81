/* SentencePiece tokenizers in GGUF files (tokenizer.ggml.model "llama": Llama 2, older Mistral, Gemma).
 *
 * The file has pieces with scores and no merges: the pair whose piece has the highest score merges first. So each way to
 * cut a piece into two others is a merge, ranked by the score of the piece; cuts of one piece are ranked by the ids of
 * their parts, as transformers does it. Control and user-defined pieces are found in a text beforehand and never merge.
 * Source: Kudo and Richardson 2018; llama.cpp's GGUF keys. */
#include "store/import_parts.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_MAX_BYTES = 1024 };

typedef struct cut {
    float score;
    uint32_t piece, left, right; /* ids */
} cut;

typedef struct cuts {
    const fw_gguf *file;
    const json_t *vocab;
    const fw_gguf_value *tokens, *types;
    const uint8_t *scores; /* fp32 each, not aligned */
    cut *item;
    size_t n, cap;
} cuts;

static int by_score(const void *a, const void *b) {
    const cut *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->piece != y->piece) return x->piece < y->piece ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static bool is_normal(const cuts *c, uint64_t id) {
    return c->types == NULL || fw_gguf_int_at(c->types, id) == FW_IMPORT_TOKEN_NORMAL;
}

/* The id of a part of a piece, or -1. */
static int64_t find_part(const cuts *c, const char *text, size_t bytes) {
    char name[PIECE_MAX_BYTES + 1];
    memcpy(name, text, bytes);
    name[bytes] = 0;
    const json_t *id = json_object_get(c->vocab, name);
    return id != NULL && is_normal(c, (uint64_t)json_integer_value(id)) ? json_integer_value(id) : -1;
}

static fw_status add_cuts(cuts *c, uint32_t piece) {
    fw_gguf_string s = c->tokens->string[piece];
    float score;
    memcpy(&score, c->scores + 4 * (size_t)piece, sizeof score);
    if (!isfinite(score) || s.bytes > PIECE_MAX_BYTES)
        return fw_fail(FW_ERR_INPUT,
                       "%s: tokenizer.ggml.tokens: piece %" PRIu32
                       " has %zu bytes and the score %g; at most %d bytes and a "
                       "finite score are read",
                       c->file->path, piece, s.bytes, (double)score, PIECE_MAX_BYTES);
    for (size_t at = 1; at < s.bytes; at++) {
        if (((unsigned char)s.text[at] & 0xc0) == 0x80) continue; /* inside a character */
        int64_t left = find_part(c, s.text, at), right = left < 0 ? -1 : find_part(c, s.text + at, s.bytes - at);
        if (right < 0) continue;
        if (c->n == c->cap) {
            size_t cap = c->cap ? 2 * c->cap : 4096;
            FW_TRY(FW_GROW_ARRAY(c->item, cap));
            c->cap = cap;
        }
        c->item[c->n++] = (cut){score, piece, (uint32_t)left, (uint32_t)right};
    }
    return FW_OK;
}

fw_status fw_import_piece_merges(json_t *merges, const fw_gguf *file, const json_t *vocab, const fw_gguf_value *tokens,
                                 const fw_gguf_value *types) {
    const fw_gguf_value *scores = fw_gguf_find(file, "tokenizer.ggml.scores");
    if (scores == NULL || scores->type != FW_GGUF_ARRAY || scores->element_type != FW_GGUF_F32 ||
        scores->element_n != tokens->element_n)
        return fw_fail(FW_ERR_INPUT, "%s: key tokenizer.ggml.scores is missing or no list of one fraction a token",
                       file->path);
    cuts c = {.file = file, .vocab = vocab, .tokens = tokens, .types = types, .scores = scores->data};
    fw_status status = FW_OK;
    for (uint64_t i = 0; i < tokens->element_n; i++)
        if (is_normal(&c, i)) FW_TRY_OR(add_cuts(&c, (uint32_t)i), done);
    if (c.n > 0) qsort(c.item, c.n, sizeof *c.item, by_score);
    for (size_t i = 0; i < c.n; i++) {
        json_t *left = NULL, *right = NULL;
        FW_TRY_OR(fw_import_json_string(&left, file, "tokenizer.ggml.tokens", tokens->string[c.item[i].left]), done);
        status = fw_import_json_string(&right, file, "tokenizer.ggml.tokens", tokens->string[c.item[i].right]);
        if (status != FW_OK) {
            json_decref(left);
            goto done;
        }
        if (json_array_append_new(merges, json_pack("[o, o]", left, right)) != 0) {
            status = fw_fail(FW_ERR_NOMEM, "out of memory while making the merges of a tokenizer");
            goto done;
        }
    }
done:
    fw_free(c.item);
    return status;
}

#define SPACE "\xe2\x96\x81" /* U+2581 */

json_t *fw_import_piece_normalizer(bool prefix) {
    if (prefix)
        return json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:{s:s}, s:s}]}", "type", "Sequence", "normalizers", "type",
                         "Prepend", "prepend", SPACE, "type", "Replace", "pattern", "String", " ", "content", SPACE);
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ", "content", SPACE);
}

json_t *fw_import_piece_decoder(bool prefix) {
    json_t *steps = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String", SPACE,
                              "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (prefix && json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                                         "start", 1, "stop", 0)) != 0) {
        json_decref(steps);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}
