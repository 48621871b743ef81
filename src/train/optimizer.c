#include "train/optimizer.h"

float fw_optimizer_clip_factor(double norm, double max_norm) {
    if (max_norm <= 0) return 1.0f;
    double factor = max_norm / (norm + 1e-6);
    return factor < 1 ? (float)factor : 1.0f;
}

/* n elements from `at` of the owned range, all with decay or all without. */
static fw_status update_elements(const fw_optimizer_unit *u, int64_t at, int64_t n, bool decay) {
    const fw_owned_range *own = &u->own;
    const fw_optim_settings *s = u->settings;
    const fw_optimizer kind = fw_shard_layout_of(u->shard)->options.optimizer;
    float *first = own->array[0] == NULL ? NULL : own->array[0] + at;
    fw_adamw_options o = *u->options;
    if (!decay) o.weight_decay = 0;
    if (kind == FW_OPTIMIZER_ADAMW)
        return fw_adamw(u->device, own->w + at, first, own->array[1] + at, own->g + at, NULL, n, &o, FW_F32);
    const fw_step_options step = {.rule = kind == FW_OPTIMIZER_LION ? FW_STEP_LION : FW_STEP_SGD,
                                  .learning_rate = o.learning_rate,
                                  .weight_decay = o.weight_decay,
                                  .beta1 = s->beta1,
                                  .beta2 = s->beta2,
                                  .momentum = s->momentum,
                                  .dampening = s->dampening,
                                  .nesterov = s->nesterov,
                                  .grad_scale = o.grad_scale,
                                  .step = o.step};
    return fw_optimizer_step(u->device, own->w + at, first, NULL, own->g + at, n, &step);
}

/* Elements [first, last) of a unit; the part of it that is owned. */
static fw_status update_run(const fw_optimizer_unit *u, int64_t first, int64_t last, bool decay) {
    const fw_owned_range *own = &u->own;
    if (first < own->first_n) first = own->first_n;
    if (last > own->first_n + own->n) last = own->first_n + own->n;
    return first < last ? update_elements(u, first - own->first_n, last - first, decay) : FW_OK;
}

/* Optimizers to which an element is an element. */
static fw_status update_runs(const fw_optimizer_unit *u) {
    const fw_param_table *t = u->table;
    const int32_t end = t->unit_first[u->unit + 1];
    /* neighbours with the same decay make one run; the zero padding between them stays zero */
    for (int32_t i = t->unit_first[u->unit], next; i < end; i = next) {
        bool decay = t->param[i].decay;
        for (next = i + 1; next < end && t->param[next].decay == decay;) next++;
        const fw_param *tail = &t->param[next - 1];
        FW_TRY(update_run(u, t->param[i].offset_n, tail->offset_n + tail->n, decay));
    }
    return FW_OK;
}

fw_status fw_optimizer_update(fw_shard *shard, const fw_param_table *table, fw_device *device,
                              const fw_adamw_options *options, const fw_optim_settings *settings) {
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        fw_optimizer_unit u = {
            .shard = shard, .table = table, .device = device, .options = options, .settings = settings, .unit = unit};
        FW_TRY(fw_shard_owned(shard, unit, &u.own));
        switch (fw_shard_layout_of(shard)->options.optimizer) {
        case FW_OPTIMIZER_LAMB: FW_TRY(fw_optimizer_lamb(&u)); break;
        case FW_OPTIMIZER_ADAFACTOR: FW_TRY(fw_optimizer_adafactor(&u)); break;
        case FW_OPTIMIZER_ADAMW_8BIT:
        case FW_OPTIMIZER_LION_8BIT: FW_TRY(fw_optimizer_8bit(&u)); break;
        case FW_OPTIMIZER_ADAMW:
        case FW_OPTIMIZER_SGD:
        case FW_OPTIMIZER_SGD_MOMENTUM:
        case FW_OPTIMIZER_LION:
        case FW_OPTIMIZER_N: FW_TRY(update_runs(&u)); break;
        }
        FW_TRY(fw_shard_share(shard, unit));
    }
    return FW_OK;
}
