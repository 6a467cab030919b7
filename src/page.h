/*
 * page - the status page: src/page.html with style and scripts in it, as cmake/embed.cmake
 * compiles it into the program.
 *
 * It is one file that asks for nothing but the paths of docs/openapi.yaml, and holds no data.
 */
#ifndef ONLYONCE_PAGE_H
#define ONLYONCE_PAGE_H

extern const unsigned char page_html[]; /* a text, with its NUL */

#endif
