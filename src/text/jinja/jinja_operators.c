/* Arithmetic, order and membership, as Python has them. */
#include "text/jinja/jinja_call.h"

#include "text/jinja/jinja_number.h"

#include <math.h>
#include <string.h>

static const char *const op_names[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

static fw_status refuse(fw_jinja *j, fw_jinja_operator op, const fw_jinja_value *a, const fw_jinja_value *b) {
    if (a->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, a);
    if (b->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, b);
    return fw_jinja_fail(j, "%s does not work between values of type %s and %s", op_names[op], fw_jinja_type_name(a),
                         fw_jinja_type_name(b));
}

static fw_status too_large(fw_jinja *j) { return fw_jinja_fail(j, "a number has more than 64 bits"); }

/* Rounds to -infinity, as the remainder's sign follows b. */
static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static fw_status int_power(fw_jinja *j, int64_t base, int64_t exponent, fw_jinja_value *out) {
    if (exponent < 0) {
        if (base == 0) return fw_jinja_fail(j, "0 cannot be raised to a negative power");
        *out = fw_jinja_float(pow((double)base, (double)exponent));
        return FW_OK;
    }
    int64_t result = 1;
    for (; exponent > 0; exponent--) {
        if (base == 0 || base == 1 || (base == -1 && exponent > 2)) { /* would go on for ever */
            result = base == 0 ? 0 : base == 1 ? 1 : exponent % 2 ? -result : result;
            break;
        }
        if (__builtin_mul_overflow(result, base, &result)) return too_large(j);
    }
    *out = fw_jinja_int(result);
    return FW_OK;
}

static fw_status int_arithmetic(fw_jinja *j, fw_jinja_operator op, int64_t a, int64_t b, fw_jinja_value *out) {
    int64_t result = 0;
    bool overflow = false;
    if ((op == FW_JINJA_DIV || op == FW_JINJA_FLOORDIV || op == FW_JINJA_MOD) && b == 0)
        return fw_jinja_fail(j, "a division by zero");
    switch (op) {
    case FW_JINJA_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
    case FW_JINJA_SUB: overflow = __builtin_sub_overflow(a, b, &result); break;
    case FW_JINJA_MUL: overflow = __builtin_mul_overflow(a, b, &result); break;
    case FW_JINJA_FLOORDIV:
        overflow = a == INT64_MIN && b == -1;
        if (!overflow) result = floor_divide(a, b);
        break;
    case FW_JINJA_MOD:
        if (b != -1) result = a - floor_divide(a, b) * b;
        break;
    case FW_JINJA_POW: return int_power(j, a, b, out);
    default: *out = fw_jinja_float((double)a / (double)b); return FW_OK;
    }
    if (overflow) return too_large(j);
    *out = fw_jinja_int(result);
    return FW_OK;
}

static fw_status real_arithmetic(fw_jinja *j, fw_jinja_operator op, double a, double b, fw_jinja_value *out) {
    double result;
    if ((op == FW_JINJA_DIV || op == FW_JINJA_FLOORDIV || op == FW_JINJA_MOD) && b == 0)
        return fw_jinja_fail(j, "a division by zero");
    double rest = op == FW_JINJA_FLOORDIV || op == FW_JINJA_MOD ? fmod(a, b) : 0;
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    switch (op) {
    case FW_JINJA_ADD: result = a + b; break;
    case FW_JINJA_SUB: result = a - b; break;
    case FW_JINJA_MUL: result = a * b; break;
    case FW_JINJA_DIV: result = a / b; break;
    case FW_JINJA_MOD: result = rest != 0 ? rest : copysign(0.0, b); break;
    case FW_JINJA_FLOORDIV:
        result = (a - rest) / b;
        if (result != 0) {
            double whole = floor(result);
            result = result - whole > 0.5 ? whole + 1 : whole;
        } else {
            result = copysign(0.0, a / b);
        }
        break;
    default:
        if (a == 0 && b < 0) return fw_jinja_fail(j, "0 cannot be raised to a negative power");
        result = pow(a, b);
        if (isinf(result) && !isinf(a) && !isinf(b)) return fw_jinja_fail(j, "the result of ** is too large");
        if (isnan(result) && a < 0) return fw_jinja_fail(j, "** of a negative number and a fraction is no real number");
    }
    *out = fw_jinja_float(result);
    return FW_OK;
}

static fw_status repeat_text(fw_jinja *j, const fw_jinja_value *text, int64_t times, fw_jinja_value *out) {
    fw_jinja_builder b = {.memory = j->memory, .uniform = text->origin};
    size_t bytes = text->text->bytes, total;
    if (times < 0 || bytes == 0) times = 0;
    if (__builtin_mul_overflow(bytes, (size_t)times, &total)) total = SIZE_MAX / 2;
    FW_TRY(fw_jinja_spend(j, total));
    FW_TRY(fw_jinja_builder_reserve(&b, total));
    if (times > 0) FW_TRY(fw_jinja_put_text(&b, text));
    while (b.n < total) { /* twice as much each time */
        fw_jinja_text all = {.data = b.data, .bytes = b.n, .origin = b.origin};
        fw_jinja_value so_far = fw_jinja_text_value(&all, b.uniform);
        FW_TRY(fw_jinja_put_part(&b, &so_far, 0, total - b.n < b.n ? total - b.n : b.n));
    }
    return fw_jinja_builder_finish(&b, out);
}

static fw_status repeat_list(fw_jinja *j, const fw_jinja_value *v, int64_t times, fw_jinja_value *out) {
    size_t n = v->list->n, total;
    fw_jinja_value *item;
    if (times < 0 || n == 0) times = 0;
    if (__builtin_mul_overflow(n, (size_t)times, &total)) total = SIZE_MAX / 1024;
    FW_TRY(fw_jinja_spend(j, total));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, item, total));
    for (size_t i = 0; i < total; i++) item[i] = v->list->item[i % n];
    return fw_jinja_wrap(j, v->list->kind, item, total, out);
}

