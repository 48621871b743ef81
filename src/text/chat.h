/* Conversations -> the text and the ids that the model was made for, and which ids are to be learnt.
 *
 * The model's own chat template is run (text/jinja/jinja.h). The text equals what apply_chat_template of transformers
 * makes, byte for byte, and each stretch of it knows its origin: the template, or a message and the part of it. From
 * the origins follow, without any search in the text,
 *
 * 1. control tokens: one comes only from the template's own text (and from the roles that are known words, for templates
 *    that write '<|' + role + '|>'). What a message spells stays text, unless fw_chat_template.special_in_content.
 *
 * 2. labels. The turn of message i is all text that the template writes while it goes through message i. Of an
 *    assistant's turn is learnt what the model has to write itself:
 *      - from the end of the turn's opening. The opening is what the template writes when asked for a reply
 *        (add_generation_prompt), in any of its modes (enable_thinking): the longest of these prompts that the turn
 *        begins with; without one of these, what the conversation before it ends with when a reply is asked for there
 *        (DeepSeek's end of results). So an empty <think> block that the template puts before an answer is not learnt, as
 *        it is part of the prompt when thinking is off. With a template that has no such prompt, what stands before a plain answer, when
 *        it is more than white space (Llama 2's and Mistral's blank after [/INST] is learnt).
 *      - content, reasoning, tool calls and what the template writes between and around them
 *      - to the end of the turn, and with it. The end is what the template writes after a plain answer: the EOS token, when
 *        that is among it, else the last control token of the turn, else the first that follows the turn.
 *        A turn that ends otherwise (a tool call with another end) ends with the last control token of its own
 *        text; without any, with its text. What follows, a line break as a rule, is not learnt. Where turns have no end
 *        at all (GLM), the control token that begins the next turn is learnt, as it is what stops the model.
 *      - Not learnt is the result of a call that the template writes into the turn of the call, with what frames it.
 *    Where the template has {% generation %} blocks, what is inside them is learnt, and nothing else.
 *
 * Which turns: those of the role "assistant" (FW_CHAT_LAST_TURN: the last of them only), but not the first prompt_n
 * messages; a message's own mark (fw_learn) counts more than either, and all that is learnt of a turn has the weight of its message. */
#ifndef FW_TEXT_CHAT_H
#define FW_TEXT_CHAT_H

#include "text/conversation.h"
#include "text/jinja/jinja.h"
#include "text/tokenizer.h"

/* Constant once loaded, but for the settings at the end; any number of threads may share it. */
typedef struct fw_chat_template {
    fw_jinja_program *plain, *with_tools; /* with_tools: for conversations with tools ("tool_use"), or NULL */
    char *
        absent; /* why there is none (then plain is NULL): said when a conversation is to be rendered; texts need none */
    char *with_tools_unread; /* NULL, or why those with tools are refused: their template is not read */
    json_t *special;         /* bos_token, eos_token, ... of tokenizer_config.json, as texts */
    /* What it writes around a plain answer, found by asking it: */
    char **prompt; /* the openings of a reply, the longest first */
    size_t prompt_n;
    char *opening; /* of an assistant's turn, as in a conversation */
    char *ending;  /* what follows an answer in its turn */
    char *after;   /* all that follows the last turn */
    /* settings; see fw_chat_template_set */
    json_t *variables;
    bool special_in_content;
    time_t now;
    uint64_t settings_hash; /* of what they change: token caches are named by it */
} fw_chat_template;

/* From chat_template.jinja, else "chat_template" of tokenizer_config.json: a string, or a list of named templates of which
 * "default" is taken, and "tool_use" for conversations with tools. A folder without a template is no error here, since
 * plain texts can be learnt without one. Errors: FW_ERR_INPUT (not Jinja: line). */
fw_status fw_chat_template_load(fw_chat_template *out, const char *model_dir);
/* The same from the template's text, without special tokens; `where` names it in messages. */
fw_status fw_chat_template_parse(fw_chat_template *out, const char *jinja, const char *where);
void fw_chat_template_fini(fw_chat_template *chat); /* takes a zeroed one */

/* variables: a JSON object whose entries every rendering gets (enable_thinking, ...), or NULL. date: "YYYY-MM-DD" for
 * strftime_now, or NULL for the day on which the template was loaded. Errors: FW_ERR_OPTION. */
fw_status fw_chat_template_set(fw_chat_template *chat, const char *variables, const char *date,
                               bool special_in_content);

/* The first name in an object of variables that is no variable of a template but what it is called with (messages, tools,
 * add_generation_prompt that is true, ...); NULL: none. */
const char *fw_chat_reserved_name(const json_t *variables);

