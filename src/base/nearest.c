#include "base/nearest.h"

#include <string.h>

enum { LONGEST = 64 }; /* longer names are nobody's misspelling */

static int least(int a, int b) { return a < b ? a : b; }

static int alignment_distance(const char *a, int a_n, const char *b, int b_n) {
    int row[3][LONGEST + 1]; /* rows i - 2, i - 1 and i of the table, in turn */
    for (int j = 0; j <= b_n; j++) row[0][j] = j;
    for (int i = 1; i <= a_n; i++) {
        int *now = row[i % 3];
        const int *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= b_n; j++) {
            int changed = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(changed, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], two_before[j - 2] + 1);
        }
    }
    return row[a_n % 3][b_n];
}

void fw_nearest_start(fw_nearest *n, const char *name) { *n = (fw_nearest){.name = name, .distance = LONGEST}; }

void fw_nearest_offer(fw_nearest *n, const char *candidate) {
    size_t name_n = strnlen(n->name, LONGEST + 1), candidate_n = strlen(candidate);
    if (name_n == 0 || name_n > LONGEST || candidate_n > LONGEST) return;
    int distance = alignment_distance(n->name, (int)name_n, candidate, (int)candidate_n);
    int near = distance <= 1 + (int)name_n / 4;
    if (name_n >= 4 && strstr(candidate, n->name) != NULL) {
        near = 1;
        distance = least(distance, strncmp(candidate, n->name, name_n) == 0 ? 2 : 3);
    }
    if (!near || distance >= n->distance) return;
    n->distance = distance;
    n->best = candidate;
}
