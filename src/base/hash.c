#include "base/hash.h"

#include "base/file.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }

/* Little-endian whatever the machine is; compilers make one load of it. */
static uint64_t load64(const uint8_t *p) {
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

static uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t merge(uint64_t value, uint64_t lane) { return (value ^ mix(0, lane)) * P1 + P4; }

void fw_hash_init(fw_hash *h) { *h = (fw_hash){.lane = {P1 + P2, P2, 0, 0 - P1}}; }

/* Whole stripes of 32 bytes. The lanes are kept in registers meanwhile: stored after each stripe they took twice as long. */
static void stripes(fw_hash *h, const uint8_t *p, size_t stripe_n) {
    uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2], d = h->lane[3];
    for (; stripe_n > 0; stripe_n--, p += 32) {
        a = mix(a, load64(p));
        b = mix(b, load64(p + 8));
        c = mix(c, load64(p + 16));
        d = mix(d, load64(p + 24));
    }
    h->lane[0] = a, h->lane[1] = b, h->lane[2] = c, h->lane[3] = d;
}

void fw_hash_update(fw_hash *h, const void *bytes, size_t n_bytes) {
    const uint8_t *p = bytes;
    h->total_bytes += n_bytes;
    if (h->held_bytes > 0) {
        size_t take = sizeof h->held - h->held_bytes;
        if (take > n_bytes) take = n_bytes;
        if (take > 0) memcpy(h->held + h->held_bytes, p, take);
        h->held_bytes += take;
        p += take;
        n_bytes -= take;
        if (h->held_bytes < sizeof h->held) return;
        stripes(h, h->held, 1);
        h->held_bytes = 0;
    }
    stripes(h, p, n_bytes / sizeof h->held);
    p += n_bytes / sizeof h->held * sizeof h->held;
    n_bytes %= sizeof h->held;
    if (n_bytes > 0) memcpy(h->held, p, n_bytes);
    h->held_bytes = n_bytes;
}

uint64_t fw_hash_value(const fw_hash *h) {
    uint64_t value = P5;
    if (h->total_bytes >= sizeof h->held) {
        value = rotate(h->lane[0], 1) + rotate(h->lane[1], 7) + rotate(h->lane[2], 12) + rotate(h->lane[3], 18);
        for (int i = 0; i < 4; i++) value = merge(value, h->lane[i]);
    }
    value += h->total_bytes;
    const uint8_t *p = h->held;
    size_t left = h->held_bytes;
    for (; left >= 8; p += 8, left -= 8) value = rotate(value ^ mix(0, load64(p)), 27) * P1 + P4;
    if (left >= 4) {
        uint64_t word = (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
        value = rotate(value ^ word * P1, 23) * P2 + P3;
        p += 4;
        left -= 4;
    }
    for (; left > 0; p++, left--) value = rotate(value ^ *p * P5, 11) * P1;
    value = (value ^ value >> 33) * P2;
    value = (value ^ value >> 29) * P3;
    return value ^ value >> 32;
}

uint64_t fw_hash_bytes(const void *bytes, size_t n_bytes) {
    fw_hash h;
    fw_hash_init(&h);
    fw_hash_update(&h, bytes, n_bytes);
    return fw_hash_value(&h);
}

fw_status fw_hash_file(uint64_t *value, uint64_t *file_bytes, const char *path) {
    enum { PIECE_BYTES = 4 << 20 };
    fw_mapping mapping;
    FW_TRY(fw_file_map(&mapping, path));
    fw_hash h;
    fw_hash_init(&h);
    for (size_t at = 0; at < mapping.bytes;) {
        size_t take = mapping.bytes - at < PIECE_BYTES ? mapping.bytes - at : PIECE_BYTES;
        fw_hash_update(&h, mapping.data + at, take);
        fw_file_unmap_pages(&mapping, at, take);
        at += take;
    }
    *value = fw_hash_value(&h);
    *file_bytes = mapping.bytes;
    fw_file_unmap(&mapping);
    return FW_OK;
}
