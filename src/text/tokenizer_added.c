/* added_tokens of tokenizer.json. */
#include "base/alloc.h"
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

/* The reference numbers added tokens itself: by the model's vocabulary, else one after the largest so far. */
static int64_t reference_id(const fw_vocab *vocab, const char *content, size_t content_bytes, int64_t model_n,
                            int64_t largest) {
    int32_t id = fw_vocab_find(vocab, content, content_bytes);
    if (id >= 0) return id;
    return largest >= model_n ? largest + 1 : model_n;
}

static fw_status add_respelt(fw_tokenizer *t, int32_t id, const fw_normal *normal) {
    FW_TRY(FW_GROW_ARRAY(t->respelt, t->respelt_n + 1));
    fw_respelt *r = &t->respelt[t->respelt_n];
    FW_TRY(FW_NEW_ARRAY(r->text, normal->bytes + 1));
    memcpy(r->text, normal->text, normal->bytes);
    r->id = id;
    t->respelt_n++;
    t->vocab.flags[id] |= FW_TOKEN_RESPELT;
    return FW_OK;
}

/* A token that is looked for in normalised text is looked for as the normaliser writes it. */
static fw_status insert_normalized(fw_tokenizer *t, const char *content, size_t bytes, fw_added added,
                                   const char *where) {
    fw_normal normal = {0};
    fw_regex_scratch *regex = NULL;
    fw_status status;
    FW_TRY_OR(fw_regex_scratch_create(&regex), done);
    FW_TRY_OR(fw_normalize(&normal, &t->norm, regex, content, bytes), done);
    if (normal.bytes != bytes || memcmp(normal.text, content, bytes) != 0)
        FW_TRY_OR(add_respelt(t, added.id, &normal), done);
    status = fw_added_set_insert(&t->added_normalized, normal.text, normal.bytes, added);
    if (status == FW_ERR_INPUT) fw_fail_context(status, "%s: ", where);
done:
    fw_normal_fini(&normal);
    fw_regex_scratch_destroy(regex);
    return status;
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
    return insert_normalized(t, content, bytes, added, where);
}

static int by_id(const void *a, const void *b) {
    const fw_respelt *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

fw_status fw_tokenizer_read_added(fw_tokenizer *t, const json_t *file, const char *where) {
    const json_t *added = json_object_get(file, "added_tokens");
    if (added == NULL || json_is_null(added)) return FW_OK;
    if (!json_is_array(added)) return fw_fail(FW_ERR_INPUT, "%s: \"added_tokens\" must be an array", where);
    int64_t model_n = (int64_t)t->vocab.token_n, largest = -1;
    for (size_t i = 0; i < json_array_size(added); i++)
        FW_TRY(read_added(t, json_array_get(added, i), i, model_n, &largest, where));
    if (t->respelt_n > 0) qsort(t->respelt, t->respelt_n, sizeof *t->respelt, by_id);
    return FW_OK;
}

bool fw_tokenizer_spells_special(const fw_tokenizer *t, const char *text, size_t text_bytes) {
    const fw_added_set *const sets[] = {&t->added_raw, &t->added_normalized};
    for (int i = 0; i < 2; i++) {
        fw_added_walk walk = {.set = sets[i], .text = text, .text_bytes = text_bytes, .find_special = true};
        int32_t id;
        do {
            size_t start, end;
            fw_added_next(&walk, &start, &end, &id);
            if (id >= 0 && fw_tokenizer_is_special(t, id)) return true;
        } while (id >= 0);
    }
    return false;
}
