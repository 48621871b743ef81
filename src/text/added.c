#include "text/added.h"

#include "base/alloc.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

static fw_status new_node(fw_added_set *set, unsigned char byte, int32_t *index) {
    if (set->node_n == set->node_cap) {
        int32_t cap = set->node_cap ? 2 * set->node_cap : 64;
        FW_TRY(FW_GROW_ARRAY(set->node, (size_t)cap));
        set->node_cap = cap;
    }
    *index = set->node_n++;
    set->node[*index] = (struct fw_added_node){-1, -1, -1, byte};
    return FW_OK;
}

static int32_t find_child(const fw_added_set *set, int32_t parent, unsigned char byte) {
    int32_t child = set->node[parent].child;
    while (child >= 0 && set->node[child].byte != byte) child = set->node[child].sibling;
    return child;
}

fw_status fw_added_set_insert(fw_added_set *set, const char *spelling, size_t spelling_bytes, fw_added added) {
    if (spelling_bytes == 0) return FW_OK;
    int32_t at = 0;
    if (set->node_n == 0) FW_TRY(new_node(set, 0, &at));
    at = 0;
    for (size_t i = 0; i < spelling_bytes; i++) {
        unsigned char byte = (unsigned char)spelling[i];
        int32_t child = find_child(set, at, byte);
        if (child < 0) {
            FW_TRY(new_node(set, byte, &child));
            set->node[child].sibling = set->node[at].child;
            set->node[at].child = child;
        }
        at = child;
    }
    if (set->node[at].added >= 0)
        return fw_fail(FW_ERR_INPUT, "added tokens %d and %d are the same text, \"%.*s\", after normalising", added.id,
                       set->added[set->node[at].added].id, spelling_bytes > 60 ? 60 : (int)spelling_bytes, spelling);
    if (set->added_n == set->added_cap) {
        int32_t cap = set->added_cap ? 2 * set->added_cap : 16;
        FW_TRY(FW_GROW_ARRAY(set->added, (size_t)cap));
        set->added_cap = cap;
    }
    set->node[at].added = set->added_n;
    set->added[set->added_n++] = added;
    set->start_n += set->starts[(unsigned char)spelling[0]] == 0;
    set->starts[(unsigned char)spelling[0]] = 1;
    set->only_start = spelling[0];
    return FW_OK;
}

void fw_added_set_fini(fw_added_set *set) {
    fw_free(set->node);
    fw_free(set->added);
    *set = (fw_added_set){0};
}

/* The longest spelling that starts at `from`; NULL: none. */
static const fw_added *match_at(const fw_added_set *set, const char *text, size_t text_bytes, size_t from,
                                size_t *end) {
    const fw_added *best = NULL;
    int32_t at = 0;
    for (size_t i = from; i < text_bytes; i++) {
        at = find_child(set, at, (unsigned char)text[i]);
        if (at < 0) break;
        if (set->node[at].added >= 0) {
            best = &set->added[set->node[at].added];
            *end = i + 1;
        }
    }
    return best;
}

static size_t char_before(const char *text, size_t at, uint32_t *code) {
    size_t start = at - 1;
    while (((unsigned char)text[start] & 0xc0) == 0x80) start--;
    fw_utf8_next(code, text + start);
    return start;
}

static bool is_whole_word(const fw_added_walk *w, size_t start, size_t end) {
    uint32_t code;
    if (start > 0) {
        char_before(w->text, start, &code);
        if (fw_unicode_is_word(code)) return false;
    }
    if (end < w->text_bytes) {
        fw_utf8_next(&code, w->text + end);
        if (fw_unicode_is_word(code)) return false;
    }
    return true;
}

/* The next place from `at` on where a spelling may start; the end of the text when there is none. */
static size_t next_start(const fw_added_walk *w, size_t at) {
    if (w->set->start_n == 1) {
        const char *found = memchr(w->text + at, w->set->only_start, w->text_bytes - at);
        return found ? (size_t)(found - w->text) : w->text_bytes;
    }
    while (at < w->text_bytes && !w->set->starts[(unsigned char)w->text[at]]) at++;
    return at;
}

void fw_added_next(fw_added_walk *w, size_t *text_start, size_t *text_end, int32_t *id) {
    for (size_t at = w->searched; w->set->node_n > 0 && at < w->text_bytes;) {
        at = next_start(w, at);
        if (at == w->text_bytes) break;
        size_t end = at;
        const fw_added *added = match_at(w->set, w->text, w->text_bytes, at, &end);
        if (added == NULL) {
            at++;
            continue;
        }
        size_t start = at, stop = end;
        at = end;
        if (added->special && !w->find_special) continue;
        if (added->special && w->is_trusted != NULL && !w->is_trusted(w->context, start, stop)) {
            if (w->is_trusted(w->context, stop - 1, stop)) at = start + 1; /* one that is may start inside it */
            continue;
        }
        if (added->single_word && !is_whole_word(w, start, stop)) continue;
        uint32_t code;
        if (added->lstrip) { /* spaces before it, unless an earlier token took them */
            while (start > w->taken) {
                size_t before = char_before(w->text, start, &code);
                if (!fw_unicode_is_space(code)) break;
                start = before;
            }
            if (start < w->taken) start = w->taken;
        }
        if (added->rstrip) {
            if (stop < w->spaces_end) stop = w->spaces_end; /* looked at before: a run of spaces is walked once */
            while (stop < w->text_bytes) {
                size_t bytes = fw_utf8_next(&code, w->text + stop);
                if (!fw_unicode_is_space(code)) break;
                stop += bytes;
            }
            w->spaces_end = stop;
        }
        if (start >= stop) { /* an earlier token took all of it */
            w->taken = stop;
            continue;
        }
        *text_start = w->taken;
        *text_end = start > w->taken ? start : w->taken;
        *id = added->id;
        w->searched = end;
        w->taken = stop;
        return;
    }
    *text_start = w->taken;
    *text_end = w->text_bytes > w->taken ? w->text_bytes : w->taken;
    w->searched = w->taken = w->text_bytes;
    *id = -1;
}
