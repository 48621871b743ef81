#include "text/conversation.h"

#include "base/alloc.h"

void fw_conversation_fini(fw_conversation *c) {
    fw_free(c->message);
    json_decref(c->json);
    *c = (fw_conversation){0};
}
