/* --what_if "accumulation=8; batch=2, length=4096": cases to compare with what was asked.
 *
 * A semicolon stands between cases, a comma between the changes of one. A change is an option of `finewire plan` and its
 * value, by any of its names or by a short one (accumulation, batch, length, recompute). A case is planned as if it had been asked
 * for directly; in a list of names a + stands for the comma. */
#ifndef FW_PLAN_WHAT_IF_H
#define FW_PLAN_WHAT_IF_H

#include "plan/report.h"

/* Fills change_text, change and change_n. options: as they were given, nothing worked out yet. Errors: FW_ERR_OPTION naming the case. */
fw_status fw_plan_what_if(fw_plan_report *report, const fw_options *options);

/* Apply the changes of one case, "accumulation=8,batch=2". */
fw_status fw_plan_apply_changes(fw_options *options, const char *text);

#endif
