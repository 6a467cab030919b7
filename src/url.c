#include "url.h"

#include "memory.h"
#include "postgres_url.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BROKER_FORM "amqp://USER:PASSWORD@HOST:PORT/VHOST"
#define NO_HOST "has no host; write one behind \"//\" or \"@\""
#define AT_BEHIND_SLASH                                                                            \
    "has an \"@\" behind a \"/\"; in a name or password write / as %2F and @ as %40"
#define SECOND_AT "has more than one \"@\"; in a name or password write %40"
#define STORE_FORM                                                                                 \
    "redis://HOST:PORT/DATABASE, redis+sentinel://HOST,HOST/MASTER/DATABASE, sqlite:/FILE, "       \
    "postgresql://USER@HOST/DATABASE or memory:"

/* What "//" begins. `rest` is what follows the "/" behind it, or NULL. */
struct authority {
    char *username;
    char *password;
    struct host_port at;
    const char *rest;
};

static void free_authority(struct authority *a)
{
    free(a->username);
    free(a->password);
    free(a->at.host);
    *a = (struct authority){0};
}

static int hex_value(char c)
{
    if (!isxdigit((unsigned char)c))
        return -1;
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* Percent-decodes `len` bytes into *out. */
static const char *decode(const char *text, size_t len, char **out)
{
    char *to = *out = xmalloc(len + 1);
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_value(text[i + 1]) : -1;
            int low = high >= 0 ? hex_value(text[i + 2]) : -1;
            if (low < 0)
                return "a \"%\" must be followed by two hex digits; write the character itself as "
                       "%25";
            c = (char)(high * 16 + low);
            if (c == '\0')
                return "%00 (a NUL byte) is not allowed";
            i += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return NULL;
}

/* The characters that would end or split the authority early. A password may hold any of them, so
 * no message shows what was found. */
static const char *find_stray(const char *text)
{
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return "has a space or a control character; write it as %XX, a space as %20";
    if (strpbrk(text, "?#"))
        return "has a \"?\" or \"#\", which mean nothing here; in a name or password write %3F and "
               "%23";
    size_t authority = strcspn(text, "/");
    if (strchr(text + authority, '@'))
        return AT_BEHIND_SLASH;
    const char *at = memchr(text, '@', authority);
    if (at && strchr(at + 1, '@'))
        return SECOND_AT;
    return NULL;
}

static const char *read_user(const char *text, size_t len, struct authority *a)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon ? (size_t)(colon - text) : len;
    const char *bad = NULL;
    if (user_len > 0)
        bad = decode(text, user_len, &a->username);
    if (!bad && colon)
        bad = decode(colon + 1, len - user_len - 1, &a->password);
    if (bad)
        return bad;
    if (a->password && !*a->password)
        return "has an empty password; leave out the \":\", or write the password behind it";
    return a->username || a->password ? NULL : "has nothing before \"@\"; leave out the \"@\"";
}

static const char *read_port(const char *text, size_t len, int *port)
{
    int n = 0;
    bool digits = len > 0 && len <= 5;
    for (size_t i = 0; digits && i < len; i++) {
        digits = isdigit((unsigned char)text[i]);
        n = n * 10 + (text[i] - '0');
    }
    if (!digits || n < 1 || n > 65535)
        return "has a port that is not a number from 1 to 65535; or a username and password lack "
               "their \"@HOST\"";
    *port = n;
    return NULL;
}

