/* Weights of targets, kept as runs: they belong to messages, so few numbers say them all, and a set without any has none.
 * A run lies inside one sample and holds targets only; what no run holds counts as one. */
#ifndef FW_DATA_WEIGHT_RUNS_H
#define FW_DATA_WEIGHT_RUNS_H

#include "data/dataset.h"

/* The runs of a sample that is about to be added: trained and weight have one entry for each of its tokens. */
fw_status fw_weight_runs_add(fw_dataset *d, const fw_sample *sample, const uint8_t *trained,
                             const fw_loss_weight *weight);
/* Append the runs of another set, whose tokens come behind the `token_n` of this one. */
fw_status fw_weight_runs_join(fw_dataset *d, const fw_dataset *other, int64_t token_n);

/* Runs *first .. *last - 1 are the sample's. */
void fw_weight_runs_of(const fw_dataset *d, const fw_sample *sample, int64_t *first, int64_t *last);
/* Sum of the weights of its targets, in units of fw_loss_weight. */
int64_t fw_weight_runs_sum(const fw_dataset *d, const fw_sample *sample);

/* Do the runs, which may come from anywhere, keep to what is said above, for samples that are sound? */
int fw_weight_runs_are_sound(const fw_dataset *d);

#endif
