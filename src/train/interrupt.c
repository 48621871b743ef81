#include "train/interrupt.h"

#include "base/host.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* One press of Ctrl-C may arrive twice, by way of a wrapper that signals us and our group: that is no second wish. */
static const uint64_t bounce_ns = 200 * 1000 * 1000;

static volatile sig_atomic_t requested, /* by any of them */ wished; /* by one that may come twice */
static volatile uint64_t requested_ns;                               /* written and read by the handler only */

static void on_signal(int signal_number) {
    uint64_t now_ns = fw_host_now_ns(); /* clock_gettime may be called here */
    if (signal_number == SIGUSR1) {     /* a warning, not a wish: the SIGTERM that follows must not end the save */
        requested = 1;
        return;
    }
    if (wished) {
        if (now_ns - requested_ns <= bounce_ns) return;
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    requested_ns = now_ns;
    requested = wished = 1;
}

void fw_interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    /* SIGINT also where it was ignored: a script's shell does that to what it starts with &, and who sends it means it. */
    struct sigaction before; /* nohup ignores SIGHUP: leave it so */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

int fw_interrupt_requested(void) { return requested; }
