#include "session.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static void new_id(char out[SESSION_ID_LEN + 1])
{
    unsigned char bits[SESSION_ID_LEN / 2];
    ssize_t got;
    do {
        got = getrandom(bits, sizeof bits, 0);
    } while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof bits)
        panic("getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bits; i++) {
        out[2 * i] = "0123456789abcdef"[bits[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bits[i] & 15];
    }
    out[SESSION_ID_LEN] = '\0';
}

/* The first former session is the one that owned claims for certain: it is never pushed out. */
static void remember(struct session *s)
{
    if (s->former_count == STORE_FORMER_MAX) {
        memmove(s->former[1], s->former[2], (STORE_FORMER_MAX - 2) * sizeof s->former[0]);
        s->former_count--;
    }
    memcpy(s->former[s->former_count++], s->id, sizeof s->id);
}

bool session_open(struct session *s, struct store *store, struct store_move *moves, size_t count)
{
    const char *former[STORE_FORMER_MAX];
    for (size_t i = 0; i < s->former_count; i++)
        former[i] = s->former[i];
    new_id(s->id);
    int64_t sent = clock_now();
    if (!store_session_open(store, s->id, s->life, former, s->former_count, moves, count)) {
        remember(s);
        return false;
    }
    s->former_count = 0;
    s->renewed = sent;
    s->open = true;
    return true;
}

bool session_renew(struct session *s, struct store *store)
{
    int64_t sent = clock_now();
    bool exists = false;
    if (!s->open || sent < session_deadline(s))
        return true;
    if (!store_session_renew(store, s->id, s->life, &exists))
        return false;
    if (exists)
        s->renewed = sent;
    else
        session_close(s);
    return true;
}

void session_close(struct session *s)
{
    if (!s->open)
        return;
    remember(s);
    s->open = false;
}

void session_end(struct session *s, struct store *store)
{
    if (s->open && store_is_open(store))
        (void)store_session_end(store, s->id);
    session_close(s);
}

bool session_is_sure(const struct session *s, int64_t now)
{
    return s->open && now - s->renewed < s->life * 2 / 3;
}

int64_t session_deadline(const struct session *s)
{
    return s->open ? s->renewed + s->life / 3 : INT64_MAX;
}
