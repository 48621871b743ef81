/* Which chat template is this? Its normal form (text/jinja_outline.h) is compared with known ones. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "text/chat.h"
#include "text/jinja_outline.h"

#include <string.h>

/* Pieces of normal forms. \1..\2: a string, \3: a line break, \4: the default system message. */
#define STR(text) "\1" text "\2"
#define TURN(content) "T <|im_start|>\nE message.role\nT \3\nE " content "\nT <|im_end|>\3\n"
#define PROMPT "S if add_generation_prompt\nT <|im_start|>assistant\3\nS endif\n"
#define DEFAULT "T <|im_start|>system\3\4<|im_end|>\3\n"
#define FIRST_SYSTEM                                                                                                   \
    "S if messages[0].role==" STR("system") "\nT <|im_start|>system\3\nE messages[0].content\nT <|im_end|>\3\n"
#define LOOP "S for message in messages\n"
#define USER_OR_LATER_SYSTEM "(message.role==" STR("user") ") or(message.role==" STR("system") " and not loop.first)"
#define ASSISTANT "S elif message.role==" STR("assistant") "\n"

/* Qwen3: which user message is the last that is not a tool's answer. */
#define LAST_QUERY                                                                                                     \
    "S set ns=namespace(multi_step_tool=true,last_query_index=messages|length-1)\n"                                    \
    "S for message in messages[::-1]\n"                                                                                \
    "S set index=(messages|length-1)-loop.index0\n"                                                                    \
    "S if ns.multi_step_tool and message.role==" STR("user") " and not(message.content.startswith(" STR(               \
        "<tool_response>") ") and message.content.endswith(" STR("</tool_response>") "))\n"                            \
                                                                                     "S set "                          \
                                                                                     "ns.multi_step_tool=false\nS "    \
                                                                                     "set "                            \
                                                                                     "ns.last_query_index=index\nS "   \
                                                                                     "endif\nS endfor\n"
#define AFTER_THINK(content) "S set content=" content ".split(" STR("</think>") ")[-1].lstrip(" STR("\3") ")\n"
#define REASONING(content)                                                                                             \
    "S set reasoning_content=" content                                                                                 \
    ".split(" STR("</think>") ")[0].rstrip(" STR("\3") ").split(" STR("<think>") ")[-1].lstrip(" STR("\3") ")\n"
#define QWEN3_TURNS_1                                                                                                  \
    LOOP "S if " USER_OR_LATER_SYSTEM "\n" TURN("message.content") ASSISTANT                                           \
        "S set content=message.content\nS set reasoning_content=" STR("") "\nS if " STR(                               \
            "</think>") " in message.content\n" AFTER_THINK("message.content")                                         \
            REASONING("message.content") "S endif\n"
#define QWEN3_TURNS_2                                                                                                  \
    LOOP "S set content=message.content\nS if " USER_OR_LATER_SYSTEM "\n" TURN("content") ASSISTANT                    \
        "S set reasoning_content=" STR("") "\nS if " STR("</think>") " in content\n" REASONING("content")              \
            AFTER_THINK("content") "S endif\n"
#define OPEN_TURN "T <|im_start|>\nE message.role\nT \3\nE content\n"
#define QWEN3_REST                                                                                                     \
    "S if loop.index0>ns.last_query_index\nS if loop.last or(not loop.last and reasoning_content)\n"                   \
    "T <|im_start|>\nE message.role\nT \3<think>\3\nE reasoning_content.strip(" STR(                                   \
        "\3") ")\n"                                                                                                    \
              "T \3</think>\3\3\nE content.lstrip(" STR("\3") ")\nS else\n" OPEN_TURN "S endif\nS else\n" OPEN_TURN    \
                                                              "S endif\n"                                              \
                                                              "T <|im_end|>\3\nS endif\nS endfor\n"
