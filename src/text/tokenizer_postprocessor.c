/* post_processor of tokenizer.json: the ids around a text. */
#include "base/json.h"
#include "text/tokenizer_parts.h"

#include <string.h>

static fw_status read_template_special(fw_tokenizer *t, const json_t *special, fw_ids *ids, const json_t *tokens,
                                       const char *where) {
    const char *name = NULL;
    if (json_is_object(special)) FW_TRY(fw_json_get_string(&name, special, "id", NULL, where));
    const json_t *list = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
    if (!json_is_array(list))
        return fw_tokenizer_refuse(special, "post_processor.single",
                                   "its \"id\" must name one of \"special_tokens\" with \"ids\"", where);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) > INT32_MAX ||
            fw_vocab_token(&t->vocab, (int32_t)json_integer_value(id)) == NULL)
            return fw_tokenizer_refuse(id, "post_processor.special_tokens", "it must be an id of the vocabulary",
                                       where);
        FW_TRY(fw_ids_push(ids, (int32_t)json_integer_value(id)));
    }
    return FW_OK;
}

static fw_status read_template(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "single", "pair", "special_tokens", NULL};
    FW_TRY(fw_tokenizer_check_keys(json, known, "post_processor.TemplateProcessing", where));
    const json_t *single = json_object_get(json, "single"), *tokens = json_object_get(json, "special_tokens");
    bool after = false;
    if (!json_is_array(single))
        return fw_tokenizer_refuse(json, "post_processor", "its \"single\" must be an array", where);
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken"), *text = json_object_get(item, "Sequence");
        if (special != NULL && json_object_size(item) == 1) {
            FW_TRY(read_template_special(t, special, after ? &t->after : &t->before, tokens, where));
        } else if (text != NULL && json_object_size(item) == 1 && !after) {
            after = true;
        } else {
            return fw_tokenizer_refuse(item, "post_processor.single", "special tokens around one text are known",
                                       where);
        }
    }
    if (!after) return fw_tokenizer_refuse(json, "post_processor", "its \"single\" leaves out the text", where);
    return FW_OK;
}

/* ["</s>", 2]. The id counts, as in the reference. */
static fw_status read_pair(fw_tokenizer *t, const json_t *json, const char *key, fw_ids *ids, const char *where) {
    const json_t *pair = json_object_get(json, key), *id = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(id) || json_integer_value(id) > INT32_MAX ||
        fw_vocab_token(&t->vocab, (int32_t)json_integer_value(id)) == NULL)
        return fw_tokenizer_refuse(json, "post_processor",
                                   "its \"cls\" and \"sep\" must be a token and its id in the vocabulary", where);
    return fw_ids_push(ids, (int32_t)json_integer_value(id));
}

/* BertProcessing and RobertaProcessing: cls before and sep after a text; the rest is about offsets and pairs. */
static fw_status read_cls_sep(fw_tokenizer *t, const json_t *json, const char *where) {
    static const char *const known[] = {"type", "sep", "cls", "trim_offsets", "add_prefix_space", NULL};
    FW_TRY(fw_tokenizer_check_keys(json, known, "post_processor", where));
    FW_TRY(read_pair(t, json, "cls", &t->before, where));
    return read_pair(t, json, "sep", &t->after, where);
}

static fw_status read_post_processor(fw_tokenizer *t, const json_t *json, bool nested, const char *where) {
    static const char *const known[] = {"type", "processors", NULL};
    if (json == NULL || json_is_null(json)) return FW_OK;
    const char *type;
    FW_TRY(fw_tokenizer_step_type(&type, json, "post_processor", where));
    if (strcmp(type, "ByteLevel") == 0) return FW_OK; /* shifts offsets only */
    if (strcmp(type, "TemplateProcessing") == 0 && t->before.n + t->after.n == 0) return read_template(t, json, where);
    if ((strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) &&
        t->before.n + t->after.n == 0)
        return read_cls_sep(t, json, where);
    const json_t *list = json_object_get(json, "processors");
    if (strcmp(type, "Sequence") == 0 && !nested && json_is_array(list)) {
        FW_TRY(fw_tokenizer_check_keys(json, known, "post_processor", where));
        for (size_t i = 0; i < json_array_size(list); i++)
            FW_TRY(read_post_processor(t, json_array_get(list, i), true, where));
        return FW_OK;
    }
    return fw_tokenizer_refuse(json, "post_processor",
                               "null, ByteLevel, one of TemplateProcessing, BertProcessing and "
                               "RobertaProcessing, and a Sequence of them are known",
                               where);
}

fw_status fw_tokenizer_read_post_processor(fw_tokenizer *t, const json_t *file, const char *where) {
    return read_post_processor(t, json_object_get(file, "post_processor"), false, where);
}
