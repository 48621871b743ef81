/* The recipe: a flat YAML map from option names to values.
 *
 * Source: YAML 1.1 as libyaml reads it. Taken: one document, one map, scalars in any style, comments. An option
 * without a value (`seed:`, `seed: ~`, `seed: null`) counts as not given.
 * Refused, each with file and line: lists and maps as values, anchors, aliases, merges, tags, a second
 * document, a key given twice (under any of its names). Events are handled one by one and nothing nests,
 * so a hostile file costs no stack and no memory beyond its own size. */
#include "config/lookup.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { KEY_BYTES = 128 };

typedef struct fw_recipe {
    fw_options *o;
    const char *where;
    yaml_parser_t parser;
    int line_of[FW_OPTION_N];             /* where an option was given; 0: not yet */
    char name_of[FW_OPTION_N][KEY_BYTES]; /* and under which name */
} fw_recipe;

static int line_at(const yaml_mark_t *mark) { return (int)(mark->line < 1000000000 ? mark->line : 1000000000) + 1; }

/* *event is to be released by yaml_event_delete whatever the result. */
static fw_status next_event(fw_recipe *r, yaml_event_t *event) {
    memset(event, 0, sizeof *event);
    if (yaml_parser_parse(&r->parser, event)) return FW_OK;
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", r->where);
    if (p->error == YAML_READER_ERROR)
        return fw_fail(FW_ERR_OPTION, "%s: not valid YAML: %s at byte %zu", r->where,
                       p->problem != NULL ? p->problem : "unreadable", p->problem_offset);
    return fw_fail(FW_ERR_OPTION, "%s:%d:%zu: not valid YAML: %s", r->where, line_at(&p->problem_mark),
                   p->problem_mark.column + 1, p->problem != NULL ? p->problem : "unreadable");
}

static fw_status refuse(const fw_recipe *r, const yaml_event_t *event, const char *what) {
    return fw_fail(FW_ERR_OPTION, "%s:%d: %s; a recipe is one `name: value` a line", r->where,
                   line_at(&event->start_mark), what);
}

/* What no part of a recipe may carry. */
static fw_status check_plain(const fw_recipe *r, const yaml_event_t *e) {
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (e->type) {
    case YAML_ALIAS_EVENT: return refuse(r, e, "an alias (*) is not taken");
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor != NULL) return refuse(r, e, "an anchor (&) is not taken");
    if (tag != NULL) return refuse(r, e, "a tag (!) is not taken");
    if (e->type == YAML_SCALAR_EVENT && memchr(e->data.scalar.value, 0, e->data.scalar.length) != NULL)
        return refuse(r, e, "a zero byte is not taken");
    return FW_OK;
}

static fw_status read_key(fw_recipe *r, const yaml_event_t *e, char key[KEY_BYTES], fw_option_place *place) {
    if (e->type != YAML_SCALAR_EVENT) return refuse(r, e, "a list or a map is not a name");
    const char *text = (const char *)e->data.scalar.value;
    *place = (fw_option_place){r->where, line_at(&e->start_mark)};
    if (strcmp(text, "<<") == 0) return refuse(r, e, "a merge (<<) is not taken");
    if (text[0] == 0) return refuse(r, e, "a name is empty");
    size_t i = 0;
    for (; text[i] != 0 && i < KEY_BYTES - 1; i++) key[i] = text[i] == '-' ? '_' : text[i];
    key[i] = 0;
    return FW_OK;
}

/* YAML 1.1 has these five ways to write "nothing"; "" in quotes is a text. */
static bool is_null(const yaml_event_t *e) {
    const char *text = (const char *)e->data.scalar.value;
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    return text[0] == 0 || strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0 ||
           strcmp(text, "~") == 0;
}

static fw_status apply(fw_recipe *r, const char *key, const yaml_event_t *value, fw_option_place place) {
    fw_option_id id;
    const fw_option_spelling *spelling;
    char label[FW_LABEL_BYTES];
    FW_TRY(fw_option_find(&id, &spelling, r->o->command, key, place));
    fw_option_label(label, key, place);
    if (id == FW_OPTION_recipe) return fw_fail(FW_ERR_OPTION, "%s: a recipe cannot name another recipe", label);
    if (r->line_of[id] != 0)
        return fw_fail(FW_ERR_OPTION, "%s is given twice: line %d says %s; keep one", label, r->line_of[id],
                       r->name_of[id]);
    r->line_of[id] = place.line;
    snprintf(r->name_of[id], KEY_BYTES, "%s", key);
    if (value->type != YAML_SCALAR_EVENT)
        return fw_fail(FW_ERR_OPTION, "%s takes one value, not a list or a map", label);
    const char *text = (const char *)value->data.scalar.value;
    if (is_null(value)) return FW_OK;                          /* as if the line were not there */
    bool wins = r->o->origin[id].from != FW_FROM_COMMAND_LINE; /* else: checked, and left as it is */
    FW_TRY(fw_option_set(r->o, id, spelling, key, text, place, wins));
    if (wins) {
        r->o->origin[id].from = FW_FROM_RECIPE;
        r->o->origin[id].line = place.line;
    }
    return FW_OK;
}

/* One `name: value`; *last when the map ends instead. */
static fw_status read_entry(fw_recipe *r, bool *last) {
    yaml_event_t key_event, value_event = {0};
    fw_status status;
    char key[KEY_BYTES];
    fw_option_place place;
    FW_TRY_OR(next_event(r, &key_event), done);
    *last = key_event.type == YAML_MAPPING_END_EVENT;
    if (*last) goto done;
    FW_TRY_OR(check_plain(r, &key_event), done);
    FW_TRY_OR(read_key(r, &key_event, key, &place), done);
    FW_TRY_OR(next_event(r, &value_event), done);
    FW_TRY_OR(check_plain(r, &value_event), done);
    FW_TRY_OR(apply(r, key, &value_event, place), done);
done:
    yaml_event_delete(&key_event);
    yaml_event_delete(&value_event);
    return status;
}

/* The next event must be of this type. */
static fw_status expect(fw_recipe *r, yaml_event_type_t type, const char *otherwise) {
    yaml_event_t event;
    fw_status status;
    FW_TRY_OR(next_event(r, &event), done);
    FW_TRY_OR(check_plain(r, &event), done);
    if (event.type != type) status = refuse(r, &event, otherwise);
done:
    yaml_event_delete(&event);
    return status;
}

static fw_status read_document(fw_recipe *r) {
    FW_TRY(expect(r, YAML_STREAM_START_EVENT, "the file is not YAML"));
    FW_TRY(expect(r, YAML_DOCUMENT_START_EVENT, "the recipe is empty"));
    FW_TRY(expect(r, YAML_MAPPING_START_EVENT, "there are no names here"));
    for (bool last = false; !last;) FW_TRY(read_entry(r, &last));
    FW_TRY(expect(r, YAML_DOCUMENT_END_EVENT, "the recipe goes on after its end"));
    return expect(r, YAML_STREAM_END_EVENT, "a second document is not taken");
}

fw_status fw_options_parse_recipe(fw_options *o, const char *text, size_t text_bytes, const char *where) {
    fw_recipe r = {.o = o, .where = where};
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* libyaml stumbles over a byte order mark */
        text += 3;
        text_bytes -= 3;
    }
    if (!yaml_parser_initialize(&r.parser)) return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", where);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, text_bytes);
    fw_status status = read_document(&r);
    yaml_parser_delete(&r.parser);
    return status;
}
