/*
 * admin_answer - from a request to its answer: which path, which method, who may.
 */
#include "admin_inside.h"

#include <arpa/inet.h>
#include <assert.h>
#include <cjson/cJSON.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DETAIL_MAX 2048

static_assert(ADMIN_DIGEST_SIZE == SHA256_DIGEST_LENGTH, "the token's digest is SHA-256");

/* ---- What is served ---- */

void admin_served_init(struct admin_served *s, const struct config *config,
                       struct route_stats *const *stats, struct report_stats *reports,
                       bool loopback)
{
    *s = (struct admin_served){
        .config = config, .stats = stats, .reports = reports, .loopback = loopback};
    s->stores = xcalloc(config->route_count, sizeof *s->stores);
    for (size_t i = 0; i < config->route_count; i++) {
        pthread_mutex_init(&s->stores[i].lock, NULL);
        s->stores[i].store = store_new(config->routes[i].store_config, config->routes[i].scope);
    }
    const char *token = config->admin.token;
    s->policy = admin_page_policy();
    if (token)
        SHA256((const unsigned char *)token, strlen(token), s->token);
}

void admin_served_free(struct admin_served *s)
{
    for (size_t i = 0; i < s->config->route_count; i++) {
        store_free(s->stores[i].store);
        pthread_mutex_destroy(&s->stores[i].lock);
    }
    free(s->stores);
    free(s->policy);
}

/* ---- Answers ---- */

static const char *title_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *title;
    } titles[] = {
        {400, "Bad Request"},        {401, "Unauthorized"},
        {403, "Forbidden"},          {404, "Not Found"},
        {409, "Conflict"},           {413, "Content Too Large"},
        {405, "Method Not Allowed"}, {503, "Service Unavailable"},
    };
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "Error";
}

