#include "cli/machine_source.h"

#include "base/log.h"

fw_status fw_cli_machine(fw_machine **out, const fw_options *options, const char *hosts) {
    if (options->from != NULL)
        FW_TRY(fw_machine_load(out, options->from));
    else
        FW_TRY(fw_machine_read(out, &(fw_machine_source){.hosts = hosts}));
    if (options->snapshot == NULL) return FW_OK;
    const fw_status status = fw_machine_save(*out, options->snapshot);
    if (status != FW_OK) {
        fw_machine_destroy(*out);
        return status;
    }
    fw_log_info("snapshot  %s", options->snapshot);
    return FW_OK;
}

fw_status fw_cli_machine_json(fw_strbuf *text, const fw_machine *m) {
    json_t *value;
    FW_TRY(fw_machine_to_json(&value, m));
    fw_status status = fw_json_dump(text, value, JSON_INDENT(2));
    if (status == FW_OK) status = fw_strbuf_putc(text, '\n');
    json_decref(value);
    return status;
}
