/* The tokenizer of a GGUF file -> tokenizer.json and tokenizer_config.json.
 *
 * tokenizer.ggml.tokens: all tokens in order of their ids, in the byte-level alphabet, or as SentencePiece spells them
 * (import_pieces.c); token_type: 1 normal, 2 unknown,
 * 3 control, 4 user-defined, 5 unused (rows of the embedding without a token), 6 byte. Controls and user-defined ones
 * become added tokens, which are found in a text before it is split. tokenizer.ggml.pre names how a text is split. */
#include "store/import_parts.h"

#include "base/alloc.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_NORMAL = FW_IMPORT_TOKEN_NORMAL, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* How each kind of tokenizer splits a text; names as llama.cpp writes them. */
typedef struct splitter {
    const char *pre;
    const char *regex;  /* NULL: the byte-level step splits as GPT-2 does */
    bool digits;        /* each digit alone, before that */
    bool nfc;           /* Unicode normalisation first */
    bool ignore_merges; /* a piece that is a token as a whole is taken without merging */
    bool adds_bos;      /* when the file does not say */
    bool pieces;        /* SentencePiece: characters with bytes to fall back to; texts are not split */
} splitter;

static const splitter pieces = {.pre = "default", .adds_bos = true, .pieces = true};

#define CASED                                                                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?" \
    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"       \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const splitter splitters[] = {
    {.pre = "smollm", .digits = true},
    {.pre = "gpt-2"},
    {.pre = "llama-bpe", .regex = CONTRACTIONS WORDS "\\p{N}{1,3}" REST, .ignore_merges = true, .adds_bos = true},
    {.pre = "qwen2", .regex = CONTRACTIONS WORDS "\\p{N}" REST, .nfc = true},
    {.pre = "deepseek-r1-qwen", .regex = CONTRACTIONS WORDS "\\p{N}" REST, .nfc = true, .adds_bos = true},
    {.pre = "tekken", .regex = CASED, .ignore_merges = true, .adds_bos = true},
};

static bool same(fw_gguf_string s, const char *text) {
    return s.bytes == strlen(text) && memcmp(s.text, text, s.bytes) == 0;
}

static fw_status nomem(void) {
    return fw_fail(FW_ERR_NOMEM, "out of memory while making the JSON files of a tokenizer");
}

fw_status fw_import_json_string(json_t **out, const fw_gguf *file, const char *key, fw_gguf_string s) {
    fw_alloc_raw_failed(); /* forget earlier failures */
    *out = json_stringn(s.text, s.bytes);
    if (*out != NULL) return FW_OK;
    if (fw_alloc_raw_failed()) return nomem();
    return fw_fail(FW_ERR_INPUT, "%s: key %s holds text that is not UTF-8", file->path, key);
}

