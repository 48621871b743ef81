/* --chart: memory of a device by strategy and number of devices, and the time of a step by link, drawn as SVG. */
#ifndef FW_PLAN_CHART_H
#define FW_PLAN_CHART_H

#include "base/strbuf.h"
#include "plan/report.h"

/* Appends the whole picture. Errors: FW_ERR_NOMEM, FW_ERR_INPUT. */
fw_status fw_plan_draw(fw_strbuf *out, const fw_plan_report *report);

#endif
