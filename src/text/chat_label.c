#include "text/chat_label.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Bytes [start, end) are learnt: those of one message, or of any (the end of a turn that is written with what follows). */
typedef struct stretch {
    size_t start, end;
    int64_t message; /* -1: any */
    fw_loss_weight weight;
} stretch;

typedef struct labeller {
    fw_chat_rendering *r;
    const fw_chat_template *chat;
    const fw_conversation *c;
    const fw_chat_control *control;
    size_t control_n;
    int32_t end_of_turn;
    stretch *list;
    size_t list_n;
    fw_loss_weight weight; /* of the turn at hand */
} labeller;

static fw_learn mark_of(const fw_conversation *c, size_t i) {
    return c->message != NULL && i < c->message_n ? c->message[i].learn : FW_LEARN_AS_ASKED;
}

static fw_loss_weight weight_of(const fw_conversation *c, int64_t i) {
    if (c->message == NULL || i < 0 || (size_t)i >= c->message_n || c->message[i].weight == 0)
        return FW_LOSS_WEIGHT_ONE;
    return c->message[i].weight;
}

static bool is_wanted(const labeller *l, size_t i, size_t last, unsigned flags) {
    fw_learn mark = mark_of(l->c, i);
    if (mark != FW_LEARN_AS_ASKED) return mark == FW_LEARN_YES;
    if (i < l->c->prompt_n || !fw_message_is_assistant(json_array_get(l->c->messages, i))) return false;
    return !(flags & FW_CHAT_LAST_TURN) || i == last;
}

/* Text of the template, or the role in it. */
static bool is_frame(const fw_chat_segment *s) { return s->field == FW_CHAT_TEMPLATE || s->field == FW_CHAT_ROLE; }

/* How many bytes of a turn are its opening. lead: its text before the first byte of the message's own. */
static size_t opening_bytes(const fw_chat_template *chat, const char *lead, size_t lead_bytes) {
    for (size_t i = 0; i < chat->prompt_n; i++) { /* the longest first */
        size_t n = strlen(chat->prompt[i]);
        if (n > 0 && n <= lead_bytes && memcmp(lead, chat->prompt[i], n) == 0) return n;
    }
    /* The prompt goes on where a turn of the past does not (it opens a <think>), or the template has none. A turn that
     * opens otherwise still holds the prompt somewhere (a line break in front of it). */
    size_t n = chat->opening ? strlen(chat->opening) : 0, blank = 0;
    while (blank < n && isspace((unsigned char)chat->opening[blank])) blank++;
    bool prompts = chat->prompt_n > 0 && chat->prompt[0][0] != 0;
    if (n > 0 && (blank < n || prompts) && n <= lead_bytes && memcmp(lead, chat->opening, n) == 0) return n;
    for (size_t i = 0; i < chat->prompt_n; i++) {
        size_t bytes = strlen(chat->prompt[i]);
        const char *found = bytes > 0 && lead_bytes > 0 ? memmem(lead, lead_bytes, chat->prompt[i], bytes) : NULL;
        if (found != NULL) return (size_t)(found - lead) + bytes;
    }
    return 0;
}

/* A message in the rendered text. Segments are numbered; bytes counted from the text's start. */
typedef struct turn {
    size_t start, stop; /* all of it */
    size_t lead_end;    /* its opening, and the template's text up to the first byte of the message's own */
    size_t own_end;     /* behind the last byte of its own */
    size_t first_segment;
    size_t last_segment; /* + 1; 0: the template leaves the message out */
    bool has_frame;      /* the template writes something for it */
} turn;

static bool is_of_turn(const fw_chat_segment *s, size_t n) { return s->message >= 0 && (size_t)s->message < n; }

/* The turn of a message is where the template writes for it. A part of it that stands in the middle of another's turn, as
 * the name of a called function before its result, is a quotation: there the template's text before and after is that
 * other message's. next: scratch, one for each segment. */