static bool is_sequence(const fw_jinja_value *v) {
    return v->kind == FW_JINJA_LIST && (v->list->kind == FW_JINJA_IS_LIST || v->list->kind == FW_JINJA_IS_TUPLE);
}

static fw_status join_lists(fw_jinja *j, const fw_jinja_value *a, const fw_jinja_value *b, fw_jinja_value *out) {
    size_t n = a->list->n + b->list->n;
    fw_jinja_value *item;
    FW_TRY(fw_jinja_spend(j, n));
    FW_TRY(FW_JINJA_NEW_ARRAY(j->memory, item, n));
    if (a->list->n) memcpy(item, a->list->item, a->list->n * sizeof *item);
    if (b->list->n) memcpy(item + a->list->n, b->list->item, b->list->n * sizeof *item);
    return fw_jinja_wrap(j, a->list->kind, item, n, out);
}

fw_status fw_jinja_arithmetic(fw_jinja *j, fw_jinja_operator op, const fw_jinja_value *a, const fw_jinja_value *b,
                              fw_jinja_value *out) {
    if (a->kind == FW_JINJA_TEXT && b->kind == FW_JINJA_TEXT && op == FW_JINJA_ADD) {
        FW_TRY(fw_jinja_spend(j, b->text->bytes));
        return fw_jinja_join_two(j->memory, a, b, out);
    }
    if (fw_jinja_is_number(a) && fw_jinja_is_number(b)) {
        FW_TRY(fw_jinja_is_integer(a) && fw_jinja_is_integer(b)
                   ? int_arithmetic(j, op, fw_jinja_as_integer(a), fw_jinja_as_integer(b), out)
                   : real_arithmetic(j, op, fw_jinja_as_real(a), fw_jinja_as_real(b), out));
        out->origin = fw_jinja_own_origin(j);
        return FW_OK;
    }
    if (op == FW_JINJA_MUL && (fw_jinja_is_integer(a) || fw_jinja_is_integer(b))) {
        const fw_jinja_value *what = fw_jinja_is_integer(a) ? b : a;
        int64_t times = fw_jinja_as_integer(fw_jinja_is_integer(a) ? a : b);
        if (what->kind == FW_JINJA_TEXT) return repeat_text(j, what, times, out);
        if (is_sequence(what)) return repeat_list(j, what, times, out);
    }
    if (op == FW_JINJA_ADD && is_sequence(a) && is_sequence(b) && a->list->kind == b->list->kind)
        return join_lists(j, a, b, out);
    if (op == FW_JINJA_MOD && a->kind == FW_JINJA_TEXT) return fw_jinja_percent(j, a, b, out);
    return refuse(j, op, a, b);
}

fw_status fw_jinja_negate(fw_jinja *j, const fw_jinja_value *v, bool minus, fw_jinja_value *out) {
    if (v->kind == FW_JINJA_UNDEFINED) return fw_jinja_fail_undefined(j, v);
    if (!fw_jinja_is_number(v)) return fw_jinja_fail(j, "a value of type %s has no sign", fw_jinja_type_name(v));
    if (v->kind == FW_JINJA_FLOAT) {
        *out = fw_jinja_float(minus ? -v->real : v->real);
    } else {
        int64_t i = fw_jinja_as_integer(v);
        if (minus && i == INT64_MIN) return too_large(j);
        *out = fw_jinja_int(minus ? -i : i);
    }
    out->origin = fw_jinja_own_origin(j);
    return FW_OK;
}

fw_status fw_jinja_same(fw_jinja *j, const fw_jinja_value *a, const fw_jinja_value *b, bool *same) {
    size_t work = 0;
    *same = fw_jinja_equal(a, b, &work);
    if (work > FW_JINJA_EQUAL_MAX) return fw_jinja_fail(j, "values that are compared are too large");
    return fw_jinja_spend(j, 8 * work);
}

