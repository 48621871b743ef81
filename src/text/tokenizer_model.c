/* model of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
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
        size_t cut = i == 1 ? strlen(t->prefix) : 0; /* whatever stands there, as in the reference */
        if (part_bytes[i] < cut)
            return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\"[%zu] has a right side shorter than the prefix", where,
                           rank);
        FW_TRY(fw_strbuf_append(joined, part[i] + cut, part_bytes[i] - cut));
    }
    id[2] = fw_vocab_find(&t->vocab, fw_strbuf_text(joined), joined->len_bytes);
    if (id[2] < 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\"[%zu] makes \"%.60s\", which is not in the vocabulary", where,
                       rank, joined->data);
    fw_vocab_add_merge(&t->vocab, id[0], id[1], (uint32_t)rank, id[2]);
    return FW_OK;
}

static fw_status read_merges(fw_tokenizer *t, const json_t *model, const char *where) {
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges) || json_array_size(merges) > FW_MERGE_MAX_N)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.merges\" must be an array of at most %d", where, FW_MERGE_MAX_N);
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

static fw_status read_affix(char **affix, const json_t *model, const char *key, const char *where) {
    enum { AFFIX_MAX_BYTES = 64 };
    const char *borrowed;
    FW_TRY(fw_json_get_string(&borrowed, model, key, "", where));
    if (strlen(borrowed) > AFFIX_MAX_BYTES)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.%s\" has %zu bytes; at most %d are read", where, key,
                       strlen(borrowed), AFFIX_MAX_BYTES);
    return fw_strdup(affix, borrowed);
}

/* Does the model see words as bytes? Then the step that spells them out is not needed. Tables for what it sees. */
static void choose_symbols(fw_tokenizer *t) {
    fw_pre_steps *pre = &t->pre;
    t->takes_bytes = pre->step_n > 0 && pre->step[pre->step_n - 1].kind == FW_PRE_BYTE_LEVEL && t->prefix[0] == 0 &&
                     t->suffix[0] == 0 && !t->byte_fallback;
    if (t->takes_bytes) pre->step_n--;
    for (int i = 0; i < 128; i++) { /* no token has a zero byte */
        char character[2] = {(char)i, 0};
        t->ascii_id[i] = i > 0 ? fw_vocab_find(&t->vocab, character, 1) : -1;
    }
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        t->fallback_id[i] = fw_vocab_find(&t->vocab, name, 6);
    }
    for (int32_t id = 0; !t->takes_bytes && id < t->vocab.id_n; id++)
        if (fw_vocab_token(&t->vocab, id)) t->vocab.byte_n[id] = (uint32_t)strlen(fw_vocab_token(&t->vocab, id));
}

/* GPT-2's file names an unknown token that it lacks, and never needs it. */
static fw_status read_unk(fw_tokenizer *t, const char *unk, const char *where) {
    const int32_t *id = t->takes_bytes ? t->vocab.byte_id : t->fallback_id;
    bool needs_unk = !t->takes_bytes && !t->byte_fallback;
    for (int byte = 0; byte < 256; byte++) needs_unk |= id[byte] < 0;
    t->unk_id = unk != NULL ? fw_vocab_find(&t->vocab, unk, strlen(unk)) : -1;
    if (unk != NULL && t->unk_id < 0 && needs_unk)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.unk_token\" \"%.60s\" is not in the vocabulary, which lacks some %s",
                       where, unk, t->takes_bytes ? "bytes" : "characters");
    return FW_OK;
}

/* Is there no merge of what ends in another character with what begins with U+2581? Then a word can be cut between
 * the two, and a text that is one word to the file becomes words that come again. */
static bool cuts_at_spaces(const fw_tokenizer *t) {
    static const char space[] = FW_METASPACE;
    if (t->takes_bytes || t->prefix[0] != 0 || t->suffix[0] != 0 || fw_vocab_find(&t->vocab, space, 3) < 0)
        return false;
    for (size_t i = 0; i < t->vocab.merge_slot_n; i++) {
        if (t->vocab.merge[i] == 0) continue;
        const char *left = fw_vocab_token(&t->vocab, fw_vocab_slot_left(t->vocab.merge[i]));
        const char *right = fw_vocab_token(&t->vocab, fw_vocab_slot_right(t->vocab.merge[i]));
        size_t left_bytes = strlen(left);
        if (strncmp(right, space, 3) == 0 && (left_bytes < 3 || memcmp(left + left_bytes - 3, space, 3) != 0))
            return false;
    }
    return true;
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
    const char *type, *unk;
    double dropout;
    FW_TRY(fw_json_get_string(&type, model, "type", "BPE", where)); /* the oldest files leave it out */
    if (strcmp(type, "BPE") != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.type\" is \"%.40s\"; only BPE is known", where, type);
    FW_TRY(fw_tokenizer_check_keys(model, known, "model", where));
    FW_TRY(fw_json_get_double(&dropout, model, "dropout", 0, 0, 1, where));
    FW_TRY(read_affix(&t->prefix, model, "continuing_subword_prefix", where));
    FW_TRY(read_affix(&t->suffix, model, "end_of_word_suffix", where));
    FW_TRY(fw_json_get_string(&unk, model, "unk_token", NULL, where));
    FW_TRY(fw_json_get_bool(&t->fuse_unk, model, "fuse_unk", false, where));
    FW_TRY(fw_json_get_bool(&t->byte_fallback, model, "byte_fallback", false, where));
    FW_TRY(fw_json_get_bool(&t->ignore_merges, model, "ignore_merges", false, where));
    if (dropout != 0)
        return fw_fail(FW_ERR_INPUT, "%s: \"model.dropout\" is %g; ids must not be random, set it to null", where,
                       dropout);
    FW_TRY(read_vocab(t, model, where));
    choose_symbols(t);
    FW_TRY(read_unk(t, unk, where));
    FW_TRY(read_merges(t, model, where));
    t->cuts_at_spaces = cuts_at_spaces(t);
    bool all_bytes = t->takes_bytes;
    for (int byte = 0; byte < 256; byte++) all_bytes &= t->vocab.byte_id[byte] >= 0;
    return all_bytes ? fw_bpe_atoms_create(&t->atoms, &t->vocab) : FW_OK;
}

fw_status fw_tokenizer_read_model(fw_tokenizer *t, const json_t *file, const char *where) {
    const json_t *model = json_object_get(file, "model");
    if (!json_is_object(model)) return fw_fail(FW_ERR_INPUT, "%s: \"model\" is missing or not an object", where);
    return read_bpe(t, model, where);
}
