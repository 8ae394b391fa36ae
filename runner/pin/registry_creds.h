/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials for a registry, from the files and helpers that docker and podman use: auths, credHelpers,
 * credsStore (docker-credential-NAME get). Nothing of what is found goes into a message. */
#ifndef PIN_REGISTRY_CREDS_H
#define PIN_REGISTRY_CREDS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct registry_creds { /* NULL = none of that kind; all NULL = ask without credentials */
	char *user, *password;
	char *identity_token; /* changed for a token at the token service */
	char *registry_token; /* sent as it is */
};
void registry_creds_done(struct registry_creds *c); /* overwrites, then frees */

/* The entry for `host` ("docker.io", "registry.example:5000") and, where auths names one, `path`
 * ("org/image"). `config_file`: that file alone; "" = none; NULL = the first of $REGISTRY_AUTH_FILE,
 * $DOCKER_CONFIG/config.json, $XDG_RUNTIME_DIR/containers/auth.json, ~/.docker/config.json (not with
 * $DOCKER_CONFIG) that has one. A file that is not there is skipped (but for `config_file`). A helper has
 * until `deadline_ns` and at most 30 s; it is ended with its process group. ERR_ENV. */
warn_unused int registry_creds_find(struct registry_creds *out, const char *host, const char *path,
                                    const char *config_file, uint64_t deadline_ns, struct err *err);

/* Runs docker-credential-NAME get. 0 with *found false when it knows none. */
warn_unused int registry_helper_get(struct registry_creds *out, bool *found, const char *name,
                                    const char *server, uint64_t deadline_ns, struct err *err);

#endif
