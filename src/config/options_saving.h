/* Rules of the options about checkpoints. Internal to the room, but for the reading of times. */
#ifndef FW_CONFIG_OPTIONS_SAVING_H
#define FW_CONFIG_OPTIONS_SAVING_H

#include "config/options.h"

fw_status fw_options_check_saving(const fw_options *o);

/* "1.5h", "90m", "5400s", or as Slurm writes limits: "1:30:00", "2-12:00:00". A plain number is refused: minutes to
 * some, seconds to others. Errors: FW_ERR_OPTION naming `name`. */
fw_status fw_options_read_time(double *seconds, const char *text, const char *name);

#endif
