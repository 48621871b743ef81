/* What can be called: functions of our own (filters, tests, methods, globals), macros, loops, cyclers and joiners. */
#ifndef FW_TEXT_JINJA_CALL_H
#define FW_TEXT_JINJA_CALL_H

#include "text/jinja/jinja_run.h"

typedef struct fw_jinja_keyword_value {
    const char *name;
    size_t bytes;
    fw_jinja_value value;
} fw_jinja_keyword_value;

typedef struct fw_jinja_args {
    fw_jinja_value *value;
    size_t n;
    fw_jinja_keyword_value *keyword;
    size_t keyword_n;
} fw_jinja_args;

enum { FW_JINJA_PARAMETER_MAX = 6 };
typedef struct fw_jinja_call {
    const fw_jinja_value *self;               /* what is filtered, tested, or has the method; NULL for globals */
    const fw_jinja_args *args;                /* as given */
    fw_jinja_value v[FW_JINJA_PARAMETER_MAX]; /* by parameter; kind FW_JINJA_ABSENT: not given */
} fw_jinja_call;

typedef fw_status (*fw_jinja_body_of)(fw_jinja *j, const fw_jinja_call *call, fw_jinja_value *out);

/* parameters: "a,b,c"; "/" in front: they have no names; "*": anything, the function reads args. */
typedef struct fw_jinja_function {
    const char *name, *parameters;
    int needed; /* so many of them must be given */
    fw_jinja_body_of run;
} fw_jinja_function;

/* A list of functions ends with one without a name. */
const fw_jinja_function *fw_jinja_find_function(const fw_jinja_function *list, const char *name, size_t name_bytes);
extern const fw_jinja_function fw_jinja_text_filters[], fw_jinja_sequence_filters[], fw_jinja_value_filters[];
extern const fw_jinja_function fw_jinja_tests[], fw_jinja_globals[];
extern const fw_jinja_function fw_jinja_text_methods[], fw_jinja_text_class_methods[], fw_jinja_dict_methods[],
    fw_jinja_list_methods[], fw_jinja_loop_methods[], fw_jinja_cycler_methods[];
const fw_jinja_function *fw_jinja_find_filter(const char *name, size_t name_bytes);
const fw_jinja_function *fw_jinja_find_test(const char *name, size_t name_bytes);

/* Bind the arguments to the parameters and run. */
fw_status fw_jinja_run(fw_jinja *j, const fw_jinja_function *function, const fw_jinja_value *self,
                       const fw_jinja_args *args, fw_jinja_value *out);
/* Filter or test `name` by name: for map, select and their kin. */
fw_status fw_jinja_filter_by_name(fw_jinja *j, const fw_jinja_value *name, const fw_jinja_value *v,
                                  const fw_jinja_args *args, fw_jinja_value *out);
fw_status fw_jinja_test_by_name(fw_jinja *j, const fw_jinja_value *name, const fw_jinja_value *v,
                                const fw_jinja_args *args, bool *out);
/* Evaluate what stands in the parentheses; arguments may be NULL. */
fw_status fw_jinja_eval_arguments(fw_jinja *j, const fw_jinja_arguments *arguments, fw_jinja_args *out);
/* Take the argument of this name out of the named ones; false: it is not among them. */
bool fw_jinja_take_keyword(fw_jinja_args *args, const char *name, size_t bytes, fw_jinja_value *out);
/* Put the named arguments into a dict. */
fw_status fw_jinja_put_keywords(fw_jinja *j, fw_jinja_dict *dict, const fw_jinja_args *args);
fw_status fw_jinja_call_value(fw_jinja *j, const fw_jinja_value *callee, const fw_jinja_args *args,
                              fw_jinja_value *out);

/* A function with the value it belongs to. */
typedef struct fw_jinja_bound {
    const fw_jinja_function *function;
    fw_jinja_value self;
} fw_jinja_bound;
fw_status fw_jinja_bind(fw_jinja *j, const fw_jinja_function *function, const fw_jinja_value *self,
                        fw_jinja_value *out);

typedef struct fw_jinja_macro {
    const fw_jinja_macro_def *definition;
    fw_jinja_scope *scope; /* where it was defined */
} fw_jinja_macro;

/* The items of a loop with a condition are tried one by one as the loop comes to them: the condition may depend on what
 * earlier rounds did. Asking for what lies ahead (last, length, nextitem) tries them earlier. */
typedef struct fw_jinja_loop {
    fw_jinja_value *source; /* all items */
    size_t source_n, source_at;
    fw_jinja_value *item; /* those that passed, so far */
    size_t n, at;         /* at: the round, loop.index0 */
    int depth0;
    fw_jinja_value changed; /* what loop.changed was called with last, a tuple */
    const fw_jinja_node *node;
    fw_jinja_scope *scope; /* around the loop */
} fw_jinja_loop;
/* *there: is there an item number `at`? */
fw_status fw_jinja_loop_reach(fw_jinja *j, fw_jinja_loop *loop, size_t at, bool *there);
fw_status fw_jinja_loop_attribute(fw_jinja *j, const fw_jinja_value *loop, const char *name, size_t name_bytes,
                                  fw_jinja_value *out, bool *found);
/* The body for these items, output as text: loop(items). */
fw_status fw_jinja_loop_again(fw_jinja *j, const fw_jinja_loop *loop, const fw_jinja_value *items, fw_jinja_value *out);

/* str.isupper (or islower): some letter has the case, none has the other. */
bool fw_jinja_all_cased(const fw_jinja_text *text, bool upper);

/* jinja_format.c: "text" % values (a tuple, a dict, or one), and "text".format(...). */
fw_status fw_jinja_percent(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_value *values, fw_jinja_value *out);
fw_status fw_jinja_braces(fw_jinja *j, const fw_jinja_value *text, const fw_jinja_args *args, fw_jinja_value *out);

/* Arguments of functions, with messages that name the function. */
fw_status fw_jinja_need_text(fw_jinja *j, const fw_jinja_value *v, const char *what);
fw_status fw_jinja_need_int(fw_jinja *j, const fw_jinja_value *v, int64_t otherwise, const char *what, int64_t *out);
static inline bool fw_jinja_given(const fw_jinja_value *v) { return v->kind != FW_JINJA_ABSENT; }
/* Given, and not none. */
static inline bool fw_jinja_has(const fw_jinja_value *v) {
    return v->kind != FW_JINJA_ABSENT && v->kind != FW_JINJA_NONE;
}

#endif
