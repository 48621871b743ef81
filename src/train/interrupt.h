/* SIGINT, SIGTERM and SIGUSR1 as a wish: the loop sees it after the running step, all ranks agree, save and stop. */
#ifndef FW_TRAIN_INTERRUPT_H
#define FW_TRAIN_INTERRUPT_H

/* From now on SIGINT, SIGTERM and SIGHUP only set the flag; a second one ends the process at once,
 * unless it follows within 0.2 s: a wrapper may pass on what the group was sent too. SIGUSR1, the warning of batch systems
 * (Slurm: --signal=USR1@120), counts as no first and no second. */
void fw_interrupt_install(void);
int fw_interrupt_requested(void);

#endif
