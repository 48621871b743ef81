/* The name of a transformer block, as the Python library calls its class: FSDP's configurations name what to wrap so. */
#ifndef FW_MODEL_WRAP_CLASS_H
#define FW_MODEL_WRAP_CLASS_H

#include "model/model_config.h"

/* class_name: one name or several between commas, as accelerate writes them; every one must be the block class of this
 * architecture, such as Qwen2DecoderLayer. NULL, nothing asked for, is right. Errors: FW_ERR_OPTION naming the one that
 * is not, and the right one. */
fw_status fw_wrap_check_class(const char *class_name, fw_architecture architecture);

#endif
