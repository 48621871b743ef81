#include "data/parquet/thrift.h"

enum { DEPTH_MAX = 32 };

static void broken(fw_thrift *t) {
    t->broken = 1;
    t->at = t->end;
}

static uint8_t read_byte(fw_thrift *t) {
    if (t->at == t->end) {
        broken(t);
        return 0;
    }
    return *t->at++;
}

static uint64_t read_varint(fw_thrift *t) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = read_byte(t);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    broken(t);
    return 0;
}

static int64_t read_zigzag(fw_thrift *t) {
    uint64_t value = read_varint(t);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

int fw_thrift_next_field(fw_thrift *t, fw_thrift_field *field) {
    if (t->broken) return 0;
    uint8_t byte = read_byte(t);
    if (t->broken || byte == FW_THRIFT_STOP) return 0;
    field->type = (fw_thrift_type)(byte & 0x0f);
    if (byte >> 4)
        field->id = (int16_t)(field->id + (byte >> 4));
    else
        field->id = (int16_t)read_zigzag(t);
    if (field->type == FW_THRIFT_STOP || field->type > FW_THRIFT_STRUCT) broken(t);
    return !t->broken;
}

int64_t fw_thrift_int(fw_thrift *t, fw_thrift_type type) {
    if (type == FW_THRIFT_BYTE) return (int8_t)read_byte(t);
    if (type == FW_THRIFT_I16 || type == FW_THRIFT_I32 || type == FW_THRIFT_I64) return read_zigzag(t);
    broken(t);
    return 0;
}

int fw_thrift_bool(fw_thrift *t, fw_thrift_type type) {
    if (type != FW_THRIFT_TRUE && type != FW_THRIFT_FALSE) broken(t);
    return type == FW_THRIFT_TRUE;
}

size_t fw_thrift_binary(fw_thrift *t, fw_thrift_type type, const char **bytes) {
    *bytes = "";
    if (type != FW_THRIFT_BINARY) broken(t);
    uint64_t n = read_varint(t);
    if (t->broken || n > (uint64_t)(t->end - t->at)) {
        broken(t);
        return 0;
    }
    *bytes = (const char *)t->at;
    t->at += n;
    return (size_t)n;
}

size_t fw_thrift_list(fw_thrift *t, fw_thrift_type type, fw_thrift_type *element) {
    *element = FW_THRIFT_STOP;
    if (type != FW_THRIFT_LIST && type != FW_THRIFT_SET) broken(t);
    uint8_t byte = read_byte(t);
    uint64_t n = byte >> 4;
    if (n == 15) n = read_varint(t);
    if (t->broken || n > (uint64_t)(t->end - t->at)) { /* every element takes a byte */
        broken(t);
        return 0;
    }
    *element = (fw_thrift_type)(byte & 0x0f);
    return (size_t)n;
}

void fw_thrift_expect_struct(fw_thrift *t, fw_thrift_type type) {
    if (type != FW_THRIFT_STRUCT) broken(t);
}

static void skip_struct(fw_thrift *t) {
    fw_thrift_field field = {0};
    while (fw_thrift_next_field(t, &field)) fw_thrift_skip(t, field.type);
}

static void skip_element(fw_thrift *t, fw_thrift_type type) {
    if (type == FW_THRIFT_TRUE || type == FW_THRIFT_FALSE)
        read_byte(t); /* in a list a truth value is a byte */
    else
        fw_thrift_skip(t, type);
}

static void skip_map(fw_thrift *t) {
    uint64_t n = read_varint(t);
    if (n == 0) return;
    if (n > (uint64_t)(t->end - t->at)) {
        broken(t);
        return;
    }
    uint8_t types = read_byte(t);
    for (uint64_t i = 0; i < n && !t->broken; i++) {
        skip_element(t, (fw_thrift_type)(types >> 4));
        skip_element(t, (fw_thrift_type)(types & 0x0f));
    }
}

void fw_thrift_skip(fw_thrift *t, fw_thrift_type type) {
    if (++t->depth > DEPTH_MAX) broken(t);
    const char *bytes;
    fw_thrift_type element;
    size_t n;
    if (!t->broken) switch (type) {
        case FW_THRIFT_TRUE:
        case FW_THRIFT_FALSE: break;
        case FW_THRIFT_BYTE: read_byte(t); break;
        case FW_THRIFT_I16:
        case FW_THRIFT_I32:
        case FW_THRIFT_I64: read_varint(t); break;
        case FW_THRIFT_DOUBLE:
            if (t->end - t->at < 8)
                broken(t);
            else
                t->at += 8;
            break;
        case FW_THRIFT_BINARY: fw_thrift_binary(t, type, &bytes); break;
        case FW_THRIFT_LIST:
        case FW_THRIFT_SET:
            n = fw_thrift_list(t, type, &element);
            for (size_t i = 0; i < n && !t->broken; i++) skip_element(t, element);
            break;
        case FW_THRIFT_MAP: skip_map(t); break;
        case FW_THRIFT_STRUCT: skip_struct(t); break;
        default: broken(t);
        }
    t->depth--;
}
