#include "cli/json_output.h"

#include "cli/terminal.h"

fw_status fw_cli_write_json(json_t *value) {
    if (value == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory while writing JSON");
    fw_strbuf text = {0};
    fw_status status = fw_json_dump(&text, value, JSON_INDENT(2));
    if (status == FW_OK) status = fw_strbuf_putc(&text, '\n');
    if (status == FW_OK) status = fw_terminal_write(text.data, text.len_bytes);
    fw_strbuf_fini(&text);
    json_decref(value);
    return status;
}
