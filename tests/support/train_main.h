/* A test program that is its own finewire: started again with "train ..." (by way of /proc/self/exe) it starts ranks as
 * the command line does, and each of them trains with the hooks of the test instead of those of the display. */
#ifndef FW_TESTS_SUPPORT_TRAIN_MAIN_H
#define FW_TESTS_SUPPORT_TRAIN_MAIN_H

#include "train/trainer.h"

/* The exit code of the launcher, or of a rank. Call it first in main, when argc > 1. */
int fw_test_train_main(int argc, char **argv, const fw_train_hooks *hooks);

#endif