typedef struct fw_chat_segment {
    size_t offset, bytes; /* where in the rendered text */
    int64_t message;      /* -1: none (default system message, generation prompt, tools) */
    fw_chat_field field;
    bool generation;       /* inside a {% generation %} block */
    bool trained;          /* learnt; set by fw_chat_encode */
    fw_loss_weight weight; /* of what is learnt */
} fw_chat_segment;

/* "template", "content", "tool arguments", ... */
const char *fw_chat_field_name(fw_chat_field field);

/* What a template writes nothing of, or not all. */
typedef enum fw_chat_left_out {
    FW_CHAT_LEFT_REASONING, /* assistant messages whose reasoning it leaves out */
    FW_CHAT_LEFT_MESSAGE,   /* messages with content of which it writes nothing */
    FW_CHAT_LEFT_PART,      /* messages of whose content it writes a part (white space aside) */
    FW_CHAT_LEFT_CALLS,     /* messages of whose tool calls it writes none, or not all */
    FW_CHAT_LEFT_TOOLS,     /* conversations whose tools it leaves out */
    FW_CHAT_LEFT_DOCUMENTS, /* conversations whose documents it leaves out */
    FW_CHAT_LEFT_CONTENT,   /* messages without content, which it refuses so: it was given another (chat_render.c) */
    FW_CHAT_LEFT_N
} fw_chat_left_out;
/* "leaves out" or "refuses". */
const char *fw_chat_left_out_verb(fw_chat_left_out what);
/* "tool_calls_left_out", ...: a key for programs. */
const char *fw_chat_left_out_key(fw_chat_left_out what);
/* "the tool calls of 2 messages", ...; and what to do about it, or "". Returns text. */
enum { FW_CHAT_LEFT_OUT_BYTES = 96 };
const char *fw_chat_left_out_words(char text[FW_CHAT_LEFT_OUT_BYTES], fw_chat_left_out what, int64_t n);
const char *fw_chat_left_out_hint(fw_chat_left_out what);

/* A rendered conversation. Zero-initialise, reuse at will, release with fw_chat_rendering_fini. */
typedef struct fw_chat_rendering {
    const char *text; /* lies in memory */
    size_t text_bytes;
    fw_chat_segment *segment; /* cover the text without gaps, in order */
    size_t segment_n, segment_cap;
    int64_t left_out_n[FW_CHAT_LEFT_N];
    bool *is_emptied;      /* one a message: it has tool calls, and nothing of them nor of anything else is written */
    bool is_answer_lost;   /* why fw_chat_encode refused: a message that is emptied was to be learnt */
    size_t mark_ignored_n; /* messages marked to be learnt that no {% generation %} block holds */
    fw_jinja_memory memory;
} fw_chat_rendering;

/* Flags of render and encode. */
enum {
    FW_CHAT_GENERATION_PROMPT = 1, /* end with the opening of an assistant turn */
    FW_CHAT_LAST_TURN = 2,         /* learn the last assistant turn only */
    FW_CHAT_ALL_TOKENS = 4,        /* learn everything but messages that are marked not to be */
};

/* Errors: FW_ERR_INPUT (no message; what the template refuses, with its line), FW_ERR_NOMEM. */
fw_status fw_chat_render(fw_chat_rendering *out, const fw_chat_template *chat, const fw_conversation *conversation,
                         unsigned flags);
void fw_chat_rendering_fini(fw_chat_rendering *rendering);

/* Of every id: is it learnt? Zero-initialise; release with fw_trained_fini. */
typedef struct fw_trained {
    uint8_t *mark;          /* 1 = learnt */
    fw_loss_weight *weight; /* of what is learnt; elsewhere without meaning */
    size_t n, cap;
} fw_trained;
fw_status fw_trained_reserve(fw_trained *trained, size_t n); /* room for n in all */
void fw_trained_fini(fw_trained *trained);

/* Render, then append ids, the byte of the text where each begins, and marks. Equal to encoding the rendered text
 * as a whole when no content spells a control token. No BOS or EOS is added: the template writes what it wants. A token
 * over a border of what is learnt counts for the side of its first byte. On failure the lists are as they were.
 * Errors: as render; FW_ERR_INPUT (UTF-8; a message of tool calls of which the template writes nothing, so that an empty
 * answer would be learnt). */
fw_status fw_chat_encode(fw_encoder *encoder, const fw_chat_template *chat, const fw_conversation *conversation,
                         unsigned flags, fw_chat_rendering *rendering, fw_ids *ids, fw_offsets *offsets,
                         fw_trained *trained);

/* The id that ends an assistant turn, or -1: see above. Generation stops on it. */
int32_t fw_chat_end_of_turn_id(const fw_tokenizer *tokenizer, const fw_chat_template *chat);

#endif
