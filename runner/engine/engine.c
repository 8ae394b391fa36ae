/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ask.h"

static const struct engine_ops *const table[] = { &engine_llamacpp, &engine_attach, &engine_scripted };

const struct engine_ops *engine_find(enum engine_kind kind)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i]->kind == kind)
			return table[i];
	return NULL;
}

void engine_identity_done(struct engine_identity *id)
{
	free(id->version);
	free(id->build);
	free(id->commit);
	free(id->model_name);
	free(id->model_path);
	cJSON_Delete(id->raw);
	*id = (struct engine_identity){ 0 };
}
