/* Names of hosts and where they lead. */
#include "machine/read.h"

#include "base/alloc.h"
#include "machine/sysfs.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum { HOST_CAP = 1024 };

/* Text of an address, and whether it is the loopback's; false for a family that is neither IPv4 nor IPv6. */
static bool address_text(char out[INET6_ADDRSTRLEN], bool *loopback, const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct in_addr *v4 = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
        *loopback = (ntohl(v4->s_addr) >> 24) == 127;
        return inet_ntop(AF_INET, v4, out, INET6_ADDRSTRLEN) != NULL;
    }
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        *loopback = IN6_IS_ADDR_LOOPBACK(v6);
        return inet_ntop(AF_INET6, v6, out, INET6_ADDRSTRLEN) != NULL;
    }
    return false;
}

static void look_up(fw_machine_host *host, const char *name, size_t name_n) {
    fw_sysfs_clean(host->name, sizeof host->name, name, name_n);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int reason = getaddrinfo(host->name, NULL, &hints, &found);
    if (reason != 0) {
        snprintf(host->error, sizeof host->error, "%s", gai_strerror(reason));
        return;
    }
    host->only_loopback = true;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        char text[INET6_ADDRSTRLEN];
        bool loopback = false;
        if (!address_text(text, &loopback, at->ai_addr)) continue;
        const size_t used = strlen(host->addresses);
        host->only_loopback = host->only_loopback && loopback;
        if (used + strlen(text) + 2 < sizeof host->addresses)
            snprintf(host->addresses + used, sizeof host->addresses - used, "%s%s", used > 0 ? " " : "", text);
    }
    freeaddrinfo(found);
}

fw_status fw_machine_read_hosts(fw_machine *m, const char *hosts) {
    char name[FW_MACHINE_LIST_BYTES] = "";
    if (gethostname(name, sizeof name) == 0) fw_sysfs_clean(m->host_name, sizeof m->host_name, name, sizeof name);
    if (hosts == NULL) return FW_OK;
    size_t n = 2;
    for (const char *at = hosts; *at != 0; at++) n += *at == ',';
    if (n > HOST_CAP) n = HOST_CAP;
    FW_TRY(FW_NEW_ARRAY(m->host, n));
    look_up(&m->host[m->host_n++], m->host_name, sizeof m->host_name);
    while (*hosts != 0 && (size_t)m->host_n < n) {
        const size_t name_n = strcspn(hosts, ",");
        if (name_n > 0) look_up(&m->host[m->host_n++], hosts, name_n);
        hosts += name_n + (hosts[name_n] == ',');
    }
    return FW_OK;
}