static void find_turns(const fw_chat_rendering *r, turn *list, size_t n, int64_t *next) {
    int64_t owner = -1;
    for (size_t i = r->segment_n; i-- > 0;) {
        next[i] = owner;
        if (!is_frame(&r->segment[i]) || !is_of_turn(&r->segment[i], n)) continue;
        owner = r->segment[i].message;
        list[owner].has_frame = true;
    }
    owner = -1;
    for (size_t i = 0; i < r->segment_n; i++) {
        const fw_chat_segment *s = &r->segment[i];
        if (!is_of_turn(s, n)) continue;
        turn *t = &list[s->message];
        if (is_frame(s))
            owner = s->message;
        else if (t->has_frame && owner >= 0 && owner != s->message && next[i] != s->message)
            continue;
        if (t->last_segment == 0)
            *t = (turn){.start = s->offset, .lead_end = SIZE_MAX, .first_segment = i, .has_frame = t->has_frame};
        t->last_segment = i + 1;
        t->stop = s->offset + s->bytes;
        if (is_frame(s)) continue;
        if (t->lead_end == SIZE_MAX) t->lead_end = s->offset;
        t->own_end = t->stop;
    }
    for (size_t i = 0; i < n; i++)
        if (list[i].lead_end > list[i].stop) list[i].lead_end = list[i].stop;
}

