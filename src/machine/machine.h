/* A snapshot of a machine: GPUs and the links between them, cores, memory, network, and the settings of the system that
 * slow or break a run. Facts only; what follows from them is said elsewhere (doctor.h, the room plan).
 *
 * Facts come from NVML (the library of nvidia-smi, opened at run time), from /sys and /proc, and from a few system calls.
 * A snapshot can be saved as a JSON file and loaded again, so that a machine can be looked at from another one and tests
 * have machines that nobody owns (tests/data/machine).
 *
 * Unknown is said, never guessed: numbers are FW_MACHINE_UNKNOWN (-1), texts are "". Nothing that a driver, a file or the
 * system says is believed without a check of its bounds; what is nonsense counts as unknown. */
#ifndef FW_MACHINE_MACHINE_H
#define FW_MACHINE_MACHINE_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FW_MACHINE_UNKNOWN = -1,
    FW_MACHINE_NAME_BYTES = 96,
    FW_MACHINE_LIST_BYTES = 256, /* "0-47,96-143" */
    FW_MACHINE_PCI_BYTES = 24,   /* "0000:17:00.0": domain, bus, device and function in lower case, as in /sys */
    FW_MACHINE_GPU_CAP = 64,
    FW_MACHINE_NIC_CAP = 64,
    FW_MACHINE_NUMA_CAP = 64,
    FW_MACHINE_PROCESS_CAP = 16, /* of one GPU; the rest is counted only */
    FW_MACHINE_BRIDGE_CAP = 256
};
#define FW_MACHINE_UNLIMITED INT64_MAX

/* ---- GPUs ---- */

/* How far the way over PCIe is, in the words of nvidia-smi topo -m; the order is that of nearness. */
typedef enum fw_machine_level {
    FW_LEVEL_UNKNOWN,
    FW_LEVEL_SELF, /* X */
    FW_LEVEL_PIX,  /* one PCIe switch at most */
    FW_LEVEL_PXB,  /* several switches, but not the host bridge */
    FW_LEVEL_PHB,  /* the host bridge: through the CPU */
    FW_LEVEL_NODE, /* several host bridges of one NUMA node */
    FW_LEVEL_SYS,  /* the link between NUMA nodes */
    FW_LEVEL_N
} fw_machine_level;

/* Whether one GPU may read (or write) another's memory, as the driver says. */
typedef enum fw_machine_p2p {
    FW_P2P_UNKNOWN,
    FW_P2P_OK,
    FW_P2P_CHIPSET,  /* CNS: the chipset is not supported */
    FW_P2P_GPU,      /* GNS: the GPU (consumer cards) or its driver does not do it */
    FW_P2P_TOPOLOGY, /* TNS: too far apart */
    FW_P2P_DISABLED, /* DR: switched off by a setting of the driver */
    FW_P2P_NONE,     /* NS: not supported */
    FW_P2P_N
} fw_machine_p2p;

typedef struct fw_machine_pair {
    fw_machine_level level; /* over PCIe, whether or not there is NVLink */
    int nvlink_n;           /* NVLinks that join the two, directly or through a switch; 0: none */
    bool nvswitch;          /* through a switch: every pair has all of them, but not all pairs at once */
    fw_machine_p2p read, write;
} fw_machine_pair;

typedef struct fw_machine_process {
    int64_t pid, memory_bytes;
    char name[32]; /* "" when it belongs to another container, or is gone */
    char state;    /* of /proc/PID/stat: R, S, D, Z, ...; 0: it cannot be seen from here */
    bool orphan;   /* its parent has ended */
} fw_machine_process;

typedef enum fw_machine_compute_mode {
    FW_COMPUTE_UNKNOWN = -1,
    FW_COMPUTE_DEFAULT,
    FW_COMPUTE_EXCLUSIVE_THREAD,
    FW_COMPUTE_PROHIBITED,
    FW_COMPUTE_EXCLUSIVE_PROCESS
} fw_machine_compute_mode;

typedef struct fw_machine_gpu {
    int index; /* NVML's. CUDA may count otherwise (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER): compare pci_id */
    char name[FW_MACHINE_NAME_BYTES], uuid[FW_MACHINE_NAME_BYTES], pci_id[FW_MACHINE_PCI_BYTES];
    int compute_major, compute_minor; /* 9, 0 */
    int64_t memory_bytes, memory_used_bytes;
    /* What the link does now, and the most that this card in this slot can do. An idle GPU lowers the generation, never
     * the width. slot_*: the most of the port that the card is plugged into; card_*: of the card alone. */
    int pcie_gen, pcie_gen_max, pcie_width, pcie_width_max;
    int slot_gen_max, slot_width_max, card_gen_max, card_width_max;
    int utilization_percent;
    int performance_state; /* 0 fastest .. 15 */
    int nvlink_n;          /* active links, whoever they lead to */
    int nvlink_down_n;     /* links that the card has and that are not active */
    int fabric_state;      /* of an NVSwitch system: 0 has none, 1 not started, 2 in progress, 3 done */
    fw_machine_compute_mode compute_mode;
    int mig; /* 1: cut into instances */
    int persistence;
    int64_t ecc_uncorrected_n;              /* since the driver was loaded */
    int64_t throttle_reasons;               /* bits FW_THROTTLE_* */
    int numa;                               /* node */
    char cpus[FW_MACHINE_LIST_BYTES];       /* near it */
    char host_bridge[FW_MACHINE_PCI_BYTES]; /* "pci0000:15" */
    int process_n;                          /* may be more than FW_MACHINE_PROCESS_CAP */
    fw_machine_process process[FW_MACHINE_PROCESS_CAP];
} fw_machine_gpu;

