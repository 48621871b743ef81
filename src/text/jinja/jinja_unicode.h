/* What Python's str knows about characters: white space, line ends, what is printable, upper and lower case. */
#ifndef FW_TEXT_JINJA_UNICODE_H
#define FW_TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* str.isspace of one character: a few more than Unicode's White_Space. */
bool fw_jinja_is_space(uint32_t code);
/* Is it a line end for str.splitlines? */
bool fw_jinja_is_line_end(uint32_t code);
/* str.isprintable of one character. */
bool fw_jinja_is_printable(uint32_t code);
/* Take white space off the ends; text and bytes are moved. */
void fw_jinja_strip_space(const char **text, size_t *bytes, bool left, bool right);
/* The code point that ends before text + at (at > 0); returns where it starts. */
size_t fw_jinja_char_before(const char *text, size_t at, uint32_t *code);
size_t fw_jinja_count_chars(const char *text, size_t bytes);
/* Byte offset of the char_at-th code point, or bytes. */
size_t fw_jinja_char_offset(const char *text, size_t bytes, size_t char_at);

typedef enum fw_jinja_case { FW_JINJA_UPPER, FW_JINJA_LOWER, FW_JINJA_TITLE, FW_JINJA_FOLD } fw_jinja_case;
/* Up to three code points; returns how many. */
int fw_jinja_change_case(uint32_t out[3], uint32_t code, fw_jinja_case to);
/* Does it have case, and which? (islower, isupper, title) */
bool fw_jinja_is_upper(uint32_t code);
bool fw_jinja_is_lower(uint32_t code);
/* Classes of str.isalpha, isdecimal, isdigit, isnumeric. */
bool fw_jinja_is_alpha(uint32_t code);
bool fw_jinja_is_decimal(uint32_t code);
bool fw_jinja_is_digit(uint32_t code);
bool fw_jinja_is_numeric(uint32_t code);
/* 0 to 9 of a decimal digit of any script; -1 for any other character. */
int fw_jinja_decimal_value(uint32_t code);

#endif
