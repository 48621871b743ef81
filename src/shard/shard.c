#include "shard/shard.h"

#include "base/alloc.h"

enum { LOAD_CHUNK_N = 1 << 20 };

struct fw_shard {
    const fw_param_table *table;
    fw_device *device;
    fw_comm *comm;
    fw_shard_options options;
    fw_shard_bytes bytes;
    /* Flat over all units, in the layout of the table:
     *
     *   w   [total_n] fp32   master weights; in fp32 also the compute weights
     *   g   [total_n] fp32   gradients, in memory that collectives reach without a copy
     *   m v [total_n] fp32   moments
     *
     * and the compute weights c in bf16: training, [edge | largest block], the copies of the units at work; without
     * training flat over all units like the others. */
    float *w, *g, *m, *v;
    void *c;
    int32_t block_in_c; /* the block whose copy is up to date; 0: none */
    bool edge_in_c;
    fw_comm_request *request; /* one a unit */
    bool *in_flight;          /* the unit's reduction has been started and not been waited for */
};

static int64_t largest_block_n(const fw_param_table *table) {
    int64_t largest = 0;
    for (int32_t unit = 1; unit < table->unit_n; unit++)
        if (table->unit_size_n[unit] > largest) largest = table->unit_size_n[unit];
    return largest;
}

fw_shard_bytes fw_shard_bytes_of(const fw_param_table *table, const fw_shard_options *options, int world) {
    (void)world; /* ddp keeps everything on every rank */
    size_t n = (size_t)table->total_n;
    size_t compute_n = options->training ? (size_t)(table->unit_size_n[0] + largest_block_n(table)) : n;
    bool master = options->training || options->t == FW_F32;
    return (fw_shard_bytes){
        .master = master ? n * sizeof(float) : 0,
        .compute = options->t == FW_F32 ? 0 : compute_n * fw_dtype_bytes(options->t),
        .gradient = options->training ? n * sizeof(float) : 0,
        .moments = options->training ? 2 * n * sizeof(float) : 0,
    };
}

static fw_status allocate(fw_shard *s) {
    const fw_shard_bytes *b = &s->bytes;
    /* Weights get their pages when they are read, moments in the first update. */
    if (b->master) FW_TRY(fw_device_alloc_lazy(s->device, (void **)&s->w, b->master, "fp32 weights"));
    if (b->compute) FW_TRY(fw_device_alloc(s->device, &s->c, b->compute, "bf16 weights"));
    if (b->gradient) {
        FW_TRY(fw_comm_alloc(s->comm, (void **)&s->g, b->gradient, "gradients"));
        fw_device_take_pages(s->device, s->g, b->gradient); /* they are added to: read first */
    }
    if (b->moments) {
        FW_TRY(fw_device_alloc_lazy(s->device, (void **)&s->m, b->moments, "moments"));
        s->v = s->m + s->table->total_n;
    }
    return FW_OK;
}

fw_status fw_shard_create(fw_shard **out, const fw_param_table *table, fw_device *device, fw_comm *comm,
                          const fw_shard_options *options) {
    *out = NULL;
    fw_shard *s;
    fw_status status;
    FW_TRY(FW_NEW(s));
    s->table = table;
    s->device = device;
    s->comm = comm;
    s->options = *options;
    s->bytes = fw_shard_bytes_of(table, options, fw_comm_world(comm));
    FW_TRY_OR(FW_NEW_ARRAY(s->request, (size_t)table->unit_n), fail);
    FW_TRY_OR(FW_NEW_ARRAY(s->in_flight, (size_t)table->unit_n), fail);
    FW_TRY_OR(allocate(s), fail);
    *out = s;
    return FW_OK;
fail:
    fw_shard_destroy(s);
    return status;
}

void fw_shard_destroy(fw_shard *s) {
    if (s == NULL) return;
    fw_device_free(s->device, s->w, s->bytes.master);
    fw_device_free(s->device, s->c, s->bytes.compute);
    fw_device_free(s->device, s->m, s->bytes.moments);
    fw_free(s->request);
    fw_free(s->in_flight);
    fw_free(s); /* the gradients belong to comm */
}

/* Address of the first element of a unit in a flat fp32 array; NULL stays NULL. */
static float *unit_of(const fw_shard *s, float *flat, int32_t unit) {
    return flat == NULL ? NULL : flat + s->table->unit_offset_n[unit];
}

/* Where the compute weights of a unit are, or will be once it is acquired. */
static void *compute_unit(const fw_shard *s, int32_t unit) {
    if (s->c == NULL) return unit_of(s, s->w, unit);
    int64_t at_n = s->table->unit_offset_n[unit];
    if (s->options.training) at_n = unit == 0 ? 0 : s->table->unit_size_n[0];
    return (char *)s->c + at_n * (int64_t)fw_dtype_bytes(s->options.t);
}