/* The list of all tokens. */
static fw_status find_tokens(const fw_gguf_value **out, const fw_gguf *file) {
    const fw_gguf_value *v = fw_gguf_find(file, "tokenizer.ggml.tokens");
    if (v == NULL || v->type != FW_GGUF_ARRAY || v->element_type != FW_GGUF_STRING || v->element_n > INT32_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: key tokenizer.ggml.tokens is missing or no list of strings", file->path);
    *out = v;
    return FW_OK;
}

fw_status fw_import_token_id(int64_t *id, const fw_gguf *file, const char *name) {
    *id = -1;
    char key[64] = "tokenizer.ggml.";
    strncat(key, name, sizeof key - strlen(key) - 1);
    if (fw_gguf_find(file, key) == NULL) return FW_OK;
    const fw_gguf_value *tokens = NULL;
    FW_TRY(find_tokens(&tokens, file));
    FW_TRY(fw_gguf_get_int(id, file, key, -1, UINT32_MAX));
    if (*id == UINT32_MAX) *id = -1; /* "none" */
    if (*id >= (int64_t)tokens->element_n)
        return fw_fail(FW_ERR_INPUT, "%s: %s is %" PRId64 ", and the vocabulary has %" PRIu64 " token%s", file->path,
                       key, *id, tokens->element_n, fw_plural((int64_t)tokens->element_n));
    return FW_OK;
}

static fw_status find_splitter(const splitter **out, const fw_gguf *file) {
    fw_gguf_string model, pre;
    FW_TRY(fw_gguf_get_string(&model, file, "tokenizer.ggml.model"));
    if (same(model, "llama")) {
        *out = &pieces;
        return FW_OK;
    }
    if (!same(model, "gpt2"))
        return fw_fail(
            FW_ERR_INPUT,
            "%s: tokenizer.ggml.model \"%.*s\" is not supported; byte-level BPE (\"gpt2\") and SentencePiece "
            "(\"llama\") are",
            file->path, model.bytes < 64 ? (int)model.bytes : 64, model.text);
    if (fw_gguf_find(file, "tokenizer.ggml.pre") == NULL)
        return fw_fail(FW_ERR_INPUT,
                       "%s: key tokenizer.ggml.pre is missing: the file was made by an old converter and does not say "
                       "how texts are split; convert the model again",
                       file->path);
    FW_TRY(fw_gguf_get_string(&pre, file, "tokenizer.ggml.pre"));
    for (size_t i = 0; i < sizeof splitters / sizeof *splitters; i++)
        if (same(pre, splitters[i].pre)) {
            *out = &splitters[i];
            return FW_OK;
        }
    return fw_fail(FW_ERR_INPUT,
                   "%s: tokenizer.ggml.pre \"%.*s\" is not supported; supported are smollm, gpt-2, llama-bpe, qwen2, "
                   "deepseek-r1-qwen, tekken",
                   file->path, pre.bytes < 64 ? (int)pre.bytes : 64, pre.text);
}

/* Type of token i; normal when the file does not say. */
static fw_status find_types(const fw_gguf_value **out, const fw_gguf *file, uint64_t token_n) {
    *out = fw_gguf_find(file, "tokenizer.ggml.token_type");
    const fw_gguf_value *v = *out;
    if (v == NULL) return FW_OK;
    if (v->type != FW_GGUF_ARRAY || v->element_n != token_n ||
        (v->element_type != FW_GGUF_I32 && v->element_type != FW_GGUF_U32))
        return fw_fail(FW_ERR_INPUT, "%s: key tokenizer.ggml.token_type is no list of one number a token", file->path);
    return FW_OK;
}

static json_t *byte_level(bool trim_offsets, bool use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets",
                     (int)trim_offsets, "use_regex", (int)use_regex);
}

static json_t *pre_tokenizer(const splitter *s) {
    if (s->regex != NULL)
        return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                         "pattern", "Regex", s->regex, "behavior", "Isolated", "invert", 0, byte_level(false, false));
    if (s->digits)
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, byte_level(true, true));
    return byte_level(true, true);
}

/* Puts the begin token in front of each text. */
static json_t *bos_template(const json_t *bos, int64_t id) {
    json_t *name = (json_t *)(uintptr_t)bos;
    return json_pack("{s:s, s:[{s:{s:O, s:i}}, {s:{s:s, s:i}}], s:[{s:{s:O, s:i}}, {s:{s:s, s:i}}, {s:{s:O, s:i}}, "
                     "{s:{s:s, s:i}}], s:{s:{s:O, s:[I], s:[O]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", name, "type_id", 0, "Sequence", "id",
                     "A", "type_id", 0, "pair", "SpecialToken", "id", name, "type_id", 0, "Sequence", "id", "A",
                     "type_id", 0, "SpecialToken", "id", name, "type_id", 1, "Sequence", "id", "B", "type_id", 1,
                     "special_tokens", json_string_value(bos), "id", name, "ids", (json_int_t)id, "tokens", name);
}

static json_t *added_token(json_t *content, int64_t id, bool special) {
    return json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", content, "single_word", 0,
                     "lstrip", 0, "rstrip", 0, "normalized", 0, "special", (int)special);
}

