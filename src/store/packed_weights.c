#include "store/packed_weights.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_N = 1 << 18 };

/* ---- what a folder has ---- */

fw_status fw_packed_find_stored(bool **packed, fw_packed_options *options, const fw_model_folder *folder,
                                const fw_param_table *frozen) {
    int32_t found_n = 0;
    fw_status status;
    *packed = NULL;
    FW_TRY(FW_NEW_ARRAY(*packed, (size_t)frozen->param_n));
    for (int32_t i = frozen->unit_first[1]; i < frozen->param_n; i++) {
        const fw_param *p = &frozen->param[i];
        if (p->cols == 0 || !fw_stored_quant_has(folder, p->name)) continue;
        fw_stored_quant q;
        FW_TRY_OR(fw_stored_quant_open(&q, folder, p->name, p->rows, p->cols), fail);
        const fw_packed_options here = {
            .kind = q.kind, .block = q.block, .nested = q.nested, .nested_block = q.nested_block};
        if (found_n > 0 && (here.kind != options->kind || here.block != options->block ||
                            here.nested != options->nested || here.nested_block != options->nested_block)) {
            status = fw_fail(FW_ERR_INPUT,
                             "%s: %s is packed as %s in blocks of %lld%s, matrices before it otherwise; use the 16-bit "
                             "original with --load_in_4bit",
                             folder->dir, p->name, fw_quant_kind_name(q.kind), (long long)q.block,
                             q.nested ? ", nested" : "");
            goto fail;
        }
        *options = here;
        (*packed)[i] = true;
        found_n++;
    }
    if (found_n > 0) return FW_OK;
    status = FW_OK;
fail:
    fw_free(*packed);
    *packed = NULL;
    return status;
}

/* ---- one matrix ---- */

void fw_packed_weights_init(fw_packed_weights *out, const fw_model_folder *folder, const fw_packed_table *table) {
    *out = (fw_packed_weights){.folder = folder, .table = table, .param = -1, .unit = -1};
    memcpy(out->map4, fw_quant_map4(table->options.kind), sizeof out->map4);
    fw_quant_map8(out->map8, 1);
}

static void forget(fw_packed_weights *w) {
    fw_free(w->code);
    fw_free(w->scale_code);
    fw_free(w->absmax);
    fw_free(w->nested);
    w->code = w->scale_code = NULL;
    w->absmax = w->nested = NULL;
    w->param = -1;
}

void fw_packed_weights_fini(fw_packed_weights *w) {
    forget(w);
    fw_free(w->image);
    *w = (fw_packed_weights){0};
}

static fw_status read_numbers(const fw_packed_weights *w, const fw_param *p, int64_t first, int64_t n, float *out) {
    return fw_model_folder_read(w->folder, w->table->frozen, p->unit, p->offset_n + first, n, out);
}

typedef struct packing {
    fw_packed_weights *w;
    const fw_param *p;
    const float *x; /* numbers [first, first + n) */
    int64_t first, n;
    int bad;
} packing;

static void pack_part(void *context, int index, int thread_n) {
    packing *c = context;
    const fw_packed_options *o = &c->w->table->options;
    int64_t first, last;
    fw_threads_split(&first, &last, c->n, o->block, index, thread_n);
    if (first >= last) return;
    const int64_t at = c->first + first;
    if (fw_quant_pack4(c->w->code + at / 2, c->w->absmax + at / o->block, c->x + first, last - first, o->block,
                       o->kind) != FW_OK)
        __atomic_store_n(&c->bad, 1, __ATOMIC_RELAXED);
}

