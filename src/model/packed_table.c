#include "model/packed_table.h"

#include "base/alloc.h"

enum { PIECE_ALIGN = 64 };

static size_t up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Takes `bytes` from *end. */
static size_t take(size_t *end, size_t bytes) {
    const size_t at = *end;
    *end = up(at + bytes, PIECE_ALIGN);
    return at;
}

static void place(fw_packed_table *t, const fw_param *p, fw_packed_param *out, size_t *end) {
    if (!out->packed) {
        out->at_bytes = take(end, (size_t)p->n * fw_dtype_bytes(t->t));
        return;
    }
    const fw_packed_options *o = &t->options;
    const int64_t block_n = fw_quant_block_n(p->n, o->block);
    t->packed_n += (uint64_t)p->n;
    out->at_bytes = take(end, (size_t)fw_quant_code_bytes(p->n));
    if (!o->nested) {
        out->absmax_at = take(end, (size_t)block_n * sizeof(float));
        return;
    }
    out->scale_code_at = take(end, (size_t)block_n);
    out->nested_at = take(end, (size_t)fw_quant_block_n(block_n, o->nested_block) * sizeof(float));
    out->offset_at = take(end, sizeof(float));
}

static size_t place_unit(fw_packed_table *t, int32_t unit) {
    const fw_param_table *f = t->frozen;
    if (unit == 0) {
        for (int32_t i = f->unit_first[0]; i < f->unit_first[1]; i++)
            t->param[i].at_bytes = (size_t)f->param[i].offset_n * fw_dtype_bytes(t->t);
        return (size_t)f->unit_size_n[0] * fw_dtype_bytes(t->t);
    }
    if (f->unit_first[unit] == f->unit_first[unit + 1]) return 0;
    size_t end = FW_PACKED_FIRST_AT;
    for (int32_t i = f->unit_first[unit]; i < f->unit_first[unit + 1]; i++) place(t, &f->param[i], &t->param[i], &end);
    if (f->unit_size_n[unit] > t->work_n) t->work_n = f->unit_size_n[unit];
    return end;
}

fw_status fw_packed_table_init(fw_packed_table *out, const fw_param_table *frozen, const fw_packed_options *options,
                               const bool *packed, fw_dtype t) {
    *out = (fw_packed_table){.options = *options, .t = t, .frozen = frozen};
    fw_param_table *words = &out->words;
    FW_ASSERT(options->block > 0 && options->block % 2 == 0);
    FW_TRY(FW_NEW_ARRAY(out->param, (size_t)frozen->param_n));
    FW_TRY(FW_NEW_ARRAY(words->unit_size_n, (size_t)frozen->unit_n));
    FW_TRY(FW_NEW_ARRAY(words->unit_offset_n, (size_t)frozen->unit_n));
    FW_TRY(FW_NEW_ARRAY(words->unit_first, (size_t)frozen->unit_n + 1));
    for (int32_t i = frozen->unit_first[1]; i < frozen->param_n; i++)
        out->param[i].packed = frozen->param[i].cols > 0 && (packed == NULL || packed[i]);
    words->unit_n = frozen->unit_n;
    words->parameter_n = frozen->parameter_n;
    for (int32_t unit = 0; unit < frozen->unit_n; unit++) {
        words->unit_size_n[unit] =
            (int64_t)up(place_unit(out, unit), FW_UNIT_ALIGN * FW_PACKED_WORD_BYTES) / FW_PACKED_WORD_BYTES;
        words->unit_offset_n[unit] = words->total_n;
        words->total_n += words->unit_size_n[unit];
    }
    return FW_OK;
}

void fw_packed_table_fini(fw_packed_table *t) {
    fw_free(t->param);
    fw_param_table_fini(&t->words);
    *t = (fw_packed_table){0};
}

fw_status fw_packed_unpack(const fw_packed_table *t, fw_device *d, int32_t unit, const void *words, void *work) {
    const char *base = words;
    const fw_param_table *f = t->frozen;
    for (int32_t i = f->unit_first[unit]; i < f->unit_first[unit + 1]; i++) {
        const fw_param *p = &f->param[i];
        const fw_packed_param *at = &t->param[i];
        void *to = (char *)work + (size_t)p->offset_n * fw_dtype_bytes(t->t);
        if (!at->packed) {
            FW_TRY(fw_cast(d, to, t->t, base + at->at_bytes, t->t, p->n));
            continue;
        }
        fw_quant_scales scales = {.block = t->options.block};
        if (t->options.nested) {
            scales.scale_code = (const uint8_t *)base + at->scale_code_at;
            scales.map8 = (const void *)(base + FW_PACKED_MAP8_AT);
            scales.nested = (const void *)(base + at->nested_at);
            scales.offset = (const void *)(base + at->offset_at);
            scales.nested_block = t->options.nested_block;
        } else {
            scales.absmax = (const void *)(base + at->absmax_at);
        }
        FW_TRY(fw_unpack_4bit(d, to, (const uint8_t *)base + at->at_bytes, (const void *)(base + FW_PACKED_MAP4_AT),
                              &scales, p->n, t->t));
    }
    return FW_OK;
}
