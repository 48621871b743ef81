/* One message into the form that a template sees. */
#include "data/shape_parts.h"

#include <math.h>
#include <string.h>

const char *fw_message_role(const char *word) {
    static const struct {
        const char *word, *role;
    } roles[] = {
        {"system", "system"},       {"developer", "developer"}, {"user", "user"},       {"human", "user"},
        {"assistant", "assistant"}, {"gpt", "assistant"},       {"model", "assistant"}, {"function_call", "assistant"},
        {"tool", "tool"},           {"observation", "tool"},    {"function", "tool"},   {"ipython", "tool"},
        {"tool_response", "tool"},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].word, word) == 0) return roles[i].role;
    return NULL;
}

static fw_status read_role(fw_message *out, json_t *message, const char *where, fw_row_place *place) {
    const json_t *value = json_object_get(message, "role");
    if (!json_is_string(value))
        return fw_row_refuse(place, FW_DROP_ROLE, "%s needs a \"role\": system, user, assistant or tool", where);
    const char *word = json_string_value(value);
    out->role = fw_message_role(word);
    if (out->role == NULL)
        return fw_row_refuse(place, FW_DROP_ROLE,
                             "%s has the unknown role \"%.40s\"; known are system, developer, user, assistant and tool",
                             where, word);
    return strcmp(word, out->role) == 0
               ? FW_OK
               : fw_shape_json_ok(json_object_set_new(message, "role", json_string(out->role)));
}

/* A mark as a number: negative when it is none. A weight may be any number from 0 on; train says yes or no. */
static double mark_value(const json_t *value, int is_weight) {
    const double number = json_is_number(value)    ? json_number_value(value)
                          : json_is_boolean(value) ? json_is_true(value)
                                                   : -1;
    if (is_weight) return number <= FW_LOSS_WEIGHT_LARGEST ? number : -1;
    return number == 0 || number == 1 ? number : -1;
}

/* Programs know several names for them; they leave the message. */
static fw_status read_marks(fw_message *out, json_t *message, const char *where, fw_row_place *place) {
    static const struct {
        const char *key;
        int is_weight;
    } marks[] = {{"loss_weight", 1}, {"weight", 1}, {"train", 0}, {"training", 0}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *key = marks[i].key;
        const json_t *value = json_object_get(message, key);
        if (value == NULL) continue;
        if (!json_is_null(value)) {
            const double number = mark_value(value, marks[i].is_weight);
            if (!(number >= 0))
                return fw_row_refuse(place, FW_DROP_MARK,
                                     marks[i].is_weight ? "\"%s\" of %s must be a number from 0 to %d"
                                                        : "\"%s\" of %s must be 0 or 1 (false or true)",
                                     key, where, FW_LOSS_WEIGHT_LARGEST);
            const fw_loss_weight weight = (fw_loss_weight)lrint(number * FW_LOSS_WEIGHT_ONE);
            const fw_learn learn = weight > 0 ? FW_LEARN_YES : FW_LEARN_NO;
            const int differs = marks[i].is_weight && out->weight != 0 && out->weight != weight;
            if (differs || (out->learn != FW_LEARN_AS_ASKED && out->learn != learn))
                return fw_row_refuse(place, FW_DROP_MARK, "%s has marks that contradict each other", where);
            out->learn = learn;
            if (marks[i].is_weight) out->weight = weight;
        }
        json_object_del(message, key);
    }
    return FW_OK;
}

/* reasoning and thinking are other names for reasoning_content. */
static fw_status read_reasoning(json_t *message, const char *where, fw_row_place *place) {
    static const char *const keys[] = {"reasoning_content", "reasoning", "thinking"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(message, keys[i]);
        if (value == NULL) continue;
        if (json_is_null(value)) {
            json_object_del(message, keys[i]);
            continue;
        }
        if (!json_is_string(value))
            return fw_row_refuse(place, FW_DROP_CONTENT, "\"%s\" of %s is not a string", keys[i], where);
        if (i > 0 && json_object_get(message, keys[0]) == NULL)
            FW_TRY(fw_shape_json_ok(json_object_set(message, keys[0], value)));
    }
    return FW_OK;
}

/* Without content a message must have something else to say. */
static fw_status check_content(const fw_message *m, int has_content, int stands, const char *where,
                               fw_row_place *place) {
    if (has_content || strcmp(m->role, "assistant") == 0) {
        if (has_content || !fw_json_says_nothing(json_object_get(m->json, "tool_calls")) ||
            !fw_json_says_nothing(json_object_get(m->json, "reasoning_content")))
            return FW_OK;
    }
    return fw_row_refuse(place, FW_DROP_CONTENT, "the content of %s (%s) is %s; a string is needed%s", where, m->role,
                         stands ? "null" : "missing", strcmp(m->role, "assistant") == 0 ? ", or tool_calls" : "");
}

fw_status fw_message_read(fw_message *out, json_t *message, const char *where, fw_row_place *place) {
    *out = (fw_message){.json = message, .content = ""};
    if (!json_is_object(message))
        return fw_row_refuse(place, FW_DROP_SHAPE, "%s must be an object with \"role\" and \"content\"", where);
    FW_TRY(read_role(out, message, where, place));
    FW_TRY(read_marks(out, message, where, place));
    FW_TRY(fw_message_tool_calls(message, where, place));
    const json_t *content = json_object_get(message, "content");
    const int stands = content != NULL;
    json_t *text;
    FW_TRY(fw_message_content(&text, message, content, where, place));
    if (text != NULL && text != content)
        FW_TRY(fw_shape_json_ok(json_object_set_new(message, "content", text)));
    else
        json_decref(text);
    FW_TRY(read_reasoning(message, where, place));
    content = json_object_get(message, "content");
    FW_TRY(check_content(out, json_is_string(content), stands, where, place));
    if (json_is_string(content)) {
        out->content = json_string_value(content);
        out->content_bytes = json_string_length(content);
    }
    return FW_OK;
}
