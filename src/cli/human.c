/* Numbers as people read them. */
#include "cli/terminal.h"

#include <math.h>
#include <stdio.h>

const char *fw_human_size(char *out, uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, FW_HUMAN_BYTES, "%d B", (int)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    int unit = 0;
    /* 1023.95 would be shown as 1024.0 */
    for (; value >= 1023.95 && unit < 5; unit++) value /= 1024;
    snprintf(out, FW_HUMAN_BYTES, "%.1f %s", value, units[unit]);
    return out;
}

const char *fw_human_count(char *out, double count) {
    static const char *const units[] = {"k", "M", "G", "T"};
    if (!(fabs(count) >= 999.5)) {
        snprintf(out, FW_HUMAN_BYTES, "%.0f", count);
        return out;
    }
    double value = count / 1000;
    int unit = 0;
    for (; fabs(value) >= 999.95 && unit < 3; unit++) value /= 1000;
    snprintf(out, FW_HUMAN_BYTES, fabs(value) < 1e9 ? "%.1f %s" : "%.3g %s", value, units[unit]);
    return out;
}

const char *fw_human_duration(char *out, double seconds) {
    if (!(seconds >= 0 && seconds < 1e11)) {
        snprintf(out, FW_HUMAN_BYTES, "?");
        return out;
    }
    if (seconds < 59.95) {
        snprintf(out, FW_HUMAN_BYTES, "%.1f s", seconds);
        return out;
    }
    long long s = llround(seconds);
    if (s < 3600)
        snprintf(out, FW_HUMAN_BYTES, "%lld:%02lld", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, FW_HUMAN_BYTES, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, FW_HUMAN_BYTES, "%lld d %02lld:%02lld", s / 86400, s / 3600 % 24, s / 60 % 60);
    return out;
}