void admin_json(struct admin_answer *out, unsigned status, struct cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    buffer_clear(&out->body);
    buffer_printf(&out->body, "%s\n", text ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(object);
    out->status = status;
    out->content_type = status < 400 ? "application/json" : "application/problem+json";
}

void admin_problem(struct admin_answer *out, unsigned status, const char *fmt, ...)
{
    char detail[DETAIL_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    cJSON *problem = cJSON_CreateObject();
    cJSON_AddStringToObject(problem, "type", "about:blank");
    cJSON_AddStringToObject(problem, "title", title_of(status));
    cJSON_AddNumberToObject(problem, "status", status);
    cJSON_AddStringToObject(problem, "detail", detail);
    admin_json(out, status, problem);
}

/* ---- Paths ---- */

enum who {
    EVERYBODY, /* at any address, without a token */
    BROWSERS,  /* likewise where TRUSTED ones have an access: a page that asks for the token */
    TRUSTED    /* with the token; where none is set, at a loopback address and name, to read */
};

/* In a pattern, {route} and {key} stand for one segment each. */
static const struct path {
    const char *pattern;
    enum who who;
    const char *allow;
    admin_handler *get;
    admin_handler *post;
    admin_handler *delete;
} paths[] = {
    {"/", BROWSERS, "GET, HEAD", admin_page, NULL, NULL},
    {"/healthz", EVERYBODY, "GET, HEAD", admin_health, NULL, NULL},
    {"/readyz", EVERYBODY, "GET, HEAD", admin_ready, NULL, NULL},
    {"/metrics", EVERYBODY, "GET, HEAD", admin_metrics, NULL, NULL},
    {"/v1/routes", TRUSTED, "GET, HEAD", admin_routes, NULL, NULL},
    {"/v1/history", TRUSTED, "GET, HEAD", admin_history, NULL, NULL},
    {"/v1/routes/{route}/recent", TRUSTED, "GET, HEAD", admin_recent, NULL, NULL},
    {"/v1/keys/{route}/{key}", TRUSTED, "GET, HEAD, DELETE", admin_key_status, NULL,
     admin_key_release},
    {"/v1/keys/{route}/{key}/complete", TRUSTED, "POST", NULL, admin_key_complete, NULL},
};

/* Takes the segment behind the '/' that *rest begins with. False: there is none. */
static bool take_segment(const char **rest, struct span *out)
{
    if (**rest != '/')
        return false;
    const char *begin = *rest + 1;
    size_t len = strcspn(begin, "/");
    *out = (struct span){(const uint8_t *)begin, len};
    *rest = begin + len;
    return true;
}

struct captured {
    struct span route;
    struct span key;
};

static bool matches(const char *pattern, const char *path, struct captured *out)
{
    struct span want, got;
    while (take_segment(&pattern, &want)) {
        if (!take_segment(&path, &got))
            return false;
        if (span_is(want, "{route}"))
            out->route = got;
        else if (span_is(want, "{key}"))
            out->key = got;
        else if (!span_equal(want, got))
            return false;
    }
    return *path == '\0';
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes percent encoding, once. False: it is none, or encodes a NUL, or is too long. */
static bool decode(struct span text, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int c = text.data[i];
        if (c == '%') {
            bool whole = text.len - i > 2;
            int high = whole ? hex_value(text.data[i + 1]) : -1;
            int low = whole ? hex_value(text.data[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : high * 16 + low;
            i += 2;
        }
        if (c == 0 || len + 1 >= size)
            return false;
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return true;
}

static bool find_route(const struct admin_served *s, struct admin_request *r, const char *name)
{
    r->route = config_route(s->config, name);
    r->route_index = r->route ? (size_t)(r->route - s->config->routes) : 0;
    return r->route;
}

/* Route and key that the path names. False: answered with what is wrong with them. */
static bool read_names(const struct admin_served *s, struct admin_request *r,
                       const struct captured *c, struct admin_answer *out)
{
    char name[80];
    if (!c->route.data)
        return true;
    if (!decode(c->route, name, sizeof name) || !find_route(s, r, name)) {
        admin_problem(out, 404, "there is no such route; /v1/routes lists them");
        return false;
    }
    if (c->key.data && (!decode(c->key, r->key, sizeof r->key) || !key_is_text(span_of(r->key)))) {
        admin_problem(out, 400,
                      "this is no key: a key has 1 to %d bytes of A-Z a-z 0-9 . _ - @ : + , ~",
                      KEY_TEXT_MAX);
        return false;
    }
    return true;
}

/* ---- Who may ---- */

/* Of a token of any length the digests are compared, in constant time. */
static bool has_token(const struct admin_served *s, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    uint8_t digest[ADMIN_DIGEST_SIZE];
    if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
        return false;
    const char *token = authorization + strlen(scheme);
    SHA256((const unsigned char *)token, strlen(token), digest);
    return CRYPTO_memcmp(digest, s->token, sizeof digest) == 0;
}

/* localhost, or an address of loopback: no name server of a stranger's can lead these here. */
static bool is_own_name(const char *name, bool bracketed)
{
    struct in_addr in;
    struct in6_addr in6;
    if (bracketed)
        return inet_pton(AF_INET6, name, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
    return strcasecmp(name, "localhost") == 0 ||
           (inet_pton(AF_INET, name, &in) == 1 && ntohl(in.s_addr) >> 24 == 127);
}

/* A stranger's page whose name has come to mean this host's loopback address (DNS rebinding) could
 * read all answers; but its browser sends that name as Host. NULL, as HTTP/1.0 has it: no browser.
 */
static bool is_own_host(const char *host)
{
    if (!host)
        return true;
    char name[INET6_ADDRSTRLEN];
    bool bracketed = *host == '[';
    const char *begin = host + bracketed;
    size_t len = strcspn(begin, bracketed ? "]" : ":");
    const char *rest = begin + len;
    if (len >= sizeof name || (bracketed && *rest++ != ']'))
        return false;
    if (*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")]))
        return false;
    memcpy(name, begin, len);
    name[len] = '\0';
    return is_own_name(name, bracketed);
}

/* False: answered with why not. */
static bool may(const struct admin_served *s, const struct admin_request *r,
                const struct path *path, bool reads, struct admin_answer *out)
{
    if (path->who == EVERYBODY)
        return true;
    if (s->config->admin.token) {
        if (path->who == BROWSERS || has_token(s, r->authorization))
            return true;
        out->challenge = true;
        out->wrong_token = r->authorization;
        admin_problem(out, 401, "show the token: Authorization: Bearer <admin.token>");
        return false;
    }
    if (!s->loopback)
        admin_problem(out, 403,
                      "without admin.token, an address other than loopback serves only /healthz, "
                      "/readyz and /metrics");
    else if (!is_own_host(r->host))
        admin_problem(out, 403,
                      "without admin.token, Host has to be localhost, 127.x.x.x or [::1], with or "
                      "without a port; set a token for other names");
    else if (!reads)
        admin_problem(out, 403, "without admin.token nothing can be changed; set one");
    else
        return true;
    return false;
}

/* ---- The answer ---- */

static admin_handler *handler_of(const struct path *path, const char *method)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return path->get;
    if (strcmp(method, "POST") == 0)
        return path->post;
    return strcmp(method, "DELETE") == 0 ? path->delete : NULL;
}

static const struct path *find_path(const char *text, struct captured *captured)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        *captured = (struct captured){0};
        if (matches(paths[i].pattern, text, captured))
            return &paths[i];
    }
    return NULL;
}

void admin_answer(struct admin_served *s, struct admin_request *r, struct admin_answer *out)
{
    struct captured captured;
    *out = (struct admin_answer){0};
    const struct path *path = find_path(r->path, &captured);
    if (!path) {
        admin_problem(out, 404, "nothing is at this path; docs/openapi.yaml lists all");
        return;
    }
    admin_handler *handler = handler_of(path, r->method);
    if (!handler) {
        out->allow = path->allow;
        admin_problem(out, 405, "this path takes %s", path->allow);
        return;
    }
    if (!may(s, r, path, handler == path->get, out))
        return;
    if (r->body_too_large && handler == path->post)
        admin_problem(out, 413, "a result has at most %d bytes", STORE_RESULT_MAX);
    else if (read_names(s, r, &captured, out))
        handler(s, r, out);
}