static bool is_host_name(const char *host)
{
    for (const char *p = host; *p; p++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_", *p))
            return false;
    return *host && strlen(host) <= 253;
}

static const char *read_host(const char *text, size_t len, struct host_port *out)
{
    if (len == 0)
        return NO_HOST;
    if (*text == '[') {
        const char *end = memchr(text, ']', len);
        struct in6_addr ignored;
        out->host = xasprintf("%.*s", end ? (int)(end - text - 1) : 0, text + 1);
        if (!end || inet_pton(AF_INET6, out->host, &ignored) != 1)
            return "has no IPv6 address between \"[\" and \"]\"; write one as in [::1]";
        len -= (size_t)(end + 1 - text);
        text = end + 1;
    } else {
        size_t host_len = strcspn(text, ":/");
        if (host_len > len)
            host_len = len;
        if (host_len < len && memchr(text + host_len + 1, ':', len - host_len - 1))
            return "has more than one \":\" in its host; write an IPv6 address in brackets, as in "
                   "[::1]";
        if (host_len == 0)
            return NO_HOST;
        out->host = xasprintf("%.*s", (int)host_len, text);
        if (!is_host_name(out->host))
            return "has a host that is neither name nor address; write 1 to 253 of A-Z a-z 0-9 . - "
                   "_";
        len -= host_len;
        text += host_len;
    }
    if (len == 0)
        return NULL;
    if (*text != ':')
        return "has something between \"]\" and the port; write [ADDRESS]:PORT";
    return read_port(text + 1, len - 1, &out->port);
}

/* Reads what follows "SCHEME://", but for its hosts, which are *len bytes at *hosts. */
static const char *read_login(const char *text, struct authority *a, const char **hosts,
                              size_t *len)
{
    *a = (struct authority){0};
    const char *bad = find_stray(text);
    *len = strcspn(text, "/");
    *hosts = text;
    a->rest = text[*len] ? text + *len + 1 : NULL;
    const char *at = memchr(text, '@', *len);
    if (!at)
        return bad;
    *hosts = at + 1;
    *len -= (size_t)(at + 1 - text);
    return bad ? bad : read_user(text, (size_t)(at - text), a);
}

/* Reads what follows "SCHEME://". */
static const char *read_authority(const char *text, int default_port, struct authority *a)
{
    const char *hosts;
    size_t len;
    const char *bad = read_login(text, a, &hosts, &len);
    a->at.port = default_port;
    return bad ? bad : read_host(hosts, len, &a->at);
}

/* What follows the scheme, in whatever case it is written, or NULL. */
static const char *after_scheme(const char *text, const char *scheme)
{
    size_t len = strlen(scheme);
    return strncasecmp(text, scheme, len) == 0 ? text + len : NULL;
}

/* Says what is wrong with a scheme. The scheme is shown only if it can be nothing else. */
static const char *wrong_scheme(const char *text, const char *form, char error[256])
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+");
    if (len == 0 || len > 20 || strncmp(text + len, "://", 3) != 0)
        snprintf(error, 256, "has no scheme that is known here; write %s", form);
    else
        snprintf(error, 256, "has a scheme that is not known here, %.*s://; write %s", (int)len,
                 text, form);
    return error;
}

const char *url_read_listen(const char *text, struct host_port *out)
{
    *out = (struct host_port){0};
    const char *bad = strpbrk(text, "/@?# ") ? "is no ADDRESS:PORT; write 127.0.0.1:8080"
                      : *text == ':'
                          ? "has no address; write 127.0.0.1:PORT, or 0.0.0.0:PORT for all"
                          : read_host(text, strlen(text), out);
    if (!bad && out->port == 0)
        bad = "has no port; write 127.0.0.1:8080";
    if (bad) {
        free(out->host);
        *out = (struct host_port){0};
    }
    return bad;
}

/* ---- The broker's ---- */

