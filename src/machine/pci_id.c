#include "machine/pci_id.h"

#include <stdio.h>
#include <string.h>

/* 1 to `most` hexadecimal digits; moves *text behind them. */
static bool take_hex(unsigned *out, const char **text, int most) {
    int n = 0;
    *out = 0;
    for (; n < most; n++) {
        const char c = (*text)[n];
        if (c >= '0' && c <= '9')
            *out = *out * 16 + (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *out = *out * 16 + (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            *out = *out * 16 + (unsigned)(c - 'A') + 10;
        else
            break;
    }
    *text += n;
    return n > 0;
}

bool fw_pci_id_parse(char out[FW_MACHINE_PCI_BYTES], const char *text) {
    unsigned domain = 0, bus, device, function = 0;
    out[0] = 0;
    if (!take_hex(&domain, &text, 8) || *text++ != ':' || !take_hex(&bus, &text, 2)) return false;
    if (*text == ':') {
        text++;
        if (!take_hex(&device, &text, 2)) return false;
    } else { /* without a domain */
        if (domain > 0xff) return false;
        device = bus;
        bus = domain;
        domain = 0;
    }
    if (*text == '.') {
        text++;
        if (!take_hex(&function, &text, 1)) return false;
    }
    if (*text != 0 || device > 31 || function > 7) return false;
    snprintf(out, FW_MACHINE_PCI_BYTES, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return true;
}
