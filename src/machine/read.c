/* A snapshot of this machine, part by part. */
#include "machine/read.h"

#include "base/alloc.h"
#include "machine/fields.h"
#include "machine/read_links.h"

#include <stdlib.h>

fw_status fw_machine_alloc_gpus(fw_machine *m, int n) {
    FW_TRY(FW_NEW_ARRAY(m->gpu, (size_t)n));
    FW_TRY(FW_NEW_ARRAY(m->pair, (size_t)n * (size_t)n));
    m->gpu_n = n;
    for (int i = 0; i < n; i++) fw_fields_clear(&m->gpu[i], fw_machine_gpu_fields);
    return FW_OK;
}

fw_status fw_machine_create(fw_machine **out) {
    FW_TRY(FW_NEW(*out));
    fw_fields_clear(*out, fw_machine_fields);
    fw_fields_clear(&(*out)->driver, fw_machine_driver_fields);
    fw_fields_clear(&(*out)->cpu, fw_machine_cpu_fields);
    return FW_OK;
}

fw_status fw_machine_read(fw_machine **out, const fw_machine_source *source) {
    static const fw_machine_source here = {0};
    if (source == NULL) source = &here;
    const char *root = source->root != NULL ? source->root : "";
    fw_machine *m;
    fw_status status;
    *out = NULL;
    FW_TRY(fw_machine_create(&m));
    FW_TRY_OR(fw_machine_read_cpu(m, root), failed);
    fw_machine_read_system(m, root);
    FW_TRY_OR(fw_machine_read_nvml(m, root, source->nvml), failed);
    FW_TRY_OR(fw_machine_read_pci(m, root), failed);
    FW_TRY_OR(fw_machine_read_nics(m, root), failed);
    FW_TRY_OR(fw_machine_read_hosts(m, source->hosts), failed);
    FW_TRY_OR(fw_machine_read_settings(m, root), failed);
    *out = m;
    return FW_OK;
failed:
    fw_machine_destroy(m);
    return status;
}
