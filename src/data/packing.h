/* Bins of samples. Used by data/batcher.h. */
#ifndef FW_DATA_PACKING_H
#define FW_DATA_PACKING_H

#include "config/options.h"
#include "data/dataset.h"

/* Put every sample into a bin of at most bin_tokens. Writes bin[s] for every sample; bins are numbered by their first
 * sample in file order. No sample is split.
 *   bfd         best fit decreasing: longest sample first, each into the fullest bin that still takes it (Johnson 1973: at
 *               most 11/9 of the fewest bins possible). O(samples * bin_tokens / 4096) at worst.
 *   sequential  next fit: in file order, into the bin before as long as it takes them. Neighbours stay together.
 * Errors: FW_ERR_OPTION when a sample is longer than a bin, FW_ERR_NOMEM. */
fw_status fw_packing_assign(int64_t *bin, int64_t *bin_n, const fw_dataset *dataset, int64_t bin_tokens,
                            fw_packing_strategy strategy);

#endif