/* The first control token at or behind a byte. */
static size_t control_from(const labeller *l, size_t offset) {
    size_t low = 0, high = l->control_n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (l->control[middle].start < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does the template alone write what is between a turn and a byte soon after it? */
static bool template_up_to(const fw_chat_rendering *r, size_t segment, size_t offset) {
    enum { LOOK_AHEAD = 4 };
    for (size_t i = segment; i < r->segment_n && i < segment + LOOK_AHEAD; i++) {
        if (r->segment[i].offset > offset) return true;
        if (r->segment[i].field != FW_CHAT_TEMPLATE) return false;
        if (offset < r->segment[i].offset + r->segment[i].bytes) return true;
    }
    return false;
}

/* Where what is learnt of a turn ends; from: where to look for its end. */
static size_t turn_end(const labeller *l, const turn *t, size_t from) {
    size_t i = control_from(l, from), last = 0;
    for (; i < l->control_n && l->control[i].start < t->stop; i++) {
        last = l->control[i].end;
        if (l->control[i].id == l->end_of_turn) return last;
    }
    if (last > 0 || i == l->control_n) return last > 0 ? last : t->stop;
    /* With a template that ends no turn (GLM), the token that begins the next one is what stops the model. */
    bool ends = l->control[i].id == l->end_of_turn || l->end_of_turn < 0;
    return ends && template_up_to(l->r, t->last_segment, l->control[i].start) ? l->control[i].end : t->stop;
}

static bool is_own_words(const fw_chat_segment *s, int64_t message) {
    return s->message == message && !is_frame(s) && s->field != FW_CHAT_TOOL_NAME && s->field != FW_CHAT_OTHER;
}

static void add_stretch(labeller *l, size_t start, size_t end, int64_t message) {
    if (end > start) l->list[l->list_n++] = (stretch){start, end, message, l->weight};
}

/* Where the call ends and its result begins: own is what the model said last, `result` the first byte of the result's own.
 * Between two control tokens that touch, the end of the one and the beginning of the other; else behind the first. A token
 * that stands on both sides of the model's words is a quotation mark and ends nothing. */
static size_t call_end(const labeller *l, const fw_chat_segment *own, size_t result) {
    size_t stop = own->offset + own->bytes, first = control_from(l, stop), before = control_from(l, own->offset);
    int32_t quote = before > 0 && l->control[before - 1].end == own->offset ? l->control[before - 1].id : -1;
    size_t behind_first = stop;
    for (size_t i = first; i < l->control_n && l->control[i].end <= result; i++) {
        const fw_chat_control *k = &l->control[i];
        if (k->id == quote) continue;
        if (behind_first == stop) behind_first = k->end;
        bool touches =
            i + 1 < l->control_n && k[1].start < result && fw_chat_is_blank(l->r->text + k->end, k[1].start - k->end);
        if (touches) return k->end;
    }
    return behind_first;
}

/* Some templates write the result of a call into the assistant's turn. What frames it is not the model's: from the end of
 * the call to the last control token before the model's next words. */
static void add_between_results(labeller *l, const turn *t, size_t start, size_t end, int64_t message) {
    const fw_chat_rendering *r = l->r;
    const fw_chat_segment *own = NULL; /* the model's last words before a result */
    bool in_result = false;
    size_t result = 0; /* the first byte of its own */
    for (size_t i = t->first_segment; i < t->last_segment && r->segment[i].offset < end; i++) {
        const fw_chat_segment *s = &r->segment[i];
        bool foreign = s->message >= 0 && s->message != message && !is_frame(s);
        if (foreign && !in_result && s->offset > start) {
            add_stretch(l, start, own != NULL ? call_end(l, own, s->offset) : start, message);
            in_result = true;
            result = s->offset;
        } else if (is_own_words(s, message)) {
            if (in_result) {
                size_t k = control_from(l, s->offset);
                start = k > 0 && l->control[k - 1].start > result ? l->control[k - 1].end : s->offset;
            }
            in_result = false;
            own = s;
        }
    }
    if (!in_result) add_stretch(l, start, end, message);
}

/* A turn may open as no turn after a question does (DeepSeek's after the result of a call): the conversation before it, with
 * a reply asked for, is rendered to see how much of its lead is written then too. Not worth it where that text parts from
 * this one earlier (reasoning that is left out of the past only): then *bytes stays. */
static fw_status ask_for_opening(const labeller *l, const turn *t, size_t message, size_t *bytes) {
    fw_chat_rendering asked = {0};
    fw_conversation before = *l->c;
    before.messages = json_array();
    fw_status status = before.messages != NULL ? FW_OK : fw_fail(FW_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < message && status == FW_OK; i++)
        if (json_array_append(before.messages, json_array_get(l->c->messages, i)) != 0)
            status = fw_fail(FW_ERR_NOMEM, "out of memory");
    if (status == FW_OK) status = fw_chat_render(&asked, l->chat, &before, FW_CHAT_GENERATION_PROMPT);
    size_t n = asked.text_bytes;
    if (status == FW_OK && n > t->start && n <= t->lead_end && memcmp(asked.text, l->r->text, n) == 0)
        *bytes = n - t->start;
    json_decref(before.messages);
    fw_chat_rendering_fini(&asked);
    return status == FW_ERR_INPUT ? FW_OK : status; /* a template may refuse it */
}

static fw_status add_turn(labeller *l, const turn *t, size_t message, bool by_role) {
    if (t->last_segment == 0) return FW_OK;
    size_t start = t->lead_end;
    if (by_role) {
        size_t bytes = opening_bytes(l->chat, l->r->text + t->start, t->lead_end - t->start);
        bool may_open =
            l->chat->prompt_n > 0 && message > 0; /* without prompts (Llama 2) there is nothing to ask for */
        if (bytes == 0 && t->lead_end > t->start && may_open) FW_TRY(ask_for_opening(l, t, message, &bytes));
        start = t->start + bytes;
    }
    size_t end = turn_end(l, t, t->own_end > start ? t->own_end : start);
    add_between_results(l, t, start, end < t->stop ? end : t->stop, (int64_t)message);
    if (end > t->stop) add_stretch(l, t->stop, end, -1);
    return FW_OK;
}

static int by_start(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static fw_status put(fw_chat_segment **list, size_t *n, size_t *cap, fw_chat_segment s) {
    if (s.bytes == 0) return FW_OK;
    if (*n == *cap) {
        size_t wider = *cap ? 2 * *cap : 64;
        FW_TRY(FW_GROW_ARRAY(*list, wider));
        *cap = wider;
    }
    (*list)[(*n)++] = s;
    return FW_OK;
}

/* Cut the segments at the borders of the stretches. */
static fw_status paint(labeller *l) {
    fw_chat_rendering *r = l->r;
    fw_chat_segment *list = NULL;
    size_t n = 0, cap = 0, at = 0;
    fw_status status = FW_OK;
    for (size_t i = 0; i < r->segment_n; i++) {
        fw_chat_segment rest = r->segment[i];
        for (size_t k = at; k < l->list_n && l->list[k].start < rest.offset + rest.bytes; k++) {
            const stretch *s = &l->list[k];
            if (s->end <= rest.offset) {
                at += k == at; /* all before it are done */
                continue;
            }
            bool of_none = rest.message < 0 && rest.field == FW_CHAT_TEMPLATE; /* made before the loop over messages */
            if (s->message >= 0 && s->message != rest.message && !of_none) continue;
            size_t from = s->start > rest.offset ? s->start : rest.offset, end = rest.offset + rest.bytes;
            size_t to = s->end < end ? s->end : end;
            fw_chat_segment before = rest, inside = rest;
            before.bytes = from - rest.offset;
            inside.offset = from;
            inside.bytes = to - from;
            inside.trained = true;
            inside.weight = s->weight;
            rest.offset = to;
            rest.bytes = end - to;
            FW_TRY_OR(put(&list, &n, &cap, before), done);
            FW_TRY_OR(put(&list, &n, &cap, inside), done);
        }
        FW_TRY_OR(put(&list, &n, &cap, rest), done);
    }
    fw_free(r->segment);
    r->segment = list;
    r->segment_n = n;
    r->segment_cap = cap;
    list = NULL;
done:
    fw_free(list);
    return status;
}

fw_status fw_chat_label(fw_chat_rendering *r, const fw_chat_template *chat, const fw_conversation *c, unsigned flags,
                        const fw_chat_control *control, size_t control_n, int32_t end_of_turn) {
    const fw_jinja_program *program = c->tools != NULL && chat->with_tools ? chat->with_tools : chat->plain;
    size_t n = json_array_size(c->messages), last = SIZE_MAX;
    labeller l = {.r = r, .chat = chat, .c = c, .control = control, .control_n = control_n, .end_of_turn = end_of_turn};
    for (size_t i = 0; i < n; i++)
        if (fw_message_is_assistant(json_array_get(c->messages, i))) last = i;
    for (size_t i = 0; i < r->segment_n; i++) r->segment[i].weight = weight_of(c, r->segment[i].message);
    if (flags & FW_CHAT_ALL_TOKENS) {
        for (size_t i = 0; i < r->segment_n; i++)
            r->segment[i].trained =
                !is_of_turn(&r->segment[i], n) || mark_of(c, (size_t)r->segment[i].message) != FW_LEARN_NO;
        return FW_OK;
    }
    if (program->has_generation) {
        bool *learnt;
        FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, learnt, n));
        for (size_t i = 0; i < r->segment_n; i++) {
            fw_chat_segment *s = &r->segment[i];
            size_t message = (size_t)s->message;
            s->trained = s->generation && (s->message < 0 || message >= n || is_wanted(&l, message, last, flags));
            if (s->trained && is_of_turn(s, n)) learnt[message] = true;
        }
        for (size_t i = 0; i < n; i++) r->mark_ignored_n += mark_of(c, i) == FW_LEARN_YES && !learnt[i];
        return FW_OK;
    }
    turn *turns;
    int64_t *next;
    FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, l.list, n + r->segment_n + n));
    FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, turns, n));
    FW_TRY(FW_JINJA_NEW_ARRAY(&r->memory, next, r->segment_n));
    find_turns(r, turns, n, next);
    for (size_t i = 0; i < n; i++) {
        if (!is_wanted(&l, i, last, flags)) continue;
        l.weight = weight_of(c, (int64_t)i);
        FW_TRY(add_turn(&l, &turns[i], i, fw_message_is_assistant(json_array_get(c->messages, i))));
    }
    qsort(l.list, l.list_n, sizeof *l.list, by_start);
    return paint(&l);
}
