/* sim_store - what a relay asks of the simulated store, as one value that may arrive late. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "world.h"

enum call_kind { CALL_OPS, CALL_OPEN, CALL_RENEW, CALL_END };

struct call {
    enum call_kind kind;
    uint32_t incarnation;             /* of the relay that calls; 0: people */
    char session[SESSION_ID_LEN + 1]; /* CALL_OPS: "": unfenced */
    char former[STORE_FORMER_MAX][SESSION_ID_LEN + 1];
    size_t former_count;
    int64_t life;
    struct store_op *ops;     /* CALL_OPS, */
    struct store_move *moves; /* or CALL_OPEN: count of them; the caller's, but of late calls */
    int *keys;                /* their keys, the call's own */
    size_t count;
    bool exists; /* the answer of CALL_RENEW */
};

struct late_call {
    TAILQ_ENTRY(late_call) link;
    int64_t due;
    struct call call;
};

void late_call_free(struct late_call *call);
void server_apply(struct store_server *s, struct call *c);
int64_t server_opened(struct store_server *s, const char *session);
uint32_t server_owner(struct store_server *s, const char *session); /* its incarnation */

#endif
