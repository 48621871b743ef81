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

/* The message of the failure when loading this tokenizer.json; "" when it loads. Valid until the next failure. */
const char *fw_text_lab_refusal(const json_t *tokenizer_json);

#define FW_MESSAGE(role_, content_)                                                                                    \
    { (role_), (content_), sizeof(content_) - 1 }

#endif
