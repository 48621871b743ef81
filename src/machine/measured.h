/* What was measured on this machine: times of collectives, matrix products, memory and disk, kept in a JSON file
 * that `finewire bench --save` writes and `plan` reads.
 *
 * A record says how long an amount of work takes, at several amounts:
 *
 *     collectives     amount = bytes of the buffer as nccl-tests count it (all_reduce: the buffer; all_gather,
 *                     reduce_scatter, all_to_all: the whole buffer of a rank, of `world` parts; broadcast: the message)
 *     gemm            amount = 2 m n k floating-point operations of one product, all ranks at it at once
 *     memcpy          amount = bytes copied, each read once and written once
 *     update          amount = bytes read and written by a pass like AdamW's
 *     disk            amount = bytes of the file, on its way to the disk itself (fsync), or from it
 *
 * The time is that of the slowest rank. A record belongs to one machine, device, transport, number of ranks, threads of
 * a rank and number type; fields that mean nothing for its kind are empty (see fw_measured_key). */
#ifndef FW_MACHINE_MEASURED_H
#define FW_MACHINE_MEASURED_H

#include "base/dtype.h"
#include "base/status.h"

typedef enum fw_measured_what {
    FW_MEASURED_ALL_REDUCE,
    FW_MEASURED_ALL_GATHER,
    FW_MEASURED_REDUCE_SCATTER,
    FW_MEASURED_BROADCAST,
    FW_MEASURED_ALL_TO_ALL,
    FW_MEASURED_GEMM,
    FW_MEASURED_MEMCPY,
    FW_MEASURED_UPDATE,
    FW_MEASURED_DISK_WRITE,
    FW_MEASURED_DISK_READ,
    FW_MEASURED_WHAT_N
} fw_measured_what;
/* "all_reduce", "gemm", "disk_write", ...: as in the file. */
const char *fw_measured_name(fw_measured_what what);

enum { FW_MEASURED_POINTS = 64, FW_MEASURED_TEXT_BYTES = 256, FW_MEASURED_RECORDS = 4096 };

/* What a measurement is of. In a search, "", 0 and FW_DTYPE_N stand for any. */
typedef struct fw_measured_key {
    fw_measured_what what;
    char host[FW_MEASURED_TEXT_BYTES];   /* fw_measured_host of the machine */
    char device[FW_MEASURED_TEXT_BYTES]; /* "cpu", "ref", or the GPU's name; of a disk: the folder, absolute */
    char transport[16];                  /* collectives: "shm", "mpi", "nccl" */
    int world;                           /* ranks, all working at once; 1 for a disk */
    int thread_n;                        /* of one rank; 0 on a GPU and for a disk */
    fw_dtype dtype;                      /* FW_F32 or FW_BF16; FW_DTYPE_N where bytes are bytes */
} fw_measured_key;

typedef struct fw_measured_point {
    double amount, seconds; /* amounts rise from point to point; both above 0 */
} fw_measured_point;

typedef struct fw_measured_record {
    fw_measured_key key;
    char date[32]; /* "2026-11-29" */
    int point_n;   /* at least 1 */
    fw_measured_point point[FW_MEASURED_POINTS];
} fw_measured_record;

/* All that a file holds. Zero-initialise it; release with fini. */
typedef struct fw_measured {
    fw_measured_record *record;
    int record_n;
} fw_measured;
void fw_measured_fini(fw_measured *m);

/* This machine in the file, "NAME: CPU MODEL, 8 CPUs": its name and what must be the same for a measurement to hold. */
void fw_measured_host(char out[FW_MEASURED_TEXT_BYTES]);

/* *out (heap) = where measurements are kept: `given` when not NULL or empty, else $FINEWIRE_MEASURED, else
 * finewire/measured.json in $XDG_CONFIG_HOME, else in ~/.config. Errors: FW_ERR_OPTION (none of these is set). */
fw_status fw_measured_path(char **out, const char *given);
/* Read the file; one that is not there holds nothing. Errors: FW_ERR_INPUT naming file, record and value. */
fw_status fw_measured_load(fw_measured *out, const char *path);
/* The same for a text; `where` is its name in messages. */
fw_status fw_measured_parse(fw_measured *out, const char *text, size_t text_bytes, const char *where);
/* Write it, atomically; makes the folder. */
fw_status fw_measured_save(const fw_measured *m, const char *path);
/* Add a record; one with the same key is replaced. Errors: FW_ERR_NOMEM, FW_ERR_INPUT (4096 records are held). */
fw_status fw_measured_put(fw_measured *m, const fw_measured_record *record);

/* The last record that the key describes; NULL when there is none. Borrowed from m, until the next put. */
const fw_measured_record *fw_measured_find(const fw_measured *m, const fw_measured_key *key);
/* How long this amount takes: between two points on the line through them; below the first, the first point's time (the
 * latency); above the last, in proportion to the last. Seconds; 0 for an amount of 0. */
double fw_measured_seconds(const fw_measured_record *record, double amount);
/* The best amount per second among the points: bandwidth or operations. */
double fw_measured_rate(const fw_measured_record *record);

#endif
