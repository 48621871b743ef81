#include "data/dataset.h"

#include "base/alloc.h"
#include "data/conversation_encode.h"
#include "data/reader.h"

/* Every thread renders and tokenises its own stretch of the file into a part; the parts are then joined in
 * order, so the result and the error that is reported (the first in the file) do not depend on timing. */
typedef struct part {
    fw_dataset *dataset;
    fw_status status;
    fw_trail trail;
} part;

typedef struct load {
    const fw_reader *reader;
    const fw_tokenizer *tokenizer;
    const fw_chat_template *chat;
    const fw_dataset_options *options;
    const char *path;
    part *part;
} load;

typedef struct scratch {
    fw_encoder *encoder;
    fw_row_cursor cursor;
    fw_conversation_tokens tokens;
} scratch;

static fw_status add_conversation(load *l, part *p, scratch *s, int64_t index) {
    fw_conversation conversation;
    fw_row_place place;
    fw_status status;
    FW_TRY(fw_reader_get(l->reader, &s->cursor, index, &conversation, &place));
    const fw_label_options labels = {.all_tokens = l->options->all_tokens};
    status = fw_conversation_encode(&s->tokens, s->encoder, l->chat, &conversation, &labels);
    if (status == FW_ERR_INPUT) fw_fail_context(status, "%s:%lld: ", l->path, (long long)conversation.line);
    FW_TRY_OR(status, done);
    p->dataset->stats.reasoning_dropped_n += (int64_t)s->tokens.reasoning_dropped_n;
    FW_TRY_OR(fw_dataset_add(p->dataset, s->tokens.ids.id, s->tokens.trained.mark, (int64_t)s->tokens.ids.n,
                             conversation.has_assistant, conversation.line),
              done);
done:
    fw_conversation_fini(&conversation);
    return status;
}

static fw_status load_part(load *l, part *p, int64_t first, int64_t last) {
    scratch s = {0};
    fw_status status;
    fw_row_cursor_init(&s.cursor, fw_reader_rows(l->reader));
    FW_TRY_OR(fw_dataset_create(&p->dataset, l->path, l->options), done);
    FW_TRY_OR(fw_encoder_create(&s.encoder, l->tokenizer), done);
    for (int64_t i = first; i < last; i++) FW_TRY_OR(add_conversation(l, p, &s, i), done);
done:
    fw_encoder_destroy(s.encoder);
    fw_row_cursor_fini(&s.cursor);
    fw_conversation_tokens_fini(&s.tokens);
    return status;
}

static void load_on_thread(void *context, int index, int thread_n) {
    load *l = context;
    part *p = &l->part[index];
    int64_t first, last;
    fw_threads_split(&first, &last, fw_reader_n(l->reader), 1, index, thread_n);
    p->status = load_part(l, p, first, last);
    if (p->status != FW_OK) fw_trail_copy(&p->trail);
}

fw_status fw_dataset_load(fw_dataset **out, const char *path, const fw_tokenizer *tokenizer,
                          const fw_chat_template *chat, const fw_dataset_options *options) {
    *out = NULL;
    load l = {.tokenizer = tokenizer, .chat = chat, .options = options, .path = path};
    const int thread_n = fw_threads_n(options->threads);
    fw_reader *reader = NULL;
    fw_dataset *d = NULL;
    fw_status status;
    FW_TRY_OR(fw_reader_open(&reader, path, NULL), done);
    l.reader = reader;
    FW_TRY_OR(FW_NEW_ARRAY(l.part, (size_t)thread_n), done);
    fw_threads_run(options->threads, load_on_thread, &l);
    for (int i = 0; i < thread_n; i++) {
        part *p = &l.part[i];
        if (p->status != FW_OK) {
            fw_trail_restore(&p->trail);
            FW_TRY_OR(p->status, done);
        }
    }
    for (int i = 0; i < thread_n; i++) {
        part *p = &l.part[i];
        if (i == 0) {
            d = p->dataset;
            p->dataset = NULL;
        } else
            FW_TRY_OR(fw_dataset_join(d, p->dataset), done);
        fw_dataset_destroy(p->dataset);
        p->dataset = NULL;
    }
    d->options.threads = NULL; /* borrowed for the load only */
    FW_TRY_OR(fw_dataset_finish(d), done);
    *out = d;
    d = NULL;
done:
    if (l.part)
        for (int i = 0; i < thread_n; i++) fw_dataset_destroy(l.part[i].dataset);
    fw_free(l.part);
    fw_dataset_destroy(d);
    fw_reader_close(reader);
    return status;
}
