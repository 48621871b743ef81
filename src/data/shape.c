#include "data/shape.h"

#include "base/strbuf.h"
#include "data/format.h"
#include "data/shape_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

static fw_status read_messages(fw_shape_work *w) {
    if (json_object_get(w->row, "messages") == NULL)
        return fw_row_refuse(w->place, FW_DROP_SHAPE, "there is no \"messages\" in this row");
    json_t *list;
    if (json_is_string(json_object_get(w->row, "messages")))
        FW_TRY(fw_shape_list(w, "messages", &list));
    else
        list = json_object_get(w->row, "messages");
    if (list != NULL) FW_TRY(fw_shape_add_list(w, list, "messages"));
    return fw_shape_finish(w, "messages");
}

/* ---- sharegpt: from and value; some files have role and content there ---- */

static fw_status read_turn(fw_shape_work *w, json_t *turn, size_t index) {
    const json_t *from = json_object_get(turn, "from");
    json_t *value = json_object_get(turn, "value");
    if (from == NULL && json_object_get(turn, "role") != NULL)
        return fw_shape_json_ok(json_array_append(w->out->messages, turn));
    char where[64];
    snprintf(where, sizeof where, "conversations[%zu]", index);
    if (!json_is_string(from))
        return fw_row_refuse(w->place, FW_DROP_ROLE,
                             "%s needs a \"from\": human, gpt, system, function_call, observation", where);
    const char *word = json_string_value(from), *role = fw_message_role(word);
    if (role == NULL)
        return fw_row_refuse(w->place, FW_DROP_ROLE,
                             "%s is \"from\" \"%.40s\"; known are human, gpt, system, function_call and observation",
                             where, word);
    json_t *message = json_copy(turn); /* marks and other keys stay with it */
    FW_TRY(fw_shape_json_made(message));
    FW_TRY(fw_shape_json_ok(json_array_append_new(w->out->messages, message)));
    json_object_del(message, "from");
    json_object_del(message, "value");
    FW_TRY(fw_shape_json_ok(json_object_set_new(message, "role", json_string(role))));
    if (strcmp(word, "function_call") != 0)
        return value == NULL ? FW_OK : fw_shape_json_ok(json_object_set(message, "content", value));
    if (!json_is_string(value))
        return fw_row_refuse(w->place, FW_DROP_TOOLS, "the \"value\" of %s (function_call) must be a string of JSON",
                             where);
    FW_TRY(fw_shape_json_ok(json_object_set_new(message, "content", json_string(""))));
    return fw_message_calls_from_text(message, json_string_value(value), json_string_length(value), where, w->place);
}

static fw_status read_sharegpt(fw_shape_work *w) {
    json_t *list, *system = fw_shape_value(w, "system");
    if (json_object_get(w->row, "conversations") == NULL)
        return fw_row_refuse(w->place, FW_DROP_SHAPE, "there is no \"conversations\" in this row");
    FW_TRY(fw_shape_list(w, "conversations", &list));
    if (system == NULL) system = fw_shape_value(w, "system_prompt");
    if (list != NULL && system != NULL) FW_TRY(fw_shape_add(w, "system", system));
    size_t i;
    json_t *turn;
    json_array_foreach(list, i, turn) FW_TRY(read_turn(w, turn, i));
    return fw_shape_finish(w, "conversations");
}

/* ---- prompt and completion ---- */

