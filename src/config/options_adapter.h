/* Rules of options about adapters. Internal to the room. */
#ifndef FW_CONFIG_OPTIONS_ADAPTER_H
#define FW_CONFIG_OPTIONS_ADAPTER_H

#include "config/options.h"

/* An adapter that is read is what its folder says: options that say it too are refused. It is an adapter: use_peft is set.
 * Errors: FW_ERR_OPTION. */
fw_status fw_options_check_adapter(fw_options *o);

/* Warn of options of an adapter where none is trained. */
void fw_options_warn_adapter(const fw_options *o);
/* Of commands that do not train. Errors: FW_ERR_OPTION. */
fw_status fw_options_check_packing(const fw_options *o);

#endif
