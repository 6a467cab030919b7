/*
 * world - the simulated world around the real relay: a broker, a store, a clock, people, and a
 * judge, all driven by one seed.
 *
 * The real worker.c and relay.c run in it unchanged. What they call of source.h, sink.h, store.h
 * and clock.h is replaced at link time by sim_source.c, sim_sink.c, sim_store.c and sim_clock.c,
 * which keep the promises of those headers and no more: whatever a network or a server may do, they
 * do.
 *
 * Concurrency without threads: a call into the store (and some others) may, by the seed, run other
 * steps of the world before it acts and before it answers, so that other relays, people and faults
 * come in between. A relay that is inside such a call is `busy` and is not turned again.
 *
 * A crash inside a turn makes the relay `dead`: from that moment none of its calls has an effect;
 * once its turn is over it is freed.
 *
 * The judge (judge.c) is told of everything that matters and checks docs/protocol.md and the
 * promise, by what the world knows, not by what the relay believes. The first broken rule fails the
 * seed.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "config.h"
#include "message.h"
#include "record.h"
#include "rng.h"
#include "stats.h"
#include "store.h"
#include "worker.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define SIM_KEYS 5
#define SIM_RELAYS 3
#define SIM_WORK_QUEUES 2
#define SIM_NO_KEY (-1)
#define SIM_CONTENTS 3 /* that messages of one key may have, where a route takes fingerprints */
#define SIM_BODY_MAX 40
#define SIM_EPOCH INT64_C(1782640800000) /* 1970 ms at world time 0 */
#define SIM_STALL_TURNS 300
#define SIM_FRAME_ROOM 4096

/* How much may go wrong, and so how strict the judge can be. */
enum fault_class {
    CLASS_QUIET,     /* one relay, nothing goes wrong: order is kept, too */
    CLASS_ONE,       /* one relay; source losses, outages, refusals: nothing doubtful */
    CLASS_MANY,      /* several relays, the same in short: nothing doubtful */
    CLASS_FAULTY,    /* crashes, lost confirms, stand-stills: doubts are marked */
    CLASS_FORGETFUL, /* and a store that loses records */
    CLASS_COUNT
};

/* Chances in per mille: of a step, or of a call. */
struct faults {
    uint32_t cut_source, cut_sink, cancel, broker_down, alarm, unroutable, refuse;
    uint32_t store_outage, store_cut, lost_request, lost_reply, late_call;
    uint32_t crash, crash_in_call, stop, freeze, pause;
    uint32_t foreign, flush, failover, wall_step;
};

/* ---- the broker ---- */

enum parcel_kind {
    PARCEL_PLAIN,
    PARCEL_RETRY,
    PARCEL_PUT_BACK,
    PARCEL_LOOP,       /* a copy moved into the inbound queue, nothing says why */
    PARCEL_BAD_HEADER, /* a copy with a nonsense attempt */
    PARCEL_OTHER_ROUTE,
    PARCEL_UNREADABLE, /* its header table is broken */
    PARCEL_TOO_LARGE,  /* its copy's header does not fit a frame */
    PARCEL_COPY        /* lies in a work or the parking queue */
};

/* A message at the broker, and what the world knows of it beside its bytes. */
struct parcel {
    TAILQ_ENTRY(parcel) link;
    uint64_t serial;
    enum parcel_kind kind;
    int key;
    int content;        /* 0 to SIM_CONTENTS - 1; its body says it, in one spelling or another */
    uint32_t attempt;   /* of a copy, or of the copy that it was, at least 1 */
    int64_t first_seen; /* likewise */
    bool redelivered;
    bool finished; /* a copy: its work is done, or it went back */
    struct buffer properties;
    struct buffer body;
};
TAILQ_HEAD(parcels, parcel);

struct handed {
    TAILQ_ENTRY(handed) link;
    struct parcel *parcel;
    uint64_t tag;
    bool read;   /* by the client, */
    bool pulled; /* and by its relay */
};
TAILQ_HEAD(handed_list, handed);

struct tags {
    uint64_t *items;
    bool *reject;
    size_t count, size;
};

/* The broker's end of a consuming connection. */
struct consumer {
    TAILQ_ENTRY(consumer) link;
    struct source *client; /* NULL: it is gone */
    struct relay_process *owner;
    bool cut;           /* nothing passes any more */
    bool cancelled;     /* by the broker, */
    bool stopped;       /* or by the client: nothing new is handed out */
    int64_t requeue_at; /* when cut: when the broker notices */
    size_t unacked;
    struct handed_list handed;
    struct tags acks; /* on their way */
};
TAILQ_HEAD(consumers, consumer);

