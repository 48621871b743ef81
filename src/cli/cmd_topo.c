/* finewire topo: which link joins each pair of GPUs, and what else this machine has. */
#include "cli/commands.h"
#include "cli/machine_source.h"
#include "cli/terminal.h"
#include "cli/topo_text.h"

fw_status fw_cli_topo(const fw_options *options) {
    fw_machine *m;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY(fw_cli_machine(&m, options, NULL));
    if (options->json)
        FW_TRY_OR(fw_cli_machine_json(&text, m), done);
    else
        FW_TRY_OR(fw_topo_text(&text, m), done);
    FW_TRY_OR(fw_terminal_write(fw_strbuf_text(&text), text.len_bytes), done);
done:
    fw_strbuf_fini(&text);
    fw_machine_destroy(m);
    return status;
}
