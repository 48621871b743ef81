#include "base/strbuf.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

fw_status fw_strbuf_reserve(fw_strbuf *s, size_t more_bytes) {
    size_t need;
    if (__builtin_add_overflow(s->len_bytes, more_bytes, &need) || need > SIZE_MAX / 2 - 1)
        return fw_fail(FW_ERR_NOMEM, "a string of more than %zu bytes cannot be held", s->len_bytes);
    if (need + 1 <= s->cap_bytes) return FW_OK;
    size_t cap = s->cap_bytes ? s->cap_bytes : 32;
    while (cap < need + 1) cap *= 2;
    FW_TRY(fw_realloc_array((void **)&s->data, cap, 1));
    s->cap_bytes = cap;
    s->data[s->len_bytes] = 0;
    return FW_OK;
}

fw_status fw_strbuf_append(fw_strbuf *s, const void *bytes, size_t n_bytes) {
    FW_TRY(fw_strbuf_reserve(s, n_bytes));
    if (n_bytes) memcpy(s->data + s->len_bytes, bytes, n_bytes);
    s->len_bytes += n_bytes;
    s->data[s->len_bytes] = 0;
    return FW_OK;
}

fw_status fw_strbuf_puts(fw_strbuf *s, const char *text) { return fw_strbuf_append(s, text, strlen(text)); }

fw_status fw_strbuf_putc(fw_strbuf *s, char c) { return fw_strbuf_append(s, &c, 1); }

fw_status fw_strbuf_printf(fw_strbuf *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0) return fw_fail(FW_ERR_INTERNAL, "bad format string \"%s\"", format);
    FW_TRY(fw_strbuf_reserve(s, (size_t)n));
    va_start(arguments, format);
    vsnprintf(s->data + s->len_bytes, (size_t)n + 1, format, arguments);
    va_end(arguments);
    s->len_bytes += (size_t)n;
    return FW_OK;
}

void fw_strbuf_fini(fw_strbuf *s) {
    fw_free(s->data);
    *s = (fw_strbuf){0};
}