/* A copy on its way, from sink_publish() to its answer. */
struct publish {
    TAILQ_ENTRY(publish) link;
    struct message *message; /* NULL: its sink is closed */
    uint64_t sequence;
    uint64_t tag;        /* of the delivery that it copies */
    struct grant *grant; /* the claim that it was published under, or NULL */
    uint64_t claim;      /* its number, though it may not have been granted yet; 0: none */
    int key;
    bool unaware; /* its relay cannot know that its delivery is somebody else's by now */
    struct copy copy;
    struct parcel *parcel; /* what is stored; NULL once it was */
    int answer;            /* enum sink_answer */
};
TAILQ_HEAD(publishes, publish);

/* The broker's end of a publishing connection. */
struct channel {
    TAILQ_ENTRY(channel) link;
    struct sink *client; /* NULL: it is gone */
    struct relay_process *owner;
    bool cut;
    int64_t gone_at;          /* when cut: until then the broker may still store what it got */
    struct publishes wire;    /* sent, not yet handled */
    struct publishes answers; /* handled, the answer not yet sent */
    struct publishes arrived; /* the answer is there to be read */
};
TAILQ_HEAD(channels, channel);

struct broker {
    struct parcels inbound;
    struct parcels work[SIM_WORK_QUEUES];
    int work_queues;
    struct parcels parking;
    struct parcels duplicates;
    struct consumers consumers;
    struct channels channels;
    int64_t down_until;
    int64_t alarm_until;
    int64_t unroutable_until;
    int64_t refuse_until[SIM_WORK_QUEUES];
    bool dead_letters; /* the inbound queue dead-letters what is rejected */
    uint64_t next_serial;
    uint64_t next_tag;
    uint64_t next_sequence;
};

/* ---- the store ---- */

struct entry {
    bool exists;
    bool foreign;
    int64_t expires; /* world time */
    char text[RECORD_TEXT_MAX];
};

struct session_entry {
    char id[SESSION_ID_LEN + 1];
    uint32_t incarnation; /* of the relay that opened it */
    bool exists;
    int64_t opened;
    int64_t expires;
};

struct undo {
    int key; /* or -1: a session, by index */
    size_t session;
    struct entry entry;
    bool session_existed;
    int64_t session_expires;
};

struct late_call;
TAILQ_HEAD(late_calls, late_call);

struct store_server {
    struct entry entries[SIM_KEYS];
    struct session_entry *sessions;
    size_t session_count, session_size;
    uint32_t epoch; /* connections of an earlier one are dead */
    int64_t down_until;
    int64_t wall_offset; /* of its clock */
    struct late_calls late;
    struct undo undo[16]; /* a ring of the newest writes */
    size_t undo_count;
};

/* ---- relays ---- */

struct relay_process {
    int slot;
    struct worker *worker; /* NULL: not running */
    uint32_t incarnation;  /* counts up over all slots */
    bool busy;             /* inside worker_turn() */
    bool dead;             /* crashed inside its turn */
    bool stopping;
    int64_t wake_at;
    int64_t turned_at; /* when its last turn began */
    int64_t frozen_until;
    int64_t start_at;
    int64_t last_store_fault;
    int64_t stalled_at; /* how often it turned without sleeping, at one moment */
    int stalled;
    struct source *source;
    struct sink *sink;
    struct sink *replies; /* NULL: its route sends none */
    bool reads;           /* it takes what the source sends */
    size_t live;          /* its messages */
};

/* ---- the judge's book ---- */

/* A claim that the store granted. */
struct grant {
    struct grant *next; /* older */
    uint32_t incarnation;
    uint64_t claim;
    uint32_t generation;
    uint32_t number;
    uint64_t fingerprint;
    uint64_t over; /* the fingerprint of what it was made over; 0: none */
    bool new_life; /* it was made over a completed record whose window was over */
    bool proven;   /* it was made over a claim whose copy its delivery proves to have arrived */
    struct record_life before; /* what it was made over */
    bool published;
    int unresolved; /* copies published whose absence is not certain */
    bool confirmed_work;
    bool confirmed_parking;
    int64_t confirmed_at; /* ms since 1970, by the store's clock */
    bool answered;        /* the store answered the recording after the confirm */
};

