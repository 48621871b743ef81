/* Running one case on a device, with guards around every buffer, and comparing what two devices made. */
#include "base/alloc.h"
#include "support/op_cases.h"

#include <math.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif

/* Guards are NaN in every type of floats, so that a sum with an element outside is none. */
enum { GUARD_BYTES = 64, GUARD = 0xff };

static double load(const unsigned char *bytes, int64_t i, fw_dtype type) {
    const unsigned char *at = bytes + (size_t)i * fw_dtype_bytes(type);
    union {
        float f32;
        uint16_t bits;
        double f64;
        int32_t i32;
        int64_t i64;
    } element;
    memcpy(&element, at, fw_dtype_bytes(type));
    switch (type) {
    case FW_F32: return (double)element.f32;
    case FW_BF16: return (double)fw_bf16_to_f32(element.bits);
    case FW_F16: return (double)fw_f16_to_f32(element.bits);
    case FW_F64: return element.f64;
    case FW_I32: return element.i32;
    case FW_I64: return (double)element.i64;
    default: return *at;
    }
}

static void store(unsigned char *bytes, int64_t i, fw_dtype type, double value) {
    unsigned char *at = bytes + (size_t)i * fw_dtype_bytes(type);
    float f32;
    uint16_t bits;
    int32_t i32;
    int64_t i64;
    switch (type) {
    case FW_F32: f32 = (float)value, memcpy(at, &f32, sizeof f32); break;
    case FW_BF16: bits = fw_bf16_from_f32((float)value), memcpy(at, &bits, sizeof bits); break;
    case FW_F16: bits = fw_f16_from_f32((float)value), memcpy(at, &bits, sizeof bits); break;
    case FW_F64: memcpy(at, &value, sizeof value); break;
    case FW_I64: i64 = (int64_t)value, memcpy(at, &i64, sizeof i64); break;
    case FW_I32: i32 = (int32_t)value, memcpy(at, &i32, sizeof i32); break;
    default: *at = isnan(value) ? 0xee : (unsigned char)value;
    }
}

/* The image of a buffer in memory: guard, elements, guard. */
typedef struct image {
    size_t start, element_bytes, total; /* where the elements begin, their bytes, all bytes */
    unsigned char *before, *after;      /* on the host */
    void *memory;                       /* on the device, or on the host for results that go there */
} image;

static fw_status open_image(image *m, fw_device *d, const fw_op_buffer *b, fw_dtype type, int64_t skew) {
    m->start = GUARD_BYTES + (size_t)skew * fw_dtype_bytes(type);
    m->element_bytes = (size_t)b->n * fw_dtype_bytes(type);
    m->total = m->start + m->element_bytes + GUARD_BYTES;
    FW_TRY(FW_NEW_ARRAY(m->before, m->total));
    FW_TRY(FW_NEW_ARRAY(m->after, m->total));
    memset(m->before, GUARD, m->total);
    for (int64_t i = 0; i < b->n; i++) store(m->before + m->start, i, type, b->value[i]);
    if (b->on_host)
        FW_TRY(fw_calloc(&m->memory, m->total, 1));
    else
        FW_TRY(fw_device_alloc(d, &m->memory, m->total, b->name));
    if (b->on_host)
        memcpy(m->memory, m->before, m->total);
    else
        FW_TRY(fw_copy(d, m->memory, m->before, m->total));
    return FW_OK;
}

static void close_image(image *m, fw_device *d, const fw_op_buffer *b) {
    if (b->on_host)
        fw_free(m->memory);
    else
        fw_device_free(d, m->memory, m->total);
    fw_free(m->before);
    fw_free(m->after);
}

/* Closes the guards to the address sanitizer, for the time of the call: to the byte behind the elements, and to a multiple of
 * 8 bytes before them. The host can do so for its own memory only. */
static void guard_image(const image *m, const fw_device *d, const fw_op_buffer *b, int closed) {
    if (m->memory == NULL || !(b->on_host || d->on_host || strcmp(d->name, "simt") == 0)) return;
    char *memory = m->memory, *behind = memory + m->start + m->element_bytes;
    if (closed) {
        ASAN_POISON_MEMORY_REGION(memory, m->start);
        ASAN_POISON_MEMORY_REGION(behind, GUARD_BYTES);
    } else {
        ASAN_UNPOISON_MEMORY_REGION(memory, m->total);
    }
}

