/* libyaml's events with errors that name file and line. Events are handled one by one, so a hostile file costs no memory
 * beyond its own size. Source: YAML 1.1 as libyaml reads it. All errors are FW_ERR_OPTION, or FW_ERR_NOMEM. */
#ifndef FW_CONFIG_YAML_EVENTS_H
#define FW_CONFIG_YAML_EVENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

/* Borrows `text`; a byte order mark is skipped. Release with yaml_parser_delete when it succeeded. */
fw_status fw_yaml_open(yaml_parser_t *parser, const char *text, size_t text_bytes, const char *where);
/* The next event; release it with yaml_event_delete whatever the result. */
fw_status fw_yaml_next(yaml_parser_t *parser, yaml_event_t *event, const char *where);
/* Refuses aliases, anchors, tags and zero bytes; `advice` ends the message. */
fw_status fw_yaml_check_plain(const yaml_event_t *event, const char *where, const char *advice);
/* The next event must be of this type and plain; else the error says `otherwise` and `advice`. */
fw_status fw_yaml_expect(yaml_parser_t *parser, yaml_event_type_t type, const char *where, const char *otherwise,
                         const char *advice);
/* "FILE:LINE: what; advice" */
fw_status fw_yaml_refuse(const yaml_event_t *event, const char *where, const char *what, const char *advice);
int fw_yaml_line(const yaml_mark_t *mark);
/* One of YAML 1.1's five ways to write nothing; "" in quotes is a text. */
bool fw_yaml_is_null(const yaml_event_t *scalar);

#endif
