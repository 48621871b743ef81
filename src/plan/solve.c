#include "plan/solve.h"

enum { LENGTH_MOST = 1 << 24, BATCH_MOST = 65536 };

typedef fw_status (*fit_test)(bool *fits, const fw_plan_scenario *s, fw_shard_strategy strategy, int64_t value);

static fw_status length_fits(bool *fits, const fw_plan_scenario *s, fw_shard_strategy strategy, int64_t value) {
    fw_plan_scenario tried = *s;
    fw_plan_case c;
    tried.length = value;
    *fits = false;
    if (tried.batch * value > INT32_MAX) return FW_OK; /* the most tokens of a micro-batch */
    FW_TRY(fw_plan_case_make(&c, &tried, strategy));
    *fits = c.possible && c.fits;
    return FW_OK;
}

static fw_status batch_fits(bool *fits, const fw_plan_scenario *s, fw_shard_strategy strategy, int64_t value) {
    fw_plan_scenario tried = *s;
    tried.batch = value;
    return length_fits(fits, &tried, strategy, s->length);
}

/* The largest value up to `most` that fits; what is needed grows with the value. */
static fw_status largest(int64_t *out, const fw_plan_scenario *s, fw_shard_strategy strategy, int64_t most,
                         fit_test test) {
    int64_t good = 0, bad = 1;
    bool fits;
    for (; bad <= most; bad *= 2) { /* first a bound, by doubling */
        FW_TRY(test(&fits, s, strategy, bad));
        if (!fits) break;
        good = bad;
    }
    if (bad > most) bad = most + 1;
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        FW_TRY(test(&fits, s, strategy, middle));
        *(fits ? &good : &bad) = middle;
    }
    *out = good;
    return FW_OK;
}

fw_status fw_plan_longest(int64_t *out, const fw_plan_scenario *s, fw_shard_strategy strategy) {
    const int64_t made_for = s->model->config.max_position;
    return largest(out, s, strategy, made_for > 0 && made_for < LENGTH_MOST ? made_for : LENGTH_MOST, length_fits);
}

fw_status fw_plan_largest_batch(int64_t *out, const fw_plan_scenario *s, fw_shard_strategy strategy) {
    return largest(out, s, strategy, BATCH_MOST, batch_fits);
}

static fw_status devices_fit(bool *fits, const fw_plan_scenario *s, fw_shard_strategy strategy, int world) {
    fw_plan_scenario tried = *s;
    fw_plan_case c;
    *fits = false;
    if (!fw_plan_site_resize(&tried.site, world)) return FW_OK;
    if (strategy == FW_SHARD_HSDP || strategy == FW_SHARD_HSDP_ZERO2) tried.group_n = tried.site.node_n;
    FW_TRY(fw_plan_case_make(&c, &tried, strategy));
    *fits = c.possible && c.fits;
    return FW_OK;
}

/* Numbers of devices that make whole machines: 1, 2 .. node_cap, 2 node_cap, 3 node_cap .. */
static int at(const fw_plan_scenario *s, int index) {
    const int cap = s->site.node_cap;
    return index <= cap ? index : (index - cap + 1) * cap;
}

/* More devices never need more each, but for padding and for what more than one brings with it (links' buffers, units at
 * work); so 1 to 8 are tried one by one, and from there bounds are halved, and the last step looked at again. */
fw_status fw_plan_fewest_devices(int *out, const fw_plan_scenario *s, fw_shard_strategy strategy) {
    enum { ONE_BY_ONE = 8 };
    bool fits;
    int bad = 0, good, last = 1;
    *out = 0;
    while (at(s, last + 1) <= FW_PLAN_MOST_DEVICES) last++;
    for (int i = 1; i <= ONE_BY_ONE && i <= last; i++) {
        FW_TRY(devices_fit(&fits, s, strategy, at(s, i)));
        if (fits) {
            *out = at(s, i);
            return FW_OK;
        }
        bad = i;
    }
    FW_TRY(devices_fit(&fits, s, strategy, at(s, last)));
    if (!fits) return FW_OK;
    for (good = last; good - bad > 1;) {
        const int middle = bad + (good - bad) / 2;
        FW_TRY(devices_fit(&fits, s, strategy, at(s, middle)));
        *(fits ? &good : &bad) = middle;
    }
    *out = at(s, good);
    return FW_OK;
}