static fw_status read_prompt(fw_shape_work *w) {
    json_t *prompt = json_object_get(w->row, "prompt"), *completion = json_object_get(w->row, "completion");
    fw_conversation *c = w->out;
    if (completion == NULL || json_is_null(completion))
        return fw_row_refuse(w->place, FW_DROP_EMPTY, "there is no \"completion\" in this row");
    if (json_is_string(completion) && (prompt == NULL || json_is_null(prompt)))
        return fw_row_refuse(w->place, FW_DROP_SHAPE, "there is no \"prompt\" in this row");
    if (json_is_string(prompt) && json_is_string(completion)) {
        fw_strbuf text = {0};
        fw_status status;
        FW_TRY_OR(fw_strbuf_append(&text, json_string_value(prompt), json_string_length(prompt)), done);
        FW_TRY_OR(fw_strbuf_append(&text, json_string_value(completion), json_string_length(completion)), done);
        json_t *joined = json_stringn(fw_strbuf_text(&text), text.len_bytes);
        FW_TRY_OR(fw_shape_keep(w, joined), done);
        c->is_text = true;
        c->text = json_string_value(joined);
        c->text_bytes = json_string_length(joined);
        c->prompt_bytes = json_string_length(prompt);
        c->has_assistant = true;
    done:
        fw_strbuf_fini(&text);
        return status;
    }
    FW_TRY(fw_shape_list(w, "prompt", &prompt));
    FW_TRY(fw_shape_list(w, "completion", &completion));
    if (completion == NULL) return fw_row_refuse(w->place, FW_DROP_EMPTY, "there is no \"completion\" in this row");
    if (prompt != NULL) FW_TRY(fw_shape_add_list(w, prompt, "prompt"));
    c->prompt_n = json_array_size(c->messages);
    FW_TRY(fw_shape_add_list(w, completion, "completion"));
    return fw_shape_finish(w, "prompt + completion");
}

/* ---- alpaca ---- */

static fw_status want_string(fw_shape_work *w, const char *key, const json_t **out, int must) {
    const json_t *value = json_object_get(w->row, key);
    if (value == NULL || json_is_null(value)) {
        *out = NULL;
        return must ? fw_row_refuse(w->place, FW_DROP_CONTENT, "there is no \"%s\" in this row", key) : FW_OK;
    }
    if (!json_is_string(value)) return fw_row_refuse(w->place, FW_DROP_CONTENT, "\"%s\" is not a string", key);
    *out = value;
    return FW_OK;
}

static fw_status add_history(fw_shape_work *w) {
    json_t *history, *pair;
    FW_TRY(fw_shape_list(w, "history", &history));
    size_t i;
    json_array_foreach(history, i, pair) {
        json_t *question = json_array_get(pair, 0), *answer = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_string(question) || !json_is_string(answer))
            return fw_row_refuse(w->place, FW_DROP_SHAPE, "history[%zu] must be a pair: [question, answer]", i);
        FW_TRY(fw_shape_add(w, "user", question));
        FW_TRY(fw_shape_add(w, "assistant", answer));
    }
    return FW_OK;
}

/* The question is the instruction and, on the next line, the input. */
static fw_status read_alpaca(fw_shape_work *w) {
    const json_t *instruction, *input = NULL, *output, *system = NULL;
    FW_TRY(want_string(w, "instruction", &instruction, 1));
    FW_TRY(want_string(w, "input", &input, 0));
    FW_TRY(want_string(w, "output", &output, 1));
    FW_TRY(want_string(w, "system", &system, 0));
    if (fw_format_is_blank(json_string_value(output), json_string_length(output)))
        return fw_row_refuse(w->place, FW_DROP_NO_ANSWER,
                             "\"output\" is empty: the model would learn to answer nothing");
    if (system != NULL && json_string_length(system) > 0)
        FW_TRY(fw_shape_add_text(w, "system", json_string_value(system), json_string_length(system)));
    FW_TRY(add_history(w));
    fw_strbuf question = {0};
    fw_status status;
    FW_TRY_OR(fw_strbuf_append(&question, json_string_value(instruction), json_string_length(instruction)), done);
    if (input != NULL && json_string_length(input) > 0) {
        if (question.len_bytes > 0) FW_TRY_OR(fw_strbuf_putc(&question, '\n'), done);
        FW_TRY_OR(fw_strbuf_append(&question, json_string_value(input), json_string_length(input)), done);
    }
    FW_TRY_OR(fw_shape_add_text(w, "user", fw_strbuf_text(&question), question.len_bytes), done);
    FW_TRY_OR(fw_shape_add_text(w, "assistant", json_string_value(output), json_string_length(output)), done);
done:
    fw_strbuf_fini(&question);
    FW_TRY(status);
    return fw_shape_finish(w, "messages");
}

/* ---- text ---- */

