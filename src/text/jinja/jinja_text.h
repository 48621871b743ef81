/* Texts with origins: putting them together, taking them apart. */
#ifndef FW_TEXT_JINJA_TEXT_H
#define FW_TEXT_JINJA_TEXT_H

#include "text/jinja/jinja_value.h"

/* A text that is being written. Zero-initialise and set memory. Errors: those of fw_jinja_take. */
typedef struct fw_jinja_builder {
    fw_jinja_memory *memory;
    char *data;
    fw_jinja_origin *origin; /* NULL while all bytes have the same, which is `uniform` */
    size_t n, cap;
    fw_jinja_origin uniform;
} fw_jinja_builder;

/* Room for `more` bytes. */
fw_status fw_jinja_builder_reserve(fw_jinja_builder *b, size_t more);
fw_status fw_jinja_put(fw_jinja_builder *b, const char *bytes, size_t n, fw_jinja_origin origin);
static inline fw_status fw_jinja_put_char(fw_jinja_builder *b, char c, fw_jinja_origin origin) {
    return fw_jinja_put(b, &c, 1, origin);
}
fw_status fw_jinja_put_code(fw_jinja_builder *b, uint32_t code, fw_jinja_origin origin);
/* Bytes [start, end) of a text with their origins. */
fw_status fw_jinja_put_part(fw_jinja_builder *b, const fw_jinja_value *text, size_t start, size_t end);
static inline fw_status fw_jinja_put_text(fw_jinja_builder *b, const fw_jinja_value *text) {
    return fw_jinja_put_part(b, text, 0, text->text->bytes);
}
fw_status fw_jinja_put_number(fw_jinja_builder *b, int64_t value, fw_jinja_origin origin);
/* What was written, as a value; the builder may not be used on. */
fw_status fw_jinja_builder_finish(fw_jinja_builder *b, fw_jinja_value *out);

static inline fw_jinja_origin fw_jinja_origin_at(const fw_jinja_value *text, size_t byte) {
    return text->text->origin ? text->text->origin[byte] : text->origin;
}
/* Code points; counted once. */
size_t fw_jinja_char_n(fw_jinja_text *text);
/* Bytes [start, end) of a text: shares them. */
fw_status fw_jinja_part(fw_jinja_memory *memory, const fw_jinja_value *text, size_t start, size_t end,
                        fw_jinja_value *out);
/* a + b. */
fw_status fw_jinja_join_two(fw_jinja_memory *memory, const fw_jinja_value *a, const fw_jinja_value *b,
                            fw_jinja_value *out);
/* The byte where `what` is first (or last) found in [start, end) of the text, or -1. Linear time. */
int64_t fw_jinja_find(const fw_jinja_text *text, size_t start, size_t end, const fw_jinja_text *what);
int64_t fw_jinja_find_last(const fw_jinja_text *text, size_t start, size_t end, const fw_jinja_text *what);
/* A text of the template's own (or of one origin), copied into memory when `copy`. */
fw_status fw_jinja_text_of(fw_jinja_memory *memory, fw_jinja_value *out, const char *bytes, size_t n,
                           fw_jinja_origin origin, bool copy);

#endif
