#include "shard/units.h"

#include "shard/shard_internal.h"

fw_status fw_units_begin(const fw_units *u, fw_shard_pass pass, bool more) {
    if (u->frozen != NULL) FW_TRY(fw_shard_begin(u->frozen, pass, more));
    return fw_shard_begin(u->trained, pass, more);
}

fw_status fw_units_acquire(const fw_units *u, int32_t unit, fw_shard_use use, bool gradient, fw_unit_weights *out) {
    *out = (fw_unit_weights){0};
    if (u->frozen != NULL && use != FW_SHARD_GRADIENT) {
        FW_TRY(fw_shard_weights_acquire(u->frozen, unit, &out->frozen));
        if (u->packed != NULL && unit > 0) {
            FW_TRY(fw_packed_unpack(u->packed, u->device, unit, out->frozen, u->unpacked));
            out->frozen = u->unpacked;
        }
    }
    return fw_shard_acquire(u->trained, unit, use, &out->trained, gradient ? &out->g : NULL);
}

fw_status fw_units_release(const fw_units *u, int32_t unit, fw_shard_use use) {
    if (u->frozen != NULL && use != FW_SHARD_GRADIENT) FW_TRY(fw_shard_weights_release(u->frozen, unit));
    return fw_shard_release(u->trained, unit, use);
}

void fw_units_get_counters(const fw_units *u, fw_shard_counters *out) {
    fw_shard_get_counters(u->trained, out);
    if (u->frozen != NULL) fw_shard_add_group_counters(u->frozen, out);
}

fw_shard_options fw_units_frozen_options(const fw_shard_options *trained, bool packed) {
    fw_shard_options o = *trained;
    o.training = o.sync_each = false;
    o.gradient_t = FW_F32;
    o.records = FW_SHARD_HERE; /* there is none */
    o.records_leave = o.update_on_host = false;
    o.frozen = true;
    o.packed = packed;
    if (packed) o.t = FW_BF16;
    return o;
}
