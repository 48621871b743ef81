/* Values of a template: what Python would have there, with where each came from.
 *
 * Everything is immutable once made (as in the sandbox of the reference, which refuses to change lists and dicts)
 * but namespaces, iterators, cyclers, joiners and loops. Values are passed by value; what they point to lives in
 * the memory of the template (constants) or of the rendering.
 *
 * Origins. Every character that a template writes came from the template or from the conversation. A value that is no
 * text carries one origin, which its printed form inherits; a text carries one for all of its bytes (then
 * text->origin is NULL and value.origin counts) or one for each byte. Operations hand the origins on: there is
 * no search in the result. */
#ifndef FW_TEXT_JINJA_VALUE_H
#define FW_TEXT_JINJA_VALUE_H

#include "text/jinja/jinja_memory.h"
#include "text/jinja/jinja_origin.h"

#include <stdbool.h>

typedef enum fw_jinja_kind {
    FW_JINJA_ABSENT, /* an argument that was not given */
    FW_JINJA_UNDEFINED,
    FW_JINJA_NONE,
    FW_JINJA_BOOL,
    FW_JINJA_INT,
    FW_JINJA_FLOAT,
    FW_JINJA_TEXT,
    FW_JINJA_LIST, /* and tuples, ranges, views of dicts, iterators: see fw_jinja_list_kind */
    FW_JINJA_DICT,
    FW_JINJA_NAMESPACE,
    FW_JINJA_FUNCTION, /* built in, perhaps bound to a value */
    FW_JINJA_MACRO,
    FW_JINJA_LOOP,
    FW_JINJA_CYCLER,
    FW_JINJA_JOINER,
} fw_jinja_kind;

typedef struct fw_jinja_value {
    fw_jinja_kind kind;
    fw_jinja_origin origin;
    union {
        const struct fw_jinja_undefined *undefined;
        bool boolean;
        int64_t integer;
        double real;
        struct fw_jinja_text *text;
        struct fw_jinja_list *list;
        struct fw_jinja_dict *dict; /* of a namespace too */
        const struct fw_jinja_bound *function;
        const struct fw_jinja_macro *macro;
        struct fw_jinja_loop *loop;
        struct fw_jinja_turn *turn; /* of cyclers and joiners */
    };
} fw_jinja_value;

/* UTF-8. A buffer is shared by a text and those that go on after it: adding to the last of them copies only what is
 * added, so building a text piece by piece takes linear time. */
typedef struct fw_jinja_buffer {
    char *data;
    fw_jinja_origin *origin; /* NULL while all bytes have the same */
    size_t used, cap;
    fw_jinja_origin uniform;
} fw_jinja_buffer;

enum { FW_JINJA_UNCOUNTED = -1 };
typedef struct fw_jinja_text {
    const char *data;
    size_t bytes;
    int64_t char_n;                /* code points, or FW_JINJA_UNCOUNTED; constants are always counted */
    const fw_jinja_origin *origin; /* of each byte, or NULL */
    fw_jinja_buffer *buffer;       /* or NULL */
} fw_jinja_text;

typedef enum fw_jinja_list_kind {
    FW_JINJA_IS_LIST,
    FW_JINJA_IS_TUPLE,
    FW_JINJA_IS_RANGE,
    FW_JINJA_IS_KEYS, /* views of a dict */
    FW_JINJA_IS_VALUES,
    FW_JINJA_IS_ITEMS,
    FW_JINJA_IS_ITERATOR, /* can be gone through once; what filters such as map and select give */
} fw_jinja_list_kind;

typedef struct fw_jinja_list {
    fw_jinja_list_kind kind;
    size_t n;
    size_t next; /* of an iterator: the first item that is not used up */
    fw_jinja_value *item;
    int64_t range[3]; /* start, stop, step as given */
    bool is_group;    /* a tuple of groupby: its parts have names */
} fw_jinja_list;

/* In order of insertion. */
typedef struct fw_jinja_dict {
    size_t n, cap;
    struct fw_jinja_entry {
        fw_jinja_value key, value;
    } * entry;
    uint32_t *slot; /* hash table of entry numbers + 1, slot_n a power of two; NULL while the dict is small */
    size_t slot_n;
    int64_t message;   /* the message this dict is, or -1 */
    bool is_arguments; /* of a call */
} fw_jinja_dict;

