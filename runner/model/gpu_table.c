/* SPDX-License-Identifier: Apache-2.0 */
#include "model/gpu_table.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GIB(n) ((uint64_t)(n) << 30)
#define BY(maker, product) maker " " product ": product page, memory size"

const struct gpu_card gpu_cards[] = {
	{ "A100-40GB", "NVIDIA", GIB(40), BY("NVIDIA", "A100 Tensor Core GPU"), "2020-05-14" },
	{ "A100-80GB", "NVIDIA", GIB(80), BY("NVIDIA", "A100 80GB Tensor Core GPU"), "2020-11-16" },
	{ "H100", "NVIDIA", GIB(80), BY("NVIDIA", "H100 Tensor Core GPU"), "2022-03-22" },
	{ "H200", "NVIDIA", GIB(141), BY("NVIDIA", "H200 Tensor Core GPU"), "2023-11-13" },
	{ "L40S", "NVIDIA", GIB(48), BY("NVIDIA", "L40S GPU"), "2023-08-08" },
	{ "RTX 4090", "NVIDIA", GIB(24), BY("NVIDIA", "GeForce RTX 4090"), "2022-09-20" },
	{ "RTX 5090", "NVIDIA", GIB(32), BY("NVIDIA", "GeForce RTX 5090"), "2025-01-06" },
	{ "RTX PRO 6000", "NVIDIA", GIB(96), BY("NVIDIA", "RTX PRO 6000 Blackwell"), "2025-03-18" },
	{ "MI210", "AMD", GIB(64), BY("AMD", "Instinct MI210"), "2022-03-22" },
	{ "MI300X", "AMD", GIB(192), BY("AMD", "Instinct MI300X"), "2023-12-06" },
	{ "MI325X", "AMD", GIB(256), BY("AMD", "Instinct MI325X"), "2024-10-10" },
	{ "RX 7900 XTX", "AMD", GIB(24), BY("AMD", "Radeon RX 7900 XTX"), "2022-11-03" },
	{ "W7900", "AMD", GIB(48), BY("AMD", "Radeon PRO W7900"), "2023-04-13" },
	{ 0 },
};

/* Letters and digits alone, lower case. False when longer than any name. */
static bool plain(char out[64], const char *name)
{
	size_t n = 0;

	for (; *name; name++) {
		if (*name == ' ' || *name == '-' || *name == '_')
			continue;
		if (n + 1 >= 64)
			return false;
		out[n++] = (char)tolower((unsigned char)*name);
	}
	out[n] = '\0';
	return true;
}

const struct gpu_card *gpu_card_find(const char *name)
{
	static const char *const fronts[] = { "nvidia", "amd", "geforce", "instinct", "radeon", "pro" };
	char want[64], have[64];

	if (!plain(want, name))
		return NULL;
	const char *at = want;
	for (size_t i = 0; i < sizeof(fronts) / sizeof(fronts[0]); i++)
		if (strncmp(at, fronts[i], strlen(fronts[i])) == 0)
			at += strlen(fronts[i]);
	for (const struct gpu_card *c = gpu_cards; c->name; c++) {
		char size[16];
		if (!plain(have, c->name) || strncmp(at, have, strlen(have)) != 0)
			continue;
		snprintf(size, sizeof(size), "%ugb", (unsigned)(c->memory_bytes >> 30));
		const char *rest = at + strlen(have);
		if (*rest == '\0' || strcmp(rest, size) == 0)
			return c;
	}
	return NULL;
}
