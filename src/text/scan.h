/* Matchers written by hand for the regexes that most models cut text with: the same matches as the regex library, many
 * times quicker. A pattern is known by its exact text; every other goes to text/regex.h.
 *
 * Source of the patterns: the tokenizer files of GPT-2, GPT-4 (cl100k, o200k), Llama 3, Qwen 2 and 3, Mistral's Tekken,
 * DeepSeek 3. */
#ifndef FW_TEXT_SCAN_H
#define FW_TEXT_SCAN_H

#include "text/char_class.h"

/* Where the match at text[from] ends; `from` when there is none at that place. from < text_bytes, valid UTF-8. */
typedef size_t (*fw_scan_fn)(const fw_char_classes *classes, const char *text, size_t text_bytes, size_t from);

/* NULL: the pattern is not one of those. */
fw_scan_fn fw_scan_find(const char *pattern);
/* All patterns, for tests: NULL behind the last. */
const char *fw_scan_pattern(size_t index);

#endif
