#include "plan/what_if.h"

#include "base/alloc.h"
#include "plan/job_input.h"

#include <stdio.h>
#include <string.h>

enum { CHANGE_BYTES = 256 };

/* The name that is meant: short ones stand for long ones. Changes of what is not the run's are refused. */
static fw_status long_name(const char **out, const char *name) {
    static const char *const short_names[][2] = {{"accumulation", "gradient_accumulation_steps"},
                                                 {"batch", "per_device_train_batch_size"},
                                                 {"length", "max_length"},
                                                 {"recompute", "gradient_checkpointing"},
                                                 {"offload", "offload_optimizer"},
                                                 {"lora", "lora_r"}};
    static const char *const fixed[] = {"recipe",     "config", "model_name_or_path", "model",    "what_if",
                                        "chart",      "json",   "config_file",        "measured", "deepspeed",
                                        "fsdp_config"};
    *out = name;
    for (size_t i = 0; i < sizeof short_names / sizeof short_names[0]; i++)
        if (strcmp(name, short_names[i][0]) == 0) *out = short_names[i][1];
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (strcmp(name, fixed[i]) == 0)
            return fw_fail(FW_ERR_OPTION, "%s cannot be changed here; make another plan", name);
    return FW_OK;
}

static fw_status apply(fw_options *o, const char *text, size_t text_n) {
    char change[CHANGE_BYTES];
    while (text_n > 0 && text[text_n - 1] == ' ') text_n--;
    if (text_n >= sizeof change) return fw_fail(FW_ERR_OPTION, "\"%.60s...\" is too long", text);
    memcpy(change, text, text_n);
    change[text_n] = 0;
    char *sign = strchr(change, '=');
    if (sign == NULL || sign == change || sign[1] == 0)
        return fw_fail(
            FW_ERR_OPTION,
            "\"%s\" is not NAME=VALUE, as accumulation=8; a comma begins the next change (in a list write +: "
            "lora_target_modules=q_proj+v_proj)",
            change);
    *sign = 0;
    for (char *c = change; *c != 0; c++)
        if (*c == '-') *c = '_';
    const char *name;
    FW_TRY(long_name(&name, change));
    if (strcmp(name, "lora_target_modules") == 0)
        for (char *c = sign + 1; *c != 0; c++)
            if (*c == '+') *c = ',';
    FW_TRY(fw_options_set(o, name, sign + 1));
    /* A rank given for an adapter asks for one. */
    if (strcmp(name, "lora_r") == 0 && o->method != FW_METHOD_QLORA) o->method = FW_METHOD_LORA;
    return FW_OK;
}

fw_status fw_plan_apply_changes(fw_options *o, const char *text) {
    int change_n = 0;
    for (const char *c = text + strspn(text, " ,"); *c != 0; c += strspn(c, " ,")) {
        const size_t n = strcspn(c, ",");
        FW_TRY(apply(o, c, n));
        c += n;
        change_n++;
    }
    if (change_n == 0) return fw_fail(FW_ERR_OPTION, "a case is empty; write NAME=VALUE, as accumulation=8");
    return FW_OK;
}

/* The model as a case computes with it: in its own type. */
static fw_status model_of(const fw_model **out, fw_plan_report *r, const fw_options *o) {
    const fw_dtype t = o->bf16 ? FW_BF16 : FW_F32;
    *out = &r->model;
    if (t == r->model.t) return FW_OK;
    *out = &r->other_type;
    return r->other_type.config.L > 0 ? FW_OK : fw_model_init(&r->other_type, &r->model.config, t);
}

static fw_status try_case(fw_plan_change *change, fw_plan_report *r, const fw_options *o) {
    const fw_model *model;
    fw_options changed;
    fw_plan_scenario s = {0};
    fw_status status;
    FW_TRY_OR(fw_options_copy(&changed, o), done);
    FW_TRY_OR(fw_plan_apply_changes(&changed, change->text), done);
    FW_TRY_OR(fw_options_check(&changed), done);
    FW_TRY_OR(model_of(&model, r, &changed), done);
    FW_TRY_OR(fw_plan_adapted_model(&change->adapted, &model->config, model->t, &changed), done);
    FW_TRY_OR(fw_plan_scenario_from_options(&s, model, &change->adapted, &changed), done);
    if (s.method == FW_METHOD_AUTO) s.method = r->advice.method;
    FW_TRY_OR(fw_plan_lowest(&change->advice, &s), done);
    /* The site goes; what the advice says of it stays. */
    change->advice.scenario.site.device = NULL;
    change->advice.scenario.site.threads = NULL;
    change->advice.scenario.site.measured = NULL;
done:
    if (status != FW_OK) fw_fail_context(status, "--what_if \"%.80s\": ", change->text);
    fw_plan_site_fini(&s.site);
    fw_options_fini(&changed);
    return status;
}

fw_status fw_plan_what_if(fw_plan_report *r, const fw_options *o) {
    FW_TRY(fw_strdup(&r->change_text, o->what_if));
    fw_plan_scenario as_asked = r->asked;
    if (as_asked.method == FW_METHOD_AUTO) as_asked.method = r->advice.method;
    FW_TRY(fw_plan_lowest(&r->unchanged, &as_asked));
    for (char *rest = r->change_text; rest != NULL;) {
        char *text = rest + strspn(rest, " ");
        rest = strchr(text, ';');
        if (rest != NULL) *rest++ = 0;
        if (text[0] == 0 && rest == NULL && r->change_n > 0) break; /* a semicolon at the end */
        if (r->change_n == FW_PLAN_CHANGES_MAX)
            return fw_fail(FW_ERR_OPTION, "--what_if has more than %d cases", FW_PLAN_CHANGES_MAX);
        r->change[r->change_n].text = text;
        FW_TRY(try_case(&r->change[r->change_n], r, o));
        r->change_n++;
    }
    return FW_OK;
}