#define PROMPT_SWITCH                                                                                                  \
    "S if add_generation_prompt\nT <|im_start|>assistant\3\n"                                                          \
    "S if enable_thinking is defined and enable_thinking is false\nT <think>\3\3</think>\3\3\nS endif\nS endif\n"
#define PROMPT_THINKING "S if add_generation_prompt\nT <|im_start|>assistant\3<think>\3\nS endif\n"

static const struct {
    const char *form;
    fw_chat_style style;
    fw_chat_prompt prompt;
} known[] = {
    {LOOP TURN("message.content") "S endfor\n" PROMPT, FW_CHAT_PLAIN, FW_CHAT_PROMPT_PLAIN},
    {LOOP "S if loop.first and messages[0].role!=" STR("system") "\n" DEFAULT "S endif\n" TURN(
         "message.content") "S endfor\n" PROMPT,
     FW_CHAT_PLAIN, FW_CHAT_PROMPT_PLAIN},
    /* Qwen2.5; and the same without a default */
    {FIRST_SYSTEM "S else\n" DEFAULT "S endif\n" LOOP "S if " USER_OR_LATER_SYSTEM
                  " or(message.role==" STR("assistant") ")\n" TURN("message.content") "S endif\nS endfor\n" PROMPT,
     FW_CHAT_PLAIN, FW_CHAT_PROMPT_PLAIN},
    {FIRST_SYSTEM "S endif\n" LOOP "S if " USER_OR_LATER_SYSTEM
                  " or(message.role==" STR("assistant") ")\n" TURN("message.content") "S endif\nS endfor\n" PROMPT,
     FW_CHAT_PLAIN, FW_CHAT_PROMPT_PLAIN},
    /* Qwen3 without thinking */
    {FIRST_SYSTEM "S endif\n" LOOP "S set content=message.content\nS if " USER_OR_LATER_SYSTEM "\n" TURN("content")
         ASSISTANT TURN("content") "S endif\nS endfor\n" PROMPT,
     FW_CHAT_PLAIN, FW_CHAT_PROMPT_PLAIN},
    /* Qwen3, in both spellings */
    {FIRST_SYSTEM "S endif\n" LAST_QUERY QWEN3_TURNS_1 QWEN3_REST PROMPT_SWITCH, FW_CHAT_QWEN3, FW_CHAT_PROMPT_SWITCH},
    {FIRST_SYSTEM "S endif\n" LAST_QUERY QWEN3_TURNS_2 QWEN3_REST PROMPT_SWITCH, FW_CHAT_QWEN3, FW_CHAT_PROMPT_SWITCH},
    {FIRST_SYSTEM "S endif\n" LAST_QUERY QWEN3_TURNS_1 QWEN3_REST PROMPT_THINKING, FW_CHAT_QWEN3,
     FW_CHAT_PROMPT_THINKING},
    {FIRST_SYSTEM "S endif\n" LAST_QUERY QWEN3_TURNS_2 QWEN3_REST PROMPT_THINKING, FW_CHAT_QWEN3,
     FW_CHAT_PROMPT_THINKING},
};

/* Is text the form, with one line's worth of anything at \4? Then [*start, *end) is that. */
static bool matches(const char *form, const char *text, size_t *start, size_t *end) {
    const char *hole = strchr(form, '\4');
    *start = *end = 0;
    if (hole == NULL) return strcmp(form, text) == 0;
    size_t head = (size_t)(hole - form), tail = strlen(hole + 1), n = strlen(text);
    if (n < head + tail || strncmp(form, text, head) != 0 || strcmp(hole + 1, text + n - tail) != 0) return false;
    *start = head;
    *end = n - tail;
    return memchr(text + head, '\n', n - tail - head) == NULL;
}

