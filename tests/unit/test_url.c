/*
 * URLs: every usual spelling, and for what is wrong a text that says so and shows no password.
 */
#include "url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void same_text(const char *label, const char *got, const char *want)
{
    if (got && want ? strcmp(got, want) != 0 : got != want)
        fail_msg("%s: got \"%s\", want \"%s\"", label, got ? got : "(null)",
                 want ? want : "(null)");
}

static void test_broker_urls_that_are_read(void **state)
{
    static const struct {
        const char *in, *host, *vhost, *username, *password;
        int port;
        bool tls;
    } cases[] = {
        {"amqp://rabbit", "rabbit", "/", NULL, NULL, 5672, false},
        {"amqp://rabbit/", "rabbit", "/", NULL, NULL, 5672, false},
        {"amqp://rabbit//", "rabbit", "/", NULL, NULL, 5672, false},
        {"amqp://rabbit/%2f", "rabbit", "/", NULL, NULL, 5672, false},
        {"amqp://rabbit/%2F", "rabbit", "/", NULL, NULL, 5672, false},
        {"AMQP://rabbit:1", "rabbit", "/", NULL, NULL, 1, false},
        {"amqps://rabbit", "rabbit", "/", NULL, NULL, 5671, true},
        {"amqps://rabbit:65535/prod", "rabbit", "prod", NULL, NULL, 65535, true},
        {"amqp://10.0.0.1:5673/a%2Fb%25", "10.0.0.1", "a/b%", NULL, NULL, 5673, false},
        {"amqp://[::1]", "::1", "/", NULL, NULL, 5672, false},
        {"amqp://u:p@[fe80::1]:7/v", "fe80::1", "v", "u", "p", 7, false},
        {"amqp://u@rabbit", "rabbit", "/", "u", NULL, 5672, false},
        {"amqp://u:p@rabbit", "rabbit", "/", "u", "p", 5672, false},
        {"amqp://u:a:b@rabbit", "rabbit", "/", "u", "a:b", 5672, false},
        {"amqp://u%40x:%3a%2F%3f%23%40%25%20@rabbit/%20", "rabbit", " ", "u@x", ":/?#@% ", 5672,
         false},
        {"amqp://u:+$,;=!*'()&@my_host-1.example.com", "my_host-1.example.com", "/", "u",
         "+$,;=!*'()&", 5672, false},
        {"amqp://u:p\xc3\xa4ss@h/\xc3\xbc", "h", "\xc3\xbc", "u", "p\xc3\xa4ss", 5672, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct broker_url url;
        char error[256];
        same_text(cases[i].in, url_read_broker(cases[i].in, &url, error), NULL);
        same_text(cases[i].in, url.host, cases[i].host);
        same_text(cases[i].in, url.vhost, cases[i].vhost);
        same_text(cases[i].in, url.username, cases[i].username);
        same_text(cases[i].in, url.password, cases[i].password);
        assert_int_equal(url.port, cases[i].port);
        assert_int_equal(url.tls, cases[i].tls);
        url_free_broker(&url);
    }
}

#define NO_PORT                                                                                    \
    "has a port that is not a number from 1 to 65535; or a username and password lack their "      \
    "\"@HOST\""
#define NO_HOST "has no host; write one behind \"//\" or \"@\""
#define NO_NAME "has a host that is neither name nor address; write 1 to 253 of A-Z a-z 0-9 . - _"
#define MANY_COLONS                                                                                \
    "has more than one \":\" in its host; write an IPv6 address in brackets, as in [::1]"
#define FORM "amqp://USER:PASSWORD@HOST:PORT/VHOST"
#define BAD_PERCENT "a \"%\" must be followed by two hex digits; write the character itself as %25"

static void test_broker_urls_that_are_refused(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"", "has no scheme that is known here; write " FORM},
        {"rabbit", "has no scheme that is known here; write " FORM},
        {"rabbit:5672", "has no scheme that is known here; write " FORM},
        {"u:s3cret@rabbit", "has no scheme that is known here; write " FORM},
        {"amqp:rabbit", "has no scheme that is known here; write " FORM},
        {"http://u:s3cret@h", "has a scheme that is not known here, http://; write " FORM},
        {"amqp://", NO_HOST},
        {"amqp:///v", NO_HOST},
        {"amqp://u:s3cret@", NO_HOST},
        {"amqp://u:s3cret@:5672", NO_HOST},
        {"amqp://ra%62bit", NO_NAME},
        {"amqp://rabbit:", NO_PORT},
        {"amqp://rabbit:0", NO_PORT},
        {"amqp://rabbit:65536", NO_PORT},
        {"amqp://rabbit:4294972968", NO_PORT},
        {"amqp://rabbit:-1", NO_PORT},
        {"amqp://rabbit:+1", NO_PORT},
        {"amqp://user:s3cret", NO_PORT},
        {"amqp://u:s3cret/word@h",
         "has an \"@\" behind a \"/\"; in a name or password write / as %2F and @ as %40"},
        {"amqp://u:p@h/a@b",
         "has an \"@\" behind a \"/\"; in a name or password write / as %2F and @ as %40"},
        {"amqp://u:s3@cret@h", "has more than one \"@\"; in a name or password write %40"},
        {"amqp://u:s3?cret@h",
         "has a \"?\" or \"#\", which mean nothing here; in a name or password write %3F and %23"},
        {"amqp://u:s3#cret@h",
         "has a \"?\" or \"#\", which mean nothing here; in a name or password write %3F and %23"},
        {"amqp://h?heartbeat=5",
         "has a \"?\" or \"#\", which mean nothing here; in a name or password write %3F and %23"},
        {"amqp://u:s3 cret@h",
         "has a space or a control character; write it as %XX, a space as %20"},
        {"amqp://h\n", "has a space or a control character; write it as %XX, a space as %20"},
        {"amqp://u:s3%cret@h", BAD_PERCENT},
        {"amqp://u:s3cret%@h", BAD_PERCENT},
        {"amqp://u:s3cret%4@h", BAD_PERCENT},
        {"amqp://h/%", BAD_PERCENT},
        {"amqp://u:s3cret%00@h", "%00 (a NUL byte) is not allowed"},
        {"amqp://@h", "has nothing before \"@\"; leave out the \"@\""},
        {"amqp://u:@h",
         "has an empty password; leave out the \":\", or write the password behind it"},
        {"amqp://:s3cret@h", "has a password and no username; write USER:PASSWORD@"},
        {"amqp://::1", MANY_COLONS},
        {"amqp://fe80::1:5672", MANY_COLONS},
        {"amqp://[::1", "has no IPv6 address between \"[\" and \"]\"; write one as in [::1]"},
        {"amqp://[rabbit]", "has no IPv6 address between \"[\" and \"]\"; write one as in [::1]"},
        {"amqp://[::1]5672", "has something between \"]\" and the port; write [ADDRESS]:PORT"},
        {"amqp://h/a/b",
         "has a second \"/\" in its virtual host; write / as %2F there, and none at the end"},
        {"amqp://h/prod/",
         "has a second \"/\" in its virtual host; write / as %2F there, and none at the end"},
        {"amqp://h/a%0Ab", "has a control character in its virtual host"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct broker_url url;
        char error[256];
        const char *got = url_read_broker(cases[i].in, &url, error);
        same_text(cases[i].in, got, cases[i].want);
        assert_null(strstr(got, "s3"));
        assert_null(strstr(got, "cret"));
        assert_null(url.host);
        assert_null(url.password);
    }
}

