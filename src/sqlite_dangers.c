/*
 * What endangers the records of an SQLite file: the file system that it is on, and the setting that
 * lets a power failure forget. Each makes duplicates possible, none a loss.
 */
#include "sqlite_link.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

/* Those that linux/magic.h lacks. */
#define LUSTRE_MAGIC 0x0bd00bd0
#define GFS2_MAGIC 0x01161970
#define GPFS_MAGIC 0x47504653

enum file_system { FILE_SYSTEM_NETWORK, FILE_SYSTEM_MEMORY, FILE_SYSTEM_CONTAINER };

struct known {
    unsigned magic;
    enum file_system kind;
    const char *name;
};

static const struct known file_systems[] = {
    {NFS_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "NFS"},
    {SMB_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "SMB"},
    {CIFS_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "CIFS"},
    {SMB2_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "SMB"},
    {AFS_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "AFS"},
    {CODA_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "Coda"},
    {CEPH_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "Ceph"},
    {OCFS2_SUPER_MAGIC, FILE_SYSTEM_NETWORK, "OCFS2"},
    {LUSTRE_MAGIC, FILE_SYSTEM_NETWORK, "Lustre"},
    {GFS2_MAGIC, FILE_SYSTEM_NETWORK, "GFS2"},
    {GPFS_MAGIC, FILE_SYSTEM_NETWORK, "GPFS"},
    {V9FS_MAGIC, FILE_SYSTEM_NETWORK, "9P"},
    {TMPFS_MAGIC, FILE_SYSTEM_MEMORY, "tmpfs"},
    {RAMFS_MAGIC, FILE_SYSTEM_MEMORY, "ramfs"},
    {OVERLAYFS_SUPER_MAGIC, FILE_SYSTEM_CONTAINER, "overlay"},
};

static void judge_file_system(const struct known *known, struct buffer *lines)
{
    switch (known->kind) {
    case FILE_SYSTEM_NETWORK:
        buffer_printf(lines,
                      "the file is on a network file system (%s): its locks do not reach from one "
                      "host to another, so relays on two hosts forward the same keys and damage "
                      "the file; keep it on a local disk\n",
                      known->name);
        break;
    case FILE_SYSTEM_MEMORY:
        buffer_printf(lines,
                      "the file is in memory (%s): a restart of the machine forgets every key\n",
                      known->name);
        break;
    case FILE_SYSTEM_CONTAINER:
        buffer_printf(lines,
                      "the file is in the layer of a container (%s), and goes with it: a new "
                      "container forgets every key; keep it on a volume\n",
                      known->name);
        break;
    }
}

/* Before the file is there its folder tells. */
static bool find_file_system(struct sqlite_link *l, struct statfs *out)
{
    const char *path = l->config->parsed.path;
    char *folder = sqlite_folder(l);
    bool good = statfs(path, out) == 0 || (errno == ENOENT && statfs(folder, out) == 0) ||
                store_fail(l->store, "SQLite at %s: %s", path, strerror(errno));
    free(folder);
    return good;
}

bool sqlite_dangers(struct sqlite_link *l, struct buffer *lines)
{
    struct statfs found;
    if (!find_file_system(l, &found))
        return false;
    for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++)
        if (file_systems[i].magic == (unsigned)found.f_type)
            judge_file_system(&file_systems[i], lines);
    if (l->config->synchronous == SYNCHRONOUS_NORMAL)
        buffer_printf(lines, "synchronous is normal: a power failure or a crash of the operating "
                             "system forgets the last records; full is safe\n");
    return true;
}
