/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_in.h"

#include <math.h>
#include <string.h>

#define SAFE_INTEGER 9007199254740991.0 /* 2^53 - 1: every whole number up to here has its own double */

const struct cJSON *json_get(const struct cJSON *obj, const char *key)
{
	if (!cJSON_IsObject(obj))
		return NULL;
	for (const struct cJSON *c = obj->child; c; c = c->next)
		if (c->string && strcmp(c->string, key) == 0)
			return c;
	return NULL;
}

const char *json_str(const struct cJSON *obj, const char *key)
{
	const struct cJSON *v = json_get(obj, key);
	return cJSON_IsString(v) ? v->valuestring : NULL;
}

size_t json_string_len(const struct cJSON *string)
{
	if (!cJSON_IsString(string) || !string->valuestring)
		return 0;
	size_t n = strlen(string->valuestring),
	       told = string->valuedouble > 0 ? (size_t)string->valuedouble : 0;
	return told > n ? told : n;
}

bool json_num(const struct cJSON *obj, const char *key, double *out)
{
	const struct cJSON *v = json_get(obj, key);
	if (!cJSON_IsNumber(v))
		return false;
	*out = v->valuedouble;
	return true;
}

bool json_i64(const struct cJSON *obj, const char *key, int64_t *out)
{
	double v;
	if (!json_num(obj, key, &v) || !(fabs(v) <= SAFE_INTEGER) || v < floor(v) || v > floor(v))
		return false;
	*out = (int64_t)v;
	return true;
}

bool json_u64(const struct cJSON *obj, const char *key, uint64_t *out)
{
	int64_t v;
	if (!json_i64(obj, key, &v) || v < 0)
		return false;
	*out = (uint64_t)v;
	return true;
}

bool json_bool(const struct cJSON *obj, const char *key, bool *out)
{
	const struct cJSON *v = json_get(obj, key);
	if (!cJSON_IsBool(v))
		return false;
	*out = cJSON_IsTrue(v);
	return true;
}
