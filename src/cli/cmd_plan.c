/* finewire plan: what a run would take, before it starts. */
#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/plan_output.h"
#include "cli/terminal.h"
#include "plan/chart.h"

static fw_status draw(const fw_plan_report *r, const char *path) {
    fw_strbuf svg = {0};
    fw_status status = fw_plan_draw(&svg, r);
    if (status == FW_OK) status = fw_file_write(path, fw_strbuf_text(&svg), svg.len_bytes);
    fw_strbuf_fini(&svg);
    return status;
}

/* What was asked and is not what it seems. */
static void warn(const fw_plan_report *r, const fw_options *o) {
    const int64_t made_for = r->model.config.max_position;
    if (made_for > 0 && o->max_length > made_for)
        fw_log_warning("--max_length %lld is more than the %lld tokens that the model was made for "
                       "(max_position_embeddings)",
                       (long long)o->max_length, (long long)made_for);
    if (r->model.config.is_packed && o->method == FW_METHOD_LORA)
        fw_log_info("%s is in 4 bits already (quantization_config), and stays so beside an adapter: qlora",
                    o->model_name_or_path);
}

fw_status fw_cli_plan(const fw_options *o) {
    fw_plan_report *r;
    fw_strbuf text = {0};
    fw_status status;
    FW_TRY(fw_plan_report_create(&r, o));
    warn(r, o);
    if (o->chart != NULL) FW_TRY_OR(draw(r, o->chart), done);
    FW_TRY_OR(o->json ? fw_plan_write_json(&text, r) : fw_plan_write_text(&text, r), done);
    FW_TRY_OR(fw_terminal_write(fw_strbuf_text(&text), text.len_bytes), done);
done:
    fw_strbuf_fini(&text);
    fw_plan_report_destroy(r);
    return status;
}
