/*
 * claim: the rules of docs/protocol.md and its table of retries and put-backs, row by row. Records
 * are written as the store holds them, so that a row reads like the design.
 */
#include "claim.h"
#include "memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ME "aaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbbbbbbbbbb"
#define NOW 5000000
#define HOUR INT64_C(3600000)

static const struct claim_rules rules = {
    .window = 2 * HOUR, .window_completed = -1, .hold_limit = 600000};

static struct record read_record(const char *text)
{
    struct record r = {0};
    if (*text && !record_read(&r, text, strlen(text)))
        fail_msg("the test's own \"%s\" is no record", text);
    return r;
}

static void same_record(const char *label, const struct record *got, const char *want)
{
    char text[RECORD_TEXT_MAX];
    record_write(got, text);
    if (strcmp(text, want) != 0)
        fail_msg("%s: \"%s\" instead of \"%s\"", label, text, want);
}

static const struct delivery plain = {.kind = DELIVERY_PLAIN};
static const struct delivery again = {.kind = DELIVERY_PLAIN, .redelivered = true};
static const struct delivery chained = {.kind = DELIVERY_PLAIN, .other_route = true};
static const struct delivery retry1 = {.kind = DELIVERY_RETRY, .attempt = 1, .first_seen = 100};
static const struct delivery retry2 = {.kind = DELIVERY_RETRY, .attempt = 2, .first_seen = 100};
static const struct delivery back1 = {.kind = DELIVERY_PUT_BACK, .attempt = 1, .first_seen = 100};

struct row {
    const char *label;
    const struct delivery *delivery;
    const char *met;
    bool owner_lives;
    enum verdict verdict;
    const char *next; /* CLAIM, MINE, COMPLETE */
    enum park_reason reason;
};

/* clang-format off */
static const struct row rows[] = {
    {"nothing there", &plain, "", 0, VERDICT_CLAIM, "2P 1 5000000 t0 o" ME ".7", 0},
    {"a retry, nothing there: with its own first-seen", &retry1, "", 0, VERDICT_CLAIM,
     "2P 2 100 t4999900 o" ME ".7", 0},

    {"forwarded", &plain, "2F 1 100 t100 e8999900", 0, VERDICT_DUPLICATE, NULL, 0},
    {"parked", &plain, "2K 1 100 t100 e8999900 d", 0, VERDICT_DUPLICATE, NULL, 0},
    {"completed", &plain, "2C 1 100 t100 e8999900 c200", 0, VERDICT_DUPLICATE, NULL, 0},
    {"another route's retry is not eaten", &chained, "2F 1 100 t100 e8999900", 0, VERDICT_PARK,
     NULL, PARK_OTHER_ROUTE},
    {"another route's retry that is new here", &chained, "", 0, VERDICT_CLAIM,
     "2P 1 5000000 t0 o" ME ".7", 0},

    {"another's live claim means wait", &plain, "2P 1 4999999 t0 o" OTHER ".1", 1,
     VERDICT_WAIT, NULL, 0},
    {"for a retry, too", &retry1, "2P 2 100 t4999899 o" OTHER ".1", 1, VERDICT_WAIT, NULL, 0},
    {"abandoned: its session is gone", &plain, "2P 1 4999999 t0 o" OTHER ".1", 0,
     VERDICT_CLAIM, "2P 1 4999999 t1 d o" ME ".7", 0},
    {"abandoned: it has no owner", &plain, "2P 3 100 t100 d", 1, VERDICT_CLAIM,
     "2P 3 100 t4999900 d o" ME ".7", 0},
    {"abandoned: older than twice hold_limit", &plain, "2P 1 3799999 t0 o" OTHER ".1", 1,
     VERDICT_CLAIM, "2P 1 3799999 t1200001 d o" ME ".7", 0},
    {"just not older", &plain, "2P 1 3800000 t0 o" OTHER ".1", 1, VERDICT_WAIT, NULL, 0},
    {"abandoned, its completion noted", &plain, "2P 1 100 t100 c3999900 o" OTHER ".1", 0,
     VERDICT_COMPLETE, "2C 1 100 t100 e12199900 c3999900", 0},
    {"a takeover is in doubt and forgets what was before", &plain,
     "2P 2 100 t100 o" OTHER ".1 <F 1 100 t50 e8999900", 0, VERDICT_CLAIM,
     "2P 2 100 t4999900 d o" ME ".7", 0},

    {"mine: the answer to an earlier claim was lost", &plain, "2P 1 100 t100 o" ME ".3", 0,
     VERDICT_MINE, "2P 1 100 t100 o" ME ".3", 0},

    {"retry, another first-seen", &retry1, "2F 1 101 t99 e8999899", 0, VERDICT_PARK, NULL,
     PARK_STALE},
    {"put back, another first-seen, pending", &back1, "2P 1 101 t99 o" OTHER ".1", 1,
     VERDICT_PARK, NULL, PARK_STALE},
    {"retry, forwarded, number at most the delivery's", &retry1, "2F 1 100 t100 e8999900", 0,
     VERDICT_CLAIM, "2P 2 100 t4999900 o" ME ".7 <F 1 100 t100 e8999900", 0},
    {"retry of attempt 2 over number 1", &retry2, "2F 1 100 t100 e8999900", 0, VERDICT_CLAIM,
     "2P 3 100 t4999900 o" ME ".7 <F 1 100 t100 e8999900", 0},
    {"put back, parked in doubt: forwarded, marked", &back1, "2K 1 100 t100 e8999900 d", 0,
     VERDICT_CLAIM, "2P 2 100 t4999900 d o" ME ".7 <K 1 100 t100 e8999900 d", 0},
    {"retry, forwarded in doubt: the new attempt is not", &retry1, "2F 1 100 t100 e8999900 d", 0,
     VERDICT_CLAIM, "2P 2 100 t4999900 o" ME ".7 <F 1 100 t100 e8999900 d", 0},
    {"retry, number above the delivery's", &retry1, "2F 2 100 t100 e8999900", 0,
     VERDICT_DUPLICATE, NULL, 0},
    {"retry, completed", &retry1, "2C 1 100 t100 e8999900 c200", 0, VERDICT_DUPLICATE, NULL, 0},
    {"retry, abandoned claim, number at most the delivery's: the copy arrived", &retry1,
     "2P 1 100 t100 o" OTHER ".1", 0, VERDICT_CLAIM,
     "2P 2 100 t4999900 o" ME ".7 <F 1 100 t100 e12199900", 0},
    {"retry, abandoned claim of a later attempt: a takeover", &retry1,
     "2P 2 100 t100 o" OTHER ".1", 0, VERDICT_CLAIM, "2P 2 100 t4999900 d o" ME ".7", 0},
    {"retry, abandoned, its completion noted", &retry1, "2P 1 100 t100 c200", 0, VERDICT_COMPLETE,
     "2C 1 100 t100 e12199900 c200", 0},
};
/* clang-format on */

