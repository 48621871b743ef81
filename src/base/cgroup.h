/* Limits of the control group that this process is in: those of its own group and of all above it, of cgroup v2
 * (/sys/fs/cgroup) and v1 (its cpu and memory controllers). root stands before /proc and /sys; "" for the real ones. */
#ifndef FW_BASE_CGROUP_H
#define FW_BASE_CGROUP_H

#include <stdint.h>

/* CPUs' worth of time: 1.5 is one and a half; negative when there is no limit. */
double fw_cgroup_cpus(const char *root);
/* The least memory that a group's limit leaves: *limit_bytes of that group, *left_bytes that can still be taken. 0 when
 * there is no limit. */
int fw_cgroup_memory(const char *root, uint64_t *limit_bytes, uint64_t *left_bytes);

#endif
