/* A plan as text for people and as JSON for programs. */
#ifndef FW_CLI_PLAN_OUTPUT_H
#define FW_CLI_PLAN_OUTPUT_H

#include "base/strbuf.h"
#include "plan/report.h"

/* Append to *out. Errors: FW_ERR_NOMEM. */
fw_status fw_plan_write_text(fw_strbuf *out, const fw_plan_report *report);
/* One object; docs/plan.md lists its keys. */
fw_status fw_plan_write_json(fw_strbuf *out, const fw_plan_report *report);

#endif