static void decides(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct record met = read_record(row->met);
        struct decision d = claim_decide(row->delivery, &met, row->owner_lives, ME, 7, NOW, &rules);
        if (d.verdict != row->verdict)
            fail_msg("%s: verdict %d instead of %d", row->label, d.verdict, row->verdict);
        if (row->next)
            same_record(row->label, &d.next, row->next);
        if (row->verdict == VERDICT_PARK && d.reason != row->reason)
            fail_msg("%s: reason %d instead of %d", row->label, d.reason, row->reason);
    }
}

static void checks_what_was_dead_lettered(void **state)
{
    (void)state;
    struct claim_rules check = rules;
    check.check_dead_lettered = true;
    struct record met = read_record("2F 1 100 t100 e8999900");
    struct decision d = claim_decide(&retry1, &met, false, ME, 7, NOW, &check);
    assert_int_equal(d.verdict, VERDICT_PARK);
    assert_int_equal(d.reason, PARK_DEAD_LETTERED);
    d = claim_decide(&back1, &met, false, ME, 7, NOW, &check);
    assert_int_equal(d.verdict, VERDICT_CLAIM);
}

static void a_completed_key_may_be_free_again(void **state)
{
    (void)state;
    struct claim_rules brief = rules;
    brief.window_completed = 1000;
    struct record met = read_record("2C 1 100 t100 e8999900 c4998900");
    struct decision d = claim_decide(&plain, &met, false, ME, 7, NOW, &brief);
    assert_int_equal(d.verdict, VERDICT_CLAIM);
    same_record("free", &d.next, "2P 2 5000000 t0 o" ME ".7 <C 1 100 t100 e8999900 c4998900");
    d = claim_decide(&again, &met, false, ME, 7, NOW, &brief);
    same_record("redelivered: perhaps the one that was completed", &d.next,
                "2P 2 5000000 t0 d o" ME ".7 <C 1 100 t100 e8999900 c4998900");
    met = read_record("2P 2 4999999 t0 o" ME ".3 <C 1 100 t100 e8999900 c200");
    d = claim_decide(&again, &met, false, ME, 7, NOW, &brief);
    assert_int_equal(d.verdict, VERDICT_CLAIM);
    same_record("redelivered, meets such a claim", &d.next,
                "2P 2 4999999 t0 d o" ME ".3 <C 1 100 t100 e8999900 c200");
    met = read_record("2C 1 100 t100 e8999900 c4998901");
    d = claim_decide(&plain, &met, false, ME, 7, NOW, &brief);
    assert_int_equal(d.verdict, VERDICT_DUPLICATE);
}

