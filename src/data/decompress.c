#include "data/decompress.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { BLOCK_BYTES = 1 << 20, RATIO_MAX = 2000, RATIO_FREE_BYTES = 64 << 20 };

fw_compression fw_compression_find(const char *bytes, size_t n_bytes) {
    if (n_bytes >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0) return FW_COMPRESSION_GZIP;
    if (n_bytes >= 4 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0) return FW_COMPRESSION_ZSTD;
    return FW_COMPRESSION_NONE;
}

/* Where the bytes go. */
typedef struct sink {
    const char *name;
    int fd;
    size_t in_bytes; /* of the compressed file */
    size_t out_bytes;
    char *block;
    int (*stop)(void);
} sink;

static fw_status open_sink(sink *s) {
    const char *dir = getenv("TMPDIR");
    char path[4096];
    if (dir == NULL || dir[0] == 0) dir = "/tmp";
    s->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd < 0 && snprintf(path, sizeof path, "%s/finewire-XXXXXX", dir) < (int)sizeof path) {
        s->fd = mkostemp(path, O_CLOEXEC);
        if (s->fd >= 0) unlink(path);
    }
    if (s->fd < 0)
        return fw_fail(FW_ERR_IO, "cannot unpack %s into %s: %s; set TMPDIR to a folder with room", s->name, dir,
                       strerror(errno));
    return fw_calloc((void **)&s->block, BLOCK_BYTES, 1);
}

static fw_status write_block(sink *s, size_t n_bytes) {
    s->out_bytes += n_bytes;
    if (s->stop != NULL && s->stop()) return fw_fail(FW_ERR_INTERRUPTED, "interrupted while %s was unpacked", s->name);
    if (s->out_bytes > RATIO_FREE_BYTES && s->out_bytes / RATIO_MAX > s->in_bytes)
        return fw_fail(FW_ERR_INPUT, "%s is more than %d times as large unpacked: no file of conversations is", s->name,
                       RATIO_MAX);
    for (size_t at = 0; at < n_bytes;) {
        ssize_t n = write(s->fd, s->block + at, n_bytes - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return fw_fail(FW_ERR_IO, "unpacking %s: %s; set TMPDIR to a folder with room", s->name, strerror(errno));
        at += (size_t)n;
    }
    return FW_OK;
}

static void *take(void *context, unsigned n, unsigned size) {
    (void)context;
    return fw_alloc_raw((size_t)n * size);
}
static void give(void *context, void *block) {
    (void)context;
    fw_free(block);
}

static fw_status inflate_failed(const char *name, int result, const z_stream *z) {
    if (result == Z_MEM_ERROR) return fw_fail(FW_ERR_NOMEM, "out of memory while unpacking %s", name);
    if (result == Z_BUF_ERROR) return fw_fail(FW_ERR_INPUT, "%s: the gzip stream is cut off", name);
    return fw_fail(FW_ERR_INPUT, "%s: the gzip stream is damaged: %s", name, z->msg ? z->msg : "unknown reason");
}

static int is_zero(const void *bytes, size_t n_bytes) {
    const char *at = bytes;
    while (n_bytes > 0 && *at == 0) at++, n_bytes--;
    return n_bytes == 0;
}

static fw_status unpack_gzip(sink *s, const char *bytes, size_t n_bytes) {
    z_stream z = {.zalloc = take, .zfree = give};
    int result = inflateInit2(&z, 15 + 16);
    if (result != Z_OK) return inflate_failed(s->name, result, &z);
    fw_status status = FW_OK;
    size_t left = n_bytes;
    z.next_in = (Bytef *)(uintptr_t)bytes;
    while (status == FW_OK) {
        if (z.avail_in == 0 && left > 0) {
            z.avail_in = left > 1u << 30 ? 1u << 30 : (unsigned)left;
            left -= z.avail_in;
        }
        z.next_out = (Bytef *)s->block;
        z.avail_out = BLOCK_BYTES;
        result = inflate(&z, Z_NO_FLUSH);
        if (result != Z_OK && result != Z_STREAM_END) {
            status = inflate_failed(s->name, result, &z);
            break;
        }
        status = write_block(s, BLOCK_BYTES - z.avail_out);
        if (result != Z_STREAM_END) continue;
        if (is_zero(z.next_in, z.avail_in) && is_zero(bytes + n_bytes - left, left)) break; /* padding, or the end */
        inflateReset(&z);                                                                   /* another stream follows */
    }
    inflateEnd(&z);
    return status;
}

static fw_status unpack_zstd(sink *s, const char *bytes, size_t n_bytes) {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context == NULL) return fw_fail(FW_ERR_NOMEM, "out of memory while unpacking %s", s->name);
    ZSTD_inBuffer in = {bytes, n_bytes, 0};
    fw_status status = FW_OK;
    size_t left = 1;
    while (status == FW_OK && (in.pos < in.size || left != 0)) {
        ZSTD_outBuffer out = {s->block, BLOCK_BYTES, 0};
        size_t before = in.pos;
        left = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(left))
            status = fw_fail(FW_ERR_INPUT, "%s: the zstd stream is damaged: %s", s->name, ZSTD_getErrorName(left));
        else if (out.pos == 0 && in.pos == before)
            status = fw_fail(FW_ERR_INPUT, "%s: the zstd stream is cut off", s->name);
        else
            status = write_block(s, out.pos);
    }
    ZSTD_freeDCtx(context);
    return status;
}

fw_status fw_decompress(fw_mapping *out, fw_compression compression, const char *name, const char *bytes,
                        size_t n_bytes, int (*stop)(void)) {
    *out = (fw_mapping){0};
    sink s = {.name = name, .fd = -1, .in_bytes = n_bytes, .stop = stop};
    fw_status status;
    FW_TRY_OR(open_sink(&s), done);
    FW_TRY_OR(compression == FW_COMPRESSION_GZIP ? unpack_gzip(&s, bytes, n_bytes) : unpack_zstd(&s, bytes, n_bytes),
              done);
    if (s.out_bytes > 0) {
        void *data = mmap(NULL, s.out_bytes, PROT_READ, MAP_SHARED, s.fd, 0);
        if (data == MAP_FAILED) {
            status =
                fw_fail(FW_ERR_NOMEM, "cannot map %s unpacked (%zu bytes): %s", name, s.out_bytes, strerror(errno));
            goto done;
        }
        *out = (fw_mapping){data, s.out_bytes};
    }
done:
    fw_free(s.block);
    if (s.fd >= 0) close(s.fd);
    return status;
}

fw_status fw_inflate_block(void *out, size_t out_bytes, const void *bytes, size_t n_bytes) {
    z_stream z = {.zalloc = take, .zfree = give};
    if (n_bytes > INT32_MAX || out_bytes > INT32_MAX)
        return fw_fail(FW_ERR_INPUT, "a gzip block of %zu bytes", n_bytes);
    int result = inflateInit2(&z, 15 + 32);
    if (result != Z_OK) return inflate_failed("a block", result, &z);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (unsigned)n_bytes;
    z.next_out = out;
    z.avail_out = (unsigned)out_bytes;
    result = inflate(&z, Z_FINISH);
    fw_status status = FW_OK;
    if (result != Z_STREAM_END)
        status = inflate_failed("a block", result, &z);
    else if (z.avail_out != 0)
        status =
            fw_fail(FW_ERR_INPUT, "a gzip block gives %zu bytes instead of %zu", out_bytes - z.avail_out, out_bytes);
    inflateEnd(&z);
    return status;
}
