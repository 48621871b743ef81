#include "model/wrap_class.h"

#include <string.h>

fw_status fw_wrap_check_class(const char *class_name, fw_architecture architecture) {
    static const char *const between = " ,";
    const char *right = fw_architecture_layer_class(architecture);
    int name_n = 0;
    if (class_name == NULL) return FW_OK;
    for (const char *c = class_name + strspn(class_name, between); *c != 0; c += strspn(c, between), name_n++) {
        size_t n = strcspn(c, between);
        if (n != strlen(right) || strncmp(c, right, n) != 0)
            return fw_fail(FW_ERR_OPTION,
                           "fsdp_transformer_layer_cls_to_wrap: the model has no class %.*s; its blocks are %s",
                           n < 100 ? (int)n : 100, c, right);
        c += n;
    }
    if (name_n == 0)
        return fw_fail(FW_ERR_OPTION, "fsdp_transformer_layer_cls_to_wrap is empty; write %s or leave it out", right);
    return FW_OK;
}
