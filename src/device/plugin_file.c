/* Source: the ELF-64 object file format (System V ABI, chapters 4 and 5). */
#include "device/plugin_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_at(int fd, void *out, size_t bytes, uint64_t at) {
    return pread(fd, out, bytes, (off_t)at) == (ssize_t)bytes;
}

/* [at, at + bytes) of a file of `size` bytes; no sum that could overflow. */
static int is_inside(uint64_t at, uint64_t bytes, uint64_t size) { return at <= size && bytes <= size - at; }

static fw_status cut_off(const char *path, const char *what, uint64_t at, uint64_t bytes, uint64_t size) {
    return fw_fail(FW_ERR_OPTION,
                   "%s cannot be loaded: its %s (%llu bytes at %llu) end behind the file's %llu bytes; it was cut off "
                   "or is damaged: build or copy it again",
                   path, what, (unsigned long long)bytes, (unsigned long long)at, (unsigned long long)size);
}

static fw_status check_tables(int fd, const char *path, uint64_t size) {
    Elf64_Ehdr head;
    if (size < sizeof head || !read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return fw_fail(FW_ERR_OPTION, "%s cannot be loaded: it is no shared library (it lacks an ELF header)", path);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN ||
        (head.e_phnum > 0 && head.e_phentsize != sizeof(Elf64_Phdr)))
        return fw_fail(FW_ERR_OPTION, "%s cannot be loaded: it is no 64-bit little-endian shared library", path);
    const uint64_t sections_bytes = (uint64_t)head.e_shnum * head.e_shentsize;
    const uint64_t programs_bytes = (uint64_t)head.e_phnum * sizeof(Elf64_Phdr);
    if (!is_inside(head.e_phoff, programs_bytes, size))
        return cut_off(path, "program headers", head.e_phoff, programs_bytes, size);
    for (uint64_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        if (!read_at(fd, &part, sizeof part, head.e_phoff + i * sizeof part))
            return fw_fail(FW_ERR_OPTION, "%s cannot be read: %s", path, strerror(errno));
        if (part.p_type == PT_LOAD && !is_inside(part.p_offset, part.p_filesz, size))
            return cut_off(path, "loaded parts", part.p_offset, part.p_filesz, size);
    }
    if (!is_inside(head.e_shoff, sections_bytes, size))
        return cut_off(path, "section headers", head.e_shoff, sections_bytes, size);
    return FW_OK;
}

fw_status fw_plugin_check_file(const char *path) {
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* NONBLOCK: a pipe has no writer */
    if (fd < 0 || fstat(fd, &about) != 0) {
        const int reason = errno;
        if (fd >= 0) close(fd);
        return fw_fail(FW_ERR_OPTION, "%s cannot be read: %s", path, strerror(reason));
    }
    const fw_status status = S_ISREG(about.st_mode)
                                 ? check_tables(fd, path, (uint64_t)about.st_size)
                                 : fw_fail(FW_ERR_OPTION, "%s cannot be loaded: it is no regular file", path);
    close(fd);
    return status;
}
