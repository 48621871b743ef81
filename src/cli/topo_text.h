/* What finewire topo prints about a machine. Appends to *text; errors: FW_ERR_NOMEM. */
#ifndef FW_CLI_TOPO_TEXT_H
#define FW_CLI_TOPO_TEXT_H

#include "base/strbuf.h"
#include "machine/machine.h"

fw_status fw_topo_text(fw_strbuf *text, const fw_machine *m);

#endif
