/* Counts in messages: "1 conversation", "2 conversations". Write "%lld conversation%s", n, fw_plural(n). */
#ifndef FW_BASE_PLURAL_H
#define FW_BASE_PLURAL_H

#include <stdint.h>

static inline const char *fw_plural(int64_t n) { return n == 1 ? "" : "s"; }
/* With the verb: "conversation%s cut", fw_plural_are(n): " is" or "s are". */
static inline const char *fw_plural_are(int64_t n) { return n == 1 ? " is" : "s are"; }

#endif
