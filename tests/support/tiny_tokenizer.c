#include "support/tiny_tokenizer.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "text/utf8.h"
#include "text/vocab.h"

#include <string.h>

/* Each word gives merges from its left end: " the" gives "t" to " ", then "h", then "e". Words that cross
 * what the styles cut apart (digits, white space before letters) are here on purpose: they must never occur. */
static const char *const words[] = {
    " the",   "ing",    " and",     " to",     "user",     "assistant", "system",
    " you",   " what",  " is",      "\n\n",    "    ",     "12",        " 7",
    "ll",     "'s",     " I",       "er",      "\xc3\xa9", "e\xcc\x81", "\xf0\x9f\x98\x80",
    " of",    " a",     " in",      " color",  " blue",    " red",      " hello",
    "Hello",  " world", " answer",  "on",      " green",   "question",  "\xe6\x97\xa5",
    " it",    " for",   "re",       "en",      "th",       "at",        "or",
    "an",     " Paris", " name",    " three",  "es",       "ed",        "st",
    " my",    "ou",     " we",      " no",     " because", " write",    " people",
    " think", " good",  " morning", " please", " number",  " thanks"};

static const char smollm2_template[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a small model made for tests<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static const char qwen2_template[] =
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
    "{%- else %}\n"
    "    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}\n"
    "{%- endif %}\n"
    "{%- for message in messages %}\n"
    "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or (message.role == "
    "\"assistant\" and not message.tool_calls) %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "{%- endif %}\n";

static const char qwen3_template[] =
    "{%- if messages[0].role == 'system' %}\n"
    "    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n"
    "{%- endif %}\n"
    "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n"
    "{%- for message in messages[::-1] %}\n"
    "    {%- set index = (messages|length - 1) - loop.index0 %}\n"
    "    {%- if ns.multi_step_tool and message.role == \"user\" and not(message.content.startswith('<tool_response>') "
    "and message.content.endswith('</tool_response>')) %}\n"
    "        {%- set ns.multi_step_tool = false %}\n"
    "        {%- set ns.last_query_index = index %}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- for message in messages %}\n"
    "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
    "    {%- elif message.role == \"assistant\" %}\n"
    "        {%- set content = message.content %}\n"
    "        {%- set reasoning_content = '' %}\n"
    "        {%- if '</think>' in message.content %}\n"
    "            {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}\n"
    "            {%- set reasoning_content = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1]"
    ".lstrip('\\n') %}\n"
    "        {%- endif %}\n"
    "        {%- if loop.index0 > ns.last_query_index %}\n"
    "            {%- if loop.last or (not loop.last and reasoning_content) %}\n"
    "                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + "
    "'\\n</think>\\n\\n' + content.lstrip('\\n') }}\n"
    "            {%- else %}\n"
    "                {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
    "            {%- endif %}\n"
    "        {%- else %}\n"
    "            {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
    "        {%- endif %}\n"
    "        {{- '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endif %}\n";

static const char qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                                   "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *const templates[FW_TEST_STYLE_N] = {smollm2_template, qwen2_template, qwen3_template};
static const char *const controls[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

/* The n bytes as the file spells them. */
static void spell(char *out, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) out += fw_utf8_put(out, fw_vocab_byte_char((unsigned char)bytes[i]));
    *out = 0;
}

static json_t *make_merges(json_t *vocab, int id, int last_id, bool as_arrays) {
    json_t *merges = json_array();
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        for (size_t n = 2; n <= strlen(words[w]) && id <= last_id; n++) {
            char left[64], right[8], both[64];
            spell(left, words[w], n - 1);
            spell(right, words[w] + n - 1, 1);
            spell(both, words[w], n);
            if (json_object_get(vocab, both) != NULL) continue;
            json_object_set_new(vocab, both, json_integer(id++));
            json_array_append_new(merges,
                                  as_arrays ? json_pack("[ss]", left, right) : json_sprintf("%s %s", left, right));
        }
    }
    FW_ASSERT(id == last_id + 1); /* enough words for all ids */
    return merges;
}

static void add_token(json_t *added, int id, const char *content, bool special) {
    json_array_append_new(added, json_pack("{si ss sb sb sb sb sb}", "id", id, "content", content, "single_word", 0,
                                           "lstrip", 0, "rstrip", 0, "normalized", 0, "special", (int)special));
}

static json_t *make_tokenizer(fw_test_tokenizer_style style) {
    bool smollm2 = style == FW_TEST_SMOLLM2;
    json_t *vocab = json_object(), *added = json_array();
    int id = 0, added_n = style == FW_TEST_QWEN3 ? 5 : 3;
    for (int i = 0; smollm2 && i < 3; i++) {
        add_token(added, id, controls[i], true);
        json_object_set_new(vocab, controls[i], json_integer(id++));
    }
    for (int byte = 0; byte < 256; byte++) {
        char spelling[8], raw = (char)byte;
        spell(spelling, &raw, 1);
        json_object_set_new(vocab, spelling, json_integer(id++));
    }
    json_t *merges = make_merges(vocab, id, FW_TEST_VOCAB_N - 1 - (smollm2 ? 0 : added_n), !smollm2);
    id = FW_TEST_VOCAB_N - added_n;
    for (int i = 0; !smollm2 && i < 3; i++) add_token(added, id++, controls[i], true);
    if (style == FW_TEST_QWEN3) {
        add_token(added, id++, "<think>", false);
        add_token(added, id++, "</think>", false);
    }
    json_t *first = smollm2 ? json_pack("{ss sb}", "type", "Digits", "individual_digits", 1)
                            : json_pack("{ss s{ss} ss sb}", "type", "Split", "pattern", "Regex", qwen_pattern,
                                        "behavior", "Isolated", "invert", 0);
    json_t *byte_level = json_pack("{ss sb sb sb}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0,
                                   "use_regex", (int)smollm2);
    json_t *normalizer = smollm2 ? json_null() : json_pack("{ss}", "type", "NFC");
    return json_pack("{ss sn sn so so s{ss s[oo]} sn s{ss sb sb sb} s{ss sn sn sn sn sb sb sb so so}}", "version",
                     "1.0", "truncation", "padding", "added_tokens", added, "normalizer", normalizer, "pre_tokenizer",
                     "type", "Sequence", "pretokenizers", first, byte_level, "post_processor", "decoder", "type",
                     "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE",
                     "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                     "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
}

static fw_status save(const char *dir, const char *name, json_t *value) {
    char *path = NULL;
    fw_status status;
    FW_TRY_OR(fw_path_join(&path, dir, name), done);
    FW_TRY_OR(fw_json_save(value, path), done);
done:
    fw_free(path);
    json_decref(value);
    return status;
}

fw_status fw_test_write_tokenizer(const char *dir, fw_test_tokenizer_style style) {
    json_t *config =
        json_pack("{sb ss ss ss ss ss}", "add_prefix_space", 0, "bos_token",
                  style == FW_TEST_SMOLLM2 ? "<|im_start|>" : "<|endoftext|>", "eos_token", "<|im_end|>", "pad_token",
                  "<|endoftext|>", "tokenizer_class", "PreTrainedTokenizerFast", "chat_template", templates[style]);
    FW_TRY(save(dir, "tokenizer.json", make_tokenizer(style)));
    return save(dir, "tokenizer_config.json", config);
}
