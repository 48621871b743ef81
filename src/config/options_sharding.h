/* The options of sharding, which people write in the words of three other programs: one meaning is made of them.
 *
 * strategy and fsdp name a strategy, fsdp_reshard_after_forward changes one, fsdp_min_num_params and
 * fsdp_transformer_layer_cls_to_wrap imply a wrap, fsdp_forward_prefetch and fsdp_backward_prefetch a prefetch. What the
 * command line says wins over the recipe; two that stand in the same place and contradict each other are an error. */
#ifndef FW_CONFIG_OPTIONS_SHARDING_H
#define FW_CONFIG_OPTIONS_SHARDING_H

#include "config/options.h"

/* Fill in strategy, wrap, fsdp_min_num_params and prefetch from what was written; called by fw_options_check, and
 * changes nothing when called again. Errors: FW_ERR_OPTION naming both options and where they stand. */
fw_status fw_options_resolve_sharding(fw_options *o);

/* Ranks that share out one copy of the model with hsdp: shard_group_size, or when that is 0 the ranks of a host, which
 * makes hsdp on one host the same as zero3 (and hsdp_zero2 the same as zero2), as in FSDP. Errors: FW_ERR_OPTION when
 * it does not divide the world; the message lists what does. */
fw_status fw_options_shard_group(int *group_size, const fw_options *o, int world, int ranks_on_host);

#endif
