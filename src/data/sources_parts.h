/* The inside of data/sources.h. */
#ifndef FW_DATA_SOURCES_PARTS_H
#define FW_DATA_SOURCES_PARTS_H

#include "data/sources.h"

fw_status fw_sources_add_path(fw_sources *s, const char *path);
/* The files of conversations in a folder and below, each folder by name; what is there beside them goes to s->aside. */
fw_status fw_sources_add_folder(fw_sources *s, const char *folder);

#endif
