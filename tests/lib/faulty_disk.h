/*
 * faulty_disk - makes SQLite's reads, writes and syncs fail on purpose, in this process.
 */
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

#include <stdbool.h>

enum disk_call {
    DISK_READ,      /* of the database */
    DISK_WRITE,     /* to it, when the log is copied into it */
    DISK_SYNC,      /* of it */
    DISK_WRITE_LOG, /* to the write-ahead log */
    DISK_SYNC_LOG,  /* of it */
    DISK_CALL_COUNT
};

/* From now on SQLite's files are opened so that they can fail. */
void faulty_disk_install(void);

/* These calls fail from the one after the next `after` on, with that code of SQLite's. */
void faulty_disk_break(enum disk_call call, int after, int code);
/* All calls succeed again. Whether one failed. */
bool faulty_disk_mend(void);

#endif
