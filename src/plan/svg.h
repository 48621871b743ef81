/* Drawing as SVG text: lines, rectangles and words, in colours that are named by a class so that a page in the dark can have
 * others. Coordinates are pixels from the upper left; texts are escaped here. */
#ifndef FW_PLAN_SVG_H
#define FW_PLAN_SVG_H

#include "base/strbuf.h"

/* The classes: ground, ink (words and axes), faint (grid), and FW_SVG_COLORS kinds of data. */
enum { FW_SVG_COLORS = 6 };

typedef enum fw_svg_anchor { FW_SVG_START, FW_SVG_MIDDLE, FW_SVG_END } fw_svg_anchor;

/* Errors of all: FW_ERR_NOMEM. */
fw_status fw_svg_begin(fw_strbuf *out, int width, int height, const char *title);
fw_status fw_svg_end(fw_strbuf *out);
fw_status fw_svg_line(fw_strbuf *out, const char *class_name, double x1, double y1, double x2, double y2);
/* color: 0 .. FW_SVG_COLORS - 1. */
fw_status fw_svg_bar(fw_strbuf *out, int color, double x, double y, double width, double height);
fw_status fw_svg_dot(fw_strbuf *out, int color, double x, double y);
fw_status fw_svg_path(fw_strbuf *out, int color, const double *xy, int point_n);
fw_status fw_svg_text(fw_strbuf *out, const char *class_name, fw_svg_anchor anchor, double x, double y,
                      const char *text);

#endif