static fw_status read_text(fw_shape_work *w, const char *text_field) {
    const json_t *text;
    FW_TRY(want_string(w, text_field, &text, 1));
    if (json_string_length(text) == 0) return fw_row_refuse(w->place, FW_DROP_EMPTY, "\"%s\" is empty", text_field);
    w->out->is_text = true;
    w->out->has_assistant = true;
    w->out->text = json_string_value(text);
    w->out->text_bytes = json_string_length(text);
    return FW_OK;
}

/* ---- all ---- */

const char *fw_shape_name(fw_shape shape) {
    static const char *const names[FW_SHAPE_N] = {"unknown",           "messages", "sharegpt",
                                                  "prompt_completion", "alpaca",   "text"};
    return (unsigned)shape < FW_SHAPE_N ? names[shape] : names[0];
}

fw_shape fw_shape_find(const json_t *row, const char *text_field) {
    if (!json_is_object(row)) return FW_SHAPE_AUTO;
    if (json_object_get(row, "messages")) return FW_SHAPE_MESSAGES;
    if (json_object_get(row, "conversations")) return FW_SHAPE_SHAREGPT;
    if (json_object_get(row, "prompt") && json_object_get(row, "completion")) return FW_SHAPE_PROMPT;
    if (json_object_get(row, "instruction") && json_object_get(row, "output")) return FW_SHAPE_ALPACA;
    if (json_object_get(row, text_field)) return FW_SHAPE_TEXT;
    return FW_SHAPE_AUTO;
}

int fw_shape_uses_key(const char *key, const char *text_field) {
    static const char *const keys[] = {
        "messages", "conversations", "prompt",        "completion", "instruction", "input",     "output",
        "system",   "history",       "system_prompt", "tools",      "functions",   "documents", "chat_template_kwargs",
        "chosen",   "rejected"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return 1;
    return strcmp(key, text_field) == 0;
}

/* Rows of other programs, by the keys that give them away. */
static fw_status refuse(const json_t *row, fw_row_place *place) {
    static const char wanted[] = "what is read: \"messages\", \"conversations\" (sharegpt), \"prompt\" and "
                                 "\"completion\", \"instruction\" and \"output\" (alpaca), \"text\"";
    if (!json_is_object(row)) return fw_row_refuse(place, FW_DROP_SHAPE, "a row must be a JSON object; %s", wanted);
    if (json_object_get(row, "chosen") && json_object_get(row, "rejected"))
        return fw_row_refuse(place, FW_DROP_SHAPE,
                             "this is a preference pair (\"chosen\", \"rejected\"), which is not read; %s", wanted);
    return fw_row_refuse(place, FW_DROP_SHAPE, "there is no \"messages\" in this row, nor keys of another shape; %s",
                         wanted);
}

static fw_status read_shape(fw_shape_work *w, fw_shape shape, const char *text_field) {
    if (shape == FW_SHAPE_AUTO) shape = fw_shape_find(w->row, text_field);
    if (shape == FW_SHAPE_AUTO || !json_is_object(w->row)) return refuse(w->row, w->place);
    if (shape == FW_SHAPE_TEXT) return read_text(w, text_field);
    FW_TRY(fw_shape_start(w));
    switch (shape) {
    case FW_SHAPE_SHAREGPT: return read_sharegpt(w);
    case FW_SHAPE_PROMPT: return read_prompt(w);
    case FW_SHAPE_ALPACA: return read_alpaca(w);
    default: return read_messages(w);
    }
}

fw_status fw_shape_read(fw_conversation *out, fw_shape shape, const char *text_field, json_t *row,
                        fw_row_place *place) {
    *out = (fw_conversation){.file = place->file, .line = place->line, .json = json_array()};
    place->reason = FW_DROP_REASON_N;
    fw_shape_work w = {out, row, place};
    fw_status status = FW_OK;
    if (out->json == NULL || json_array_append(out->json, row) != 0) status = fw_shape_json_ok(-1);
    json_decref(row);
    if (status == FW_OK) status = read_shape(&w, shape, text_field);
    if (status != FW_OK) fw_conversation_fini(out);
    return status;
}