static fw_status check_image(const image *m, const fw_device *d, const fw_op_case *c, const fw_op_buffer *b) {
    for (size_t i = 0; i < m->total; i++) {
        int inside = i >= m->start && i < m->start + m->element_bytes;
        if (m->after[i] == m->before[i] || (inside && b->use != FW_OP_IN)) continue;
        return fw_fail(FW_ERR_INTERNAL, "%s %s (%s) on %s wrote byte %td of %s, which is %s", c->kind->op,
                       c->shape->name, fw_dtype_name(c->t), d->name, (ptrdiff_t)(i - m->start), b->name,
                       inside ? "an input" : "outside of it");
    }
    return FW_OK;
}

static fw_status collect(fw_op_result *out, const image *m, const fw_op_case *c, int as_judge) {
    for (int i = 0; i < c->buffer_n; i++) out->bytes_n += m[i].element_bytes;
    FW_TRY(FW_NEW_ARRAY(out->bytes, out->bytes_n));
    size_t at = 0;
    for (int i = 0; i < c->buffer_n; i++) {
        const fw_op_buffer *b = &c->buffer[i];
        if (b->n < 0) continue;
        FW_TRY(FW_NEW_ARRAY(out->value[i], (size_t)b->n));
        for (int64_t e = 0; e < b->n; e++)
            out->value[i][e] = load(m[i].after + m[i].start, e, as_judge ? b->judge_type : b->type);
        memcpy(out->bytes + at, m[i].after + m[i].start, m[i].element_bytes);
        at += m[i].element_bytes;
    }
    return FW_OK;
}

fw_status fw_op_case_run(fw_op_result *out, fw_device *d, const fw_op_case *c, int as_judge, int64_t skew) {
    *out = (fw_op_result){0};
    image m[FW_OP_BUFFER_CAP] = {{0}};
    void *p[FW_OP_BUFFER_CAP] = {0};
    fw_status status = FW_OK;
    for (int i = 0; i < c->buffer_n; i++) {
        const fw_op_buffer *b = &c->buffer[i];
        if (b->n < 0) continue;
        FW_TRY_OR(open_image(&m[i], d, b, as_judge ? b->judge_type : b->type, b->on_host ? 0 : skew), done);
        p[i] = (char *)m[i].memory + m[i].start;
    }
    for (int i = 0; i < c->buffer_n; i++) guard_image(&m[i], d, &c->buffer[i], 1);
    status = c->kind->call(d, c->shape, as_judge && !c->same_types ? FW_F64 : c->t, p);
    for (int i = 0; i < c->buffer_n; i++) guard_image(&m[i], d, &c->buffer[i], 0);
    if (status != FW_OK) goto done;
    for (int i = 0; i < c->buffer_n; i++) {
        if (c->buffer[i].n < 0) continue;
        if (c->buffer[i].on_host)
            memcpy(m[i].after, m[i].memory, m[i].total);
        else
            FW_TRY_OR(fw_copy(d, m[i].after, m[i].memory, m[i].total), done);
        FW_TRY_OR(check_image(&m[i], d, c, &c->buffer[i]), done);
    }
    FW_TRY_OR(collect(out, m, c, as_judge), done);
done:
    for (int i = 0; i < c->buffer_n; i++) close_image(&m[i], d, &c->buffer[i]);
    if (status != FW_OK) fw_op_result_fini(out);
    return status;
}

void fw_op_result_fini(fw_op_result *r) {
    for (int i = 0; i < FW_OP_BUFFER_CAP; i++) fw_free(r->value[i]);
    fw_free(r->bytes);
    *r = (fw_op_result){0};
}

void fw_op_case_set_bounds(fw_op_case *c, const fw_op_result *judged) { c->kind->bound(c, judged->value); }

fw_status fw_op_case_compare(double *share, const fw_op_case *c, const fw_op_result *tried,
                             const fw_op_result *judged) {
    *share = 0;
    for (int i = 0; i < c->buffer_n; i++) {
        const fw_op_buffer *b = &c->buffer[i];
        if (b->use == FW_OP_IN) continue;
        for (int64_t e = 0; e < b->n; e++) {
            double x = tried->value[i][e], y = judged->value[i][e], difference = fabs(x - y);
            if (x == y || (isnan(x) && isnan(y))) continue;
            if (!(isfinite(b->bound[e]) && difference <= b->bound[e]))
                return fw_fail(FW_ERR_INTERNAL, "%s %s (%s): %s[%lld] is %.9g, the judge says %.9g and allows %.3g",
                               c->kind->op, c->shape->name, fw_dtype_name(c->t), b->name, (long long)e, x, y,
                               b->bound[e]);
            *share = fmax(*share, difference / b->bound[e]);
        }
    }
    return FW_OK;
}
