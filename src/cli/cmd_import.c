/* finewire import FILE.gguf --output DIR */
#include "base/plural.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "store/import.h"

#include <stdio.h>

fw_status fw_cli_import(const fw_options *o) {
    fw_import_report report;
    FW_TRY(fw_import_gguf(o->file, o->output, o->overwrite, (uint64_t)o->max_shard_size, &report));
    char count[FW_HUMAN_BYTES];
    FW_TRY(fw_terminal_printf("%s: %s, %s parameters, %lld token%s%s\n", o->file, report.architecture,
                              fw_human_count(count, (double)report.parameter_n), (long long)report.vocab_n,
                              fw_plural(report.vocab_n),
                              report.chat_template ? ", chat template" : ", no chat template"));
    FW_TRY(fw_terminal_printf("tensors: %s; written as %s\n", report.source_types, fw_dtype_name(report.dtype)));
    return fw_terminal_printf("model: %s\n", o->output);
}