/* Why clocks are lower than they could be: NVML's bits. */
enum {
    FW_THROTTLE_IDLE = 0x1,
    FW_THROTTLE_POWER_CAP = 0x4,
    FW_THROTTLE_HW_SLOWDOWN = 0x8,
    FW_THROTTLE_SW_THERMAL = 0x20,
    FW_THROTTLE_HW_THERMAL = 0x40,
    FW_THROTTLE_POWER_BRAKE = 0x80
};

/* What happened when the driver's library was asked. */
typedef enum fw_machine_driver_state {
    FW_DRIVER_MISSING, /* no library */
    FW_DRIVER_OK,
    FW_DRIVER_MISMATCH, /* the library and the kernel's module are of different versions */
    FW_DRIVER_FAILED    /* it is there and gives an error */
} fw_machine_driver_state;

typedef struct fw_machine_driver {
    fw_machine_driver_state state;
    char error[FW_MACHINE_NAME_BYTES];                                  /* of a failure, in words */
    char version[FW_MACHINE_NAME_BYTES], module[FW_MACHINE_NAME_BYTES]; /* of the library, of the kernel's module */
    int cuda_version;                                                   /* 12040 is CUDA 12.4: the newest it can run */
    int lost_gpu_n;                                                     /* "has fallen off the bus" */
    int pci_gpu_n; /* NVIDIA GPUs in the PCI list of the system, with or without a driver */
} fw_machine_driver;

/* ---- network ---- */

typedef struct fw_machine_nic {
    char name[32];                     /* "mlx5_0"; "eth0" */
    char pci_id[FW_MACHINE_PCI_BYTES]; /* "" of a virtual one */
    bool rdma;                         /* of /sys/class/infiniband; otherwise of /sys/class/net */
    char layer[16];                    /* "InfiniBand" or "Ethernet" */
    char state[16];                    /* "ACTIVE", "DOWN", ...; "up", "down" */
    double gbit_per_s;
    int numa;
} fw_machine_nic;

/* What the name of a host leads to. */
typedef struct fw_machine_host {
    char name[FW_MACHINE_LIST_BYTES];
    char error[FW_MACHINE_NAME_BYTES];     /* why it does not lead anywhere; "" when it does */
    char addresses[FW_MACHINE_LIST_BYTES]; /* "10.0.0.7 fd00::7" */
    bool only_loopback;
} fw_machine_host;

/* ---- CPU, memory, system ---- */

/* What kernels of the cpu device use, and what is next. */
enum {
    FW_CPU_AVX2 = 1 << 0,   /* with FMA and F16C */
    FW_CPU_AVX512 = 1 << 1, /* F, BW, DQ and VL */
    FW_CPU_AVX512_BF16 = 1 << 2,
    FW_CPU_AMX_BF16 = 1 << 3,
    FW_CPU_NEON = 1 << 4,
    FW_CPU_ARM_BF16 = 1 << 5,
    FW_CPU_SVE = 1 << 6
};

typedef struct fw_machine_numa {
    int node;
    char cpus[FW_MACHINE_LIST_BYTES];
    int64_t memory_bytes, memory_free_bytes;
} fw_machine_numa;

typedef struct fw_machine_cpu {
    char model[FW_MACHINE_NAME_BYTES];
    char vendor[16], arch[16];      /* "GenuineIntel", "AuthenticAMD"; "x86_64" */
    int socket_n, core_n, thread_n; /* online */
    int usable_n;                   /* threads that this process may run on */
    double quota_cpus;              /* of the cgroup; FW_MACHINE_UNKNOWN: none */
    int64_t l1d_bytes, l2_bytes, l3_bytes;
    int l3_n;
    unsigned features; /* bits FW_CPU_* */
    char governor[32];
} fw_machine_cpu;

/* A PCIe bridge between a GPU and the CPU, and what it does to peer traffic. */
typedef struct fw_machine_bridge {
    char pci_id[FW_MACHINE_PCI_BYTES];
    int acs; /* its ACS control register; FW_MACHINE_UNKNOWN: not readable (root may); FW_ACS_NONE: it has none */
} fw_machine_bridge;
enum {
    FW_ACS_NONE = -2,
    FW_ACS_SOURCE_VALIDATION = 0x01,
    FW_ACS_REQUEST_REDIRECT = 0x04, /* peer traffic goes up to the CPU instead of across the switch */
    FW_ACS_COMPLETION_REDIRECT = 0x08,
    FW_ACS_UPSTREAM_FORWARDING = 0x10
};

