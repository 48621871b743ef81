/* finewire data show: conversations as the model gets them, what is learnt told apart by colour or by marks. */
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/data_source.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How what is learnt begins and ends. Control characters of the text itself are shown escaped, so that it cannot colour
 * or mark anything. */
typedef struct style {
    const char *learnt, *context;
} style;
static const style plain = {"\u27e6", "\u27e7"}, coloured = {"\033[1;32m", "\033[0m"};

typedef struct shower {
    const fw_options *o;
    const style *style;
    fw_data_source source;
    fw_encoder *encoder;
    fw_conversation_tokens tokens;
    int64_t skip_n, left_n; /* rows */
    fw_strbuf text;
} shower;

/* Newlines stay; other control characters would do something to a terminal. */
static fw_status put_escaped(fw_strbuf *out, const char *text, size_t n, int newlines) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n' && !newlines)
            FW_TRY(fw_strbuf_puts(out, "\\n"));
        else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            FW_TRY(fw_strbuf_printf(out, "\\x%02x", c));
        else
            FW_TRY(fw_strbuf_putc(out, (char)c));
    }
    return FW_OK;
}

/* Tokens n..m-1, all learnt or all not, as text: characters may go over several tokens. */
static fw_status put_stretch(shower *s, size_t first, size_t last, int newlines) {
    fw_decoder decoder;
    fw_strbuf text = {0};
    fw_status status = FW_OK;
    fw_decoder_init(&decoder, s->source.tokenizer, false);
    for (size_t i = first; i < last; i++) FW_TRY_OR(fw_decoder_push(&decoder, &text, s->tokens.ids.id[i]), done);
    FW_TRY_OR(fw_decoder_finish(&decoder, &text), done);
    FW_TRY_OR(put_escaped(&s->text, fw_strbuf_text(&text), text.len_bytes, newlines), done);
done:
    fw_strbuf_fini(&text);
    return status;
}

static int is_learnt(const shower *s, size_t i) { return i > 0 && s->tokens.trained.mark[i]; }

static fw_loss_weight weight_of(const shower *s, size_t i) {
    return is_learnt(s, i) ? s->tokens.trained.weight[i] : FW_LOSS_WEIGHT_ONE;
}

/* Behind what is learnt with another weight than 1. */
static fw_status put_weight(shower *s, fw_loss_weight weight) {
    return weight == FW_LOSS_WEIGHT_ONE ? FW_OK : fw_strbuf_printf(&s->text, "\u00d7%g", fw_loss_weight_value(weight));
}

static fw_status put_text(shower *s) {
    const size_t n = s->tokens.ids.n;
    for (size_t first = 0; first < n;) {
        const int learnt = is_learnt(s, first);
        const fw_loss_weight weight = weight_of(s, first);
        size_t last = first + 1;
        while (last < n && is_learnt(s, last) == learnt && weight_of(s, last) == weight) last++;
        if (learnt) FW_TRY(fw_strbuf_puts(&s->text, s->style->learnt));
        FW_TRY(put_stretch(s, first, last, 1));
        if (learnt) FW_TRY(fw_strbuf_puts(&s->text, s->style->context));
        FW_TRY(put_weight(s, weight));
        first = last;
    }
    return fw_strbuf_putc(&s->text, '\n');
}

/* "2 content": of message 2 (from 0); "template" alone: of none. Tokens come in the order of the text; *segment goes on. */
static fw_status put_origin(shower *s, size_t token, size_t *segment) {
    const fw_chat_rendering *r = &s->tokens.rendering;
    char origin[40] = "text";
    if (token < s->tokens.offsets.n && r->segment_n > 0) {
        while (*segment + 1 < r->segment_n && r->segment[*segment + 1].offset <= s->tokens.offsets.offset[token])
            ++*segment;
        const fw_chat_segment *at = &r->segment[*segment];
        const char *field = fw_chat_field_name(at->field);
        if (at->message >= 0)
            snprintf(origin, sizeof origin, "%lld %s", (long long)at->message, field);
        else
            snprintf(origin, sizeof origin, "%s", field);
    }
    return fw_strbuf_printf(&s->text, "%-18s ", origin);
}

static fw_status put_tokens(shower *s) {
    size_t segment = 0;
    for (size_t i = 0; i < s->tokens.ids.n; i++) {
        FW_TRY(fw_strbuf_printf(&s->text, "%6zu %8d %c ", i, s->tokens.ids.id[i], is_learnt(s, i) ? '*' : ' '));
        FW_TRY(put_origin(s, i, &segment));
        if (is_learnt(s, i) && s->style == &coloured) FW_TRY(fw_strbuf_puts(&s->text, s->style->learnt));
        FW_TRY(put_stretch(s, i, i + 1, 0));
        if (is_learnt(s, i) && s->style == &coloured) FW_TRY(fw_strbuf_puts(&s->text, s->style->context));
        if (weight_of(s, i) != FW_LOSS_WEIGHT_ONE) FW_TRY(fw_strbuf_puts(&s->text, "  "));
        FW_TRY(put_weight(s, weight_of(s, i)));
        FW_TRY(fw_strbuf_putc(&s->text, '\n'));
    }
    return FW_OK;
}