/* A confirm that a relay read, and what its copy said. */
struct confirmation {
    struct confirmation *next; /* older */
    uint32_t incarnation;
    uint64_t claim; /* 0: it rested on none */
    enum target target;
    uint32_t number;
    int64_t first_seen;
    bool in_doubt;
    int content;
};

struct tally {
    struct tally *next;
    uint32_t generation;
    uint32_t attempt;
    int unmarked;
};

/* Where messages of one key and one content are. */
struct content_book {
    bool produced;
    int work;     /* copies that were stored in a work queue */
    int parking;  /* that lie in the parking queue, */
    int put_back; /* or came from there and are not acknowledged */
};

struct key_book {
    uint32_t
        generation; /* grows when its record expires, is released by an operator or forgotten */
    struct grant *grants;
    struct tally *tallies;
    struct confirmation *confirmations;
    int produced;
    int stored; /* copies in work queues */
    int confirmed_parking;
    struct content_book contents[SIM_CONTENTS];
    bool blurred; /* its record may be of another content than its copies (judge_same_content()) */
};

/* One delivery to one relay. */
struct sighting {
    uint64_t serial; /* of the parcel */
    enum parcel_kind kind;
    int key;
    int content;
    char body[SIM_BODY_MAX];
    bool redelivered;
    uint32_t attempt;
    int64_t at;
    int unresolved;      /* copies for work whose absence is not certain */
    bool published;      /* as a duplicate, and that was confirmed */
    bool confirmed;      /* a copy of its own was, */
    struct grant *grant; /* under this claim */
    bool acked;
    uint32_t incarnation;     /* of the relay */
    bool may_be_duplicate;    /* since the relay was told of a record, after it arrived */
    bool has_twin;            /* a copy of the same content was there at such a moment */
    bool may_conflict;        /* likewise: of a record of another content, */
    bool conflict_of_several; /* of which nobody knows which of several it is, */
    uint32_t conflict_number; /* with at least this number */
    int stored;               /* copies in a work queue, */
    int unmarked;             /* how many of them say nothing of a doubt, */
    uint32_t generation;      /* and their claim's */
};

struct book {
    struct key_book keys[SIM_KEYS];
    struct sighting *sightings; /* by tag - 1 */
    size_t sighting_count, sighting_size;
    int no_key_produced;
    int no_key_confirmed;
    uint64_t last_work_serial; /* CLASS_QUIET: copies arrive in order */
    uint64_t forwarded, parked, duplicates, in_doubt, crashes; /* for --stats */
    uint64_t published, replies;
    uint64_t conflicts_parked, conflicts_dropped, conflicts_forwarded;
    uint64_t unclear; /* may have been dropped as conflicts or as duplicates */
};

struct world {
    struct config config;
    struct route_config route;
    struct store_config store_config;
    struct route_stats stats;
    struct claim_rules rules;
    struct rng rng;
    struct rng ids; /* getrandom()'s, so that it does not disturb the world's */
    uint64_t seed;
    enum fault_class class;
    struct faults faults;
    uint64_t fingerprints[SIM_CONTENTS]; /* of the contents */
    bool people_retry, people_complete, people_release, people_put_back, people_err;
    int to_produce;
    int retries_left; /* how often people may still send something back */
    bool calm;
    int64_t now;
    int64_t wall_offset;
    int depth; /* of steps within calls */
    struct broker broker;
    struct store_server store;
    struct relay_process relays[SIM_RELAYS];
    int relay_count;
    uint32_t incarnations;
    struct relay_process *current;
    struct book book;
    bool tracing;
    bool failed;
    char failure[512];
};

/* The world that is running: the replaced functions have no other way to it. */
extern struct world *sim;

/* world.c */
void world_init(struct world *w, uint64_t seed, bool tracing);
void world_free(struct world *w);
/* Runs the whole history; false: see failure. */
bool world_run(struct world *w);
/* Other steps of the world come in between a relay's call. False: the relay crashed meanwhile. */
bool world_pause(struct relay_process *r);
void world_crash(struct relay_process *r);
bool world_clean(const struct world *w); /* a class in which nothing may be in doubt */
bool world_nack_is_certain(const struct world *w);

/* setup.c: what the seed says of configuration, faults and people */
void setup_world(struct world *w);

