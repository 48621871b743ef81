/* Files of measurements from anywhere: read, and times asked of whatever was accepted. */
#include "machine/measured.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fw_measured m;
    if (fw_measured_parse(&m, (const char *)data, size, "measured.json") != FW_OK) return 0;
    for (int i = 0; i < m.record_n; i++) {
        const fw_measured_record *r = &m.record[i];
        FW_ASSERT(fw_measured_find(&m, &r->key) == r || r->key.host[0] == 0 || r->key.device[0] == 0 ||
                  r->key.transport[0] == 0 || r->key.thread_n == 0 || r->key.dtype == FW_DTYPE_N);
        FW_ASSERT(fw_measured_rate(r) > 0);
        for (double amount = 1; amount < 1e20; amount *= 1000) {
            double seconds = fw_measured_seconds(r, amount);
            FW_ASSERT(seconds > 0 && !isnan(seconds));
        }
    }
    fw_measured_fini(&m);
    return 0;
}
