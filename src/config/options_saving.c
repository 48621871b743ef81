#include "config/options_saving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* [days-]hours:minutes:seconds */
static bool read_clock(double *seconds, const char *text) {
    int days = 0, h, m, s, used = 0;
    const char *dash = strchr(text, '-');
    if (dash != NULL && (sscanf(text, "%5d-%n", &days, &used) != 1 || text + used != dash + 1)) return false;
    text += used;
    used = 0;
    if (sscanf(text, "%5d:%2d:%2d%n", &h, &m, &s, &used) != 3 || text[used] != 0) return false;
    if (days < 0 || h < 0 || m < 0 || s < 0 || m > 59 || s > 59) return false;
    *seconds = ((double)days * 24 + h) * 3600 + m * 60 + s;
    return true;
}

static bool read_unit(double *seconds, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || end[0] == 0 || end[1] != 0 || !(value > 0) || value > 1e9) return false;
    const char *unit = strchr("smhd", end[0]);
    if (unit == NULL) return false;
    static const double of_unit[] = {1, 60, 3600, 86400};
    *seconds = value * of_unit[unit - "smhd"];
    return true;
}

fw_status fw_options_read_time(double *seconds, const char *text, const char *name) {
    const bool is_clock = strchr(text, ':') != NULL;
    if (is_clock ? read_clock(seconds, text) : read_unit(seconds, text))
        if (*seconds > 0) return FW_OK;
    return fw_fail(FW_ERR_OPTION, "%s is \"%.60s\"; write a time with its unit, as 90m, 1.5h or 5400s, or 1:30:00",
                   name, text);
}

static fw_status check_mirror(const fw_options *o) {
    static const fw_option_id without[] = {FW_OPTION_mirror_check, FW_OPTION_mirror_total_limit,
                                           FW_OPTION_mirror_timeout};
    double seconds;
    if (o->mirror_timeout != NULL) FW_TRY(fw_options_read_time(&seconds, o->mirror_timeout, "mirror_timeout"));
    if (o->mirror != NULL) return FW_OK;
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        if (fw_options_given(o, without[i]))
            return fw_fail(FW_ERR_OPTION, "%s is given, and no --mirror that it is for",
                           fw_option_get(without[i])->name);
    return FW_OK;
}

fw_status fw_options_check_saving(const fw_options *o) {
    double seconds;
    if (o->max_time != NULL) FW_TRY(fw_options_read_time(&seconds, o->max_time, "max_time"));
    FW_TRY(check_mirror(o));
    if (!o->load_best_model_at_end) return FW_OK;
    if (o->eval_strategy == FW_WHEN_NO || o->save_strategy == FW_WHEN_NO)
        return fw_fail(FW_ERR_OPTION,
                       "load_best_model_at_end needs checkpoints and evaluations; set save_strategy and eval_strategy "
                       "to steps or epoch");
    if (o->eval_strategy != o->save_strategy)
        return fw_fail(FW_ERR_OPTION,
                       "load_best_model_at_end needs an evaluation at each checkpoint, but eval_strategy is %s and "
                       "save_strategy %s; make them the same",
                       fw_when_words[o->eval_strategy], fw_when_words[o->save_strategy]);
    int64_t eval_steps = o->eval_steps == 0 ? o->logging_steps : o->eval_steps;
    if (o->save_strategy == FW_WHEN_STEPS && o->save_steps % eval_steps != 0)
        return fw_fail(FW_ERR_OPTION,
                       "load_best_model_at_end needs an evaluation at each checkpoint, but save_steps is %lld and "
                       "eval_steps %lld; make the first a multiple of the second",
                       (long long)o->save_steps, (long long)eval_steps);
    return FW_OK;
}