/* In pieces of whole blocks, shared out over the threads: only a matrix' own last block may be short. */
static fw_status pack(fw_packed_weights *w, const fw_param *p) {
    const fw_packed_options *o = &w->table->options;
    const int64_t piece = (PIECE_N + o->block - 1) / o->block * o->block;
    float *x;
    fw_status status;
    FW_TRY(FW_NEW_ARRAY(x, (size_t)piece));
    for (int64_t at = 0; at < p->n; at += piece) {
        const int64_t n = p->n - at < piece ? p->n - at : piece;
        packing c = {.w = w, .p = p, .x = x, .first = at, .n = n};
        FW_TRY_OR(read_numbers(w, p, at, n, x), done);
        fw_threads_run(w->folder->threads, pack_part, &c);
        if (!c.bad) continue;
        status = fw_quant_pack4(w->code + at / 2, w->absmax + at / o->block, x, n, o->block, o->kind); /* its message */
        status =
            fw_fail_context(status, "%s: tensor %s, from element %lld on: ", w->folder->dir, p->name, (long long)at);
        goto done;
    }
    status = FW_OK;
    const int64_t block_n = fw_quant_block_n(p->n, o->block);
    if (o->nested) status = fw_quant_nest(w->scale_code, w->nested, &w->offset, w->absmax, block_n, w->map8);
    if (status != FW_OK)
        status = fw_fail_context(status, "%s: tensor %s, its scales, whose sum is too large for fp32: ", w->folder->dir,
                                 p->name);
done:
    fw_free(x);
    return status;
}

/* As bitsandbytes has stored it. */
static fw_status take_stored(fw_packed_weights *w, const fw_param *p) {
    fw_stored_quant q;
    FW_TRY(fw_stored_quant_open(&q, w->folder, p->name, p->rows, p->cols));
    FW_TRY(fw_stored_quant_check(&q, w->folder, p->name));
    const bool same =
        memcmp(w->map4, q.map4, sizeof w->map4) == 0 && (!q.nested || memcmp(w->map8, q.map8, sizeof w->map8) == 0);
    if (w->has_maps && !same)
        return fw_fail(FW_ERR_INPUT, "%s: the maps of %s are not those of the matrices before it", w->folder->dir,
                       p->name);
    w->has_maps = true;
    memcpy(w->code, q.code, (size_t)fw_quant_code_bytes(q.n));
    memcpy(w->map4, q.map4, sizeof w->map4);
    if (!q.nested) {
        memcpy(w->absmax, q.absmax, (size_t)q.block_n * sizeof(float));
        return FW_OK;
    }
    memcpy(w->scale_code, q.absmax, (size_t)q.block_n);
    memcpy(w->nested, q.nested_absmax, (size_t)fw_quant_block_n(q.block_n, q.nested_block) * sizeof(float));
    memcpy(w->map8, q.map8, sizeof w->map8);
    w->offset = q.offset;
    return FW_OK;
}

static fw_status open_matrix(fw_packed_weights *w, int32_t param) {
    if (w->param == param) return FW_OK;
    const fw_param *p = &w->table->frozen->param[param];
    const size_t block_n = (size_t)fw_quant_block_n(p->n, w->table->options.block);
    forget(w);
    FW_TRY(FW_NEW_ARRAY(w->code, (size_t)fw_quant_code_bytes(p->n)));
    FW_TRY(FW_NEW_ARRAY(w->absmax, block_n));
    FW_TRY(FW_NEW_ARRAY(w->scale_code, block_n));
    FW_TRY(FW_NEW_ARRAY(w->nested, block_n));
    FW_TRY(fw_stored_quant_has(w->folder, p->name) ? take_stored(w, p) : pack(w, p));
    w->param = param;
    return FW_OK;
}

/* ---- numbers ---- */

fw_status fw_packed_read_numbers(fw_packed_weights *w, int32_t param, int64_t first, int64_t n, float *out) {
    const fw_packed_options *o = &w->table->options;
    const fw_param *p = &w->table->frozen->param[param];
    if (!w->table->param[param].packed) return read_numbers(w, p, first, n, out);
    FW_TRY(open_matrix(w, param));
    const fw_quant_scales scales = {.block = o->block,
                                    .absmax = o->nested ? NULL : w->absmax,
                                    .scale_code = w->scale_code,
                                    .map8 = w->map8,
                                    .nested = w->nested,
                                    .offset = &w->offset,
                                    .nested_block = o->nested_block};
    for (int64_t i = first; i < first + n; i++) {
        const int code = i % 2 == 0 ? w->code[i / 2] >> 4 : w->code[i / 2] & 15;
        out[i - first] = w->map4[code] * fw_quant_scale(&scales, i / o->block);
    }
    return FW_OK;
}

