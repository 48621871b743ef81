#include "train/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t requested;

static void on_signal(int signal_number) {
    if (requested) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    requested = 1;
}

void fw_interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction before; /* nohup ignores SIGHUP: leave it so */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

int fw_interrupt_requested(void) { return requested; }