fw_status fw_chat_template_parse(fw_chat_template *out, const char *jinja, const char *where) {
    *out = (fw_chat_template){0};
    fw_strbuf form = {0};
    fw_status status;
    FW_TRY_OR(fw_jinja_outline(&form, jinja, where), done);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t start, end;
        if (!matches(known[i].form, fw_strbuf_text(&form), &start, &end)) continue;
        if (start > 0) {
            FW_TRY_OR(fw_strndup(&out->system_default, form.data + start, end - start), done);
            for (char *c = out->system_default; *c != 0; c++) *c = *c == '\3' ? '\n' : *c;
        }
        out->style = known[i].style;
        out->prompt = known[i].prompt;
        goto done;
    }
    status =
        fw_fail(FW_ERR_INPUT,
                "%s: this chat template (\"%.40s...\") is not ChatML as SmolLM2 or Qwen define it; other templates are "
                "not supported yet",
                where, jinja);
done:
    fw_strbuf_fini(&form);
    return status;
}

void fw_chat_template_fini(fw_chat_template *chat) {
    fw_free(chat->system_default);
    *chat = (fw_chat_template){0};
}

const char *fw_chat_template_name(const fw_chat_template *chat) {
    if (chat->style == FW_CHAT_QWEN3) return "Qwen3 ChatML";
    return chat->system_default ? "ChatML with default system message" : "ChatML";
}

/* "chat_template": a string, or a list of {"name", "template"}. */
static fw_status pick_template(const char **jinja, const json_t *config, const char *path) {
    *jinja = NULL;
    const json_t *value = json_object_get(config, "chat_template");
    if (!json_is_array(value)) {
        FW_TRY(fw_json_get_string(jinja, config, "chat_template", NULL, path));
    } else {
        for (size_t i = 0; i < json_array_size(value) && *jinja == NULL; i++) {
            const json_t *entry = json_array_get(value, i);
            const char *name = NULL;
            if (json_is_object(entry)) FW_TRY(fw_json_get_string(&name, entry, "name", NULL, path));
            if (name != NULL && strcmp(name, "default") == 0)
                FW_TRY(fw_json_get_string(jinja, entry, "template", NULL, path));
        }
        if (*jinja == NULL)
            return fw_fail(FW_ERR_INPUT, "%s: \"chat_template\" lists no template named \"default\"", path);
    }
    if (*jinja == NULL)
        return fw_fail(
            FW_ERR_INPUT,
            "%s has no \"chat_template\", and there is no chat_template.jinja beside it; conversations need one", path);
    return FW_OK;
}

static fw_status load_config(fw_chat_template *out, const char *path) {
    json_t *config = NULL;
    const char *jinja;
    fw_status status;
    FW_TRY_OR(fw_json_load(&config, path, 64 << 20), done);
    FW_TRY_OR(pick_template(&jinja, config, path), done);
    FW_TRY_OR(fw_chat_template_parse(out, jinja, path), done);
done:
    json_decref(config);
    return status;
}

static fw_status load_jinja(fw_chat_template *out, const char *path) {
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY_OR(fw_file_read(&text, path, 1 << 20), done);
    if (strlen(fw_strbuf_text(&text)) != text.len_bytes)
        status = fw_fail(FW_ERR_INPUT, "%s has a zero byte in it", path);
    else
        FW_TRY_OR(fw_chat_template_parse(out, fw_strbuf_text(&text), path), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

fw_status fw_chat_template_load(fw_chat_template *out, const char *model_dir) {
    *out = (fw_chat_template){0};
    char *jinja_path = NULL, *config_path = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&jinja_path, model_dir, "chat_template.jinja"), done);
    FW_TRY_OR(fw_path_join(&config_path, model_dir, "tokenizer_config.json"), done);
    if (fw_file_exists(jinja_path))
        FW_TRY_OR(load_jinja(out, jinja_path), done);
    else if (fw_file_exists(config_path))
        FW_TRY_OR(load_config(out, config_path), done);
    else
        status =
            fw_fail(FW_ERR_INPUT,
                    "%s has neither chat_template.jinja nor tokenizer_config.json; conversations need a chat template",
                    model_dir);
done:
    fw_free(jinja_path);
    fw_free(config_path);
    return status;
}