static fw_status less_at(fw_jinja *j, const fw_jinja_value *a, const fw_jinja_value *b, bool or_equal, bool *less,
                         int depth) {
    if (fw_jinja_is_number(a) && fw_jinja_is_number(b)) {
        int c = fw_jinja_compare_numbers(a, b);
        *less = c == -1 || (or_equal && c == 0);
        return FW_OK;
    }
    if (a->kind == FW_JINJA_TEXT && b->kind == FW_JINJA_TEXT) { /* UTF-8 sorts as its code points do */
        size_t n = a->text->bytes < b->text->bytes ? a->text->bytes : b->text->bytes;
        FW_TRY(fw_jinja_spend(j, n));
        int c = n ? memcmp(a->text->data, b->text->data, n) : 0;
        *less = c < 0 || (c == 0 && (or_equal ? a->text->bytes <= b->text->bytes : a->text->bytes < b->text->bytes));
        return FW_OK;
    }
    if (is_sequence(a) && is_sequence(b) && a->list->kind == b->list->kind && depth < FW_JINJA_VALUE_DEPTH_MAX) {
        size_t n = a->list->n < b->list->n ? a->list->n : b->list->n;
        FW_TRY(fw_jinja_spend(j, n));
        bool same = true;
        for (size_t i = 0; i < n; i++) {
            FW_TRY(fw_jinja_same(j, &a->list->item[i], &b->list->item[i], &same));
            if (!same) return less_at(j, &a->list->item[i], &b->list->item[i], or_equal, less, depth + 1);
        }
        *less = or_equal ? a->list->n <= b->list->n : a->list->n < b->list->n;
        return FW_OK;
    }
    return refuse(j, or_equal ? FW_JINJA_LE : FW_JINJA_LT, a, b);
}

fw_status fw_jinja_less(fw_jinja *j, const fw_jinja_value *a, const fw_jinja_value *b, bool or_equal, bool *less) {
    return less_at(j, a, b, or_equal, less, 0);
}

fw_status fw_jinja_contains(fw_jinja *j, const fw_jinja_value *container, const fw_jinja_value *item, bool *found) {
    *found = false;
    if (container->kind == FW_JINJA_TEXT) {
        if (item->kind == FW_JINJA_UNDEFINED || item->kind != FW_JINJA_TEXT)
            return item->kind == FW_JINJA_UNDEFINED
                       ? fw_jinja_fail(j, "an undefined value is looked for in a text")
                       : fw_jinja_fail(j, "a value of type %s is looked for in a text", fw_jinja_type_name(item));
        FW_TRY(fw_jinja_spend(j, container->text->bytes));
        *found = fw_jinja_find(container->text, 0, container->text->bytes, item->text) >= 0;
        return FW_OK;
    }
    if (container->kind == FW_JINJA_DICT) {
        if (!fw_jinja_is_hashable(item))
            return fw_jinja_fail(j, "a value of type %s cannot be a key", fw_jinja_type_name(item));
        *found = fw_jinja_dict_find(container->dict, item) != NULL;
        return FW_OK;
    }
    if (container->kind == FW_JINJA_LIST && container->list->kind == FW_JINJA_IS_ITERATOR) { /* uses it up to there */
        fw_jinja_list *list = container->list;
        while (!*found && list->next < list->n) FW_TRY(fw_jinja_same(j, &list->item[list->next++], item, found));
        return FW_OK;
    }
    fw_jinja_value *items;
    size_t n;
    if (!fw_jinja_is_iterable(container))
        return fw_jinja_fail(j, "in does not work with a value of type %s", fw_jinja_type_name(container));
    FW_TRY(fw_jinja_items(j, container, &items, &n));
    for (size_t i = 0; i < n && !*found; i++) FW_TRY(fw_jinja_same(j, &items[i], item, found));
    return FW_OK;
}

fw_status fw_jinja_compare(fw_jinja *j, fw_jinja_operator op, const fw_jinja_value *a, const fw_jinja_value *b,
                           bool *out) {
    switch (op) {
    case FW_JINJA_EQ: return fw_jinja_same(j, a, b, out);
    case FW_JINJA_NE:
        FW_TRY(fw_jinja_same(j, a, b, out));
        *out = !*out;
        break;
    case FW_JINJA_LT: return fw_jinja_less(j, a, b, false, out);
    case FW_JINJA_LE: return fw_jinja_less(j, a, b, true, out);
    case FW_JINJA_GT: return fw_jinja_less(j, b, a, false, out);
    case FW_JINJA_GE: return fw_jinja_less(j, b, a, true, out);
    default:
        FW_TRY(fw_jinja_contains(j, b, a, out));
        if (op == FW_JINJA_NOT_IN) *out = !*out;
    }
    return FW_OK;
}
