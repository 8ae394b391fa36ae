/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_cpu_self_ns(void)
{
	return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_wall_ns(void)
{
	return (int64_t)read_ns(CLOCK_REALTIME);
}

void clock_rfc3339(int64_t wall_ns, char out[RFC3339_BYTES])
{
	time_t s = (time_t)(wall_ns / (int64_t)NS_PER_S);
	int ms = (int)(wall_ns / (int64_t)NS_PER_MS % 1000);
	struct tm tm;
	char date[24];
	gmtime_r(&s, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, RFC3339_BYTES, "%.19s.%03dZ", date, ms);
}

static int two_digits(const char *p, int lo, int hi, int *out)
{
	if (p[0] < '0' || p[0] > '9' || p[1] < '0' || p[1] > '9')
		return -1;
	*out = (p[0] - '0') * 10 + (p[1] - '0');
	return *out < lo || *out > hi ? -1 : 0;
}

static int days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return days[month - 1] + (month == 2 && leap);
}

int clock_parse_rfc3339(const char *text, int64_t *wall_ns)
{
	int century, yy, mon, day, h = 0, m = 0, s = 0;
	int64_t frac_ns = 0;
	size_t len = strlen(text);
	if (len < 10 || two_digits(text, 0, 99, &century) || two_digits(text + 2, 0, 99, &yy) ||
	    text[4] != '-' || two_digits(text + 5, 1, 12, &mon) || text[7] != '-' ||
	    two_digits(text + 8, 1, 31, &day))
		return -1;
	int year = century * 100 + yy;
	if (year < 1970 || year > 2261 || day > days_in_month(year, mon))
		return -1;
	if (len > 10) {
		const char *p = text + 10;
		if (len < 20 || *p != 'T' || two_digits(p + 1, 0, 23, &h) || p[3] != ':' ||
		    two_digits(p + 4, 0, 59, &m) || p[6] != ':' || two_digits(p + 7, 0, 59, &s))
			return -1;
		p += 9;
		if (*p == '.') {
			int64_t unit = (int64_t)NS_PER_S / 10;
			const char *start = ++p;
			for (; *p >= '0' && *p <= '9'; p++, unit /= 10)
				frac_ns += (*p - '0') * unit;
			if (p == start)
				return -1;
		}
		if (strcmp(p, "Z") != 0)
			return -1;
	}
	struct tm tm = { .tm_year = year - 1900,
		         .tm_mon = mon - 1,
		         .tm_mday = day,
		         .tm_hour = h,
		         .tm_min = m,
		         .tm_sec = s };
	*wall_ns = (int64_t)timegm(&tm) * (int64_t)NS_PER_S + frac_ns;
	return 0;
}

void clock_source(char out[64])
{
	strcpy(out, "unknown");
	FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
	if (!f)
		return;
	if (fgets(out, 64, f))
		out[strcspn(out, "\n")] = '\0';
	fclose(f);
}