/* vocab: every token that can be in a text; added: controls and user-defined ones. last_type: of tokens there may be. */
static fw_status fill_vocabulary(json_t *vocab, json_t *added, const fw_gguf *file, const fw_gguf_value *tokens,
                                 const fw_gguf_value *types, int64_t last_type) {
    for (uint64_t i = 0; i < tokens->element_n; i++) {
        int64_t type = types != NULL ? fw_gguf_int_at(types, i) : TYPE_NORMAL;
        if (type == TYPE_UNUSED) continue;
        if (type < TYPE_NORMAL || type > last_type)
            return fw_fail(FW_ERR_INPUT,
                           "%s: tokenizer.ggml.token_type: token %" PRIu64 " is of type %" PRId64
                           ", which this tokenizer does not have",
                           file->path, i, type);
        json_t *text = NULL;
        fw_status status = fw_import_json_string(&text, file, "tokenizer.ggml.tokens", tokens->string[i]);
        if (status != FW_OK) return status;
        const char *name = json_string_value(text);
        if (json_string_length(text) == 0 || strlen(name) != json_string_length(text))
            status = fw_fail(FW_ERR_INPUT, "%s: tokenizer.ggml.tokens: token %" PRIu64 " is empty or has a zero byte",
                             file->path, i);
        else if (json_object_get(vocab, name) != NULL)
            status = fw_fail(FW_ERR_INPUT, "%s: tokenizer.ggml.tokens: token %" PRIu64 " (%.100s) is there twice",
                             file->path, i, name);
        else if (json_object_set_new(vocab, name, json_integer((json_int_t)i)) != 0 ||
                 (type != TYPE_NORMAL && type != TYPE_BYTE &&
                  json_array_append_new(added, added_token(text, (int64_t)i, type != TYPE_USER)) != 0))
            status = nomem();
        json_decref(text);
        FW_TRY(status);
    }
    return FW_OK;
}

static fw_status fill_merges(json_t *merges, const fw_gguf *file) {
    const fw_gguf_value *v = fw_gguf_find(file, "tokenizer.ggml.merges");
    if (v == NULL || v->type != FW_GGUF_ARRAY || v->element_type != FW_GGUF_STRING)
        return fw_fail(FW_ERR_INPUT, "%s: key tokenizer.ggml.merges is missing or no list of strings", file->path);
    for (uint64_t i = 0; i < v->element_n; i++) {
        fw_gguf_string s = v->string[i];
        const char *space = s.bytes > 2 ? memchr(s.text + 1, ' ', s.bytes - 2) : NULL;
        if (space == NULL || memchr(space + 1, ' ', (size_t)(s.text + s.bytes - space - 1)) != NULL)
            return fw_fail(FW_ERR_INPUT, "%s: tokenizer.ggml.merges: merge %" PRIu64 " is not two tokens and a space",
                           file->path, i);
        json_t *text = NULL;
        FW_TRY(fw_import_json_string(&text, file, "tokenizer.ggml.merges", s));
        if (json_array_append_new(merges, text) != 0) return nomem();
    }
    return FW_OK;
}

static fw_status adds_bos(bool *out, const fw_gguf *file, const splitter *s) {
    int64_t value = s->adds_bos;
    if (fw_gguf_find(file, "tokenizer.ggml.add_bos_token") != NULL)
        FW_TRY(fw_gguf_get_int(&value, file, "tokenizer.ggml.add_bos_token", 0, 1));
    *out = value != 0;
    return FW_OK;
}

/* The text of a special token, or NULL when the file does not name one. */
static fw_status token_text(json_t **out, int64_t *id, const fw_gguf *file, const char *name) {
    *out = NULL;
    const fw_gguf_value *tokens = NULL;
    FW_TRY(find_tokens(&tokens, file));
    FW_TRY(fw_import_token_id(id, file, name));
    if (*id < 0) return FW_OK;
    return fw_import_json_string(out, file, "tokenizer.ggml.tokens", tokens->string[*id]);
}

