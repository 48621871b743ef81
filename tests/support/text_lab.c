#include "support/text_lab.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_ok(fw_status status) {
    if (status != FW_OK) fail_msg("%s", fw_trail_message());
}

static void make_dir(char *dir, size_t dir_bytes) {
    const char *base = getenv("TMPDIR");
    snprintf(dir, dir_bytes, "%.30s/fw_text_XXXXXX", base && strlen(base) <= 30 ? base : "/tmp");
    assert_non_null(mkdtemp(dir));
}

static void save(const char *dir, const json_t *value) {
    char *path;
    expect_ok(fw_path_join(&path, dir, "tokenizer.json"));
    expect_ok(fw_json_save(value, path));
    fw_free(path);
}

void fw_text_lab_init(fw_text_lab *lab, fw_test_tokenizer_style style) {
    *lab = (fw_text_lab){0};
    make_dir(lab->dir, sizeof lab->dir);
    expect_ok(fw_test_write_tokenizer(lab->dir, style));
    expect_ok(fw_tokenizer_load(&lab->tokenizer, lab->dir));
    expect_ok(fw_encoder_create(&lab->encoder, lab->tokenizer));
    expect_ok(fw_chat_template_load(&lab->chat, lab->dir));
}

void fw_text_lab_init_file(fw_text_lab *lab, const json_t *tokenizer_json) {
    *lab = (fw_text_lab){0};
    make_dir(lab->dir, sizeof lab->dir);
    save(lab->dir, tokenizer_json);
    expect_ok(fw_tokenizer_load(&lab->tokenizer, lab->dir));
    expect_ok(fw_encoder_create(&lab->encoder, lab->tokenizer));
}

void fw_text_lab_fini(fw_text_lab *lab) {
    fw_chat_template_fini(&lab->chat);
    fw_encoder_destroy(lab->encoder);
    fw_tokenizer_destroy(lab->tokenizer);
    expect_ok(fw_dir_remove(lab->dir));
}

json_t *fw_text_lab_file(fw_test_tokenizer_style style) {
    char dir[64], *path;
    json_t *file;
    make_dir(dir, sizeof dir);
    expect_ok(fw_test_write_tokenizer(dir, style));
    expect_ok(fw_path_join(&path, dir, "tokenizer.json"));
    expect_ok(fw_json_load(&file, path, 1 << 20));
    fw_free(path);
    expect_ok(fw_dir_remove(dir));
    return file;
}

json_t *fw_text_lab_patched(const json_t *base, const json_t *patch) {
    json_t *file = json_deep_copy(base), *model = json_object_get(file, "model");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value) {
        if (strcmp(key, "model") == 0) {
            json_object_update(model, value);
        } else if (strcmp(key, "drop") == 0) {
            json_t *vocab = json_object_get(model, "vocab");
            for (size_t i = 0; i < json_array_size(value); i++) {
                char name[32];
                const char *token = json_string_value(json_array_get(value, i));
                snprintf(name, sizeof name, "gone %s", token);
                json_object_set(vocab, name, json_object_get(vocab, token));
                json_object_del(vocab, token);
            }
        } else {
            json_object_set(file, key, value);
        }
    }
    return file;
}

const char *fw_text_lab_refusal(const json_t *tokenizer_json) {
    char dir[64];
    make_dir(dir, sizeof dir);
    save(dir, tokenizer_json);
    fw_tokenizer *tokenizer = NULL;
    fw_status status = fw_tokenizer_load(&tokenizer, dir);
    fw_tokenizer_destroy(tokenizer);
    fw_trail trail;
    fw_trail_copy(&trail);
    expect_ok(fw_dir_remove(dir));
    fw_trail_restore(&trail);
    if (status == FW_OK) return "";
    assert_int_equal(status, FW_ERR_INPUT);
    return fw_trail_message();
}

static const char *const family_tokens[] = {
    "<s>",
    "</s>",
    "<pad>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|/tool|>",
    "<|end|>",
    "<\uff5cUser\uff5c>",
    "<\uff5cAssistant\uff5c>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
    "<\uff5ctool\u2581call\u2581begin\uff5c>",
    "<\uff5ctool\u2581call\u2581end\uff5c>",
    "<\uff5ctool\u2581sep\uff5c>",
    "<\uff5ctool\u2581outputs\u2581begin\uff5c>",
    "<\uff5ctool\u2581outputs\u2581end\uff5c>",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|SYSTEM_TOKEN|>",
    "<|USER_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<|start_of_role|>",
    "<|end_of_role|>",
    "<|end_of_text|>",
    "<|tool_call|>",
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|return|>",
    "<|opening|>",
    "<|observation|>",
    "<|turn|>",
    "<|end_turn|>",
    "<|quote|>",
    "<|end_call|>",
    "<|result|>",
    "<|end_result|>",
    "<|call|>",
};

