#include "quant/dynamic_map.h"

#include "quant/dynamic_map.inc"

#include <pthread.h>

const fw_dynamic_map fw_dynamic_signed = {{FW_DYNAMIC_SIGNED_VALUES}, {FW_DYNAMIC_SIGNED_PLACES}};
const fw_dynamic_map fw_dynamic_unsigned = {{FW_DYNAMIC_UNSIGNED_VALUES}, {FW_DYNAMIC_UNSIGNED_PLACES}};

static uint8_t codes[2][FW_DYNAMIC_PLACES];

static void fill(uint8_t *code_of, const fw_dynamic_map *map) {
    for (int place = 0, code = 0; place < FW_DYNAMIC_PLACES; place++) {
        while (code + 1 < FW_DYNAMIC_CODES && map->first_place[code + 1] <= place) code++;
        code_of[place] = (uint8_t)code;
    }
}

static void fill_both(void) {
    fill(codes[0], &fw_dynamic_unsigned);
    fill(codes[1], &fw_dynamic_signed);
}

const uint8_t *fw_dynamic_codes(int is_signed) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_both);
    return codes[is_signed ? 1 : 0];
}