static void conflicts(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        enum on_conflict on_conflict;
        const char *met;
        uint64_t fingerprint;
        enum verdict verdict;
        bool conflict;
        const char *next;
    } cases[] = {
        {"the same content", CONFLICT_PARK, "2F 1 100 t100 e8999900 f00000000000000aa", 0xaa,
         VERDICT_DUPLICATE, false, NULL},
        {"no fingerprint was taken", CONFLICT_PARK, "2F 1 100 t100 e8999900", 0xaa,
         VERDICT_DUPLICATE, false, NULL},
        {"parked", CONFLICT_PARK, "2F 1 100 t100 e8999900 f00000000000000aa", 0xab, VERDICT_PARK,
         true, NULL},
        {"dropped", CONFLICT_DROP, "2C 1 100 t100 e8999900 c200 f00000000000000aa", 0xab,
         VERDICT_DUPLICATE, true, NULL},
        {"forwarded", CONFLICT_FORWARD, "2F 1 100 t100 e8999900 n3 l300 f00000000000000aa", 0xab,
         VERDICT_CLAIM, true,
         "2P 2 100 t4999900 n3 l300 fffffffffffffffff o" ME
         ".7 <F 1 100 t100 e8999900 n3 l300 f00000000000000aa"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct claim_rules r = rules;
        r.on_conflict = cases[i].on_conflict;
        struct delivery d = plain;
        d.fingerprint = cases[i].fingerprint;
        struct record met = read_record(cases[i].met);
        struct decision got = claim_decide(&d, &met, false, ME, 7, NOW, &r);
        if (got.verdict != cases[i].verdict || got.conflict != cases[i].conflict)
            fail_msg("%s: verdict %d, conflict %d", cases[i].label, got.verdict, got.conflict);
        if (cases[i].next)
            same_record(cases[i].label, &got.next, cases[i].next);
        if (got.verdict == VERDICT_PARK)
            assert_int_equal(got.reason, PARK_CONFLICT);
    }
    struct delivery first = plain;
    first.fingerprint = 0xaa;
    struct record claim = claim_new(&first, ME, 7, NOW);
    same_record("a new claim bears it", &claim, "2P 1 5000000 t0 f00000000000000aa o" ME ".7");
}

#define SEVERAL "fffffffffffffffff"
#define OVER_FIRST " <F 1 100 t100 e8999900 f00000000000000aa"

/* Claims by a message of content ab, over records of content aa: what they are in doubt of, and
 * what a completion that comes to them would be about. */
