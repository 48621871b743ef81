/* Conversations -> the text and the ids that the model was made for, and which ids are to be learnt.
 *
 * A chat template is recognised by its meaning, not run: ChatML as SmolLM2, Qwen2/2.5 and Qwen3 define
 * it, and plain ChatML. Every other template is refused by name. For these, the rendered text equals
 * what apply_chat_template of transformers makes, byte for byte.
 *
 *   <|im_start|>ROLE\nCONTENT<|im_end|>\n   for each message; then <|im_start|>assistant\n for a reply
 *
 * Labels come from the rendering, never from a search in the text: each stretch of it knows whether it
 * is the template's or a message's. Learnt ("trained") are the assistant's content and the end-of-turn
 * token right after it, nothing else, not the line break that follows. */
#ifndef FW_TEXT_CHAT_H
#define FW_TEXT_CHAT_H

#include "text/tokenizer.h"

typedef enum fw_chat_style {
    FW_CHAT_PLAIN, /* each message as it is; a fixed system message first when there is a default and no other */
    FW_CHAT_QWEN3, /* the same, but <think>...</think> in assistant turns is rewritten, see below */
} fw_chat_style;

/* What the generation prompt writes after the opening of the assistant's turn. */
typedef enum fw_chat_prompt {
    FW_CHAT_PROMPT_PLAIN,    /* nothing */
    FW_CHAT_PROMPT_SWITCH,   /* with FW_CHAT_NO_THINKING an empty <think> block */
    FW_CHAT_PROMPT_THINKING, /* <think>\n: the model always thinks */
} fw_chat_prompt;

/* Qwen3: with q the index of the last user message that is not a <tool_response> (the last message's when
 * there is none),
 *   - in assistant turns before q, everything up to the last </think> is dropped;
 *   - after q, reasoning is written as <think>\nREASONING\n</think>\n\n, and the conversation's last
 *     message gets an empty block when it has no reasoning.
 * A <think> block that the message itself held is learnt, one that the template adds is not. */
typedef struct fw_chat_template {
    fw_chat_style style;
    fw_chat_prompt prompt;
    char *system_default; /* owned; content of the system message written when the first is none; or NULL */
} fw_chat_template;

/* From chat_template.jinja, else "chat_template" of tokenizer_config.json (a string, or a list of named
 * templates of which "default" is taken). Errors: FW_ERR_INPUT (none there, or not one of these). */
fw_status fw_chat_template_load(fw_chat_template *out, const char *model_dir);
/* The same from the template's text; `where` names it in messages. */
fw_status fw_chat_template_parse(fw_chat_template *out, const char *jinja, const char *where);
void fw_chat_template_fini(fw_chat_template *chat);
/* "ChatML", "ChatML with default system message", "Qwen3 ChatML". */
const char *fw_chat_template_name(const fw_chat_template *chat);

/* Borrowed strings. Roles: "system", "user", "assistant"; others are refused by name. */
typedef struct fw_chat_message {
    const char *role;
    const char *content; /* UTF-8, may hold zero bytes */
    size_t content_bytes;
} fw_chat_message;

typedef enum fw_chat_kind {
    FW_CHAT_TEMPLATE, /* written by the template: control tokens in it are control tokens */
    FW_CHAT_CONTENT,  /* written by a person or model: stays text, "<|im_end|>" in it included */
} fw_chat_kind;

typedef struct fw_chat_segment {
    size_t offset, bytes; /* where in the rendered text */
    int64_t message;      /* index of the message it belongs to; -1: none (default system, generation prompt) */
    fw_chat_kind kind;
    bool trained;
} fw_chat_segment;

/* A rendered conversation. Zero-initialise, reuse at will, release with fw_chat_rendering_fini. */
typedef struct fw_chat_rendering {
    fw_strbuf text;
    fw_chat_segment *segment; /* cover the text without gaps, in order */
    size_t segment_n, segment_cap;
    size_t reasoning_dropped_n; /* assistant messages whose reasoning the template leaves out */
} fw_chat_rendering;

/* Flags of render and encode. */
enum {
    FW_CHAT_GENERATION_PROMPT = 1, /* end with the opening of an assistant turn */
    FW_CHAT_NO_THINKING = 2,       /* Qwen3's enable_thinking=false: see FW_CHAT_PROMPT_SWITCH */
};

/* Errors: FW_ERR_INPUT (no message, unknown role: with the message's index), FW_ERR_NOMEM. */
fw_status fw_chat_render(fw_chat_rendering *out, const fw_chat_template *chat, const fw_chat_message *messages,
                         size_t message_n, unsigned flags);
void fw_chat_rendering_fini(fw_chat_rendering *rendering);

/* One byte per id: 1 = learnt. Zero-initialise; release with fw_trained_fini. */
typedef struct fw_trained {
    uint8_t *mark;
    size_t n, cap;
} fw_trained;
void fw_trained_fini(fw_trained *trained);

/* Render, then append ids and marks (trained may be NULL). Equal to encoding the rendered text as a whole
 * when no content spells a control token; content that does stays text. No BOS or EOS is added: the
 * template writes what it wants. A token that covers bytes of the template and of content is learnt only
 * when its first byte is. On failure *ids and *trained are as they were. reasoning_dropped_n may be NULL.
 * Errors: as render; FW_ERR_INPUT when the tokenizer lacks <|im_start|> or <|im_end|> as special tokens. */
fw_status fw_chat_encode(fw_encoder *encoder, const fw_chat_template *chat, const fw_chat_message *messages,
                         size_t message_n, unsigned flags, fw_ids *ids, fw_trained *trained,
                         size_t *reasoning_dropped_n);

/* The id that ends an assistant turn (<|im_end|>), or -1 when the tokenizer has none. Generation stops on it. */
int32_t fw_chat_end_of_turn_id(const fw_tokenizer *tokenizer, const fw_chat_template *chat);

#endif
