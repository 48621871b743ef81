/* The driver: is there one, does it fit its module and our plugin, does it show every GPU? */
#include "machine/checks.h"

#include "base/plural.h"

#include <string.h>

/* Missing or failing while there are GPUs; a module of another version; GPUs that are lost or not shown. */
fw_status fw_check_driver(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    const fw_machine_driver *d = &m->driver;
    (void)c;
    switch (d->state) {
    case FW_DRIVER_MISSING:
        if (d->pci_gpu_n <= 0) return FW_OK;
        return fw_finding_add(
            out, FW_FINDING_BROKEN,
            m->container[0] != 0
                ? "start the container with its GPUs (docker run --gpus all, with the NVIDIA container "
                  "toolkit)"
                : "install the NVIDIA driver (nvidia-smi must work)",
            "%d NVIDIA GPU%s here, but no driver: libnvidia-ml.so.1 is not found", d->pci_gpu_n,
            d->pci_gpu_n == 1 ? " is" : "s are");
    case FW_DRIVER_MISMATCH:
        return fw_finding_add(
            out, FW_FINDING_BROKEN,
            "reboot, or unload and load the modules nvidia_uvm, nvidia_drm, nvidia_modeset and nvidia",
            "the driver was updated under the running kernel: %s (module %s)", d->error,
            d->module[0] != 0 ? d->module : "unknown");
    case FW_DRIVER_FAILED:
        return fw_finding_add(
            out, FW_FINDING_BROKEN, "look at what nvidia-smi and dmesg say; update the driver, or reboot",
            "the NVIDIA driver does not work: %s", d->error[0] != 0 ? d->error : "it gives no reason");
    case FW_DRIVER_OK: break;
    }
    if (d->version[0] != 0 && d->module[0] != 0 && strcmp(d->version, d->module) != 0)
        FW_TRY(fw_finding_add(out, FW_FINDING_WARNING, "reboot, so that both are of one version",
                              "the driver's library is %s and its kernel module %s", d->version, d->module));
    if (d->lost_gpu_n > 0)
        return fw_finding_add(
            out, FW_FINDING_BROKEN,
            "look in dmesg for Xid 79; power the machine off and on; a card, riser or power cable may "
            "be bad",
            "%d GPU%s fallen off the bus", d->lost_gpu_n, d->lost_gpu_n == 1 ? " has" : "s have");
    if (d->pci_gpu_n > m->gpu_n && m->container[0] == 0)
        return fw_finding_add(
            out, FW_FINDING_WARNING, "look in dmesg for NVRM and Xid lines; the card may need a reset",
            "the PCI list has %d NVIDIA GPU%s, the driver shows %d", d->pci_gpu_n, fw_plural(d->pci_gpu_n), m->gpu_n);
    return FW_OK;
}

/* The plugin was built with a newer major version of CUDA than the driver is for; there is no plugin; the GPU is older
 * than the kernels. */
fw_status fw_check_cuda(fw_findings *out, const fw_machine *m, const fw_doctor_context *c) {
    enum { OLDEST_CAPABILITY = 8, OLDEST_CUDA = 12 };
    const int driver = m->driver.cuda_version, plugin = c->plugin_cuda_version;
    if (m->gpu_n == 0) return FW_OK;
    if (c->plugin_error != NULL)
        FW_TRY(fw_finding_add(out, FW_FINDING_WARNING, "make cuda builds the plugins where nvcc is",
                              "there are GPUs, and runs take the CPU: %s", c->plugin_error));
    if (plugin > 0 && driver > 0 && driver / 1000 < plugin / 1000)
        FW_TRY(fw_finding_add(out, FW_FINDING_BROKEN,
                              "update the driver, or build the plugin with the older CUDA (make cuda)",
                              "driver %s is for CUDA %d.%d at most, and the plugin was built with CUDA %d.%d",
                              m->driver.version, driver / 1000, driver % 1000 / 10, plugin / 1000, plugin % 1000 / 10));
    if (plugin == 0 && driver > 0 && driver / 1000 < OLDEST_CUDA)
        FW_TRY(fw_finding_add(
            out, FW_FINDING_WARNING, "update the driver",
            "driver %s is for CUDA %d.%d at most, and finewire's plugins are built with CUDA %d or later",
            m->driver.version, driver / 1000, driver % 1000 / 10, OLDEST_CUDA));
    uint64_t old = 0;
    char gpus[FW_GPU_SET_BYTES];
    for (int i = 0; i < m->gpu_n; i++)
        if (m->gpu[i].compute_major > 0 && m->gpu[i].compute_major < OLDEST_CAPABILITY) old |= (uint64_t)1 << i;
    if (old == 0) return FW_OK;
    return fw_finding_add(out, FW_FINDING_BROKEN, "leave them out with CUDA_VISIBLE_DEVICES",
                          "%s: compute capability below %d.0, and there are no kernels for it (no bf16)",
                          fw_gpu_set_text(gpus, m, old), OLDEST_CAPABILITY);
}