static void claims_of_another_content(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        const struct delivery *d;
        bool redelivered;
        const char *met;
        const char *next;
    } cases[] = {
        {"a conflict", &plain, false, "2F 1 100 t100 e8999900 f00000000000000aa",
         "2P 2 100 t4999900 " SEVERAL " o" ME ".7" OVER_FIRST},
        {"redelivered: perhaps forwarded before", &plain, true,
         "2F 1 100 t100 e8999900 f00000000000000aa",
         "2P 2 100 t4999900 d " SEVERAL " o" ME ".7" OVER_FIRST},
        {"over one parked in doubt", &plain, false, "2K 1 100 t100 e8999900 d f00000000000000aa",
         "2P 2 100 t4999900 d " SEVERAL " o" ME ".7 <K 1 100 t100 e8999900 d f00000000000000aa"},
        {"over one forwarded in doubt, which is another message", &plain, false,
         "2F 1 100 t100 e8999900 d f00000000000000aa",
         "2P 2 100 t4999900 " SEVERAL " o" ME ".7 <F 1 100 t100 e8999900 d f00000000000000aa"},
        {"comes back to one in doubt", &back1, false, "2F 2 100 t100 e8999900 d f00000000000000aa",
         "2P 3 100 t4999900 d " SEVERAL " o" ME ".7 <F 2 100 t100 e8999900 d f00000000000000aa"},
        {"comes back in its turn", &back1, false, "2F 1 100 t100 e8999900 f00000000000000aa",
         "2P 2 100 t4999900 " SEVERAL " o" ME ".7" OVER_FIRST},
        {"a takeover", &plain, false, "2P 1 100 t100 f00000000000000aa o" OTHER ".1",
         "2P 1 100 t4999900 d " SEVERAL " o" ME ".7"},
        {"a takeover of several", &plain, false, "2P 1 100 t100 d " SEVERAL " o" OTHER ".1",
         "2P 1 100 t4999900 d " SEVERAL " o" ME ".7"},
        {"a takeover of the same", &plain, false, "2P 1 100 t100 f00000000000000ab o" OTHER ".1",
         "2P 1 100 t4999900 d f00000000000000ab o" ME ".7"},
        {"a delivery proves that its own content arrived", &retry1, false,
         "2P 1 100 t100 d " SEVERAL " o" OTHER ".1",
         "2P 2 100 t4999900 f00000000000000ab o" ME
         ".7 <F 1 100 t100 e12199900 d f00000000000000ab"},
    };
    struct claim_rules forward = rules;
    forward.on_conflict = CONFLICT_FORWARD;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct delivery d = *cases[i].d;
        d.redelivered = cases[i].redelivered;
        d.fingerprint = 0xab;
        struct record met = read_record(cases[i].met);
        struct decision got = claim_decide(&d, &met, false, ME, 7, NOW, &forward);
        assert_int_equal(got.verdict, VERDICT_CLAIM);
        same_record(cases[i].label, &got.next, cases[i].next);
    }
    struct delivery back = back1;
    back.fingerprint = 0xab;
    struct record claim = claim_new(&back, ME, 7, NOW);
    same_record("put back where there is no record", &claim,
                "2P 2 100 t4999900 " SEVERAL " o" ME ".7");
}

/* Several contents, and a completion of one: neither message may be called its duplicate. */
static void what_nobody_can_tell_is_a_conflict(void **state)
{
    (void)state;
    struct delivery d = again;
    d.fingerprint = 0xab;
    struct record met = read_record("2P 1 100 t100 c200 d " SEVERAL " o" OTHER ".1");
    struct decision got = claim_decide(&d, &met, false, ME, 7, NOW, &rules);
    assert_int_equal(got.verdict, VERDICT_COMPLETE);
    got = claim_decide(&d, &got.next, false, ME, 7, NOW, &rules);
    assert_int_equal(got.verdict, VERDICT_PARK);
    assert_int_equal(got.reason, PARK_CONFLICT);
}

static void another_routes_retry_is_not_dropped(void **state)
{
    (void)state;
    struct delivery d = chained;
    d.fingerprint = 0xab;
    struct claim_rules r = rules;
    struct record met = read_record("2F 1 100 t100 e8999900 f00000000000000aa");
    struct decision got = claim_decide(&d, &met, false, ME, 7, NOW, &r);
    assert_int_equal(got.reason, PARK_CONFLICT);
    r.on_conflict = CONFLICT_DROP;
    got = claim_decide(&d, &met, false, ME, 7, NOW, &r);
    assert_int_equal(got.verdict, VERDICT_PARK);
    assert_int_equal(got.reason, PARK_OTHER_ROUTE);
}

static void a_noted_completion_ends_my_doubt(void **state)
{
    (void)state;
    struct record met = read_record("2P 1 100 t100 c200 d o" ME ".3");
    struct decision d = claim_decide(&plain, &met, false, ME, 7, NOW, &rules);
    assert_int_equal(d.verdict, VERDICT_COMPLETE);
    same_record("completed", &d.next, "2C 1 100 t100 e12199900 c200 d");
    met = read_record("2P 1 100 t100 c200 o" ME ".3");
    d = claim_decide(&plain, &met, false, ME, 7, NOW, &rules);
    assert_int_equal(d.verdict, VERDICT_MINE);
}

