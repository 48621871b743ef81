#include "train/optimizer.h"

float fw_optimizer_clip_factor(double norm, double max_norm) {
    if (max_norm <= 0) return 1.0f;
    double factor = max_norm / (norm + 1e-6);
    return factor < 1 ? (float)factor : 1.0f;
}

/* Elements [first, last) of a unit, all with decay or all without; the part of it that is owned. */
static fw_status update_run(fw_device *device, const fw_owned_range *own, int64_t first, int64_t last, bool decay,
                            const fw_adamw_options *options) {
    if (first < own->first_n) first = own->first_n;
    if (last > own->first_n + own->n) last = own->first_n + own->n;
    if (first >= last) return FW_OK;
    int64_t at = first - own->first_n;
    fw_adamw_options o = *options;
    if (!decay) o.weight_decay = 0;
    return fw_adamw(device, own->w + at, own->m + at, own->v + at, own->g + at, NULL, last - first, &o, FW_F32);
}

fw_status fw_optimizer_update(fw_shard *shard, const fw_param_table *table, fw_device *device,
                              const fw_adamw_options *options) {
    for (int32_t unit = 0; unit < table->unit_n; unit++) {
        fw_owned_range own;
        FW_TRY(fw_shard_owned(shard, unit, &own));
        int32_t end = table->unit_first[unit + 1];
        /* neighbours with the same decay make one run; the zero padding between them stays zero */
        for (int32_t i = table->unit_first[unit], next; i < end; i = next) {
            bool decay = table->param[i].decay;
            for (next = i + 1; next < end && table->param[next].decay == decay;) next++;
            const fw_param *tail = &table->param[next - 1];
            FW_TRY(update_run(device, &own, table->param[i].offset_n, tail->offset_n + tail->n, decay, options));
        }
        FW_TRY(fw_shard_share(shard, unit));
    }
    return FW_OK;
}
