/* The machine that a command looks at: this one, or a snapshot (--from); kept as one on request (--snapshot). */
#ifndef FW_CLI_MACHINE_SOURCE_H
#define FW_CLI_MACHINE_SOURCE_H

#include "base/strbuf.h"
#include "config/options.h"
#include "machine/machine.h"

/* Options of finewire topo and finewire doctor. *out is the caller's. hosts: as in fw_machine_source. Errors: those of reading and of writing the file. */
fw_status fw_cli_machine(fw_machine **out, const fw_options *options, const char *hosts);
/* The snapshot as text, with a newline. */
fw_status fw_cli_machine_json(fw_strbuf *text, const fw_machine *m);

#endif
