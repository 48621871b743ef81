#include "config/options_optim.h"

#include "config/lookup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fw_optim_settings fw_optim_settings_default(void) {
    return (fw_optim_settings){
        .beta1 = 0.9, .beta2 = 0.999, .epsilon1 = 1e-30f, .clip_threshold = 1.0f, .decay_rate = -0.8f};
}

enum { KEY_BYTES = 32 };

static bool is_sgd(const fw_options *o) { return o->optim == FW_OPTIM_SGD; }

static fw_status bad_value(const char *key, const char *value, const char *want) {
    return fw_fail(FW_ERR_OPTION, "optim_args: %s is %.40s; it must be %s", key, value, want);
}

/* A number in [0, most]. */
static fw_status read_number(double *out, const char *key, const char *value, double most, const char *want) {
    char *end;
    *out = strtod(value, &end);
    return end != value && *end == 0 && *out >= 0 && *out <= most ? FW_OK : bad_value(key, value, want);
}

static fw_status set(fw_optim_settings *s, const fw_options *o, const char *key, const char *value) {
    double number;
    if (is_sgd(o) && (strcmp(key, "momentum") == 0 || strcmp(key, "dampening") == 0)) {
        FW_TRY(read_number(&number, key, value, 1, "a number from 0 to 1"));
        *(key[0] == 'm' ? &s->momentum : &s->dampening) = (float)number;
        return FW_OK;
    }
    if (is_sgd(o) && strcmp(key, "nesterov") == 0)
        return fw_value_read_bool(&s->nesterov, value) == NULL ? FW_OK : bad_value(key, value, "true or false");
    if (o->optim == FW_OPTIM_LAMB && (strcmp(key, "min_coeff") == 0 || strcmp(key, "max_coeff") == 0))
        return read_number(key[1] == 'i' ? &s->min_coeff : &s->max_coeff, key, value, 1e30, "a number, 0 for no bound");
    return fw_fail(FW_ERR_OPTION, "optim_args: %s is nothing that %s takes; it takes %s", key, fw_optim_words[o->optim],
                   is_sgd(o)                   ? "momentum, dampening and nesterov"
                   : o->optim == FW_OPTIM_LAMB ? "min_coeff and max_coeff"
                                               : "no arguments (rates, betas and decay are options of their own)");
}

fw_status fw_options_optim_settings(fw_optim_settings *out, const fw_options *o) {
    *out = fw_optim_settings_default();
    out->beta1 = o->adam_beta1;
    out->beta2 = o->adam_beta2;
    const char *text = o->optim_args == NULL ? "" : o->optim_args;
    while (*text != 0) {
        char pair[2 * KEY_BYTES];
        size_t n = strcspn(text, ",");
        const char *sign = memchr(text, '=', n);
        if (sign == NULL || n >= sizeof pair)
            return fw_fail(FW_ERR_OPTION,
                           "optim_args is \"%.100s\"; write key=value pairs, as momentum=0.9,nesterov=true",
                           o->optim_args);
        snprintf(pair, sizeof pair, "%.*s", (int)n, text);
        pair[sign - text] = 0;
        char *key = pair + strspn(pair, " "), *value = pair + (sign - text) + 1;
        FW_TRY(set(out, o, key, value));
        text += n + (text[n] == ',' ? 1 : 0);
    }
    if (out->nesterov && (out->momentum <= 0 || out->dampening > 0))
        return fw_fail(FW_ERR_OPTION, "optim_args: nesterov needs a momentum and no dampening");
    if (out->max_coeff > 0 && out->max_coeff < out->min_coeff)
        return fw_fail(FW_ERR_OPTION, "optim_args: max_coeff %g is below min_coeff %g", out->max_coeff, out->min_coeff);
    return FW_OK;
}

fw_status fw_options_check_optim(const fw_options *o) {
    fw_optim_settings settings;
    FW_TRY(fw_options_optim_settings(&settings, o));
    if (o->lr_scale_rule != FW_LR_SCALE_NONE && o->lr_scale_base_batch == 0)
        return fw_fail(FW_ERR_OPTION,
                       "lr_scale_rule is %s, and lr_scale_base_batch does not say for how many sequences a step the "
                       "learning_rate was chosen",
                       fw_lr_scale_words[o->lr_scale_rule]);
    if (o->lr_scale_rule == FW_LR_SCALE_NONE && o->lr_scale_base_batch > 0)
        return fw_fail(FW_ERR_OPTION, "lr_scale_base_batch is given, and lr_scale_rule is none; write linear or sqrt");
    return FW_OK;
}

double fw_options_scaled_rate(const fw_options *o, int64_t batch_n) {
    if (o->lr_scale_rule == FW_LR_SCALE_NONE) return o->learning_rate;
    const double times = (double)batch_n / (double)o->lr_scale_base_batch;
    return o->learning_rate * (o->lr_scale_rule == FW_LR_SCALE_LINEAR ? times : sqrt(times));
}
