#include "text/jinja/jinja_text.h"

#include "text/jinja/jinja_unicode.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

static void fill(fw_jinja_origin *out, size_t n, fw_jinja_origin origin) {
    for (size_t i = 0; i < n; i++) out[i] = origin;
}

fw_status fw_jinja_builder_reserve(fw_jinja_builder *b, size_t more) {
    if (more <= b->cap - b->n) return FW_OK;
    size_t cap = b->cap ? 2 * b->cap : 64;
    if (cap < b->n + more) cap = b->n + more;
    char *data;
    FW_TRY(fw_jinja_take(b->memory, (void **)&data, cap));
    if (b->origin != NULL) {
        fw_jinja_origin *origin;
        FW_TRY(fw_jinja_take(b->memory, (void **)&origin, cap * sizeof *origin));
        memcpy(origin, b->origin, b->n * sizeof *origin);
        b->origin = origin;
    }
    if (b->n) memcpy(data, b->data, b->n);
    b->data = data;
    b->cap = cap;
    return FW_OK;
}

/* From now on each byte has an origin of its own. */
static fw_status mix(fw_jinja_builder *b) {
    FW_TRY(fw_jinja_take(b->memory, (void **)&b->origin, b->cap * sizeof *b->origin));
    fill(b->origin, b->n, b->uniform);
    return FW_OK;
}

fw_status fw_jinja_put(fw_jinja_builder *b, const char *bytes, size_t n, fw_jinja_origin origin) {
    if (n == 0) return FW_OK;
    FW_TRY(fw_jinja_builder_reserve(b, n));
    if (b->n == 0 && b->origin == NULL) b->uniform = origin;
    if (b->origin == NULL && origin != b->uniform) FW_TRY(mix(b));
    if (b->origin != NULL) fill(b->origin + b->n, n, origin);
    memcpy(b->data + b->n, bytes, n);
    b->n += n;
    return FW_OK;
}

fw_status fw_jinja_put_code(fw_jinja_builder *b, uint32_t code, fw_jinja_origin origin) {
    char bytes[4];
    return fw_jinja_put(b, bytes, fw_utf8_put(bytes, code), origin);
}

fw_status fw_jinja_put_part(fw_jinja_builder *b, const fw_jinja_value *v, size_t start, size_t end) {
    const fw_jinja_text *text = v->text;
    if (text->origin == NULL) return fw_jinja_put(b, text->data + start, end - start, v->origin);
    if (start == end) return FW_OK;
    FW_TRY(fw_jinja_builder_reserve(b, end - start));
    if (b->origin == NULL) FW_TRY(mix(b));
    memcpy(b->origin + b->n, text->origin + start, (end - start) * sizeof *b->origin);
    memcpy(b->data + b->n, text->data + start, end - start);
    b->n += end - start;
    return FW_OK;
}

fw_status fw_jinja_put_number(fw_jinja_builder *b, int64_t value, fw_jinja_origin origin) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)value);
    return fw_jinja_put(b, digits, (size_t)n, origin);
}

fw_status fw_jinja_builder_finish(fw_jinja_builder *b, fw_jinja_value *out) {
    fw_jinja_text *text;
    FW_TRY(fw_jinja_text_make(b->memory, &text, b->data ? b->data : "", b->n));
    text->origin = b->origin;
    *out = fw_jinja_text_value(text, b->uniform);
    return FW_OK;
}

fw_status fw_jinja_text_of(fw_jinja_memory *memory, fw_jinja_value *out, const char *bytes, size_t n,
                           fw_jinja_origin origin, bool copy) {
    fw_jinja_text *text;
    if (copy) {
        char *own;
        FW_TRY(fw_jinja_take(memory, (void **)&own, n));
        if (n) memcpy(own, bytes, n);
        bytes = own;
    }
    FW_TRY(fw_jinja_text_make(memory, &text, bytes, n));
    *out = fw_jinja_text_value(text, origin);
    return FW_OK;
}

size_t fw_jinja_char_n(fw_jinja_text *text) {
    if (text->char_n == FW_JINJA_UNCOUNTED) text->char_n = (int64_t)fw_jinja_count_chars(text->data, text->bytes);
    return (size_t)text->char_n;
}

