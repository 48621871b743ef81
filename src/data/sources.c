#include "data/sources.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "data/sources_parts.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fw_status fw_sources_add_path(fw_sources *s, const char *path) {
    FW_TRY(FW_GROW_ARRAY(s->path, (size_t)s->path_n + 1));
    FW_TRY(fw_strdup(&s->path[s->path_n], path));
    s->path_n++;
    return FW_OK;
}

static fw_status add_pattern(fw_sources *s, const char *pattern) {
    glob_t found;
    int result = glob(pattern, 0, NULL, &found);
    if (result == GLOB_NOSPACE) return fw_fail(FW_ERR_NOMEM, "out of memory while looking for %s", pattern);
    if (result != 0) return fw_fail(FW_ERR_INPUT, "no file matches %s", pattern);
    fw_status status = FW_OK;
    for (size_t i = 0; i < found.gl_pathc && status == FW_OK; i++)
        status = fw_dir_exists(found.gl_pathv[i]) ? fw_sources_add_folder(s, found.gl_pathv[i])
                                                  : fw_sources_add_path(s, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

/* What is there by its very name is no pattern. */
static fw_status add_files(fw_sources *s, const char *written) {
    if (fw_dir_exists(written)) {
        int32_t before = s->path_n;
        FW_TRY(fw_sources_add_folder(s, written));
        if (s->path_n == before)
            return fw_fail(
                FW_ERR_INPUT,
                "the folder %s holds no file of conversations (.jsonl, .json, .parquet, .csv, .txt, also .gz "
                "and .zst; README, LICENSE and .md files only when they are named themselves)",
                written);
        return FW_OK;
    }
    if (!fw_file_exists(written) && strpbrk(written, "*?[") != NULL) return add_pattern(s, written);
    if (access(written, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return fw_fail(
            FW_ERR_INPUT,
            "there is no dataset %s; check the path (a file of conversations, a folder of such or a pattern: "
            "docs/data-format.md; data sets are not fetched from the Hub)",
            written);
    return fw_sources_add_path(s, written);
}

/* "data.jsonl:0.5": cuts off the weight at the last colon, unless a file has that name. Returns 0 for a bad weight. */
static int cut_weight(char *written, double *weight) {
    char *colon = strrchr(written, ':'), *end;
    *weight = 1;
    if (colon == NULL || colon == written || fw_file_exists(written) || fw_dir_exists(written)) return 1;
    errno = 0;
    *weight = strtod(colon + 1, &end);
    if (end == colon + 1 || *end != 0) { /* no number: part of the name */
        *weight = 1;
        return 1;
    }
    *colon = 0;
    return errno == 0 && *weight > 0 && *weight <= 1000;
}

/* Copy one set up to a comma that is not escaped; returns what follows, NULL at the end. */
static const char *take_set(char *out, const char *text) {
    for (; *text != 0 && *text != ','; text++) {
        if (*text == '\\' && (text[1] == ',' || text[1] == '\\')) text++;
        *out++ = *text;
    }
    *out = 0;
    return *text == ',' ? text + 1 : NULL;
}

static fw_status add_set(fw_sources *s, const char *written) {
    FW_TRY(FW_GROW_ARRAY(s->set, (size_t)s->set_n + 1));
    fw_source_set *set = &s->set[s->set_n];
    *set = (fw_source_set){.first = s->path_n};
    FW_TRY(fw_strdup(&set->written, written));
    s->set_n++;
    if (!cut_weight(set->written, &set->weight))
        return fw_fail(FW_ERR_OPTION, "%s: a weight must be above 0 and at most 1000", written);
    if (set->written[0] == 0) return fw_fail(FW_ERR_OPTION, "the list of data sets has an empty name");
    FW_TRY(add_files(s, set->written));
    set->last = s->path_n;
    return FW_OK;
}

fw_status fw_sources_find(fw_sources *out, const char *text) {
    *out = (fw_sources){0};
    char *set;
    fw_status status;
    FW_TRY(fw_strdup(&set, text));
    if (fw_file_exists(text)) { /* a name with a comma in it */
        status = add_set(out, text);
    } else {
        do {
            text = take_set(set, text);
            FW_TRY_OR(add_set(out, set), done);
        } while (text != NULL);
    }
done:
    fw_free(set);
    if (status != FW_OK) fw_sources_fini(out);
    return status;
}

/* As many names as a line is read for. */
enum { NAMED_MAX = 8 };

void fw_sources_say_aside(const fw_sources *s) {
    fw_strbuf line = {0};
    fw_status status = FW_OK;
    for (int32_t i = 0; i < s->aside_n && i < NAMED_MAX && status == FW_OK; i++)
        status = fw_strbuf_printf(&line, "%s%s", i > 0 ? ", " : "", s->aside[i]);
    if (status == FW_OK && s->aside_n > NAMED_MAX)
        status = fw_strbuf_printf(&line, " and %d more", s->aside_n - NAMED_MAX);
    if (status == FW_OK && s->aside_n > 0) fw_log_info("left aside: %s", line.data);
    fw_strbuf_fini(&line);
}

void fw_sources_fini(fw_sources *s) {
    for (int32_t i = 0; i < s->set_n; i++) fw_free(s->set[i].written);
    for (int32_t i = 0; i < s->path_n; i++) fw_free(s->path[i]);
    for (int32_t i = 0; i < s->aside_n; i++) fw_free(s->aside[i]);
    fw_free(s->aside);
    fw_free(s->set);
    fw_free(s->path);
    *s = (fw_sources){0};
}