/* "/", the default virtual host, has every spelling that people use. */
static const char *read_vhost(const char *rest, char **out)
{
    if (!rest || !*rest || strcmp(rest, "/") == 0) {
        *out = xstrdup("/");
        return NULL;
    }
    if (strchr(rest, '/'))
        return "has a second \"/\" in its virtual host; write / as %2F there, and none at the end";
    const char *bad = decode(rest, strlen(rest), out);
    if (bad)
        return bad;
    for (const char *p = *out; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return "has a control character in its virtual host";
    return strlen(*out) > 255 ? "has a virtual host of more than 255 bytes" : NULL;
}

const char *url_read_broker(const char *text, struct broker_url *out, char error[256])
{
    *out = (struct broker_url){0};
    const char *rest = after_scheme(text, "amqp://");
    if (!rest) {
        rest = after_scheme(text, "amqps://");
        out->tls = rest != NULL;
    }
    if (!rest)
        return wrong_scheme(text, BROKER_FORM, error);
    struct authority a;
    const char *bad = read_authority(rest, out->tls ? 5671 : 5672, &a);
    if (!bad && a.password && !a.username)
        bad = "has a password and no username; write USER:PASSWORD@";
    if (!bad)
        bad = read_vhost(a.rest, &out->vhost);
    if (bad) {
        free_authority(&a);
        url_free_broker(out);
        return bad;
    }
    out->host = a.at.host;
    out->port = a.at.port;
    out->username = a.username;
    out->password = a.password;
    return NULL;
}

void url_free_broker(struct broker_url *url)
{
    free(url->host);
    free(url->vhost);
    free(url->username);
    free(url->password);
    *url = (struct broker_url){0};
}

/* ---- A store's ---- */

static const char *read_database(const char *rest, int *database)
{
    size_t len = rest ? strlen(rest) : 0;
    if (len > 5 || (len > 0 && strspn(rest, "0123456789") != len))
        return "has a database that is not a number; write redis://HOST:PORT/0";
    *database = len > 0 ? atoi(rest) : 0;
    return NULL;
}

static const char *read_redis(const char *text, struct store_url *out)
{
    struct authority a;
    const char *bad = read_authority(text, 6379, &a);
    if (!bad)
        bad = read_database(a.rest, &out->database);
    if (bad) {
        free_authority(&a);
        return bad;
    }
    out->host = a.at.host;
    out->port = a.at.port;
    out->username = a.username;
    out->password = a.password;
    return NULL;
}

static const char *read_sentinel_hosts(const char *text, size_t len, struct store_url *out)
{
    for (;;) {
        const char *comma = memchr(text, ',', len);
        size_t host_len = comma ? (size_t)(comma - text) : len;
        if (out->sentinel_count == URL_SENTINELS_MAX)
            return "names more than 16 Sentinels; three will do";
        struct host_port *at = &out->sentinels[out->sentinel_count++];
        at->port = 26379;
        const char *bad = read_host(text, host_len, at);
        if (bad || !comma)
            return bad;
        text += host_len + 1;
        len -= host_len + 1;
    }
}

/* "MASTER/DATABASE". */
static const char *read_master(const char *rest, struct store_url *out)
{
    size_t len = rest ? strcspn(rest, "/") : 0;
    if (len == 0)
        return "does not name the master; write redis+sentinel://HOST,HOST/MASTER/DATABASE";
    const char *bad = decode(rest, len, &out->master);
    return bad ? bad : read_database(rest[len] ? rest + len + 1 : NULL, &out->database);
}

static const char *read_sentinels(const char *text, struct store_url *out)
{
    struct authority a;
    const char *hosts;
    size_t len;
    const char *bad = read_login(text, &a, &hosts, &len);
    if (!bad)
        bad = read_sentinel_hosts(hosts, len, out);
    if (!bad)
        bad = read_master(a.rest, out);
    out->username = a.username;
    out->password = a.password;
    return bad;
}

/* Relative paths are refused: each command would look in the folder where it was started. */
static const char *read_sqlite(const char *path, struct store_url *out)
{
    size_t len = strlen(path);
    if (strcmp(path, ":memory:") == 0)
        return "is SQLite's memory, which no second connection shares; write memory:";
    if (*path == '/' && path[1] == '/')
        return "has more than one slash before its path; write "
               "sqlite:/var/lib/onlyonce/onlyonce.db";
    if (*path != '/')
        return "has no absolute path; write sqlite:/var/lib/onlyonce/onlyonce.db";
    if (path[len - 1] == '/')
        return "names a folder; write the name of a file in it, as "
               "sqlite:/var/lib/onlyonce/onlyonce.db";
    out->path = xstrdup(path);
    return NULL;
}

/* libpq takes what is before the first "@" for the login, and all between that and a "?" for hosts
 * and database, which are shown: no piece of a password may be among them. */
static const char *find_stray_at(const char *text)
{
    size_t authority = strcspn(text, "/");
    const char *login_end = memchr(text, '@', authority);
    const char *shown = login_end ? login_end + 1 : text;
    const char *at = memchr(shown, '@', strcspn(shown, "?"));
    if (!at)
        return NULL;
    return at < text + authority ? SECOND_AT : AT_BEHIND_SLASH;
}

/* What libpq would find only when it connects. */
static const char *check_postgres_lists(const PQconninfoOption *options)
{
    size_t hosts = postgres_url_count(postgres_url_option(options, "host"));
    size_t addresses = postgres_url_count(postgres_url_option(options, "hostaddr"));
    const char *list = postgres_url_option(options, "port");
    size_t ports = postgres_url_count(list);
    if ((hosts && addresses && hosts != addresses) ||
        (ports > 1 && ports != (hosts ? hosts : addresses)))
        return "has lists of host, hostaddr and port that are not of one length; name one of each "
               "for a host, or one port for all";
    const char *bad = NULL;
    for (size_t i = 0; i < ports && !bad; i++) {
        int ignored;
        char *port = postgres_url_item(list, i);
        bad = *port ? read_port(port, strlen(port), &ignored) : NULL;
        free(port);
    }
    return bad;
}

/* libpq's own words are not shown, as they may repeat a piece of the password. */
static const char *read_postgres(const char *text, struct store_url *out)
{
    const char *stray = find_stray_at(strstr(text, "//") + 2);
    if (stray)
        return stray;
    char *error = NULL;
    PQconninfoOption *parsed = PQconninfoParse(text, &error);
    bool parameter = error && strstr(error, "URI query parameter");
    bool good = parsed != NULL;
    const char *bad = good ? check_postgres_lists(parsed) : NULL;
    PQconninfoFree(parsed);
    PQfreemem(error);
    if (!good)
        return parameter ? "has a parameter behind \"?\" that libpq does not know; its manual "
                           "lists them under Parameter Key Words"
                         : "is not understood by libpq; write "
                           "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and any other than a "
                           "letter or digit in these as %XX";
    if (bad)
        return bad;
    out->postgres = xstrdup(text);
    return NULL;
}

static const char *read_store(const char *text, struct store_url *out, char error[256])
{
    static const struct scheme {
        const char *text;
        enum store_kind kind;
        bool tls;
        const char *(*read)(const char *rest, struct store_url *out);
    } schemes[] = {
        {"redis://", STORE_REDIS, false, read_redis},
        {"rediss://", STORE_REDIS, true, read_redis},
        {"redis+sentinel://", STORE_REDIS, false, read_sentinels},
        {"rediss+sentinel://", STORE_REDIS, true, read_sentinels},
        {"sqlite:", STORE_SQLITE, false, read_sqlite},
    };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const char *rest = after_scheme(text, schemes[i].text);
        out->kind = schemes[i].kind;
        out->tls = schemes[i].tls;
        if (rest)
            return schemes[i].read(rest, out);
    }
    out->tls = false;
    out->kind = STORE_POSTGRES;
    if (after_scheme(text, "postgresql://") || after_scheme(text, "postgres://"))
        return read_postgres(text, out);
    out->kind = STORE_MEMORY;
    if (strcasecmp(text, "memory:") == 0)
        return NULL;
    if (after_scheme(text, "memory"))
        return "is not understood; a store in memory is written memory:";
    return wrong_scheme(text, STORE_FORM, error);
}

const char *url_read_store(const char *text, struct store_url *out, char error[256])
{
    *out = (struct store_url){0};
    const char *bad = read_store(text, out, error);
    if (bad)
        url_free_store(out);
    return bad;
}

void url_free_store(struct store_url *url)
{
    for (size_t i = 0; i < url->sentinel_count; i++)
        free(url->sentinels[i].host);
    free(url->host);
    free(url->username);
    free(url->password);
    free(url->master);
    free(url->path);
    free(url->postgres);
    *url = (struct store_url){0};
}
