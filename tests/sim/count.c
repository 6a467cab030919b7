/*
 * Counts the messages that a relay holds: the linker sends every message_free() through here
 * (--wrap). They are made by source_pull() alone.
 */
#include "message.h"
#include "world.h"

/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier) */
void __real_message_free(struct message *m);
void __wrap_message_free(struct message *m);

void __wrap_message_free(struct message *m)
{
    if (m)
        sim->current->live--;
    __real_message_free(m);
}
/* NOLINTEND(bugprone-reserved-identifier) */