static fw_status load_unit(fw_shard *s, int32_t unit, float *host, fw_unit_reader read, void *context) {
    int64_t n = s->table->unit_size_n[unit];
    if (host == NULL) return read(context, unit, 0, n, unit_of(s, s->w, unit));
    for (int64_t first = 0; first < n; first += LOAD_CHUNK_N) {
        int64_t count = n - first < LOAD_CHUNK_N ? n - first : LOAD_CHUNK_N;
        FW_TRY(read(context, unit, first, count, host));
        if (s->w != NULL)
            FW_TRY(fw_copy(s->device, unit_of(s, s->w, unit) + first, host, (size_t)count * sizeof(float)));
        if (s->c != NULL && !s->options.training) {
            void *c = (char *)compute_unit(s, unit) + first * (int64_t)fw_dtype_bytes(s->options.t);
            FW_TRY(fw_cast(s->device, c, s->options.t, host, FW_F32, count));
        }
    }
    return FW_OK;
}

fw_status fw_shard_load(fw_shard *s, fw_unit_reader read, void *context) {
    float *host = NULL; /* weights that the host can write are read into their place */
    fw_shard_refresh(s);
    if (s->w == NULL || !s->device->on_host) FW_TRY(FW_NEW_ARRAY(host, LOAD_CHUNK_N));
    fw_status status = FW_OK;
    for (int32_t unit = 0; unit < s->table->unit_n && status == FW_OK; unit++)
        status = load_unit(s, unit, host, read, context);
    fw_free(host);
    return status;
}

void fw_shard_refresh(fw_shard *s) {
    s->edge_in_c = false;
    s->block_in_c = 0;
}

/* Round the unit's master weights into its buffer, unless they are there. */
static fw_status fill_compute(fw_shard *s, int32_t unit) {
    if (unit == 0 ? s->edge_in_c : s->block_in_c == unit) return FW_OK;
    FW_TRY(fw_cast(s->device, compute_unit(s, unit), s->options.t, unit_of(s, s->w, unit), FW_F32,
                   s->table->unit_size_n[unit]));
    if (unit == 0)
        s->edge_in_c = true;
    else
        s->block_in_c = unit;
    return FW_OK;
}

fw_status fw_shard_acquire(fw_shard *s, int32_t unit, const void **w, float **g) {
    if (s->c != NULL && s->options.training) FW_TRY(fill_compute(s, unit));
    *w = compute_unit(s, unit);
    if (g != NULL) *g = unit_of(s, s->g, unit);
    return FW_OK;
}

fw_status fw_shard_release(fw_shard *s, int32_t unit) {
    (void)s; /* ddp frees nothing */
    (void)unit;
    return FW_OK;
}

fw_status fw_shard_reduce(fw_shard *s, int32_t unit, bool last_micro_batch) {
    if (!last_micro_batch) return FW_OK; /* gradients add up here until the window is complete */
    FW_ASSERT(!s->in_flight[unit]);
    FW_TRY(fw_comm_all_reduce(s->comm, unit_of(s, s->g, unit), s->table->unit_size_n[unit], FW_F32, &s->request[unit]));
    s->in_flight[unit] = true;
    return FW_OK;
}

fw_status fw_shard_finish(fw_shard *s) {
    /* Units were started last block first, the edge at the very end; they finish in that order. */
    for (int32_t i = s->table->unit_n - 1; i >= 0; i--) {
        if (!s->in_flight[i]) continue;
        s->in_flight[i] = false;
        FW_TRY(fw_comm_wait(s->comm, &s->request[i]));
    }
    return FW_OK;
}

fw_status fw_shard_share(fw_shard *s, int32_t unit) {
    /* ddp: every rank has made the same update; only the copies are old now */
    if (unit == 0)
        s->edge_in_c = false;
    else if (s->block_in_c == unit)
        s->block_in_c = 0;
    return FW_OK;
}

fw_owned_range fw_shard_owned(fw_shard *s, int32_t unit) {
    return (fw_owned_range){
        .first_n = 0,
        .n = s->table->unit_size_n[unit],
        .w = unit_of(s, s->w, unit),
        .m = unit_of(s, s->m, unit),
        .v = unit_of(s, s->v, unit),
        .g = unit_of(s, s->g, unit),
    };
}

fw_status fw_shard_gradient_squares(fw_shard *s, double *out) {
    *out = 0;
    for (int32_t unit = 0; unit < s->table->unit_n; unit++) {
        double squares;
        FW_TRY(fw_sum_squares(s->device, &squares, unit_of(s, s->g, unit), s->table->unit_size_n[unit]));
        *out += squares;
    }
    return FW_OK;
}

fw_shard_flat fw_shard_flat_arrays(fw_shard *s) { return (fw_shard_flat){.w = s->w, .m = s->m, .v = s->v}; }
