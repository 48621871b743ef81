/* What holds for the labels of every family's template on every conversation of the reference's file: what people, tools and
 * systems said is never learnt; what the assistant said is, wherever the template writes it as its turn. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "support/text_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static bool is_frame(fw_chat_field field) { return field == FW_CHAT_TEMPLATE || field == FW_CHAT_ROLE; }

static bool is_assistant(const json_t *messages, int64_t i) {
    return strcmp(json_string_value(json_object_get(json_array_get(messages, (size_t)i), "role")), "assistant") == 0;
}

/* Counts what the assistant said and is learnt, and the ends of turns among the learnt. */
static void check(const fw_text_lab *lab, const fw_lab_chat *chat, const char *family, size_t index, size_t *said,
                  size_t *ends) {
    const fw_chat_rendering *r = &chat->rendering;
    int32_t end = fw_chat_end_of_turn_id(lab->tokenizer, &lab->chat);
    for (size_t i = 0; i < r->segment_n; i++) {
        const fw_chat_segment *s = &r->segment[i];
        bool others = s->message >= 0 && !is_assistant(chat->c.messages, s->message);
        if (s->trained &&
            ((others && !is_frame(s->field)) || s->field == FW_CHAT_TOOLS || s->field == FW_CHAT_DOCUMENTS))
            fail_msg("%s, case %zu: \"%.*s\" of message %lld (%s) is learnt", family, index, (int)s->bytes,
                     r->text + s->offset, (long long)s->message, fw_chat_field_name(s->field));
        bool answer =
            s->field == FW_CHAT_CONTENT || s->field == FW_CHAT_REASONING || s->field == FW_CHAT_TOOL_ARGUMENTS;
        if (s->message < 0 || others || !answer) continue;
        if (!s->trained)
            fail_msg("%s, case %zu: the answer \"%.*s\" of message %lld is not learnt", family, index, (int)s->bytes,
                     r->text + s->offset, (long long)s->message);
        *said += s->bytes;
    }
    for (size_t i = 0; i < chat->ids.n; i++) *ends += chat->trained.mark[i] && chat->ids.id[i] == end;
}

/* Does a family's template hold a word? */
static bool mentions(const char *family, const char *word) {
    char path[512];
    fw_strbuf text = {0};
    snprintf(path, sizeof path, FW_TEST_DATA "/chat/%s.jinja", family);
    if (fw_file_read(&text, path, 1 << 20) != FW_OK) fail_msg("%s", fw_trail_message());
    const bool found = strstr(fw_strbuf_text(&text), word) != NULL;
    fw_strbuf_fini(&text);
    return found;
}

static void test_families(void **state) {
    json_t *file, *rows;
    const char *family;
    (void)state;
    if (fw_json_load(&file, FW_TEST_DATA "/chat/families.json", 64 << 20) != FW_OK) fail_msg("%s", fw_trail_message());
    const json_t *cases = json_object_get(file, "cases");
    json_object_foreach(json_object_get(file, "families"), family, rows) {
        fw_text_lab lab;
        size_t said = 0, ends = 0;
        fw_text_lab_init_family(&lab, family);
        bool ends_turns = strcmp(family, "open_ended") != 0;
        assert_int_equal(fw_chat_end_of_turn_id(lab.tokenizer, &lab.chat) >= 0, ends_turns);
        const bool knows_calls = mentions(family, "tool_calls");
        for (size_t i = 0; i < json_array_size(cases); i++) {
            const json_t *one = json_array_get(cases, i);
            if (json_object_get(json_array_get(rows, i), "text") == NULL) continue; /* the template refuses it */
            fw_lab_chat chat;
            fw_lab_chat_init_json(&chat, json_object_get(one, "messages"), json_object_get(one, "tools"),
                                  json_object_get(one, "variables"));
            chat.c.documents = json_object_get(one, "documents");
            unsigned flags = json_is_true(json_object_get(one, "prompt")) ? FW_CHAT_GENERATION_PROMPT : 0;
            fw_status status = fw_lab_chat_encode(&chat, &lab, flags);
            if (status == FW_OK)
                check(&lab, &chat, family, i, &said, &ends);
            else if (knows_calls || !chat.rendering.is_answer_lost)
                fail_msg("%s, case %zu: %s", family, i, fw_trail_message());
            fw_lab_chat_fini(&chat);
        }
        assert_true(said > 50);
        assert_true(ends > 4 || !ends_turns);
        fw_text_lab_fini(&lab);
    }
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
