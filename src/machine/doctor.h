/* What is wrong with a machine, for training: a table of checks, each of which looks at a snapshot and says what it finds,
 * with a remedy. Nothing is measured and nothing changed. */
#ifndef FW_MACHINE_DOCTOR_H
#define FW_MACHINE_DOCTOR_H

#include "machine/machine.h"

typedef enum fw_finding_level {
    FW_FINDING_NOTE,    /* good to know; not a fault */
    FW_FINDING_WARNING, /* slower than it must be, or may go wrong */
    FW_FINDING_BROKEN   /* a run would not start, or would end */
} fw_finding_level;

typedef struct fw_finding {
    fw_finding_level level;
    const char *check; /* its name in the table */
    char *text;        /* what, which value */
    char *remedy;      /* what to do */
} fw_finding;

typedef struct fw_findings {
    fw_finding *item;
    int n, cap;
    const char *check; /* the one that runs */
} fw_findings;

/* What a run would need beside the machine. Zeroes: nothing is known. */
typedef struct fw_doctor_context {
    int plugin_cuda_version;   /* of libfinewire_cuda.so: 13000; 0: it is not known */
    const char *plugin_error;  /* why there is no such plugin; NULL: there is, or it is not known */
    bool other_hosts;          /* a job over several hosts is meant */
    const char *output_dir;    /* NULL: no disk is looked at */
    int64_t disk_free_bytes;   /* where output_dir is or will be */
    int64_t checkpoint_bytes;  /* of one checkpoint; 0: not known */
    int64_t model_bytes;       /* of the trained model */
    int64_t checkpoint_keep_n; /* checkpoints that are kept; 0: all of them */
} fw_doctor_context;

typedef fw_status (*fw_check_run)(fw_findings *out, const fw_machine *m, const fw_doctor_context *c);
typedef struct fw_check {
    const char *name;  /* "pcie" */
    const char *about; /* what it looks at */
    bool of_gpus;      /* without GPUs there is nothing that it could find fine */
    fw_check_run run;  /* errors: FW_ERR_NOMEM */
} fw_check;

/* NULL after the last. */
const fw_check *fw_check_at(size_t i);
/* All checks, in the order of the table. *out is zeroed before; release with fw_findings_fini in any case. */
fw_status fw_doctor_run(fw_findings *out, const fw_machine *m, const fw_doctor_context *c);
void fw_findings_fini(fw_findings *f);
/* The gravest level; -1 when there is none. */
int fw_findings_worst(const fw_findings *f);

/* For checks: one more finding. remedy and text are formats with the arguments of text first; here both are whole. */
fw_status fw_finding_add(fw_findings *f, fw_finding_level level, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
