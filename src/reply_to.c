#include "reply_to.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>

#define PREFIX REPLY_TO_DIRECT "."
#define PREFIX_LEN (sizeof PREFIX - 1)

/* Erlang's external term format of a process, as the token has it. */
#define TERM 131
#define PROCESS 88
#define ATOM_LONG 118  /* two bytes of length */
#define ATOM_SHORT 119 /* one */
#define PROCESS_NUMBERS 12

bool reply_to_is_direct(struct span address)
{
    return address.len >= PREFIX_LEN && memcmp(address.data, PREFIX, PREFIX_LEN) == 0;
}

/* Strict: nothing but whole groups of four. False: it is no such text, or an empty one. */
static bool decode(struct span text, uint8_t out[192], size_t *len)
{
    size_t padding = 0;
    while (padding < 2 && padding < text.len && text.data[text.len - 1 - padding] == '=')
        padding++;
    if (text.len == 0 || text.len % 4 != 0)
        return false;
    for (size_t i = 0; i < text.len - padding; i++)
        if (!isalnum(text.data[i]) && text.data[i] != '+' && text.data[i] != '/')
            return false;
    int decoded = EVP_DecodeBlock(out, text.data, (int)text.len);
    *len = decoded < 0 ? 0 : (size_t)decoded - padding;
    return decoded >= 0;
}

/* A node as tokens shorten it: a word, "@", and a number. */
static bool is_node(const uint8_t *name, size_t len)
{
    const uint8_t *at = memchr(name, '@', len);
    if (!at || at == name || at + 1 == name + len)
        return false;
    for (const uint8_t *p = name; p < name + len; p++)
        if (p < at ? !isalpha(*p) : p > at && !isdigit(*p))
            return false;
    return true;
}

static bool is_process(const uint8_t *term, size_t len)
{
    if (len < 5 || term[0] != TERM || term[1] != PROCESS)
        return false;
    size_t header = term[2] == ATOM_LONG ? 5 : 4;
    if (term[2] != ATOM_LONG && term[2] != ATOM_SHORT)
        return false;
    size_t name = header == 5 ? (size_t)term[3] << 8 | term[4] : term[3];
    return len == header + name + PROCESS_NUMBERS && is_node(term + header, name);
}

bool reply_to_is_usable(struct span address)
{
    if (!reply_to_is_direct(address))
        return address.len > 0 && !span_is(address, REPLY_TO_DIRECT);
    struct span token = {address.data + PREFIX_LEN, address.len - PREFIX_LEN};
    const uint8_t *dot = token.len ? memchr(token.data, '.', token.len) : NULL;
    if (!dot || token.len > UINT8_MAX)
        return false;
    struct span process = {token.data, (size_t)(dot - token.data)};
    struct span key = {dot + 1, token.len - process.len - 1};
    uint8_t bytes[192]; /* of at most 255 characters */
    size_t len;
    return decode(key, bytes, &len) && decode(process, bytes, &len) && is_process(bytes, len);
}
