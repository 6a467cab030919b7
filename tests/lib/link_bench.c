#include "link_bench.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void link_bench_set_up(struct link_bench *b)
{
    *b = (struct link_bench){0};
    peer_open(&b->peer);
}

void open_link(struct link_bench *b)
{
    b->link = link_new(&b->peer.config.broker, "test");
    peer_serve(&b->peer);
    if (!link_open(b->link))
        fail_msg("%s", link_error(b->link));
    peer_served(&b->peer);
}

void link_bench_tear_down(struct link_bench *b)
{
    link_free(b->link);
    peer_close(&b->peer);
}

void open_in_vain(struct link_bench *b)
{
    b->link = link_new(&b->peer.config.broker, "test");
    peer_serve(&b->peer);
    assert_false(link_open(b->link));
    peer_served(&b->peer);
}

bool next_frame(struct link_bench *b, struct link_frame *f)
{
    while (link_is_up(b->link)) {
        if (link_next(b->link, f))
            return true;
        if (!link_is_up(b->link))
            break;
        peer_await_readable(link_fd(b->link));
        link_read(b->link, clock_now());
    }
    return false;
}
