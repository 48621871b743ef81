/* A byte string that grows. May hold zero bytes; `data` is always followed by one. Zero-initialise it
 * ({0} is a valid empty string); release with fw_strbuf_fini. Every append may fail with FW_ERR_NOMEM
 * and then leaves the string as it was. */
#ifndef FW_BASE_STRBUF_H
#define FW_BASE_STRBUF_H

#include "base/status.h"

#include <stdarg.h>

typedef struct fw_strbuf {
    char *data; /* NULL while empty and never grown: use fw_strbuf_text for printing */
    size_t len_bytes, cap_bytes;
} fw_strbuf;

fw_status fw_strbuf_reserve(fw_strbuf *s, size_t more_bytes);
fw_status fw_strbuf_append(fw_strbuf *s, const void *bytes, size_t n_bytes);
fw_status fw_strbuf_puts(fw_strbuf *s, const char *text);
fw_status fw_strbuf_putc(fw_strbuf *s, char c);
fw_status fw_strbuf_printf(fw_strbuf *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline const char *fw_strbuf_text(const fw_strbuf *s) { return s->data ? s->data : ""; }
static inline void fw_strbuf_clear(fw_strbuf *s) {
    s->len_bytes = 0;
    if (s->data) s->data[0] = 0;
}
void fw_strbuf_fini(fw_strbuf *s);

#endif
