/* Where the template of a model is, and its settings. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "text/chat.h"
#include "text/chat_probe.h"

#include <stdio.h>
#include <string.h>

enum { SOURCE_MAX_BYTES = 1 << 20 };

static fw_status json_made(const void *value) {
    return value == NULL ? fw_fail(FW_ERR_NOMEM, "out of memory while reading a chat template") : FW_OK;
}

/* The entry of that name in a list of {"name", "template"}. */
static fw_status pick_named(const char **jinja, const json_t *list, const char *wanted, const char *path) {
    *jinja = NULL;
    for (size_t i = 0; i < json_array_size(list) && *jinja == NULL; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = NULL;
        if (json_is_object(entry)) FW_TRY(fw_json_get_string(&name, entry, "name", NULL, path));
        if (name != NULL && strcmp(name, wanted) == 0) FW_TRY(fw_json_get_string(jinja, entry, "template", NULL, path));
    }
    return FW_OK;
}

static fw_status say_absent(fw_chat_template *out, const char *path, const char *what) {
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(fw_strbuf_printf(&text, "%s %s; conversations need one", path, what), done);
    FW_TRY_OR(fw_strdup(&out->absent, text.data), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

static fw_status parse_config(fw_chat_template *out, const json_t *config, const char *path) {
    const json_t *value = json_object_get(config, "chat_template");
    const char *plain = NULL, *with_tools = NULL;
    if (json_is_array(value)) {
        FW_TRY(pick_named(&plain, value, "default", path));
        FW_TRY(pick_named(&with_tools, value, "tool_use", path));
        if (plain == NULL)
            return fw_fail(FW_ERR_INPUT, "%s: \"chat_template\" lists no template named \"default\"", path);
    } else {
        FW_TRY(fw_json_get_string(&plain, config, "chat_template", NULL, path));
    }
    if (plain == NULL)
        return say_absent(out, path, "has no \"chat_template\", and there is no chat_template.jinja beside it");
    FW_TRY(fw_jinja_program_create(&out->plain, plain, strlen(plain), path));
    return with_tools ? fw_jinja_program_create(&out->with_tools, with_tools, strlen(with_tools), path) : FW_OK;
}

static fw_status parse_file(fw_chat_template *out, const char *path) {
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(fw_file_read(&text, path, SOURCE_MAX_BYTES), done);
    FW_TRY_OR(fw_jinja_program_create(&out->plain, fw_strbuf_text(&text), text.len_bytes, path), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

/* bos_token and its kin: a text, or an object with "content". */
static fw_status read_special(fw_chat_template *out, const json_t *config) {
    const char *key;
    json_t *value;
    FW_TRY(json_made(out->special = json_object()));
    json_object_foreach((json_t *)(uintptr_t)config, key, value) {
        size_t n = strlen(key);
        if (n < 6 || strcmp(key + n - 6, "_token") != 0) continue;
        const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (json_is_string(text) && json_object_set(out->special, key, (json_t *)(uintptr_t)text) != 0)
            return json_made(NULL);
    }
    return FW_OK;
}

static fw_status load(fw_chat_template *out, const char *model_dir, const char *jinja_path, const char *config_path) {
    json_t *config = NULL;
    fw_status status = FW_OK;
    if (fw_file_exists(config_path)) {
        FW_TRY_OR(fw_json_load(&config, config_path, 64 << 20), done);
        FW_TRY_OR(read_special(out, config), done);
    }
    if (fw_file_exists(jinja_path))
        FW_TRY_OR(parse_file(out, jinja_path), done);
    else if (config != NULL)
        FW_TRY_OR(parse_config(out, config, config_path), done);
    else
        FW_TRY_OR(say_absent(out, model_dir, "has neither chat_template.jinja nor tokenizer_config.json"), done);
done:
    json_decref(config);
    return status;
}

/* transformers writes further templates into a folder of their own, and takes tool_use there for conversations with tools.
 * That is not read: what is exported would not have it. */
static fw_status look_for_tool_use(fw_chat_template *out, const char *model_dir) {
    char *path = NULL;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(fw_path_join(&path, model_dir, "additional_chat_templates/tool_use.jinja"), done);
    if (!fw_file_exists(path)) goto done;
    FW_TRY_OR(fw_strbuf_printf(&text,
                               "%s is the template of conversations with tools, and templates in that folder are not "
                               "read; instead of chat_template.jinja write both into tokenizer_config.json: "
                               "\"chat_template\": [{\"name\": \"default\", \"template\": ...}, {\"name\": "
                               "\"tool_use\", ...}]",
                               path),
              done);
    FW_TRY_OR(fw_strdup(&out->with_tools_unread, text.data), done);
done:
    fw_strbuf_fini(&text);
    fw_free(path);
    return status;
}

/* Does the template ask for the date? Then it is part of what it renders. */
static bool uses_date(const fw_jinja_program *program) {
    static const char name[] = "strftime_now";
    for (size_t i = 0; program != NULL && i < sizeof program->name / sizeof *program->name; i++)
        for (const fw_jinja_name *at = program->name[i]; at != NULL; at = at->next)
            if (at->bytes == sizeof name - 1 && memcmp(at->text, name, at->bytes) == 0) return true;
    return false;
}

static fw_status hash_settings(fw_chat_template *chat) {
    fw_strbuf text = {0};
    struct tm day = {0};
    fw_status status = FW_OK;
    if (uses_date(chat->plain) || uses_date(chat->with_tools)) localtime_r(&chat->now, &day);
    FW_TRY_OR(fw_strbuf_printf(&text, "%d %d %d %d ", chat->special_in_content, chat->with_tools_unread != NULL,
                               day.tm_year, day.tm_yday),
              done);
    if (chat->variables != NULL) FW_TRY_OR(fw_json_dump(&text, chat->variables, JSON_COMPACT | JSON_SORT_KEYS), done);
    chat->settings_hash = fw_hash_bytes(text.data, text.len_bytes);
done:
    fw_strbuf_fini(&text);
    return status;
}

fw_status fw_chat_template_load(fw_chat_template *out, const char *model_dir) {
    *out = (fw_chat_template){.now = time(NULL)};
    char *jinja_path = NULL, *config_path = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&jinja_path, model_dir, "chat_template.jinja"), done);
    FW_TRY_OR(fw_path_join(&config_path, model_dir, "tokenizer_config.json"), done);
    FW_TRY_OR(load(out, model_dir, jinja_path, config_path), done);
    if (out->plain != NULL) FW_TRY_OR(fw_chat_probe(out), done);
    if (fw_file_exists(jinja_path)) FW_TRY_OR(look_for_tool_use(out, model_dir), done);
    FW_TRY_OR(hash_settings(out), done);
done:
    if (status != FW_OK) fw_chat_template_fini(out);
    fw_free(jinja_path);
    fw_free(config_path);
    return status;
}

fw_status fw_chat_template_parse(fw_chat_template *out, const char *jinja, const char *where) {
    *out = (fw_chat_template){.now = time(NULL)};
    fw_status status;
    FW_TRY_OR(fw_jinja_program_create(&out->plain, jinja, strlen(jinja), where), done);
    FW_TRY_OR(fw_chat_probe(out), done);
    FW_TRY_OR(hash_settings(out), done);
done:
    if (status != FW_OK) fw_chat_template_fini(out);
    return status;
}

static fw_status read_date(time_t *out, const char *date) {
    struct tm day = {.tm_hour = 12, .tm_isdst = -1};
    int end = 0;
    bool ok = sscanf(date, "%4d-%2d-%2d%n", &day.tm_year, &day.tm_mon, &day.tm_mday, &end) == 3 && date[end] == 0 &&
              day.tm_year >= 1970 && day.tm_year <= 9999 && day.tm_mon >= 1 && day.tm_mon <= 12 && day.tm_mday >= 1 &&
              day.tm_mday <= 31;
    if (!ok) return fw_fail(FW_ERR_OPTION, "--chat_template_date %s is no date; write it as 2025-01-31", date);
    day.tm_year -= 1900;
    day.tm_mon--;
    *out = mktime(&day);
    return FW_OK;
}

const char *fw_chat_reserved_name(const json_t *variables) {
    static const char *const names[] = {"messages",
                                        "conversation",
                                        "tools",
                                        "documents",
                                        "chat_template",
                                        "add_generation_prompt",
                                        "continue_final_message",
                                        "tokenize",
                                        "return_assistant_tokens_mask"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(variables, names[i]);
        if (value != NULL && !json_is_false(value) && !json_is_null(value)) return names[i];
    }
    return NULL;
}

fw_status fw_chat_template_set(fw_chat_template *chat, const char *variables, const char *date,
                               bool special_in_content) {
    json_t *object = NULL;
    if (date != NULL) FW_TRY(read_date(&chat->now, date));
    if (variables != NULL) {
        fw_status status = fw_json_parse(&object, variables, strlen(variables), "--chat_template_kwargs", 1);
        if (status == FW_ERR_INPUT || (status == FW_OK && !json_is_object(object))) {
            json_decref(object);
            return fw_fail(
                FW_ERR_OPTION,
                "--chat_template_kwargs %.200s is no JSON object; write it as '{\"enable_thinking\": false}'",
                variables);
        }
        FW_TRY(status);
        const char *reserved = fw_chat_reserved_name(object);
        if (reserved != NULL) {
            json_decref(object);
            return fw_fail(FW_ERR_OPTION,
                           "--chat_template_kwargs: %s is no variable of a template: conversations are rendered whole, "
                           "with what stands in their rows",
                           reserved);
        }
    }
    json_decref(chat->variables);
    chat->variables = object;
    chat->special_in_content = special_in_content;
    if (chat->plain != NULL) FW_TRY(fw_chat_probe(chat)); /* variables may change what it writes */
    return hash_settings(chat);
}

void fw_chat_template_fini(fw_chat_template *chat) {
    fw_jinja_program_destroy(chat->plain);
    fw_jinja_program_destroy(chat->with_tools);
    fw_free(chat->absent);
    fw_free(chat->with_tools_unread);
    json_decref(chat->special);
    json_decref(chat->variables);
    fw_chat_probe_clear(chat);
    *chat = (fw_chat_template){0};
}
