#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include "base/alloc.h"
#include "text/regex_translate.h"
#include "text/utf8.h"

#include <pcre2.h>
#include <string.h>

/* Backtracking that a sane pattern never needs, however long the text. */
enum { MATCH_LIMIT = 20000000, HEAP_LIMIT_KIB = 1 << 18, JIT_STACK_START = 1 << 15, JIT_STACK_MAX = 1 << 24 };

struct fw_regex {
    pcre2_code *code;
    bool has_jit, asks_unicode;
    char *pattern; /* as in the file, for messages */
};

struct fw_regex_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static void *hook_malloc(size_t bytes, void *context) {
    (void)context;
    return fw_alloc_raw(bytes);
}
static void hook_free(void *block, void *context) {
    (void)context;
    fw_free(block);
}

static fw_status no_memory(void) { return fw_fail(FW_ERR_NOMEM, "out of memory in the regex library"); }

fw_status fw_regex_create(fw_regex **out, const char *pattern, const char *where) {
    *out = NULL;
    fw_strbuf translated = {0};
    pcre2_general_context *general = NULL;
    pcre2_compile_context *context = NULL;
    fw_regex *regex = NULL;
    fw_status status;
    FW_TRY_OR(FW_NEW(regex), done);
    FW_TRY_OR(fw_strdup(&regex->pattern, pattern), done);
    FW_TRY_OR(fw_regex_translate(&translated, &regex->asks_unicode, pattern, where), done);
    general = pcre2_general_context_create(hook_malloc, hook_free, NULL);
    context = general ? pcre2_compile_context_create(general) : NULL;
    if (context == NULL) {
        status = no_memory();
        goto done;
    }
    int error;
    PCRE2_SIZE error_at;
    regex->code = pcre2_compile((PCRE2_SPTR)fw_strbuf_text(&translated), translated.len_bytes, PCRE2_UTF | PCRE2_UCP,
                                &error, &error_at, context);
    if (regex->code == NULL && (error == PCRE2_ERROR_NOMEMORY || error == 121)) { /* 121: no memory while compiling */
        status = no_memory();
        goto done;
    }
    if (regex->code == NULL) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(error, text, sizeof text);
        status = fw_fail(FW_ERR_INPUT, "%s: the regex \"%.200s\" cannot be used: %s", where, pattern, (char *)text);
        goto done;
    }
    /* Without JIT (an architecture it does not know) matching is slower, not different. */
    regex->has_jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    *out = regex;
    regex = NULL;
done:
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    fw_strbuf_fini(&translated);
    fw_regex_destroy(regex);
    return status;
}

bool fw_regex_asks_unicode(const fw_regex *regex) { return regex->asks_unicode; }

void fw_regex_destroy(fw_regex *regex) {
    if (regex == NULL) return;
    pcre2_code_free(regex->code);
    fw_free(regex->pattern);
    fw_free(regex);
}

fw_status fw_regex_scratch_create(fw_regex_scratch **out) {
    *out = NULL;
    fw_regex_scratch *scratch;
    FW_TRY(FW_NEW(scratch));
    pcre2_general_context *general = pcre2_general_context_create(hook_malloc, hook_free, NULL);
    if (general != NULL) {
        scratch->match = pcre2_match_data_create(1, general);
        scratch->context = pcre2_match_context_create(general);
        scratch->stack =
            pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, general); /* NULL where JIT is missing */
    }
    pcre2_general_context_free(general);
    if (scratch->match == NULL || scratch->context == NULL) {
        fw_regex_scratch_destroy(scratch);
        return no_memory();
    }
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    if (scratch->stack != NULL) pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    *out = scratch;
    return FW_OK;
}

void fw_regex_scratch_destroy(fw_regex_scratch *scratch) {
    if (scratch == NULL) return;
    pcre2_match_data_free(scratch->match);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    fw_free(scratch);
}

fw_status fw_regex_find(const fw_regex *regex, fw_regex_scratch *scratch, const char *text, size_t text_bytes,
                        size_t from, bool *found, size_t *start, size_t *end) {
    *found = false;
    int rc;
    if (regex->has_jit)
        rc = pcre2_jit_match(regex->code, (PCRE2_SPTR)text, text_bytes, from, 0, scratch->match, scratch->context);
    else
        rc = pcre2_match(regex->code, (PCRE2_SPTR)text, text_bytes, from, PCRE2_NO_UTF_CHECK, scratch->match,
                         scratch->context);
    if (rc == PCRE2_ERROR_NOMATCH) return FW_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return no_memory();
    if (rc < 0) {
        PCRE2_UCHAR message[128];
        pcre2_get_error_message(rc, message, sizeof message);
        return fw_fail(FW_ERR_INPUT, "the tokenizer's regex \"%.100s\" gave up on a text of %zu bytes: %s",
                       regex->pattern, text_bytes, (char *)message);
    }
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(scratch->match);
    *found = true;
    *start = bounds[0];
    *end = bounds[1];
    return FW_OK;
}

fw_status fw_regex_next(fw_regex_walk *w, bool *found, size_t *start, size_t *end) {
    *found = false;
    while (w->from <= w->text_bytes) {
        FW_TRY(fw_regex_find(w->regex, w->scratch, w->text, w->text_bytes, w->from, found, start, end));
        if (!*found) {
            w->from = w->text_bytes + 1;
            return FW_OK;
        }
        w->from = *end;
        if (*start < *end) break;
        uint32_t code;
        w->from += *end < w->text_bytes ? fw_utf8_next(&code, w->text + *end) : 1;
        if (!(w->after_match && *start == w->done)) break;
        *found = false;
    }
    if (*found) {
        w->done = *end;
        w->after_match = true;
    }
    return FW_OK;
}