/* ---- words ---- */

static void put_numbers(uint8_t *to, const float *x, int64_t n, fw_dtype t) {
    if (t == FW_F32) {
        memcpy(to, x, (size_t)n * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const fw_bf16 bits = fw_bf16_from_f32(x[i]);
        memcpy(to + (size_t)i * sizeof bits, &bits, sizeof bits);
    }
}

/* Elements [first, first + n) of a unit's layout in the frozen table, in the compute type. */
static fw_status read_plain(const fw_packed_weights *w, int32_t unit, int64_t first, int64_t n, uint8_t *out) {
    const size_t size = fw_dtype_bytes(w->table->t);
    float *x;
    fw_status status = FW_OK;
    FW_TRY(FW_NEW_ARRAY(x, PIECE_N));
    for (int64_t at = 0; at < n && status == FW_OK; at += PIECE_N) {
        const int64_t some = n - at < PIECE_N ? n - at : PIECE_N;
        status = fw_model_folder_read(w->folder, w->table->frozen, unit, first + at, some, x);
        if (status == FW_OK) put_numbers(out + (size_t)at * size, x, some, w->table->t);
    }
    fw_free(x);
    return status;
}

static fw_status put_matrix(fw_packed_weights *w, int32_t param) {
    const fw_packed_options *o = &w->table->options;
    const fw_packed_param *at = &w->table->param[param];
    FW_TRY(open_matrix(w, param));
    const int64_t n = w->table->frozen->param[param].n, block_n = fw_quant_block_n(n, o->block);
    memcpy(w->image + at->at_bytes, w->code, (size_t)fw_quant_code_bytes(n));
    if (!o->nested) {
        memcpy(w->image + at->absmax_at, w->absmax, (size_t)block_n * sizeof(float));
        return FW_OK;
    }
    memcpy(w->image + at->scale_code_at, w->scale_code, (size_t)block_n);
    memcpy(w->image + at->nested_at, w->nested, (size_t)fw_quant_block_n(block_n, o->nested_block) * sizeof(float));
    memcpy(w->image + at->offset_at, &w->offset, sizeof w->offset);
    return FW_OK;
}

static fw_status make_image(fw_packed_weights *w, int32_t unit) {
    const fw_param_table *f = w->table->frozen;
    fw_free(w->image);
    w->image = NULL;
    w->unit = -1;
    FW_TRY(FW_NEW_ARRAY(w->image, (size_t)w->table->words.unit_size_n[unit] * FW_PACKED_WORD_BYTES));
    for (int32_t i = f->unit_first[unit]; i < f->unit_first[unit + 1]; i++) {
        const fw_param *p = &f->param[i];
        if (w->table->param[i].packed)
            FW_TRY(put_matrix(w, i));
        else
            FW_TRY(read_plain(w, unit, p->offset_n, p->n, w->image + w->table->param[i].at_bytes));
    }
    memcpy(w->image + FW_PACKED_MAP4_AT, w->map4, sizeof w->map4);
    memcpy(w->image + FW_PACKED_MAP8_AT, w->map8, sizeof w->map8);
    w->unit = unit;
    return FW_OK;
}

fw_status fw_packed_read_words(void *context, int32_t unit, int64_t first, int64_t n, uint16_t *out) {
    fw_packed_weights *w = context;
    if (n == 0) return FW_OK;
    if (unit == 0) {
        const int64_t words = (int64_t)fw_dtype_bytes(w->table->t) / FW_PACKED_WORD_BYTES; /* of an element */
        FW_ASSERT(first % words == 0 && n % words == 0);
        return read_plain(w, 0, first / words, n / words, (uint8_t *)out);
    }
    if (w->unit != unit) FW_TRY(make_image(w, unit));
    memcpy(out, w->image + (size_t)first * FW_PACKED_WORD_BYTES, (size_t)n * FW_PACKED_WORD_BYTES);
    return FW_OK;
}
