#include "plan/svg.h"

/* Colours after Okabe and Ito, told apart by everybody; those that are too dark or too bright change with the ground. What is
 * drawn last, in c4, is dashed, so that what lies under it is seen. */
static const char style[] =
    "<style>\n"
    "text{font:13px system-ui,sans-serif;fill:#222}\n"
    ".title{font-size:15px;font-weight:600}.small{font-size:11px}\n"
    ".ground{fill:#fff}.ink{stroke:#222}.faint{stroke:#ddd}.limit{stroke:#c00;stroke-dasharray:6 4}\n"
    ".c0{fill:#0072b2;stroke:#0072b2}.c1{fill:#d55e00;stroke:#d55e00}.c2{fill:#009e73;stroke:#009e73}\n"
    ".c3{fill:#cc79a7;stroke:#cc79a7}.c4{fill:#a6761d;stroke:#a6761d}.c5{fill:#999;stroke:#999}\n"
    ".curve{fill:none;stroke-width:2}.c4.curve{stroke-dasharray:5 5}\n"
    "@media (prefers-color-scheme:dark){text{fill:#eee}.ground{fill:#16181c}.ink{stroke:#eee}\n"
    ".faint{stroke:#3a3d44}.limit{stroke:#ff6b6b}.c0{fill:#4aa3dd;stroke:#4aa3dd}\n"
    ".c1{fill:#ff8c42;stroke:#ff8c42}.c2{fill:#2fd3a5;stroke:#2fd3a5}.c4{fill:#e6c229;stroke:#e6c229}}\n"
    "</style>\n";

/* Control characters have no place in XML, and bytes that are not UTF-8 do not either: names of models and cards come from
 * the command line, which has been checked to be UTF-8. */
static fw_status escaped(fw_strbuf *out, const char *text) {
    for (; *text != 0; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&')
            FW_TRY(fw_strbuf_puts(out, "&amp;"));
        else if (c == '<')
            FW_TRY(fw_strbuf_puts(out, "&lt;"));
        else if (c == '>')
            FW_TRY(fw_strbuf_puts(out, "&gt;"));
        else if (c >= ' ')
            FW_TRY(fw_strbuf_putc(out, (char)c));
    }
    return FW_OK;
}

fw_status fw_svg_begin(fw_strbuf *out, int width, int height, const char *title) {
    FW_TRY(
        fw_strbuf_printf(out,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                         "role=\"img\">\n<title>",
                         width, height, width, height));
    FW_TRY(escaped(out, title));
    FW_TRY(fw_strbuf_puts(out, "</title>\n"));
    FW_TRY(fw_strbuf_puts(out, style));
    return fw_strbuf_printf(out, "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", width, height);
}

fw_status fw_svg_end(fw_strbuf *out) { return fw_strbuf_puts(out, "</svg>\n"); }

fw_status fw_svg_line(fw_strbuf *out, const char *class_name, double x1, double y1, double x2, double y2) {
    return fw_strbuf_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class_name,
                            x1, y1, x2, y2);
}

fw_status fw_svg_bar(fw_strbuf *out, int color, double x, double y, double width, double height) {
    return fw_strbuf_printf(out, "<rect class=\"c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", color,
                            x, y, width, height);
}

fw_status fw_svg_dot(fw_strbuf *out, int color, double x, double y) {
    return fw_strbuf_printf(out, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", color, x, y);
}

fw_status fw_svg_path(fw_strbuf *out, int color, const double *xy, int point_n) {
    FW_TRY(fw_strbuf_printf(out, "<path class=\"curve c%d\" style=\"fill:none\" d=\"", color));
    for (int i = 0; i < point_n; i++)
        FW_TRY(fw_strbuf_printf(out, "%s%.1f %.1f", i == 0 ? "M" : " L", xy[2 * i], xy[2 * i + 1]));
    return fw_strbuf_puts(out, "\"/>\n");
}

fw_status fw_svg_text(fw_strbuf *out, const char *class_name, fw_svg_anchor anchor, double x, double y,
                      const char *text) {
    static const char *const anchors[] = {"start", "middle", "end"};
    FW_TRY(fw_strbuf_printf(out, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", class_name,
                            anchors[anchor], x, y));
    FW_TRY(escaped(out, text));
    return fw_strbuf_puts(out, "</text>\n");
}