static void put_text(const char *dir, const char *name, const char *text, size_t bytes) {
    char *path;
    expect_ok(fw_path_join(&path, dir, name));
    expect_ok(fw_file_write(path, text, bytes));
    fw_free(path);
}

void fw_text_lab_init_family(fw_text_lab *lab, const char *name) {
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}}";
    char source[512];
    fw_strbuf jinja = {0};
    json_t *file = fw_text_lab_file(FW_TEST_QWEN2), *added = json_object_get(file, "added_tokens");
    for (size_t i = 0; i < sizeof family_tokens / sizeof *family_tokens; i++) {
        json_t *token = json_deep_copy(json_array_get(added, 0));
        json_object_set_new(token, "id", json_integer((json_int_t)(FW_TEST_VOCAB_N + i)));
        json_object_set_new(token, "content", json_string(family_tokens[i]));
        json_object_set_new(token, "special", json_true());
        assert_int_equal(json_array_append_new(added, token), 0);
    }
    fw_text_lab_init_file(lab, file);
    json_decref(file);
    put_text(lab->dir, "tokenizer_config.json", config, sizeof config - 1);
    snprintf(source, sizeof source, FW_SOURCE_DIR "/tests/data/chat/%s.jinja", name);
    expect_ok(fw_file_read(&jinja, source, 1 << 20));
    put_text(lab->dir, "chat_template.jinja", jinja.data, jinja.len_bytes);
    fw_strbuf_fini(&jinja);
    expect_ok(fw_chat_template_load(&lab->chat, lab->dir));
}

static void set_conversation(fw_lab_chat *chat, const json_t *whole) {
    json_t *object = (json_t *)(uintptr_t)whole;
    chat->c = (fw_conversation){.messages = json_is_array(whole) ? object : json_object_get(whole, "messages"),
                                .tools = json_object_get(whole, "tools"),
                                .documents = json_object_get(whole, "documents"),
                                .kwargs = json_object_get(whole, "kwargs")};
}

void fw_lab_chat_init(fw_lab_chat *chat, const char *json) {
    fw_strbuf text = {0};
    *chat = (fw_lab_chat){0};
    for (; *json != 0; json++) expect_ok(fw_strbuf_putc(&text, *json == '\'' ? '"' : *json));
    expect_ok(fw_json_parse(&chat->json, text.data, text.len_bytes, "test", 1));
    fw_strbuf_fini(&text);
    set_conversation(chat, chat->json);
}

void fw_lab_chat_init_json(fw_lab_chat *chat, const json_t *messages, const json_t *tools, const json_t *kwargs) {
    *chat = (fw_lab_chat){0};
    chat->c = (fw_conversation){.messages = (json_t *)(uintptr_t)messages,
                                .tools = (json_t *)(uintptr_t)tools,
                                .kwargs = (json_t *)(uintptr_t)kwargs};
}

fw_status fw_lab_chat_encode(fw_lab_chat *chat, const fw_text_lab *lab, unsigned flags) {
    chat->ids.n = chat->offsets.n = chat->trained.n = 0;
    return fw_chat_encode(lab->encoder, &lab->chat, &chat->c, flags, &chat->rendering, &chat->ids, &chat->offsets,
                          &chat->trained);
}

void fw_lab_chat_learnt(const fw_lab_chat *chat, const fw_text_lab *lab, fw_strbuf *out) {
    fw_strbuf_clear(out);
    expect_ok(fw_strbuf_puts(out, ""));
    for (size_t i = 0; i < chat->ids.n; i++) {
        if (!chat->trained.mark[i]) continue;
        expect_ok(fw_tokenizer_decode(lab->tokenizer, out, &chat->ids.id[i], 1, false));
        if (i + 1 == chat->ids.n || !chat->trained.mark[i + 1]) expect_ok(fw_strbuf_putc(out, '|'));
    }
}

void fw_lab_chat_fini(fw_lab_chat *chat) {
    json_decref(chat->json);
    fw_chat_rendering_fini(&chat->rendering);
    fw_ids_fini(&chat->ids);
    fw_offsets_fini(&chat->offsets);
    fw_trained_fini(&chat->trained);
}
