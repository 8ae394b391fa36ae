/* SPDX-License-Identifier: Apache-2.0 */
/* A server may repeat the key it was given, in its answers or where it says what it is; the evidence goes to
 * strangers. */
#include "trial/trial_parts.h"

#include <string.h>

void blank_answer(char *text, size_t len, const struct engine_run *engine)
{
	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		engine_text_blank(text + at, engine);
}

void blank_identity(struct engine_identity *id, const struct engine_run *engine)
{
	char *const told[] = { id->version, id->build, id->commit, id->model_name, id->model_path };
	for (size_t i = 0; i < ARRAY_LEN(told); i++)
		if (told[i])
			engine_text_blank(told[i], engine);
}