fw_status fw_jinja_part(fw_jinja_memory *memory, const fw_jinja_value *v, size_t start, size_t end,
                        fw_jinja_value *out) {
    const fw_jinja_text *text = v->text;
    if (start == 0 && end == text->bytes) {
        *out = *v;
        return FW_OK;
    }
    fw_jinja_text *part;
    FW_TRY(fw_jinja_text_make(memory, &part, text->data + start, end - start));
    if (text->char_n == (int64_t)text->bytes) part->char_n = (int64_t)part->bytes;
    part->origin = text->origin ? text->origin + start : NULL;
    *out = fw_jinja_text_value(part, v->origin);
    return FW_OK;
}

/* Copy a text into a buffer that has room for it. */
static fw_status buffer_add(fw_jinja_memory *memory, fw_jinja_buffer *buffer, const fw_jinja_value *v) {
    const fw_jinja_text *text = v->text;
    if (text->bytes == 0) return FW_OK;
    if (buffer->used == 0 && buffer->origin == NULL) buffer->uniform = v->origin;
    if (buffer->origin == NULL && (text->origin != NULL || v->origin != buffer->uniform)) {
        FW_TRY(fw_jinja_take(memory, (void **)&buffer->origin, buffer->cap * sizeof *buffer->origin));
        fill(buffer->origin, buffer->used, buffer->uniform);
    }
    if (buffer->origin != NULL) {
        if (text->origin != NULL)
            memcpy(buffer->origin + buffer->used, text->origin, text->bytes * sizeof *text->origin);
        else
            fill(buffer->origin + buffer->used, text->bytes, v->origin);
    }
    memcpy(buffer->data + buffer->used, text->data, text->bytes);
    buffer->used += text->bytes;
    return FW_OK;
}

fw_status fw_jinja_join_two(fw_jinja_memory *memory, const fw_jinja_value *a, const fw_jinja_value *b,
                            fw_jinja_value *out) {
    const fw_jinja_text *left = a->text, *right = b->text;
    if (left->bytes == 0 || right->bytes == 0) {
        *out = left->bytes == 0 ? *b : *a;
        return FW_OK;
    }
    size_t total = left->bytes + right->bytes;
    fw_jinja_buffer *buffer = left->buffer;
    bool goes_on = buffer != NULL && left->data == buffer->data && left->bytes == buffer->used &&
                   right->bytes <= buffer->cap - buffer->used;
    if (!goes_on) {
        FW_TRY(FW_JINJA_NEW(memory, buffer));
        buffer->cap = total < 64 ? 128 : 2 * total;
        FW_TRY(fw_jinja_take(memory, (void **)&buffer->data, buffer->cap));
        FW_TRY(buffer_add(memory, buffer, a));
    }
    FW_TRY(buffer_add(memory, buffer, b));
    fw_jinja_text *text;
    FW_TRY(fw_jinja_text_make(memory, &text, buffer->data, total));
    text->origin = buffer->origin;
    text->buffer = buffer;
    *out = fw_jinja_text_value(text, buffer->uniform);
    return FW_OK;
}

int64_t fw_jinja_find(const fw_jinja_text *text, size_t start, size_t end, const fw_jinja_text *what) {
    if (what->bytes > end - start) return -1;
    if (what->bytes == 0) return (int64_t)start;
    const char *found = memmem(text->data + start, end - start, what->data, what->bytes);
    return found ? found - text->data : -1;
}

int64_t fw_jinja_find_last(const fw_jinja_text *text, size_t start, size_t end, const fw_jinja_text *what) {
    if (what->bytes > end - start) return -1;
    if (what->bytes == 0) return (int64_t)end;
    const char *from = text->data + start;
    for (size_t left = end - start - what->bytes + 1; left > 0;) { /* places where it may begin */
        const char *first = memrchr(from, what->data[0], left);
        if (first == NULL) return -1;
        if (memcmp(first, what->data, what->bytes) == 0) return first - text->data;
        left = (size_t)(first - from);
    }
    return -1;
}