static void counts_duplicates(void **state)
{
    (void)state;
    static const struct {
        const char *met;
        uint32_t count;
        bool sliding;
        const char *want; /* NULL: it stays as it is */
    } cases[] = {
        {"2F 1 100 t100 e8999900", 1, false, "2F 1 100 t100 e8999900 n1 l4999900"},
        {"2C 1 100 t100 e8999900 c200 d n7 l300", 3, false,
         "2C 1 100 t100 e8999900 c200 d n10 l4999900"},
        {"2F 1 100 t100 e8999900", 1, true, "2F 1 100 t100 e12199900 n1 l4999900"},
        {"2F 1 100 t100 e98999900", 1, true, "2F 1 100 t100 e98999900 n1 l4999900"},
        {"2K 1 100 t100 e8999900", 1, true, "2K 1 100 t100 e8999900 n1 l4999900"},
        {"2F 1 100 t100 e8999900 n4294967295 l-99", 2, false,
         "2F 1 100 t100 e8999900 n4294967295 l4999900"},
        {"2F 1 100 t100 e8999900 n1 l4999901", 1, false, "2F 1 100 t100 e8999900 n2 l4999901"},
        {"2P 1 100 t100 o" ME ".7", 1, true, NULL},
        {"", 1, true, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct claim_rules r = rules;
        r.sliding = cases[i].sliding;
        struct record met = read_record(cases[i].met);
        struct record next;
        bool counts = claim_count_duplicates(&met, cases[i].count, NOW, &r, &next);
        assert_int_equal(counts, cases[i].want != NULL);
        if (counts)
            same_record(cases[i].met, &next, cases[i].want);
    }
}

static void records(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        const char *mine;
        enum record_state as;
        const char *want;
    } cases[] = {
        {"forwarded", "2P 1 100 t100 o" ME ".7", RECORD_FORWARDED, "2F 1 100 t4999900 e12199900"},
        {"doubt sticks", "2P 1 100 t100 d o" ME ".7", RECORD_FORWARDED,
         "2F 1 100 t4999900 e12199900 d"},
        {"parked", "2P 1 100 t100 d o" ME ".7", RECORD_PARKED, "2K 1 100 t4999900 e12199900 d"},
        {"a completion came early", "2P 1 100 t100 c200 o" ME ".7", RECORD_FORWARDED,
         "2C 1 100 t4999900 e12199900 c200"},
        {"what was before is over", "2P 2 100 t100 o" ME ".7 <F 1 100 t-99 e-98", RECORD_FORWARDED,
         "2F 2 100 t4999900 e12199900"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record mine = read_record(cases[i].mine);
        struct record r = claim_recorded(&mine, cases[i].as, NOW, &rules);
        same_record(cases[i].label, &r, cases[i].want);
    }
}

static void releases(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        const char *mine;
        const char *want;
    } cases[] = {
        {"over nothing: nothing", "2P 1 100 t100 o" ME ".7", ""},
        {"over nothing, with a note: nothing", "2P 1 100 t100 c200 o" ME ".7", ""},
        {"in doubt: pending and nobody's", "2P 1 100 t100 d o" ME ".7", "2P 1 100 t100 d"},
        {"in doubt, with a note: the note stays", "2P 1 100 t100 c200 d o" ME ".7",
         "2P 1 100 t100 c200 d"},
        {"exactly what was before", "2P 2 100 t100 o" ME ".7 <F 1 100 t50 e8999900 d",
         "2F 1 100 t50 e8999900 d"},
        {"a parked one, too", "2P 2 100 t100 o" ME ".7 <K 1 100 t50 e8999900",
         "2K 1 100 t50 e8999900"},
        {"a completed one, too", "2P 2 400 t100 o" ME ".7 <C 1 100 t50 e8999900 c200",
         "2C 1 100 t50 e8999900 c200"},
        {"with a note, over a forwarded one: completed",
         "2P 2 100 t100 c150 o" ME ".7 <F 1 100 t50 e8999900", "2C 1 100 t50 e8999900 c150"},
        {"and its result is the record's", "2P 2 100 t100 c150 r o" ME ".7 <F 1 100 t50 e8999900",
         "2C 1 100 t50 e8999900 c150 r"},
        {"its window is over meanwhile", "2P 2 100 t100 o" ME ".7 <F 1 100 t50 e4999900", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record mine = read_record(cases[i].mine);
        struct record r = claim_released(&mine, NOW);
        same_record(cases[i].label, &r, cases[i].want);
    }
}

static void knows_its_own(void **state)
{
    (void)state;
    struct record mine = read_record("2P 1 100 t100 o" ME ".7");
    static const struct {
        const char *met;
        bool mine;
        bool records_forwarded;
        bool records_parked;
    } cases[] = {
        {"", false, false, false},
        {"2P 1 100 t100 o" ME ".7", true, true, true},
        {"2P 1 100 t100 c200 o" ME ".7", true, true, true},
        {"2P 1 100 t100 o" ME ".8", false, false, false},
        {"2P 1 100 t100 d o" OTHER ".7", false, false, false},
        {"2P 1 100 t100 d", false, false, false},
        {"2F 1 100 t100 e8999900", false, false, false},
        {"2K 1 100 t100 e8999900 d", false, true, false},
        {"2K 2 100 t100 e8999900 d", false, false, false},
        {"2K 1 101 t99 e8999899 d", false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record met = read_record(cases[i].met);
        assert_int_equal(claim_still_mine(&mine, &met), cases[i].mine);
        assert_int_equal(claim_may_record(&mine, &met, RECORD_FORWARDED),
                         cases[i].records_forwarded);
        assert_int_equal(claim_may_record(&mine, &met, RECORD_PARKED), cases[i].records_parked);
    }
}

static void completes(void **state)
{
    (void)state;
    static const struct {
        const char *met;
        int64_t first_seen;
        enum completion want;
        const char *next;
    } cases[] = {
        {"", 0, COMPLETION_NOT_FOUND, NULL},
        {"2F 1 100 t100 e8999900", 101, COMPLETION_NOT_FOUND, NULL},
        {"2F 1 100 t100 e8999900", 100, COMPLETION_WRITE, "2C 1 100 t100 e8999900 c4999900"},
        {"2K 1 100 t100 e8999900 d", 0, COMPLETION_WRITE, "2C 1 100 t100 e8999900 c4999900 d"},
        {"2C 1 100 t100 e8999900 c200", 0, COMPLETION_ALREADY, NULL},
        {"2P 1 100 t100 o" OTHER ".1", 0, COMPLETION_WRITE, "2P 1 100 t100 c4999900 o" OTHER ".1"},
        {"2P 1 100 t100 c200 o" OTHER ".1", 0, COMPLETION_ALREADY, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record met = read_record(cases[i].met);
        struct record next = {0};
        assert_int_equal(claim_complete(&met, cases[i].first_seen, NOW, &next), cases[i].want);
        if (cases[i].next)
            same_record(cases[i].met, &next, cases[i].next);
    }
}

static void times_to_live(void **state)
{
    (void)state;
    struct claim_rules week = rules;
    week.window = 168 * HOUR;
    struct record pending = read_record("2P 1 100 t100 o" ME ".7");
    struct record forwarded = read_record("2F 1 100 t100 e4999942");
    struct record over = read_record("2F 1 100 t100 e4999899");
    assert_int_equal(claim_ttl(&pending, NOW, &rules), 24 * HOUR);
    assert_int_equal(claim_ttl(&pending, NOW, &week), week.window);
    assert_int_equal(claim_ttl(&forwarded, NOW, &rules), 42);
    assert_int_equal(claim_ttl(&over, NOW, &rules), 1);
}

static void attempts_do_not_wrap(void **state)
{
    (void)state;
    struct delivery last = {.kind = DELIVERY_RETRY, .attempt = UINT32_MAX, .first_seen = 100};
    struct record r = claim_new(&last, ME, 7, NOW);
    assert_true(r.now.number == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides),
        cmocka_unit_test(checks_what_was_dead_lettered),
        cmocka_unit_test(a_completed_key_may_be_free_again),
        cmocka_unit_test(conflicts),
        cmocka_unit_test(claims_of_another_content),
        cmocka_unit_test(what_nobody_can_tell_is_a_conflict),
        cmocka_unit_test(another_routes_retry_is_not_dropped),
        cmocka_unit_test(a_noted_completion_ends_my_doubt),
        cmocka_unit_test(counts_duplicates),
        cmocka_unit_test(records),
        cmocka_unit_test(releases),
        cmocka_unit_test(knows_its_own),
        cmocka_unit_test(completes),
        cmocka_unit_test(times_to_live),
        cmocka_unit_test(attempts_do_not_wrap),
    };
    return cmocka_run_group_tests_name("claim", tests, NULL, NULL);
}
