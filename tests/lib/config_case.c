#include "config_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/onlyonce-test-XXXXXX";
char config_path[sizeof folder + 16];
char config_secret_path[sizeof folder + 16];

void config_write_file(const char *path, struct span content)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(content.data, 1, content.len, f), content.len);
    assert_int_equal(fclose(f), 0);
}

char *config_build(const char *broker, const char *store, const char *route)
{
    return xasprintf("broker: {%s}\nstores: [{%s}]\nroutes: [{%s}]\n", broker ? broker : BROKER,
                     store ? store : STORE, route ? route : ROUTE);
}

void same_text(const char *label, const char *got, const char *want)
{
    if (got && want ? strcmp(got, want) != 0 : got != want)
        fail_msg("%s:\n got: %s\nwant: %s", label, got ? got : "(null)", want ? want : "(null)");
}

struct config *config_load_good(const char *label, struct span text)
{
    struct buffer errors = {0};
    config_write_file(config_path, text);
    struct config *config = config_load(config_path, &errors);
    if (!config)
        fail_msg("%s: %.*s", label, (int)errors.len, (const char *)errors.data);
    assert_int_equal(errors.len, 0);
    return config;
}

void config_expect_faults(const char *label, struct span text, const char *want)
{
    struct buffer errors = {0};
    struct buffer got = {0};
    config_write_file(config_path, text);
    struct config *config = config_load(config_path, &errors);
    if (config)
        fail_msg("%s: was taken", label);
    buffer_add_u8(&errors, 0);
    size_t name = strlen(config_path) + 1;
    for (char *line = (char *)errors.data; *line;) {
        size_t len = strcspn(line, "\n");
        assert_int_equal(line[len], '\n');
        assert_int_equal(strncmp(line, config_path, name - 1), 0);
        buffer_printf(&got, "%s%.*s", got.len ? "|" : "", (int)(len - name), line + name);
        line += len + 1;
    }
    buffer_add_u8(&got, 0);
    same_text(label, (const char *)got.data, want);
    buffer_free(&errors);
    buffer_free(&got);
}

void config_expect_all(const struct case_of_fault *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_null(strstr(cases[i].want, "s3")); /* the beginning of every secret */
        char *text = config_build(cases[i].broker, cases[i].store, cases[i].route);
        config_expect_faults(cases[i].label, span_of(text), cases[i].want);
        free(text);
    }
}

int config_make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(config_path, sizeof config_path, "%s/c.yaml", folder);
    snprintf(config_secret_path, sizeof config_secret_path, "%s/secret", folder);
    return 0;
}

int config_remove_folder(void **state)
{
    (void)state;
    unlink(config_path);
    unlink(config_secret_path);
    return rmdir(folder);
}
