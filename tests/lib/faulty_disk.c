#include "faulty_disk.h"

#include <assert.h>
#include <sqlite3.h>

static sqlite3_vfs faulty;
static sqlite3_vfs *sound;
/* Those of SQLite's own, which are the same for all files but for locks, */
static const sqlite3_io_methods *sound_methods;
/* and what becomes of them for the database and for the log. */
static sqlite3_io_methods faulty_methods;
static sqlite3_io_methods faulty_log_methods;

static struct {
    enum disk_call call; /* DISK_CALL_COUNT: none */
    int after;
    int code;
    bool failed;
} fault = {.call = DISK_CALL_COUNT};

static bool fails(enum disk_call call)
{
    if (call != fault.call || fault.after-- > 0)
        return false;
    fault.after = 0;
    fault.failed = true;
    return true;
}

static int read_main(sqlite3_file *file, void *data, int len, sqlite3_int64 at)
{
    return fails(DISK_READ) ? fault.code : sound_methods->xRead(file, data, len, at);
}

static int write_main(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    return fails(DISK_WRITE) ? fault.code : sound_methods->xWrite(file, data, len, at);
}

static int sync_main(sqlite3_file *file, int flags)
{
    return fails(DISK_SYNC) ? fault.code : sound_methods->xSync(file, flags);
}

static int write_log(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    return fails(DISK_WRITE_LOG) ? fault.code : sound_methods->xWrite(file, data, len, at);
}

static int sync_log(sqlite3_file *file, int flags)
{
    return fails(DISK_SYNC_LOG) ? fault.code : sound_methods->xSync(file, flags);
}

/* The file is SQLite's own in all but its methods. */
static int open_faulty(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    int code = sound->xOpen(sound, name, file, flags, out);
    bool is_log = flags & SQLITE_OPEN_WAL;
    if (code != SQLITE_OK || !(is_log || flags & SQLITE_OPEN_MAIN_DB))
        return code;
    sound_methods = file->pMethods;
    sqlite3_io_methods *methods = is_log ? &faulty_log_methods : &faulty_methods;
    *methods = *sound_methods;
    methods->xRead = is_log ? methods->xRead : read_main;
    methods->xWrite = is_log ? write_log : write_main;
    methods->xSync = is_log ? sync_log : sync_main;
    file->pMethods = methods;
    return code;
}

void faulty_disk_install(void)
{
    sound = sqlite3_vfs_find(0);
    faulty = *sound;
    faulty.zName = "faulty";
    faulty.xOpen = open_faulty;
    int code = sqlite3_vfs_register(&faulty, 1);
    assert(code == SQLITE_OK);
    (void)code;
}

void faulty_disk_break(enum disk_call call, int after, int code)
{
    fault.call = call;
    fault.after = after;
    fault.code = code;
    fault.failed = false;
}

bool faulty_disk_mend(void)
{
    fault.call = DISK_CALL_COUNT;
    return fault.failed;
}