static fw_status put_row(shower *s, const fw_conversation *c) {
    const fw_label_options labels = fw_data_options(&s->source.prepare).labels;
    int64_t target_n = 0, weight = 0;
    FW_TRY(fw_conversation_encode(&s->tokens, s->encoder, &s->source.chat, c, &labels));
    const int64_t n = (int64_t)s->tokens.ids.n;
    for (size_t i = 0; i < s->tokens.ids.n; i++)
        if (is_learnt(s, i)) {
            target_n++;
            weight += weight_of(s, i);
        }
    FW_TRY(fw_strbuf_printf(&s->text, "== %s:%lld: %lld token%s, %lld to learn", c->file, (long long)c->line,
                            (long long)n, fw_plural(n), (long long)target_n));
    if (weight != target_n * FW_LOSS_WEIGHT_ONE)
        FW_TRY(fw_strbuf_printf(&s->text, ", with a weight of %g in all", fw_loss_weight_value(weight)));
    if (n > s->o->max_length)
        FW_TRY(fw_strbuf_printf(&s->text, "; longer than max_length %lld (%s)", (long long)s->o->max_length,
                                fw_truncation_mode_words[s->o->truncation_mode]));
    for (int i = 0, before = -1; i < FW_CHAT_LEFT_N; i++) {
        char words[FW_CHAT_LEFT_OUT_BYTES];
        if (s->tokens.left_out_n[i] == 0) continue;
        fw_chat_left_out_words(words, (fw_chat_left_out)i, s->tokens.left_out_n[i]);
        const char *verb = fw_chat_left_out_verb((fw_chat_left_out)i);
        if (before >= 0 && strcmp(verb, fw_chat_left_out_verb((fw_chat_left_out)before)) == 0)
            FW_TRY(fw_strbuf_printf(&s->text, ", %s", words));
        else
            FW_TRY(fw_strbuf_printf(&s->text, "; the chat template %s %s", verb, words));
        before = i;
    }
    FW_TRY(fw_strbuf_putc(&s->text, '\n'));
    return s->o->tokens ? put_tokens(s) : put_text(s);
}

/* A row that cannot be used is shown as its reason. */
static fw_status show_row(shower *s, const fw_reader *reader, fw_row_cursor *cursor, int64_t index) {
    fw_conversation c;
    fw_row_place place;
    fw_strbuf_clear(&s->text);
    fw_status status = fw_reader_get(reader, cursor, index, &c, &place);
    if (status == FW_OK) {
        status = put_row(s, &c);
        if (status == FW_ERR_INPUT) fw_fail_context(status, "%s:%lld: ", c.file, (long long)c.line);
        fw_conversation_fini(&c);
    } else if (place.reason == FW_DROP_REASON_N)
        return status;
    if (status == FW_ERR_INPUT) {
        fw_strbuf_clear(&s->text);
        FW_TRY(fw_strbuf_puts(&s->text, "== not used: "));
        FW_TRY(put_escaped(&s->text, fw_trail_message(), strlen(fw_trail_message()), 0));
        status = fw_strbuf_putc(&s->text, '\n');
    }
    FW_TRY(status);
    return fw_terminal_write(fw_strbuf_text(&s->text), s->text.len_bytes);
}

static fw_status show_file(shower *s, const char *path) {
    const fw_dataset_options options = fw_data_options(&s->source.prepare);
    fw_reader *reader;
    fw_row_cursor cursor;
    FW_TRY(fw_reader_open(&reader, path, &options.reader));
    fw_status status = fw_terminal_printf(
        "%s: %s, shape %s, %lld row%s\n", path, fw_format_name(fw_rows_format(fw_reader_rows(reader))),
        fw_shape_name(fw_reader_shape(reader)), (long long)fw_reader_n(reader), fw_plural(fw_reader_n(reader)));
    fw_row_cursor_init(&cursor, fw_reader_rows(reader));
    int64_t first = s->skip_n < fw_reader_n(reader) ? s->skip_n : fw_reader_n(reader);
    s->skip_n -= first;
    for (int64_t i = first; i < fw_reader_n(reader) && s->left_n > 0 && status == FW_OK; i++, s->left_n--)
        status = show_row(s, reader, &cursor, i);
    fw_row_cursor_fini(&cursor);
    fw_reader_close(reader);
    return status;
}

static fw_status show_all(shower *s) {
    fw_sources sources;
    fw_status status = FW_OK;
    FW_TRY(fw_encoder_create(&s->encoder, s->source.tokenizer));
    FW_TRY(fw_sources_find(&sources, s->o->dataset_name));
    fw_sources_say_aside(&sources);
    for (int32_t i = 0; i < sources.path_n && s->left_n > 0 && status == FW_OK; i++)
        status = show_file(s, sources.path[i]);
    if (status == FW_OK && s->left_n == s->o->num_samples)
        status = fw_terminal_printf("no row to show: --skip_samples %lld passes over all of them\n",
                                    (long long)s->o->skip_samples);
    fw_sources_fini(&sources);
    return status;
}

fw_status fw_cli_data_show(const fw_options *o) {
    const char *no_color = getenv("NO_COLOR");
    const int colour = fw_terminal_stdout_is_tty() && (no_color == NULL || no_color[0] == 0);
    shower s = {.o = o, .style = colour ? &coloured : &plain, .skip_n = o->skip_samples, .left_n = o->num_samples};
    fw_status status;
    FW_TRY_OR(fw_cli_data_open(&s.source, o), done);
    FW_TRY_OR(show_all(&s), done);
done:
    fw_encoder_destroy(s.encoder);
    fw_conversation_tokens_fini(&s.tokens);
    fw_strbuf_fini(&s.text);
    fw_cli_data_close(&s.source);
    return status;
}
