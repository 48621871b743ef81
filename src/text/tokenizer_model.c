/* model and added_tokens of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <string.h>

static fw_status read_vocab(fw_tokenizer *t, const json_t *model, const char *where) {
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(vocab))
        return fw_fail(FW_ERR_INPUT, "%s: \"model.vocab\" must be an object of tokens and ids", where);
    FW_TRY(fw_vocab_init(&t->vocab, json_object_size(vocab)));
    const char *token;
    json_t *id;
    json_object_foreach(vocab, token, id) {
        if (!json_is_integer(id))
            return fw_fail(FW_ERR_INPUT, "%s: \"model.vocab\" gives token \"%.60s\" no integer id", where, token);
        FW_TRY(fw_vocab_add(&t->vocab, token, strlen(token), json_integer_value(id), FW_TOKEN_MODEL, where));
    }
    return FW_OK;
}

/* A merge is "left right" in older files and ["left", "right"] in newer ones. */
static bool merge_parts(const json_t *merge, const char *part[2], size_t part_bytes[2]) {
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *text = json_array_get(merge, i);
            if (!json_is_string(text)) return false;
            part[i] = json_string_value(text);
            part_bytes[i] = json_string_length(text);
        }
        return true;
    }
    const char *space = json_is_string(merge) ? strchr(json_string_value(merge), ' ') : NULL;
    if (space == NULL || strchr(space + 1, ' ') != NULL) return false;
    part[0] = json_string_value(merge);
    part_bytes[0] = (size_t)(space - part[0]);
    part[1] = space + 1;
    part_bytes[1] = json_string_length(merge) - part_bytes[0] - 1;
    return true;
}

static fw_status read_merge(fw_tokenizer *t, const json_t *merge, size_t rank, fw_strbuf *joined, const char *where) {
    const char *part[2];
    size_t part_bytes[2];
    if (!merge_parts(merge, part, part_bytes))
        return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\"[%zu] must be \"left right\" or [\"left\", \"right\"]", where,
                       rank);
    int32_t id[3];
    fw_strbuf_clear(joined);
    for (int i = 0; i < 2; i++) {
        id[i] = fw_vocab_find(&t->vocab, part[i], part_bytes[i]);
        if (id[i] < 0)
            return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\"[%zu] uses \"%.60s\", which is not in the vocabulary",
                           where, rank, part[i]);
        FW_TRY(fw_strbuf_append(joined, part[i], part_bytes[i]));
    }
    id[2] = fw_vocab_find(&t->vocab, joined->data, joined->len_bytes);
    if (id[2] < 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\"[%zu] makes \"%.60s\", which is not in the vocabulary", where,
                       rank, joined->data);
    fw_vocab_add_merge(&t->vocab, id[0], id[1], (uint32_t)rank, id[2]);
    return FW_OK;
}

static fw_status read_merges(fw_tokenizer *t, const json_t *model, const char *where) {
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges) || json_array_size(merges) >= UINT32_MAX)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\" must be an array", where);
    size_t n = json_array_size(merges);
    FW_TRY(fw_vocab_init_merges(&t->vocab, n));
    fw_strbuf joined = {0};
    fw_status status = FW_OK;
    for (size_t rank = 0; rank < n; rank++)
        FW_TRY_OR(read_merge(t, json_array_get(merges, rank), rank, &joined, where), done);
done:
    fw_strbuf_fini(&joined);
    return status;
}

static fw_status read_bpe(fw_tokenizer *t, const json_t *model, const char *where) {
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL};
    const char *type, *prefix, *suffix, *unk;
    double dropout;
    bool byte_fallback;
    FW_TRY(fw_json_get_string(&type, model, "type", "BPE", where)); /* the oldest files leave it out */
    if (strcmp(type, "BPE") != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.type\" is \"%.40s\"; only byte-level BPE is known", where, type);
    FW_TRY(fw_tokenizer_check_keys(model, known, "model", where));
    FW_TRY(fw_json_get_double(&dropout, model, "dropout", 0, 0, 1, where));
    FW_TRY(fw_json_get_string(&prefix, model, "continuing_subword_prefix", "", where));
    FW_TRY(fw_json_get_string(&suffix, model, "end_of_word_suffix", "", where));
    FW_TRY(fw_json_get_string(&unk, model, "unk_token", NULL, where));
    FW_TRY(fw_json_get_bool(&t->fuse_unk, model, "fuse_unk", false, where));
    FW_TRY(fw_json_get_bool(&byte_fallback, model, "byte_fallback", false, where));
    FW_TRY(fw_json_get_bool(&t->ignore_merges, model, "ignore_merges", false, where));
    if (dropout != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.dropout\" is %g; ids must not be random, set it to null", where,
                       dropout);
    if (prefix[0] != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.continuing_subword_prefix\" is \"%.40s\"; byte-level BPE has none",
                       where, prefix);
    if (suffix[0] != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.end_of_word_suffix\" is \"%.40s\"; byte-level BPE has none", where,
                       suffix);
    if (byte_fallback)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.byte_fallback\" is true; only byte-level BPE is known", where);
    FW_TRY(read_vocab(t, model, where));
    bool needs_unk = false; /* GPT-2's file names one that it lacks, and never needs it */
    for (int byte = 0; byte < 256; byte++) needs_unk |= t->vocab.byte_id[byte] < 0;
    t->unk_id = unk != NULL ? fw_vocab_find(&t->vocab, unk, strlen(unk)) : -1;
    if (unk != NULL && t->unk_id < 0 && needs_unk)
        return fw_fail(FW_ERR_INPUT,
                       "%s: \"model.unk_token\" \"%.60s\" is not in the vocabulary, which lacks some bytes", where,
                       unk);
    return read_merges(t, model, where);
}

