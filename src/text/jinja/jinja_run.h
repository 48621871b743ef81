/* One rendering that is under way: its memory, its limits, its scopes and its output. For the files of this folder. */
#ifndef FW_TEXT_JINJA_RUN_H
#define FW_TEXT_JINJA_RUN_H

#include "text/jinja/jinja_ast.h"
#include "text/jinja/jinja_text.h"

#include <time.h>

/* Variables of a block: a linked list, since a block has few. */
typedef struct fw_jinja_scope {
    struct fw_jinja_scope *outer;
    struct fw_jinja_variable {
        struct fw_jinja_variable *next;
        const fw_jinja_name *name;
        fw_jinja_value value;
    } * variable;
} fw_jinja_scope;

typedef enum fw_jinja_flow { FW_JINJA_GOES_ON, FW_JINJA_BREAKS, FW_JINJA_CONTINUES } fw_jinja_flow;

typedef struct fw_jinja {
    fw_jinja_memory *memory;
    const fw_jinja_program *program;
    int64_t step_n; /* left */
    int depth;
    int line;        /* of the template, for messages */
    int64_t message; /* the message that the template is going through, or -1 */
    int round_n;     /* loops around this place */
    fw_jinja_scope *scope, *globals;
    fw_jinja_builder *out;
    fw_jinja_flow flow;
    time_t now;
    bool prints_python; /* see fw_jinja_output */
} fw_jinja;

/* Evaluation is recursive: deeper than this is refused, long before the stack of a thread (8 MiB) ends. */
enum { FW_JINJA_DEPTH_MAX = 1200 };

/* FW_ERR_INPUT: "NAME:LINE: message". */
#define fw_jinja_fail(j, ...) fw_jinja_fail_at((j), __FILE__, __func__, __LINE__, __VA_ARGS__)
fw_status fw_jinja_fail_at(const fw_jinja *j, const char *file, const char *function, int source_line,
                           const char *format, ...) __attribute__((format(printf, 5, 6), cold));

/* Count work; the bytes or items that an operation goes through. Errors: FW_ERR_INPUT when the template has had its
 * share. */
fw_status fw_jinja_spend(fw_jinja *j, size_t work_n);

/* The origin of what the template itself writes now. */
static inline fw_jinja_origin fw_jinja_own_origin(const fw_jinja *j) {
    return fw_jinja_origin_of(j->message, FW_CHAT_TEMPLATE);
}

/* ---- jinja_scope.c */
/* j->scope = a new one inside `outer`; body: the block it is of, or NULL. */
fw_status fw_jinja_scope_push(fw_jinja *j, fw_jinja_scope *outer, const fw_jinja_body *body);
fw_status fw_jinja_scope_set(fw_jinja *j, fw_jinja_scope *scope, const fw_jinja_name *name, fw_jinja_value value);
/* NULL: not there. */
const fw_jinja_value *fw_jinja_scope_find(const fw_jinja_scope *scope, const fw_jinja_name *name);

/* ---- undefined values */
fw_status fw_jinja_undefined_name(fw_jinja *j, fw_jinja_value *out, const char *name, size_t name_bytes);
fw_status fw_jinja_undefined_attribute(fw_jinja *j, fw_jinja_value *out, const fw_jinja_value *object, const char *name,
                                       size_t name_bytes);
fw_status fw_jinja_undefined_hint(fw_jinja *j, fw_jinja_value *out, const char *hint); /* hint: a constant */
/* FW_ERR_INPUT that says why v is not defined. */
fw_status fw_jinja_fail_undefined(const fw_jinja *j, const fw_jinja_value *v);

/* ---- jinja_exec.c, jinja_eval.c */
fw_status fw_jinja_exec(fw_jinja *j, const fw_jinja_body *body);
fw_status fw_jinja_eval(fw_jinja *j, const fw_jinja_node *node, fw_jinja_value *out);
/* Run a body with its output caught in *out, a text. */
fw_status fw_jinja_capture(fw_jinja *j, const fw_jinja_body *body, fw_jinja_value *out);
/* Set the names of a target (a name, a tuple, a namespace's attribute). */
fw_status fw_jinja_assign(fw_jinja *j, const fw_jinja_node *target, fw_jinja_value value);

/* ---- jinja_access.c: x.name, x[key], x[a:b:c] */
fw_status fw_jinja_attribute(fw_jinja *j, const fw_jinja_value *object, const char *name, size_t name_bytes,
                             fw_jinja_value *out);
fw_status fw_jinja_item(fw_jinja *j, const fw_jinja_value *object, const fw_jinja_value *key, fw_jinja_value *out);
fw_status fw_jinja_slice(fw_jinja *j, const fw_jinja_value *object, const fw_jinja_value bound[3], fw_jinja_value *out);

/* ---- jinja_operators.c */
fw_status fw_jinja_arithmetic(fw_jinja *j, fw_jinja_operator op, const fw_jinja_value *a, const fw_jinja_value *b,
                              fw_jinja_value *out);
fw_status fw_jinja_negate(fw_jinja *j, const fw_jinja_value *v, bool minus, fw_jinja_value *out);
/* *less = a < b, as Python orders; FW_ERR_INPUT when it does not. */
fw_status fw_jinja_less(fw_jinja *j, const fw_jinja_value *a, const fw_jinja_value *b, bool or_equal, bool *less);
/* a == b, its work counted. */
fw_status fw_jinja_same(fw_jinja *j, const fw_jinja_value *a, const fw_jinja_value *b, bool *same);
fw_status fw_jinja_contains(fw_jinja *j, const fw_jinja_value *container, const fw_jinja_value *item, bool *found);
fw_status fw_jinja_compare(fw_jinja *j, fw_jinja_operator op, const fw_jinja_value *a, const fw_jinja_value *b,
                           bool *out);

/* ---- jinja_sequence.c: what can be gone through */
/* The items of anything iterable, as an array (shared with the value where there is one). An iterator is used up. */
fw_status fw_jinja_items(fw_jinja *j, const fw_jinja_value *v, fw_jinja_value **item, size_t *n);
bool fw_jinja_is_iterable(const fw_jinja_value *v);
/* len(v): FW_ERR_INPUT when it has none. */
fw_status fw_jinja_length(fw_jinja *j, const fw_jinja_value *v, size_t *n);
/* An iterator, list or tuple around these items, which are not copied. */
fw_status fw_jinja_wrap(fw_jinja *j, fw_jinja_list_kind kind, fw_jinja_value *item, size_t n, fw_jinja_value *out);
fw_status fw_jinja_range(fw_jinja *j, int64_t start, int64_t stop, int64_t step, fw_jinja_value *out);
/* Stable, by the keys given beside the items; both arrays are rearranged. */
fw_status fw_jinja_sort(fw_jinja *j, fw_jinja_value *item, fw_jinja_value *key, size_t n, bool reverse);

/* ---- jinja_print.c, jinja_json.c */
fw_status fw_jinja_put_str(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v);  /* str(v) */
fw_status fw_jinja_put_repr(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v); /* repr(v) */
fw_status fw_jinja_to_text(fw_jinja *j, const fw_jinja_value *v, fw_jinja_value *out);  /* str(v) as a value */

typedef struct fw_jinja_json_style {
    bool ascii, sort_keys;
    const fw_jinja_value *indent;                         /* text, or NULL: one line */
    const fw_jinja_value *item_separator, *key_separator; /* texts, or NULL: ", " and ": " */
} fw_jinja_json_style;
fw_status fw_jinja_put_json(fw_jinja *j, fw_jinja_builder *b, const fw_jinja_value *v,
                            const fw_jinja_json_style *style);

#endif
