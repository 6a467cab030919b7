/*
 * admin_page - the status page, and what a browser may do with it.
 */
#include "admin_inside.h"

#include "page.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <string.h>

/* The hash of what stands between the page's only two tags of that kind, as browsers compute it. */
static void add_hash(struct buffer *out, const char *begin_tag, const char *end_tag)
{
    const char *begin = strstr((const char *)page_html, begin_tag);
    assert(begin);
    begin += strlen(begin_tag);
    const char *end = strstr(begin, end_tag);
    assert(end);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    unsigned char text[4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1];
    SHA256((const unsigned char *)begin, (size_t)(end - begin), digest);
    EVP_EncodeBlock(text, digest, sizeof digest);
    buffer_printf(out, "'sha256-%s'", (const char *)text);
}

/* Its own script and style, its icon, and requests to where it came from: no more. */
char *admin_page_policy(void)
{
    struct buffer out = {0};
    buffer_printf(&out, "default-src 'none'; script-src ");
    add_hash(&out, "<script>", "</script>");
    buffer_printf(&out, "; style-src ");
    add_hash(&out, "<style>", "</style>");
    buffer_printf(&out, "; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                        "frame-ancestors 'none'; require-trusted-types-for 'script'");
    buffer_add_u8(&out, '\0');
    return (char *)out.data;
}

void admin_page(struct admin_served *s, const struct admin_request *r, struct admin_answer *out)
{
    (void)r;
    out->status = 200;
    out->content_type = "text/html; charset=utf-8";
    out->policy = s->policy;
    buffer_add(&out->body, page_html, strlen((const char *)page_html));
}
