#include "data/dataset.h"

#include "base/alloc.h"

/* A file is read in pieces. Every thread renders and tokenises its own stretch of a piece into a part; the parts are then
 * joined in order, so the result and the error that is reported (the first in the file) do not depend on timing, and no
 * more than a piece is in memory beside the result. */
enum { PIECE_BYTES = 1 << 20, PIECE_ROWS_MAX = 1 << 16 }; /* of a thread */

/* A template without end takes long to find out, for each row anew: when it is all that the first rows show, it is an error,
 * also where rows may be left out. */
enum { SPENT_ROWS_MAX = 20 };

typedef struct part {
    fw_dataset *dataset;
    fw_encoder *encoder; /* kept from piece to piece, with its cache of words */
    fw_row_cursor cursor;
    fw_conversation_tokens tokens;
    int64_t spent_n; /* rows of the piece on which the template came to its limits */
    fw_status status;
    fw_trail trail;
} part;

typedef struct load {
    const fw_tokenizer *tokenizer;
    const fw_chat_template *chat;
    const fw_dataset_options *options;
    const char *path;
    const fw_reader *reader;
    int64_t first, last; /* rows of the piece */
    part *part;
    int thread_n;
    int64_t done_n, all_n; /* rows, for progress */
    int64_t spent_n;       /* the rows so far, while it is all of them; else -1 */
} load;

static fw_status encode(load *l, part *p, const fw_conversation *c, fw_row_place *place) {
    fw_status status = fw_conversation_encode(&p->tokens, p->encoder, l->chat, c, &l->options->labels);
    if (status == FW_ERR_INPUT) {
        fw_fail_context(status, "%s:%lld: ", l->path, (long long)c->line);
        p->spent_n += !c->is_text && p->tokens.rendering.memory.is_spent;
        place->reason = p->tokens.rendering.is_answer_lost ? FW_DROP_CALL_LOST : FW_DROP_TEMPLATE;
    }
    FW_TRY(status);
    for (int i = 0; i < FW_CHAT_LEFT_N; i++) p->dataset->stats.left_out_n[i] += p->tokens.left_out_n[i];
    p->dataset->stats.spelt_n += p->tokens.spells_control;
    p->dataset->stats.mark_ignored_n += (int64_t)p->tokens.mark_ignored_n;
    status = fw_dataset_add_weighted(p->dataset, p->tokens.ids.id, p->tokens.trained.mark, p->tokens.trained.weight,
                                     (int64_t)p->tokens.ids.n, c->has_assistant, c->line);
    if (status == FW_ERR_INPUT) place->reason = FW_DROP_VOCABULARY;
    return status;
}

static fw_status add_row(load *l, part *p, int64_t index) {
    fw_conversation conversation;
    fw_row_place place;
    fw_status status = fw_reader_get(l->reader, &p->cursor, index, &conversation, &place);
    if (status == FW_OK) {
        status = encode(l, p, &conversation, &place);
        fw_conversation_fini(&conversation);
    }
    const bool is_fault = place.reason < FW_DROP_ROW_N;
    if (status != FW_ERR_INPUT || place.reason == FW_DROP_REASON_N || (is_fault && !l->options->allow_dropped))
        return status;
    return fw_dataset_drop(p->dataset, place.reason, place.line);
}

static fw_status load_part(load *l, part *p, int64_t first, int64_t last) {
    FW_TRY(fw_dataset_create(&p->dataset, l->path, l->options));
    FW_TRY(fw_dataset_add_source(p->dataset, l->path, fw_rows_format(fw_reader_rows(l->reader)),
                                 fw_reader_shape(l->reader), 0));
    if (p->encoder == NULL) FW_TRY(fw_encoder_create(&p->encoder, l->tokenizer));
    for (int64_t i = first; i < last; i++) FW_TRY(add_row(l, p, i));
    return FW_OK;
}

static void load_on_thread(void *context, int index, int thread_n) {
    load *l = context;
    part *p = &l->part[index];
    int64_t first, last;
    fw_threads_split(&first, &last, l->last - l->first, 1, index, thread_n);
    p->status = load_part(l, p, l->first + first, l->first + last);
    if (p->status != FW_OK) fw_trail_copy(&p->trail);
}

/* Decided by the first rows alone, whatever the number of threads. */
static fw_status check_spent(load *l, const fw_dataset *d) {
    int64_t spent_n = 0;
    if (l->spent_n < 0) return FW_OK;
    for (int i = 0; i < l->thread_n; i++) spent_n += l->part[i].spent_n;
    l->spent_n = spent_n == l->last - l->first ? l->spent_n + spent_n : -1;
    if (l->spent_n < SPENT_ROWS_MAX) return FW_OK;
    return fw_fail(FW_ERR_INPUT, "the chat template comes to its limits on each of the first %d rows: %.700s",
                   SPENT_ROWS_MAX, d->dropped_n > 0 ? d->dropped[d->dropped_n - 1].message : "");
}