typedef enum fw_machine_iommu {
    FW_IOMMU_UNKNOWN = -1,
    FW_IOMMU_OFF,
    FW_IOMMU_PASSTHROUGH, /* on, devices see addresses as they are */
    FW_IOMMU_TRANSLATING
} fw_machine_iommu;

typedef struct fw_machine_setting {
    char *name, *value;
    char *file; /* of NCCL's settings that it stands in; NULL: the environment */
} fw_machine_setting;

typedef struct fw_machine {
    char host_name[FW_MACHINE_LIST_BYTES], kernel[FW_MACHINE_NAME_BYTES];
    char container[32];                          /* "docker", "kubernetes", "podman", "lxc"; "" none seen */
    char virtual_machine[FW_MACHINE_NAME_BYTES]; /* "KVM", "QEMU Standard PC"; "" none seen */

    fw_machine_driver driver;
    int gpu_n;
    fw_machine_gpu *gpu;
    fw_machine_pair *pair; /* gpu_n x gpu_n: fw_machine_pair_of */

    fw_machine_cpu cpu;
    int numa_n;
    fw_machine_numa *numa;
    int64_t memory_bytes, memory_available_bytes, memory_limit_bytes; /* limit: of the cgroup */
    int64_t shm_bytes, shm_free_bytes;                                /* /dev/shm */
    int64_t memlock_bytes, memlock_hard_bytes, nofile_n, nofile_hard_n;

    fw_machine_iommu iommu;
    int bridge_n;
    fw_machine_bridge *bridge;

    int nic_n;
    fw_machine_nic *nic;
    fw_machine_level *nic_level; /* nic_n x gpu_n */
    int clock_synchronised;      /* 1, 0 */
    int64_t clock_error_us;
    int host_n; /* looked up: this one first, then those that were asked for */
    fw_machine_host *host;

    int setting_n; /* NCCL_* and CUDA_* in the environment, and what NCCL takes from /etc/nccl.conf and ~/.nccl.conf */
    fw_machine_setting *setting;
} fw_machine;

/* ---- from where ---- */

typedef struct fw_machine_source {
    const char *root;  /* before /sys and /proc; NULL: "" */
    const char *nvml;  /* library; NULL: what FINEWIRE_NVML says, or libnvidia-ml.so.1 */
    const char *hosts; /* names of other hosts, between commas, to be looked up beside this one's; "": only this one's;
                        * NULL: none, for a name server may take seconds */
} fw_machine_source;

/* *out: this machine, as seen from this process. source may be NULL. A source that is missing or lies leaves facts
 * unknown and is no error. No CUDA context is made and no memory of a GPU is taken. Takes some 10 ms for 8 GPUs.
 * Errors: FW_ERR_NOMEM. */
fw_status fw_machine_read(fw_machine **out, const fw_machine_source *source);
/* A saved snapshot. Errors: FW_ERR_INPUT with file, key and value; FW_ERR_NOMEM. */
fw_status fw_machine_load(fw_machine **out, const char *path);
fw_status fw_machine_save(const fw_machine *m, const char *path);
/* The same as a value, owned by the caller. */
fw_status fw_machine_to_json(json_t **out, const fw_machine *m);
fw_status fw_machine_from_json(fw_machine **out, const json_t *root, const char *where);
void fw_machine_destroy(fw_machine *m); /* takes NULL */

/* ---- looking at it ---- */

static inline const fw_machine_pair *fw_machine_pair_of(const fw_machine *m, int a, int b) {
    return &m->pair[a * m->gpu_n + b];
}
/* The GPU of this PCI bus id, in any of the ways of writing it ("00000000:17:00.0", "0000:17:00"); -1: none. */
int fw_machine_find_gpu(const fw_machine *m, const char *pci_id);
/* "PIX", "SYS", "X", "?"; "OK", "GNS", "?". Never NULL. */
const char *fw_machine_level_name(fw_machine_level level);
const char *fw_machine_p2p_name(fw_machine_p2p p2p);
/* One cell of nvidia-smi's table: "X", "NV18", "PIX". Returns out (12 bytes). */
const char *fw_machine_pair_text(char out[12], const fw_machine *m, int a, int b);
/* What such a link moves in one direction, after encoding; 0 when one of the two is unknown. Generation 4, 16 lanes:
 * 31.5e9. */
double fw_machine_pcie_bytes_per_s(int generation, int width);
/* A variable of the snapshot; NULL when it is not set. */
const fw_machine_setting *fw_machine_find_setting(const fw_machine *m, const char *name);
const char *fw_machine_setting_of(const fw_machine *m, const char *name); /* its value; NULL */

#endif
