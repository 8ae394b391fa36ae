/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of options: times and limits. */
#include "base/clock.h"
#include "cli/cmd_load.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define LONGEST_S (30 * 86400.0)
#define USAGE(...) err_set(err, ERR_USAGE, "load: " __VA_ARGS__)

const char *const slo_words[] = { "ttft", "itl", "tpot", "e2e", NULL };

int load_duration(uint64_t *ns, const char *text, const char *option, struct err *err)
{
	static const struct {
		const char *unit;
		double s;
	} units[] = { { "", 1 },   { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 },
		      { "m", 60 }, { "min", 60 },  { "h", 3600 } };
	char *end;
	double v = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : (double)NAN;
	for (size_t i = 0; isfinite(v) && !strpbrk(text, "xXeE") && i < ARRAY_LEN(units); i++)
		if (strcmp(end, units[i].unit) == 0 && v * units[i].s <= LONGEST_S) {
			*ns = (uint64_t)llround(v * units[i].s * 1e9);
			return 0;
		}
	return USAGE("%s: want a time such as 800ms, 30s or 2m, got \"%.64s\"", option, text);
}

static int slo_part(struct load_slo *s, const char *part, struct err *err)
{
	const char *eq = strchr(part, '=');
	size_t i = 0;
	while (slo_words[i] && !(eq && strlen(slo_words[i]) == (size_t)(eq - part) &&
	                         memcmp(slo_words[i], part, (size_t)(eq - part)) == 0))
		i++;
	if (!slo_words[i])
		return USAGE("--slo: want ttft=TIME, itl=TIME, tpot=TIME or e2e=TIME, got \"%.64s\"", part);
	if (s->limit_ns[i] != REC_NONE)
		return USAGE("--slo: %s is given twice", slo_words[i]);
	if (load_duration(&s->limit_ns[i], eq + 1, "--slo", err))
		return -1;
	if (!s->limit_ns[i])
		return USAGE("--slo: %s: want a time above 0", slo_words[i]);
	s->any = true;
	return 0;
}

int load_slo_read(struct load_slo *out, const char *text, struct err *err)
{
	struct load_slo s = { .required_share = out->required_share };
	auto_free char *copy = strdup(text);
	char *rest = copy, *part;
	for (size_t i = 0; i < N_SLOS; i++)
		s.limit_ns[i] = REC_NONE;
	if (!copy)
		return err_set(err, ERR_ENV, "load: no memory");
	while ((part = strsep(&rest, ",")))
		if (slo_part(&s, part, err))
			return -1;
	*out = s;
	return 0;
}
