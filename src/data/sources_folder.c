/* What of a folder is conversations.
 *
 * Data sets are handed on as folders with papers beside the data: README.md, LICENSE.txt, dataset_infos.json. Their text would
 * be learnt like any other, and nobody would see it; so they are left aside. Plain text is taken only where there is nothing
 * else: beside files with conversations it is about them. Who means such a file names it. */
#include "base/alloc.h"
#include "base/file.h"
#include "data/format.h"
#include "data/sources_parts.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { FOLDER_DEPTH_MAX = 16 };

typedef struct names {
    char **name;
    int32_t n;
} names;

typedef struct search {
    names taken, text, aside;
} search;

/* "README", "README.md", "LICENSE-MIT.txt", but not "notices.jsonl". */
static int is_paper(const char *name) {
    static const char *const words[] = {"README", "LICENSE", "LICENCE", "CHANGELOG", "NOTICE"};
    static const char *const files[] = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i]);
        if (strncasecmp(name, words[i], n) == 0 && !isalpha((unsigned char)name[n])) return 1;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(name, files[i]) == 0) return 1;
    return 0;
}

static names *place_of(search *s, const char *name, int is_folder) {
    fw_format format;
    if (name[0] == '.') return &s->aside;
    if (is_folder || is_paper(name) || !fw_format_of_data_name(&format, name)) return &s->aside;
    if (format != FW_FORMAT_TEXT) return &s->taken;
    return fw_format_is_markdown_name(name) ? &s->aside : &s->text;
}

static fw_status add(names *list, const char *path) {
    FW_TRY(FW_GROW_ARRAY(list->name, (size_t)list->n + 1));
    FW_TRY(fw_strdup(&list->name[list->n], path));
    list->n++;
    return FW_OK;
}

static fw_status search_folder(search *s, const char *folder, int depth) {
    char **name = NULL;
    size_t n = 0;
    if (depth > FOLDER_DEPTH_MAX)
        return fw_fail(FW_ERR_INPUT, "%s lies more than %d folders deep", folder, FOLDER_DEPTH_MAX);
    FW_TRY(fw_dir_list(&name, &n, folder));
    fw_status status = FW_OK;
    for (size_t i = 0; i < n; i++) {
        char *path = NULL;
        FW_TRY_OR(fw_path_join(&path, folder, name[i]), done);
        const int is_folder = fw_dir_exists(path);
        if (is_folder && name[i][0] != '.')
            status = search_folder(s, path, depth + 1);
        else
            status = add(place_of(s, name[i], is_folder), path);
        fw_free(path);
        FW_TRY_OR(status, done);
    }
done:
    fw_dir_list_free(name, n);
    return status;
}

static void fini(names *list) {
    for (int32_t i = 0; i < list->n; i++) fw_free(list->name[i]);
    fw_free(list->name);
}

fw_status fw_sources_add_folder(fw_sources *out, const char *folder) {
    search s = {0};
    fw_status status;
    FW_TRY_OR(search_folder(&s, folder, 0), done);
    const names *taken = s.taken.n > 0 ? &s.taken : &s.text, *rest = s.taken.n > 0 ? &s.text : &s.taken;
    for (int32_t i = 0; i < taken->n; i++) FW_TRY_OR(fw_sources_add_path(out, taken->name[i]), done);
    const names *const aside[] = {&s.aside, rest};
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < aside[k]->n; i++) {
            names list = {out->aside, out->aside_n};
            status = add(&list, aside[k]->name[i]);
            out->aside = list.name;
            out->aside_n = list.n;
            FW_TRY_OR(status, done);
        }
done:
    fini(&s.taken);
    fini(&s.text);
    fini(&s.aside);
    return status;
}