/* Is a space put before a text of pieces? */
static fw_status adds_space(bool *out, const fw_gguf *file) {
    int64_t value = 1;
    if (fw_gguf_find(file, "tokenizer.ggml.add_space_prefix") != NULL)
        FW_TRY(fw_gguf_get_int(&value, file, "tokenizer.ggml.add_space_prefix", 0, 1));
    *out = value != 0;
    return FW_OK;
}

/* The parts of tokenizer.json that depend on how texts are split. */
static fw_status set_steps(json_t *t, const fw_gguf *file, const splitter *s) {
    if (!s->pieces) {
        FW_TRY(fw_import_set(t, "normalizer", s->nfc ? json_pack("{s:s}", "type", "NFC") : json_null()));
        FW_TRY(fw_import_set(t, "pre_tokenizer", pre_tokenizer(s)));
        return fw_import_set(t, "decoder", byte_level(true, true));
    }
    bool prefix = true;
    FW_TRY(adds_space(&prefix, file));
    FW_TRY(fw_import_set(t, "normalizer", fw_import_piece_normalizer(prefix)));
    FW_TRY(fw_import_set(t, "pre_tokenizer", json_null()));
    return fw_import_set(t, "decoder", fw_import_piece_decoder(prefix));
}

static fw_status set_post_processor(json_t *t, const fw_gguf *file, const splitter *s) {
    json_t *bos = NULL, *post;
    int64_t bos_id = -1;
    bool with_bos = false;
    FW_TRY(adds_bos(&with_bos, file, s));
    if (with_bos) FW_TRY(token_text(&bos, &bos_id, file, "bos_token_id"));
    post = bos != NULL ? bos_template(bos, bos_id) : s->pieces ? json_null() : byte_level(false, s->regex == NULL);
    json_decref(bos);
    return fw_import_set(t, "post_processor", post);
}

static fw_status set_model(json_t *t, const fw_gguf *file, const splitter *s, json_t *vocab, json_t *merges) {
    json_t *unk = NULL;
    int64_t unk_id = -1;
    if (s->pieces) FW_TRY(token_text(&unk, &unk_id, file, "unknown_token_id"));
    return fw_import_set(t, "model",
                         json_pack("{s:s, s:n, s:o?, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE", "dropout",
                                   "unk_token", unk, "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                                   (int)s->pieces, "byte_fallback", (int)s->pieces, "ignore_merges",
                                   (int)s->ignore_merges, "vocab", vocab, "merges", merges));
}

static fw_status make_tokenizer(json_t **out, const fw_gguf *file, const splitter *s) {
    const fw_gguf_value *tokens = NULL, *types = NULL;
    FW_TRY(find_tokens(&tokens, file));
    FW_TRY(find_types(&types, file, tokens->element_n));
    json_t *t = json_object(), *vocab = json_object(), *added = json_array(), *merges = json_array();
    fw_status status;
    FW_TRY_OR(fill_vocabulary(vocab, added, file, tokens, types, s->pieces ? TYPE_BYTE : TYPE_USER), done);
    if (s->pieces)
        FW_TRY_OR(fw_import_piece_merges(merges, file, vocab, tokens, types), done);
    else
        FW_TRY_OR(fill_merges(merges, file), done);
    FW_TRY_OR(fw_import_set(t, "version", json_string("1.0")), done);
    FW_TRY_OR(fw_import_set(t, "truncation", json_null()), done);
    FW_TRY_OR(fw_import_set(t, "padding", json_null()), done);
    FW_TRY_OR(fw_import_set(t, "added_tokens", json_incref(added)), done);
    FW_TRY_OR(set_steps(t, file, s), done);
    FW_TRY_OR(set_post_processor(t, file, s), done);
    FW_TRY_OR(set_model(t, file, s, vocab, merges), done);
    *out = t;
    t = NULL;
done:
    json_decref(t);
    json_decref(vocab);
    json_decref(added);
    json_decref(merges);
    return status;
}

