/* What of a normal form belongs to the beginning of the text: Metaspace asks for it that puts its mark before the first
 * piece alone. The reference counts characters: each of the decomposed text either stands for a character of the text
 * (0) or comes behind one (+1); sorting by combining class moves these numbers with the characters, composing adds them
 * up, and then they are read as if nothing had moved. */
#include "base/alloc.h"
#include "text/normalize.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

enum { DECOMPOSED_MAX = 18 }; /* the longest compatibility decomposition of Unicode */

typedef struct counted {
    uint32_t code;
    int order;  /* its combining class */
    int change; /* characters that it adds; negative: so many behind its own are gone */
    size_t place;
} counted;

typedef struct counted_list {
    counted *item;
    size_t n, cap;
} counted_list;

static int combining_class(uint32_t code) {
    return fw_norm_is_inert(code) ? 0 : utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

static fw_status push(counted_list *list, uint32_t code, int change) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        FW_TRY(FW_GROW_ARRAY(list->item, cap));
        list->cap = cap;
    }
    list->item[list->n] = (counted){code, combining_class(code), change, list->n};
    list->n++;
    return FW_OK;
}

static fw_status decompose(counted_list *list, fw_norm_kind form, const char *text, size_t text_bytes) {
    const bool compat = form == FW_NORM_NFKC || form == FW_NORM_NFKD;
    const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < text_bytes;) {
        uint32_t code;
        utf8proc_int32_t part[DECOMPOSED_MAX];
        int boundary = 0;
        i += fw_utf8_next(&code, text + i);
        utf8proc_ssize_t part_n = fw_norm_is_inert(code)
                                      ? 0
                                      : utf8proc_decompose_char((utf8proc_int32_t)code, part, DECOMPOSED_MAX,
                                                                (utf8proc_option_t)options, &boundary);
        if (part_n < 1 || part_n > DECOMPOSED_MAX) {
            part[0] = (utf8proc_int32_t)code;
            part_n = 1;
        }
        for (utf8proc_ssize_t k = 0; k < part_n; k++) FW_TRY(push(list, (uint32_t)part[k], k > 0));
    }
    return FW_OK;
}

static int by_class(const void *a, const void *b) {
    const counted *x = a, *y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static void sort_marks(counted_list *list) {
    for (size_t i = 0, end; i < list->n; i = end + 1) {
        for (end = i; end < list->n && list->item[end].order > 0;) end++;
        if (end > i + 1) qsort(list->item + i, end - i, sizeof *list->item, by_class);
    }
}

static bool compose_pair(uint32_t *joined, uint32_t first, uint32_t second) {
    if (fw_norm_is_inert(first) || fw_norm_is_inert(second)) return false;
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)first, (utf8proc_int32_t)second};
    const int options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    if (utf8proc_normalize_utf32(pair, 2, (utf8proc_option_t)options) != 1) return false;
    *joined = (uint32_t)pair[0];
    return true;
}

/* A mark joins the last starter unless one of its class or a higher one, or another starter, stands between. */
static void compose(counted_list *list) {
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < list->n; i++) {
        const counted c = list->item[i];
        uint32_t joined;
        const int between = kept > 0 && kept - 1 != starter ? list->item[kept - 1].order : -1;
        const bool open = starter != SIZE_MAX && between < c.order;
        if (open && compose_pair(&joined, list->item[starter].code, c.code)) {
            list->item[starter].code = joined;
            list->item[starter].change += c.change - 1;
            continue;
        }
        if (c.order == 0) starter = kept;
        list->item[kept++] = c;
    }
    list->n = kept;
}

fw_status fw_norm_unicode_head(size_t *bytes, fw_norm_kind form, const char *text, size_t text_bytes,
                               size_t head_bytes) {
    counted_list list = {0};
    fw_status status;
    *bytes = 0;
    FW_TRY_OR(decompose(&list, form, text, text_bytes), done);
    sort_marks(&list);
    if (form == FW_NORM_NFC || form == FW_NORM_NFKC) compose(&list);
    size_t at = 0; /* the next character of the text */
    for (size_t i = 0; i < list.n; i++) {
        const int change = list.item[i].change;
        if (change <= 0 && at >= head_bytes) break;
        char utf8[4];
        uint32_t code;
        *bytes += fw_utf8_put(utf8, list.item[i].code);
        for (int k = change; k <= 0 && at < text_bytes; k++) at += fw_utf8_next(&code, text + at);
    }
done:
    fw_free(list.item);
    return status;
}
