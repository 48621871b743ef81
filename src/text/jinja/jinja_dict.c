/* Dicts: entries in order of insertion, with a hash table beside them once there are many. */
#include "text/jinja/jinja_value.h"

#include "base/hash.h"

#include <string.h>

enum { SMALL_N = 12 };

fw_status fw_jinja_dict_make(fw_jinja_memory *memory, fw_jinja_dict **out, size_t cap) {
    FW_TRY(FW_JINJA_NEW(memory, *out));
    (*out)->message = -1;
    (*out)->cap = cap;
    return cap == 0 ? FW_OK : FW_JINJA_NEW_ARRAY(memory, (*out)->entry, cap);
}

static bool hashable_at(const fw_jinja_value *v, int depth) {
    if (v->kind == FW_JINJA_DICT) return false;
    if (v->kind != FW_JINJA_LIST) return true;
    if (v->list->kind == FW_JINJA_IS_LIST || v->list->kind == FW_JINJA_IS_KEYS || v->list->kind == FW_JINJA_IS_ITEMS)
        return false;
    if (v->list->kind == FW_JINJA_IS_TUPLE)
        for (size_t i = 0; i < v->list->n; i++)
            if (depth < 3 && !hashable_at(&v->list->item[i], depth + 1)) return false;
    return true;
}

bool fw_jinja_is_hashable(const fw_jinja_value *v) { return hashable_at(v, 0); }

/* Equal keys hash alike: 1, 1.0 and true are one key. Tuples inside tuples count alike. */
static uint64_t hash_key(const fw_jinja_value *key) {
    if (key->kind == FW_JINJA_TEXT) return fw_hash_bytes(key->text->data, key->text->bytes);
    if (fw_jinja_is_number(key)) {
        double value = fw_jinja_as_real(key);
        uint64_t bits;
        if (value == 0) value = 0; /* not -0 */
        memcpy(&bits, &value, sizeof bits);
        return (bits ^ bits >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    }
    uint64_t hash = (uint64_t)key->kind * 977;
    if (key->kind == FW_JINJA_LIST)
        for (size_t i = 0; i < key->list->n && i < 16; i++)
            if (key->list->item[i].kind != FW_JINJA_LIST) hash = hash * 31 + hash_key(&key->list->item[i]);
    return hash;
}

static bool same_key(const fw_jinja_value *a, const fw_jinja_value *b) {
    if (a->kind == FW_JINJA_TEXT && b->kind == FW_JINJA_TEXT)
        return a->text->bytes == b->text->bytes && memcmp(a->text->data, b->text->data, a->text->bytes) == 0;
    size_t work = FW_JINJA_EQUAL_MAX - 1000; /* keys are small */
    return fw_jinja_equal(a, b, &work);
}

fw_jinja_value *fw_jinja_dict_find(const fw_jinja_dict *dict, const fw_jinja_value *key) {
    if (dict->slot == NULL) {
        for (size_t i = 0; i < dict->n; i++)
            if (same_key(&dict->entry[i].key, key)) return &dict->entry[i].value;
        return NULL;
    }
    size_t mask = dict->slot_n - 1, at = (size_t)hash_key(key) & mask;
    for (; dict->slot[at] != 0; at = (at + 1) & mask) {
        struct fw_jinja_entry *entry = &dict->entry[dict->slot[at] - 1];
        if (same_key(&entry->key, key)) return &entry->value;
    }
    return NULL;
}

fw_jinja_value *fw_jinja_dict_find_text(const fw_jinja_dict *dict, const char *key, size_t key_bytes) {
    fw_jinja_text text = {.data = key, .bytes = key_bytes};
    fw_jinja_value value = fw_jinja_text_value(&text, 0);
    return fw_jinja_dict_find(dict, &value);
}

static void put_slot(fw_jinja_dict *dict, size_t index) {
    size_t mask = dict->slot_n - 1, at = (size_t)hash_key(&dict->entry[index].key) & mask;
    while (dict->slot[at] != 0) at = (at + 1) & mask;
    dict->slot[at] = (uint32_t)index + 1;
}

static fw_status grow(fw_jinja_memory *memory, fw_jinja_dict *dict) {
    size_t cap = dict->cap ? 2 * dict->cap : 4;
    struct fw_jinja_entry *entry;
    FW_TRY(FW_JINJA_NEW_ARRAY(memory, entry, cap));
    if (dict->n) memcpy(entry, dict->entry, dict->n * sizeof *entry);
    dict->entry = entry;
    dict->cap = cap;
    return FW_OK;
}

fw_status fw_jinja_dict_put(fw_jinja_memory *memory, fw_jinja_dict *dict, fw_jinja_value key, fw_jinja_value value) {
    fw_jinja_value *old = fw_jinja_dict_find(dict, &key);
    if (old != NULL) {
        *old = value;
        return FW_OK;
    }
    if (dict->n == dict->cap) FW_TRY(grow(memory, dict));
    if (dict->n >= SMALL_N && 2 * (dict->n + 1) > dict->slot_n) {
        size_t slot_n = dict->slot_n ? 4 * dict->slot_n : 64;
        FW_TRY(FW_JINJA_NEW_ARRAY(memory, dict->slot, slot_n));
        dict->slot_n = slot_n;
        for (size_t i = 0; i < dict->n; i++) put_slot(dict, i);
    }
    dict->entry[dict->n] = (struct fw_jinja_entry){key, value};
    dict->n++;
    if (dict->slot != NULL) put_slot(dict, dict->n - 1);
    return FW_OK;
}
