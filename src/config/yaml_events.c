#include "config/yaml_events.h"

#include <string.h>

int fw_yaml_line(const yaml_mark_t *mark) { return (int)(mark->line < 1000000000 ? mark->line : 1000000000) + 1; }

fw_status fw_yaml_open(yaml_parser_t *parser, const char *text, size_t text_bytes, const char *where) {
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* libyaml stumbles over a byte order mark */
        text += 3;
        text_bytes -= 3;
    }
    if (!yaml_parser_initialize(parser)) return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", where);
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)text, text_bytes);
    return FW_OK;
}

fw_status fw_yaml_next(yaml_parser_t *parser, yaml_event_t *event, const char *where) {
    memset(event, 0, sizeof *event);
    if (yaml_parser_parse(parser, event)) return FW_OK;
    const yaml_parser_t *p = parser;
    if (p->error == YAML_MEMORY_ERROR) return fw_fail(FW_ERR_NOMEM, "out of memory while reading %s", where);
    if (p->error == YAML_READER_ERROR)
        return fw_fail(FW_ERR_OPTION, "%s: not valid YAML: %s at byte %zu", where,
                       p->problem != NULL ? p->problem : "unreadable", p->problem_offset);
    return fw_fail(FW_ERR_OPTION, "%s:%d:%zu: not valid YAML: %s", where, fw_yaml_line(&p->problem_mark),
                   p->problem_mark.column + 1, p->problem != NULL ? p->problem : "unreadable");
}

fw_status fw_yaml_refuse(const yaml_event_t *event, const char *where, const char *what, const char *advice) {
    return fw_fail(FW_ERR_OPTION, "%s:%d: %s; %s", where, fw_yaml_line(&event->start_mark), what, advice);
}

fw_status fw_yaml_check_plain(const yaml_event_t *e, const char *where, const char *advice) {
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (e->type) {
    case YAML_ALIAS_EVENT: return fw_yaml_refuse(e, where, "an alias (*) is not taken", advice);
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
    if (anchor != NULL) return fw_yaml_refuse(e, where, "an anchor (&) is not taken", advice);
    if (tag != NULL) return fw_yaml_refuse(e, where, "a tag (!) is not taken", advice);
    if (e->type == YAML_SCALAR_EVENT && memchr(e->data.scalar.value, 0, e->data.scalar.length) != NULL)
        return fw_yaml_refuse(e, where, "a zero byte is not taken", advice);
    return FW_OK;
}

fw_status fw_yaml_expect(yaml_parser_t *parser, yaml_event_type_t type, const char *where, const char *otherwise,
                         const char *advice) {
    yaml_event_t event;
    fw_status status;
    FW_TRY_OR(fw_yaml_next(parser, &event, where), done);
    FW_TRY_OR(fw_yaml_check_plain(&event, where, advice), done);
    if (event.type != type) status = fw_yaml_refuse(&event, where, otherwise, advice);
done:
    yaml_event_delete(&event);
    return status;
}

bool fw_yaml_is_null(const yaml_event_t *e) {
    const char *text = (const char *)e->data.scalar.value;
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    return text[0] == 0 || strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0 ||
           strcmp(text, "~") == 0;
}