static fw_status make_tokenizer_config(json_t **out, const fw_gguf *file, const splitter *s) {
    static const char *const names[][2] = {{"bos_token", "bos_token_id"},
                                           {"eos_token", "eos_token_id"},
                                           {"unk_token", "unknown_token_id"},
                                           {"pad_token", "padding_token_id"}};
    json_t *c = json_object(), *text = NULL;
    fw_status status;
    bool with_bos = false;
    FW_TRY_OR(adds_bos(&with_bos, file, s), done);
    FW_TRY_OR(fw_import_set(c, "add_bos_token", json_boolean(with_bos)), done);
    FW_TRY_OR(fw_import_set(c, "add_prefix_space", json_false()), done);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id;
        FW_TRY_OR(token_text(&text, &id, file, names[i][1]), done);
        FW_TRY_OR(fw_import_set(c, names[i][0], text != NULL ? text : json_null()), done);
    }
    fw_gguf_string chat_template;
    if (fw_gguf_find(file, "tokenizer.chat_template") != NULL) {
        FW_TRY_OR(fw_gguf_get_string(&chat_template, file, "tokenizer.chat_template"), done);
        FW_TRY_OR(fw_import_json_string(&text, file, "tokenizer.chat_template", chat_template), done);
        FW_TRY_OR(fw_import_set(c, "chat_template", text), done);
    }
    FW_TRY_OR(fw_import_set(c, "clean_up_tokenization_spaces", json_false()), done);
    fw_gguf_string architecture;
    char key[96];
    int64_t length;
    FW_TRY_OR(fw_gguf_get_string(&architecture, file, "general.architecture"), done);
    snprintf(key, sizeof key, "%.*s.context_length", architecture.bytes < 64 ? (int)architecture.bytes : 64,
             architecture.text);
    FW_TRY_OR(fw_gguf_get_int(&length, file, key, 1, INT32_MAX), done);
    FW_TRY_OR(fw_import_set(c, "model_max_length", json_integer(length)), done);
    FW_TRY_OR(fw_import_set(c, "tokenizer_class", json_string("PreTrainedTokenizerFast")), done);
    *out = c;
    c = NULL;
done:
    json_decref(c);
    return status;
}

fw_status fw_import_make_tokenizer(json_t **tokenizer, json_t **tokenizer_config, const fw_gguf *file) {
    *tokenizer = *tokenizer_config = NULL;
    const splitter *s = NULL;
    FW_TRY(find_splitter(&s, file));
    FW_TRY(make_tokenizer(tokenizer, file, s));
    fw_status status = make_tokenizer_config(tokenizer_config, file, s);
    if (status != FW_OK) {
        json_decref(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}

fw_status fw_import_make_generation_config(json_t **out, const fw_gguf *file) {
    int64_t bos, eos, eot, pad;
    FW_TRY(fw_import_token_id(&bos, file, "bos_token_id"));
    FW_TRY(fw_import_token_id(&eos, file, "eos_token_id"));
    FW_TRY(fw_import_token_id(&eot, file, "eot_token_id"));
    FW_TRY(fw_import_token_id(&pad, file, "padding_token_id"));
    json_t *c = json_object();
    fw_status status = FW_OK;
    if (bos >= 0) FW_TRY_OR(fw_import_set(c, "bos_token_id", json_integer(bos)), fail);
    if (eos >= 0 && eot >= 0 && eot != eos)
        FW_TRY_OR(fw_import_set(c, "eos_token_id", json_pack("[I, I]", (json_int_t)eos, (json_int_t)eot)), fail);
    else if (eos >= 0)
        FW_TRY_OR(fw_import_set(c, "eos_token_id", json_integer(eos)), fail);
    if (pad >= 0) FW_TRY_OR(fw_import_set(c, "pad_token_id", json_integer(pad)), fail);
    if (c == NULL) status = nomem();
    *out = c;
    return status;
fail:
    json_decref(c);
    return status;
}