/* judge.c */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void judge_free(struct world *w);
struct sighting *judge_sighting(uint64_t tag);
void judge_seen(struct relay_process *r, const struct parcel *p, uint64_t tag);
void judge_publish(struct relay_process *r, const struct message *m, struct publish *p);
void judge_stored(const struct publish *p); /* in a work queue */
void judge_answer(struct relay_process *r, struct publish *p);
void judge_ack(struct relay_process *r, uint64_t tag, bool reject);
void judge_stopped(const struct relay_process *r);
void judge_turn(struct relay_process *r, int64_t sleep);
void judge_end(struct world *w);
int key_index(struct span key); /* or SIM_NO_KEY */
const char *target_name(enum target target);

/* judge_content.c */
void judge_told(const struct relay_process *r, int key, const struct record *told);
bool judge_forwards_conflicts(void);
bool judge_is_content(const struct record_life *life, int content); /* of that fingerprint? */
void judge_counted(uint32_t incarnation, int key, uint32_t count);
bool judge_is_unaware(const struct message *m);
void judge_once(const struct publish *p, bool stored);
void judge_claimed_content(const struct relay_process *r, const struct publish *p);
void judge_stored_content(const struct publish *p); /* in a work queue */
void judge_stored_parked(const struct publish *p);  /* in the parking queue */
void judge_put_back(const struct parcel *p);  /* an operator took it out of the parking queue */
void judge_forgotten(const struct parcel *p); /* its acknowledgement arrived */
void judge_same_content(const struct relay_process *r, const struct sighting *s);
void judge_parked(const struct relay_process *r, const struct publish *p);
bool judge_dropped_conflict(const struct relay_process *r, const struct sighting *s);
bool judge_is_forwarded_conflict(const struct sighting *s, const struct publish *p);
void judge_contents_end(const struct world *w);

/* judge_store.c */
void judge_write(uint32_t incarnation, const char *session, int key, const struct record *old,
                 const struct record *new, int64_t ttl, bool owner_lived);
void judge_moved(uint32_t incarnation, int key, const struct record *moved, int64_t ttl);
void judge_answered(struct relay_process *r, int key, const struct store_op *op);
void judge_not_moved(struct relay_process *r, int key, const struct record *mine);
int64_t judge_doubtful(const struct relay_process *r);
struct grant *judge_grant(uint32_t incarnation, int key, uint64_t claim);
uint32_t server_incarnation(const char *session); /* of the relay that opened it */

/* broker.c */
void broker_init(struct broker *b);
void broker_free(struct broker *b);
void broker_pump(struct broker *b); /* lets connections make some progress, in calm all they can */
void broker_cut_consumer(struct broker *b, struct consumer *c, bool now);
void broker_cut_channel(struct broker *b, struct channel *c);
void broker_requeue(struct broker *b, struct consumer *c);
void broker_acks(struct broker *b, struct consumer *c, size_t count);
void broker_handle(struct broker *b, struct channel *c);
void broker_drop_publish(struct publish *p);
bool broker_is_empty(const struct broker *b);
bool broker_is_down(const struct broker *b);

/* parcel.c */
struct parcel *parcel_new(struct broker *b, enum parcel_kind kind);
void parcel_free(struct parcel *p);
struct parcel *parcel_copy(struct broker *b, const struct parcel *from);
/* A producer's message: `key` as its message_id, `content` in its body. */
void parcel_write_plain(struct parcel *p, int key, int content);
/* The bytes that a content's fingerprint is taken of; terminated. */
void content_write(int content, char out[SIM_BODY_MAX]);
/* Adds an array of one or two tables, as RabbitMQ does on dead-lettering, and drops an attempt
 * header. */
void parcel_add_death(struct parcel *p, const char *queue, const char *exchange, bool delayed);
void parcel_spoil_attempt(struct parcel *p);
void parcel_bear_other_route(struct parcel *p);

/* people.c */
void people_step(struct world *w);

/* sim_store.c */
void server_init(struct store_server *s);
void server_free(struct store_server *s);
void server_apply_late(struct store_server *s, bool all);
void server_failover(struct store_server *s);
void server_flush(struct store_server *s);
bool server_lives(struct store_server *s, const char *session);
/* The record under a key; false: foreign. Lapsed ones are removed first. */
bool server_read(struct store_server *s, int key, struct record *out);
void server_write(struct store_server *s, int key, const struct record *r, int64_t ttl);
int64_t server_wall(const struct store_server *s);

/* sim_source.c, sim_sink.c */
void source_lose(struct source *s); /* its connection is cut; it notices later */
bool source_has_input(const struct source *s);
bool source_has(const struct source *s, const struct message *m); /* its delivery still counts */
void sink_lose(struct sink *s);
bool sink_has_input(const struct sink *s);

#endif
