/* SPDX-License-Identifier: Apache-2.0 */
/* json_in: any bytes, both modes. What is accepted must be accepted again when printed, with the same values.
 */
#include "base/json_in.h"
#include "fuzz.h"

#include <assert.h>
#include <string.h>

static bool holds_nul(const struct cJSON *v)
{
	if (cJSON_IsString(v))
		return strlen(v->valuestring) != json_string_len(v);
	for (const struct cJSON *c = v->child; c; c = c->next)
		if (holds_nul(c))
			return true;
	return false;
}

static void read_back(const struct cJSON *tree)
{
	auto_json again = NULL;
	struct err err = { 0 };
	char *text = cJSON_PrintUnformatted(tree);
	assert(text);
	int rc = json_parse(&again, text, strlen(text), "printed", JSON_STRICT, NULL, &err);
	assert(rc == 0 && cJSON_Compare(tree, again, true));
	cJSON_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cJSON *trees[2] = { NULL, NULL };
	struct err err = { 0 };
	static const enum json_mode modes[] = { JSON_STRICT, JSON_ENGINE };
	for (size_t i = 0; i < 2; i++) {
		auto_problems p = { 0 };
		struct err *e = &err;
		int rc = json_parse(&trees[i], (const char *)data, size, "fuzz", modes[i], &p, e);
		assert((rc == 0) == (trees[i] != NULL));
		assert(rc == 0 || (err.cls == ERR_PLAN && err.msg[0]));
	}
	assert(!trees[0] || trees[1]); /* strict is the narrower one */
	for (size_t i = 0; i < 2; i++) {
		if (trees[i] && !holds_nul(trees[i]))
			read_back(trees[i]);
		cJSON_Delete(trees[i]);
	}
	return 0;
}
