/* What the tests of the text room share: folders that vanish, tokenizers made by the test, messages. */
#ifndef FW_TESTS_TEXT_LAB_H
#define FW_TESTS_TEXT_LAB_H

#include "support/tiny_tokenizer.h"
#include "text/chat.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct fw_text_lab {
    char dir[64];
    fw_tokenizer *tokenizer;
    fw_encoder *encoder;
    fw_chat_template chat;
} fw_text_lab;

/* A temporary folder with a tiny tokenizer in it, loaded together with its chat template. Fails the test on any error.
 */
void fw_text_lab_init(fw_text_lab *lab, fw_test_tokenizer_style style);
/* The same from a tokenizer.json of the test's own (owned by the caller); loads no template. */
void fw_text_lab_init_file(fw_text_lab *lab, const json_t *tokenizer_json);
void fw_text_lab_fini(fw_text_lab *lab);

/* tokenizer.json of a tiny tokenizer as an object, for the test to change and json_decref. */
json_t *fw_text_lab_file(fw_test_tokenizer_style style);

/* A copy of a tokenizer.json in which the patch replaces top-level keys, updates "model", and renames the tokens under
 * "drop", so that no text has them. For the test to json_decref. */
json_t *fw_text_lab_patched(const json_t *base, const json_t *patch);

/* The message of the failure when loading this tokenizer.json; "" when it loads. Valid until the next failure. */
const char *fw_text_lab_refusal(const json_t *tokenizer_json);

/* A tokenizer that has the control tokens of all families, and tests/data/chat/NAME.jinja as its template. bos is <s>,
 * eos is </s>. */
void fw_text_lab_init_family(fw_text_lab *lab, const char *name);

/* One conversation on its way through a template; reused at will. */
typedef struct fw_lab_chat {
    json_t *json;
    fw_message message[32];
    fw_conversation c;
    fw_chat_rendering rendering;
    fw_ids ids;
    fw_offsets offsets;
    fw_trained trained;
} fw_lab_chat;

/* json: {'messages': [...], 'tools'?, 'documents'?, 'kwargs'?} or only the list, with ' for ". */
void fw_lab_chat_init(fw_lab_chat *chat, const char *json);
void fw_lab_chat_init_json(fw_lab_chat *chat, const json_t *messages, const json_t *tools, const json_t *kwargs);
fw_status fw_lab_chat_encode(fw_lab_chat *chat, const fw_text_lab *lab, unsigned flags); /* into empty lists */
/* The text of the learnt ids, with "|" where a stretch of them ends. */
void fw_lab_chat_learnt(const fw_lab_chat *chat, const fw_text_lab *lab, fw_strbuf *out);
void fw_lab_chat_fini(fw_lab_chat *chat);

#endif