static fw_status load_piece(load *l, fw_dataset *d) {
    fw_status status = FW_OK;
    for (int i = 0; i < l->thread_n; i++) l->part[i].spent_n = 0;
    fw_threads_run(l->options->threads, load_on_thread, l);
    for (int i = 0; i < l->thread_n && status == FW_OK; i++) {
        part *p = &l->part[i];
        status = p->status;
        if (status != FW_OK)
            fw_trail_restore(&p->trail);
        else
            status = fw_dataset_join(d, p->dataset);
    }
    for (int i = 0; i < l->thread_n; i++) {
        fw_dataset_destroy(l->part[i].dataset);
        l->part[i].dataset = NULL;
    }
    return status;
}

/* How many rows from `first` on make a piece: by their bytes, at least one. */
static int64_t piece_end(const load *l, const fw_rows *rows, int64_t first) {
    const int64_t n = fw_rows_n(rows), bytes = (int64_t)PIECE_BYTES * l->thread_n;
    int64_t most = first + (int64_t)PIECE_ROWS_MAX * l->thread_n, low = first + 1;
    if (most > n) most = n;
    if (l->spent_n >= 0 && most > first + SPENT_ROWS_MAX - l->spent_n) most = first + SPENT_ROWS_MAX - l->spent_n;
    while (low < most) { /* the largest end whose rows are within the bytes */
        int64_t middle = low + (most - low + 1) / 2;
        if (fw_rows_bytes(rows, first, middle) <= bytes)
            low = middle;
        else
            most = middle - 1;
    }
    return low;
}

static fw_status load_file(load *l, fw_dataset *d, const char *path, int32_t set, int64_t *left_n) {
    fw_reader_options options = l->options->reader;
    fw_reader *reader;
    options.rows.max_n = *left_n;
    options.rows.stop = l->options->stop;
    FW_TRY(fw_reader_open(&reader, path, &options));
    const fw_rows *rows = fw_reader_rows(reader);
    fw_status status;
    l->path = path;
    l->reader = reader;
    l->all_n += fw_rows_n(rows);
    for (int i = 0; i < l->thread_n; i++) fw_row_cursor_init(&l->part[i].cursor, rows);
    FW_TRY_OR(fw_dataset_add_source(d, path, fw_rows_format(rows), fw_reader_shape(reader), set), done);
    for (l->first = 0; l->first < fw_rows_n(rows); l->first = l->last) {
        l->last = piece_end(l, rows, l->first);
        FW_TRY_OR(fw_dataset_check_stop(l->options->stop), done);
        FW_TRY_OR(load_piece(l, d), done);
        FW_TRY_OR(check_spent(l, d), done);
        fw_rows_pass(rows, l->last);
        l->done_n += l->last - l->first;
        if (l->options->progress != NULL) l->options->progress(l->options->progress_context, l->done_n, l->all_n);
    }
    if (*left_n > 0) *left_n -= fw_rows_n(rows);
done:
    for (int i = 0; i < l->thread_n; i++) fw_row_cursor_fini(&l->part[i].cursor);
    fw_reader_close(reader);
    return status;
}

static fw_status load_sets(load *l, fw_dataset *d, const fw_sources *sources) {
    for (int32_t s = 0; s < sources->set_n; s++) {
        int64_t left_n = sources->max_samples;
        for (int32_t i = sources->set[s].first; i < sources->set[s].last; i++) {
            if (sources->max_samples > 0 && left_n == 0) break;
            FW_TRY(fw_dataset_check_stop(l->options->stop));
            FW_TRY(load_file(l, d, sources->path[i], s, &left_n));
        }
    }
    return FW_OK;
}

fw_status fw_dataset_fill(fw_dataset *d, const fw_sources *sources, const fw_tokenizer *tokenizer,
                          const fw_chat_template *chat, const fw_dataset_options *options) {
    load l = {.tokenizer = tokenizer, .chat = chat, .options = options, .thread_n = fw_threads_n(options->threads)};
    FW_TRY(FW_NEW_ARRAY(l.part, (size_t)l.thread_n));
    fw_status status = load_sets(&l, d, sources);
    for (int i = 0; i < l.thread_n; i++) {
        fw_encoder_destroy(l.part[i].encoder);
        fw_conversation_tokens_fini(&l.part[i].tokens);
    }
    fw_free(l.part);
    return status == FW_OK ? fw_dataset_finish(d) : status;
}

fw_status fw_dataset_load_sources(fw_dataset **out, const fw_sources *sources, const fw_tokenizer *tokenizer,
                                  const fw_chat_template *chat, const fw_dataset_options *options) {
    fw_dataset *d = NULL;
    *out = NULL;
    FW_TRY(fw_dataset_create(&d, sources->set_n == 1 ? sources->set[0].written : "the data sets", options));
    fw_status status = fw_dataset_fill(d, sources, tokenizer, chat, options);
    if (status == FW_OK)
        *out = d;
    else
        fw_dataset_destroy(d);
    return status;
}

fw_status fw_dataset_load(fw_dataset **out, const char *path, const fw_tokenizer *tokenizer,
                          const fw_chat_template *chat, const fw_dataset_options *options) {
    char *only = (char *)(uintptr_t)path;
    fw_source_set set = {.written = only, .weight = 1, .last = 1};
    const fw_sources sources = {.set = &set, .set_n = 1, .path = &only, .path_n = 1};
    return fw_dataset_load_sources(out, &sources, tokenizer, chat, options);
}
