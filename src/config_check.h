/*
 * config_check - what follows from several fields together: values derived from others, and
 * contradictions.
 */
#ifndef ONLYONCE_CONFIG_CHECK_H
#define ONLYONCE_CONFIG_CHECK_H

#include "config.h"
#include "faults.h"

/*
 * Completes a configuration whose fields were read, and adds a fault for everything that does not
 * fit together, and a warning for what is allowed but dangerous. A field that could not be read is
 * as if it were not there (NULL or 0), and no further fault comes of it.
 */
void config_check(struct config *config, struct faults *faults);

#endif
