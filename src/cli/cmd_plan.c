/* finewire plan: what a run would take, before it starts. */
#include "cli/commands.h"
#include "cli/plan_output.h"
#include "cli/terminal.h"
#include "plan/report.h"

fw_status fw_cli_plan(const fw_options *o) {
    fw_plan_report *r;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY(fw_plan_report_create(&r, o));
    FW_TRY_OR(o->json ? fw_plan_write_json(&text, r) : fw_plan_write_text(&text, r), done);
    FW_TRY_OR(fw_terminal_write(fw_strbuf_text(&text), text.len_bytes), done);
done:
    fw_strbuf_fini(&text);
    fw_plan_report_destroy(r);
    return status;
}
