#include "shard/shard_schedule.h"

#include "base/alloc.h"

static void append(fw_shard_schedule *s, const fw_shard_layout *layout, int32_t unit) {
    int32_t bucket = layout->bucket_of_unit[unit];
    if (s->stay_n == 0 || s->stay[s->stay_n - 1].bucket != bucket) s->stay[s->stay_n++] = (fw_shard_stay){bucket, 0};
    s->stay[s->stay_n - 1].use_n++;
}

fw_status fw_shard_schedule_init(fw_shard_schedule *s, const fw_shard_layout *layout, fw_shard_pass pass) {
    int32_t unit_n = layout->table->unit_n;
    *s = (fw_shard_schedule){0};
    FW_TRY(FW_NEW_ARRAY(s->stay, 2 * (size_t)unit_n + 1));
    for (int32_t unit = 0; unit < unit_n; unit++) append(s, layout, unit); /* forward */
    append(s, layout, 0);                                                  /* loss */
    if (pass == FW_SHARD_PASS_TRAIN)
        for (int32_t unit = unit_n - 1; unit > 0; unit--) append(s, layout, unit); /* backward */
    return FW_OK;
}

void fw_shard_schedule_fini(fw_shard_schedule *s) {
    fw_free(s->stay);
    *s = (fw_shard_schedule){0};
}
