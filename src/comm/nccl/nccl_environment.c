/* NCCL listens to many variables, and an inherited one can make a job several times slower without a word. */
#include "comm/nccl/nccl_internal.h"

#include "base/log.h"
#include "machine/settings.h"

#include <stdlib.h>

int fw_nccl_warn_environment(void) {
    int warned_n = 0;
    for (size_t i = 0; fw_setting_rule_at(i) != NULL; i++) {
        const char *variable = fw_setting_rule_at(i)->variable, *value = getenv(variable);
        const fw_setting_rule *rule = fw_setting_rule_of(variable, value);
        if (rule == NULL || rule->harm == FW_SETTING_TELLS) continue;
        fw_log_warning("%s=%.60s is set in the environment: %s; unset it unless you mean it", variable, value,
                       rule->effect);
        warned_n++;
    }
    return warned_n;
}