static void test_long_names(void **state)
{
    char text[400] = "amqp://h/";
    char error[256];
    struct broker_url url;
    (void)state;
    memset(text + 9, 'v', 255);
    assert_null(url_read_broker(text, &url, error));
    assert_int_equal(strlen(url.vhost), 255);
    url_free_broker(&url);
    text[9 + 255] = 'v';
    same_text("vhost", url_read_broker(text, &url, error),
              "has a virtual host of more than 255 bytes");
    memset(text + 7, 'h', 254);
    text[7 + 254] = '\0';
    same_text("host", url_read_broker(text, &url, error), NO_NAME);
}

static void test_store_urls_that_are_read(void **state)
{
    static const struct {
        const char *in;
        enum store_kind kind;
        const char *host;
        int port, database;
        const char *username, *password;
    } cases[] = {
        {"memory:", STORE_MEMORY, NULL, 0, 0, NULL, NULL},
        {"redis://r", STORE_REDIS, "r", 6379, 0, NULL, NULL},
        {"redis://r/", STORE_REDIS, "r", 6379, 0, NULL, NULL},
        {"redis://r:7/12", STORE_REDIS, "r", 7, 12, NULL, NULL},
        {"redis://:p%40w@r", STORE_REDIS, "r", 6379, 0, NULL, "p@w"},
        {"redis://u:p@[::1]:7/1", STORE_REDIS, "::1", 7, 1, "u", "p"},
        {"redis://u@r", STORE_REDIS, "r", 6379, 0, "u", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct store_url url;
        char error[256];
        same_text(cases[i].in, url_read_store(cases[i].in, &url, error), NULL);
        assert_int_equal(url.kind, cases[i].kind);
        same_text(cases[i].in, url.host, cases[i].host);
        same_text(cases[i].in, url.username, cases[i].username);
        same_text(cases[i].in, url.password, cases[i].password);
        assert_int_equal(url.port, cases[i].port);
        assert_int_equal(url.database, cases[i].database);
        url_free_store(&url);
    }
}

static void test_other_stores_urls_that_are_read(void **state)
{
    struct store_url url;
    char error[256];
    (void)state;
    assert_null(url_read_store("rediss+sentinel://u:p@a,[::1]:7,c/my%2Fmaster/3", &url, error));
    assert_true(url.kind == STORE_REDIS && url.tls && !url.host);
    assert_int_equal(url.sentinel_count, 3);
    same_text("first", url.sentinels[0].host, "a");
    assert_int_equal(url.sentinels[0].port, 26379);
    same_text("second", url.sentinels[1].host, "::1");
    assert_int_equal(url.sentinels[1].port, 7);
    same_text("third", url.sentinels[2].host, "c");
    same_text("master", url.master, "my/master");
    same_text("user", url.username, "u");
    same_text("password", url.password, "p");
    assert_int_equal(url.database, 3);
    url_free_store(&url);
    assert_null(url_read_store("REDISS://r", &url, error));
    assert_true(url.kind == STORE_REDIS && url.tls);
    url_free_store(&url);
    assert_null(url_read_store("sqlite:/var/lib/a b?c#%41.db", &url, error));
    assert_int_equal(url.kind, STORE_SQLITE);
    same_text("path", url.path, "/var/lib/a b?c#%41.db");
    url_free_store(&url);
    static const char *const postgres[] = {
        "postgresql://u:p@a:1,b:2/d?target_session_attrs=read-write",
        "postgres://h",
        "postgresql:///d?host=/run",
        "postgresql://u:a?b#c:d,e@h/d",
        "postgresql://u@h?host=@abstract",
        "postgresql://a,b/d?port=7",
        "postgresql://a,b:7/d?hostaddr=127.0.0.1,::1"};
    for (size_t i = 0; i < COUNT(postgres); i++) {
        same_text(postgres[i], url_read_store(postgres[i], &url, error), NULL);
        assert_int_equal(url.kind, STORE_POSTGRES);
        same_text(postgres[i], url.postgres, postgres[i]);
        url_free_store(&url);
    }
}

#define FORMS                                                                                      \
    "redis://HOST:PORT/DATABASE, redis+sentinel://HOST,HOST/MASTER/DATABASE, sqlite:/FILE, "       \
    "postgresql://USER@HOST/DATABASE or memory:"
#define LISTS                                                                                      \
    "has lists of host, hostaddr and port that are not of one length; name one of each for a "     \
    "host, or one port for all"
#define POSTGRES                                                                                   \
    "is not understood by libpq; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and any "    \
    "other than a letter or digit in these as %XX"
#define NO_PATH "has no absolute path; write sqlite:/var/lib/onlyonce/onlyonce.db"
#define NO_MASTER "does not name the master; write redis+sentinel://HOST,HOST/MASTER/DATABASE"

static void test_store_urls_that_are_refused(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"redis:6379", "has no scheme that is known here; write " FORMS},
        {"valkey://r", "has a scheme that is not known here, valkey://; write " FORMS},
        {"redis+sentinel://:s3cret@a,b", NO_MASTER},
        {"redis+sentinel://a,b/", NO_MASTER},
        {"redis+sentinel://a,,b/m", NO_HOST},
        {"redis+sentinel://a,b,/m", NO_HOST},
        {"redis+sentinel:///m", NO_HOST},
        {"redis+sentinel://a:s3cret,b/m", NO_PORT},
        {"redis+sentinel://a/m/x",
         "has a database that is not a number; write redis://HOST:PORT/0"},
        {"redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m",
         "names more than 16 Sentinels; three will do"},
        {"sqlite:", NO_PATH},
        {"sqlite:onlyonce.db", NO_PATH},
        {"sqlite:///var/lib/x",
         "has more than one slash before its path; write sqlite:/var/lib/onlyonce/onlyonce.db"},
        {"sqlite::memory:", "is SQLite's memory, which no second connection shares; write memory:"},
        {"sqlite:/var/lib/",
         "names a folder; write the name of a file in it, as sqlite:/var/lib/onlyonce/onlyonce.db"},
        {"postgresql://u:s3cret%@h/d", POSTGRES},
        {"postgresql://u:s3cret@[::1/d", POSTGRES},
        {"postgresql://u:p@s3cret@h/d", "has more than one \"@\"; in a name or password write %40"},
        {"postgresql://u:s3cret/w@h/d",
         "has an \"@\" behind a \"/\"; in a name or password write / as %2F and @ as %40"},
        {"postgresql://u:p@s/s3cret@h/d",
         "has an \"@\" behind a \"/\"; in a name or password write / as %2F and @ as %40"},
        {"postgresql://u:s3cret", NO_PORT},
        {"postgresql://u:s3cret/d", NO_PORT},
        {"postgresql://a:1,b:0/d", NO_PORT},
        {"postgresql://a,b/d?port=1,x", NO_PORT},
        {"postgresql://a,b/d?port=1,2,3", LISTS},
        {"postgresql://a,b/d?hostaddr=127.0.0.1", LISTS},
        {"postgresql:///d?port=1,2", LISTS},
        {"postgresql://u@h/d?s3cret=1",
         "has a parameter behind \"?\" that libpq does not know; its manual lists them under "
         "Parameter Key Words"},
        {"memory", "is not understood; a store in memory is written memory:"},
        {"memory://", "is not understood; a store in memory is written memory:"},
        {"redis://r/x", "has a database that is not a number; write redis://HOST:PORT/0"},
        {"redis://r/-1", "has a database that is not a number; write redis://HOST:PORT/0"},
        {"redis://r/0/", "has a database that is not a number; write redis://HOST:PORT/0"},
        {"redis://r/999999", "has a database that is not a number; write redis://HOST:PORT/0"},
        {"redis://", NO_HOST},
        {"redis://s3cret:x", NO_PORT},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct store_url url;
        char error[256];
        const char *got = url_read_store(cases[i].in, &url, error);
        same_text(cases[i].in, got, cases[i].want);
        assert_null(strstr(got, "s3cret"));
        assert_null(url.host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broker_urls_that_are_read),
        cmocka_unit_test(test_broker_urls_that_are_refused),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_store_urls_that_are_read),
        cmocka_unit_test(test_other_stores_urls_that_are_read),
        cmocka_unit_test(test_store_urls_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