/* Why it is not defined; printed when somebody uses it. */
typedef struct fw_jinja_undefined {
    const char *hint; /* "'x' is undefined" without the name when name is set; see fw_jinja_fail_undefined */
    const char *name; /* or NULL */
    size_t name_bytes;
    const char *type_name; /* of the object that lacks it, or NULL */
} fw_jinja_undefined;

typedef struct fw_jinja_turn {
    fw_jinja_value *item;
    size_t n, at;
} fw_jinja_turn;

static inline fw_jinja_value fw_jinja_none(void) { return (fw_jinja_value){.kind = FW_JINJA_NONE}; }
static inline fw_jinja_value fw_jinja_bool(bool b) { return (fw_jinja_value){.kind = FW_JINJA_BOOL, .boolean = b}; }
static inline fw_jinja_value fw_jinja_int(int64_t i) { return (fw_jinja_value){.kind = FW_JINJA_INT, .integer = i}; }
static inline fw_jinja_value fw_jinja_float(double d) { return (fw_jinja_value){.kind = FW_JINJA_FLOAT, .real = d}; }
static inline fw_jinja_value fw_jinja_text_value(fw_jinja_text *text, fw_jinja_origin origin) {
    return (fw_jinja_value){.kind = FW_JINJA_TEXT, .origin = origin, .text = text};
}
static inline bool fw_jinja_is_number(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_BOOL || v->kind == FW_JINJA_INT || v->kind == FW_JINJA_FLOAT;
}
/* An int or a bool, as Python sees it. */
static inline bool fw_jinja_is_integer(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_BOOL || v->kind == FW_JINJA_INT;
}
static inline int64_t fw_jinja_as_integer(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_BOOL ? v->boolean : v->integer;
}
static inline double fw_jinja_as_real(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_FLOAT ? v->real : (double)fw_jinja_as_integer(v);
}
static inline bool fw_jinja_is_iterator(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_LIST && v->list->kind == FW_JINJA_IS_ITERATOR;
}
/* Is it this text? */
bool fw_jinja_text_is(const fw_jinja_value *v, const char *text);

/* Python's name of its type: "str", "dict", "NoneType", ... */
const char *fw_jinja_type_name(const fw_jinja_value *v);
bool fw_jinja_truth(const fw_jinja_value *v);
/* Python's ==. *work counts what was looked at and may not pass FW_JINJA_EQUAL_MAX: then, and deeper than
 * FW_JINJA_VALUE_DEPTH_MAX, nothing is equal. (Small values can share parts so that they are endless to go through.) */
bool fw_jinja_equal(const fw_jinja_value *a, const fw_jinja_value *b, size_t *work);
enum { FW_JINJA_VALUE_DEPTH_MAX = 500, FW_JINJA_EQUAL_MAX = 1 << 20 };

/* A text in memory of its own; the bytes are borrowed. */
fw_status fw_jinja_text_make(fw_jinja_memory *memory, fw_jinja_text **out, const char *data, size_t bytes);
fw_status fw_jinja_list_make(fw_jinja_memory *memory, fw_jinja_list **out, fw_jinja_list_kind kind, size_t n);

fw_status fw_jinja_dict_make(fw_jinja_memory *memory, fw_jinja_dict **out, size_t cap);
/* NULL when the key is not there, or cannot be one. */
fw_jinja_value *fw_jinja_dict_find(const fw_jinja_dict *dict, const fw_jinja_value *key);
fw_jinja_value *fw_jinja_dict_find_text(const fw_jinja_dict *dict, const char *key, size_t key_bytes);
/* Put or replace. */
fw_status fw_jinja_dict_put(fw_jinja_memory *memory, fw_jinja_dict *dict, fw_jinja_value key, fw_jinja_value value);
/* Can it be a key? (Lists and dicts cannot.) */
bool fw_jinja_is_hashable(const fw_jinja_value *v);

#endif
