/* Parts of a data set: held-out conversations, and sets that count more or less than others.
 *
 * A selection shares the tokens of the data set it is made of, which lives as long as one of them. Which conversations
 * are chosen depends on their tokens and the seed alone, not on where they stand: a file that is sorted otherwise, or to
 * which others are added, gives the same answer for each. Conversations with the same tokens go the same way, so that
 * none is learnt and held out at once. */
#ifndef FW_DATA_SELECTION_H
#define FW_DATA_SELECTION_H

#include "data/dataset.h"

/* val_size: below 1 the share of the conversations that is held out, else how many. Copies of one conversation stay
 * together, so there may be a few more. *train takes the place of d, which may not be used any more, also after a failure.
 * Errors: FW_ERR_OPTION when nothing is left to learn, FW_ERR_NOMEM. */
fw_status fw_dataset_split(fw_dataset **train, fw_dataset **val, fw_dataset *d, double val_size, uint64_t seed);

/* Every set as often as its weight says: 2 lists its conversations twice, 0.5 exactly half of them (rounded), the same ones in
 * every epoch; 1.5 all of them and half of them again. weight: one a set, set_n of them. *out takes the place of d as above; it
 * is d itself when all weights are 1. Errors: FW_ERR_OPTION when a weight leaves nothing of a set, FW_ERR_NOMEM. */
fw_status fw_dataset_weigh(fw_dataset **out, fw_dataset *d, const double *weight, int32_t set_n, uint64_t seed);

#endif