/* The reference numbers added tokens itself: by the model's vocabulary, else one after the largest so far. */
static int64_t reference_id(const fw_vocab *vocab, const char *content, size_t content_bytes, int64_t model_n,
                            int64_t largest) {
    int32_t id = fw_vocab_find(vocab, content, content_bytes);
    if (id >= 0) return id;
    return largest >= model_n ? largest + 1 : model_n;
}

static fw_status read_added(fw_tokenizer *t, const json_t *entry, size_t index, int64_t model_n, int64_t *largest,
                            const char *where) {
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL};
    if (!json_is_object(entry))
        return fw_fail(FW_ERR_INPUT, "%s: \"added_tokens\"[%zu] must be an object", where, index);
    FW_TRY(fw_tokenizer_check_keys(entry, known, "added_tokens", where));
    int64_t id;
    const char *content;
    fw_added added = {0};
    FW_TRY(fw_json_need_int(&id, entry, "id", 0, FW_VOCAB_MAX_ID, where));
    FW_TRY(fw_json_get_string(&content, entry, "content", NULL, where));
    if (content == NULL || content[0] == 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"added_tokens\"[%zu] (id %lld) has no \"content\"", where, index,
                       (long long)id);
    size_t bytes = strlen(content);
    if (bytes > 1024)
        return fw_fail(FW_ERR_INPUT, "%s: \"added_tokens\"[%zu] has %zu bytes; at most 1024 are read", where, index,
                       bytes);
    FW_TRY(fw_json_get_bool(&added.special, entry, "special", false, where));
    FW_TRY(fw_json_get_bool(&added.normalized, entry, "normalized", !added.special, where));
    FW_TRY(fw_json_get_bool(&added.lstrip, entry, "lstrip", false, where));
    FW_TRY(fw_json_get_bool(&added.rstrip, entry, "rstrip", false, where));
    FW_TRY(fw_json_get_bool(&added.single_word, entry, "single_word", false, where));
    int64_t expected = reference_id(&t->vocab, content, bytes, model_n, *largest);
    if (id != expected)
        return fw_fail(
            FW_ERR_INPUT,
            "%s: added token \"%.60s\" has id %lld, but the tokenizers package would give it %lld; the file must "
            "list added tokens by rising id, without gaps after the vocabulary",
            where, content, (long long)id, (long long)expected);
    int32_t found = fw_vocab_find(&t->vocab, content, bytes);
    if (found >= 0 && (t->vocab.flags[found] & FW_TOKEN_ADDED))
        return fw_fail(FW_ERR_INPUT, "%s: added token \"%.60s\" is listed twice", where, content);
    if (found < 0) FW_TRY(fw_vocab_add(&t->vocab, content, bytes, id, 0, where));
    t->vocab.flags[id] |= (uint8_t)(FW_TOKEN_ADDED | (added.special ? FW_TOKEN_SPECIAL : 0));
    if (id > *largest) *largest = id;
    added.id = (int32_t)id;
    if (!added.normalized) return fw_added_set_insert(&t->added_raw, content, bytes, added);
    fw_normal normal = {0};
    fw_status status;
    FW_TRY_OR(fw_normalize(&normal, t->norm, content, bytes), done);
    status = fw_added_set_insert(&t->added_normalized, normal.text, normal.bytes, added);
    if (status == FW_ERR_INPUT) fw_fail_context(status, "%s: ", where);
done:
    fw_normal_fini(&normal);
    return status;
}

fw_status fw_tokenizer_read_model(fw_tokenizer *t, const json_t *file, const char *where) {
    const json_t *model = json_object_get(file, "model"), *added = json_object_get(file, "added_tokens");
    if (!json_is_object(model)) return fw_fail(FW_ERR_INPUT, "%s: \"model\" is missing or not an object", where);
    FW_TRY(read_bpe(t, model, where));
    if (added == NULL || json_is_null(added)) return FW_OK;
    if (!json_is_array(added)) return fw_fail(FW_ERR_INPUT, "%s: \"added_tokens\" must be an array", where);
    int64_t model_n = (int64_t)t->vocab.token_n, largest = -1;
    for (size_t i = 0; i < json_array_size(added); i++)
        FW_TRY(read_added(t, json_array_get(added, i), i, model_n, &largest, where));
    return FW_OK;
}
