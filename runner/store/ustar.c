/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ustar.h"

#include <string.h>

static const struct {
	unsigned at, len;
	const char *says;
} fields[] = {
	{ 0, 100, "another name" },
	{ 100, 8, "another mode than 0644" },
	{ 108, 8, "a uid other than 0" },
	{ 116, 8, "a gid other than 0" },
	{ 124, 12, "another size" },
	{ 136, 12, "an mtime other than 0" },
	{ 156, 1, "another type than a regular file" },
	{ 157, 100, "a link target" },
	{ 257, 8, "another magic than ustar 00" },
	{ 265, 32, "a user name" },
	{ 297, 32, "a group name" },
	{ 329, 16, "a device number" },
	{ 345, 155, "a name prefix" },
	{ 500, 12, "bytes in the unused end" },
	{ 148, 8, "a wrong checksum" },
};

static void put_octal(uint8_t *at, unsigned n_digits, uint64_t value)
{
	for (unsigned i = n_digits; i-- > 0; value >>= 3)
		at[i] = (uint8_t)('0' + (value & 7));
}

static unsigned checksum(const uint8_t header[USTAR_BLOCK_BYTES])
{
	unsigned sum = 0;
	for (size_t i = 0; i < USTAR_BLOCK_BYTES; i++)
		sum += i >= 148 && i < 156 ? ' ' : header[i];
	return sum;
}

int ustar_header(uint8_t out[USTAR_BLOCK_BYTES], const char *name, uint64_t size_bytes)
{
	size_t len = strlen(name);
	if (len == 0 || len > USTAR_NAME_BYTES_MAX || size_bytes > USTAR_SIZE_MAX)
		return -1;
	memset(out, 0, USTAR_BLOCK_BYTES);
	memcpy(out, name, len);
	memcpy(out + 100, "000644 ", 8);
	memcpy(out + 108, "000000 ", 8);
	memcpy(out + 116, "000000 ", 8);
	put_octal(out + 124, 11, size_bytes);
	out[135] = ' ';
	memcpy(out + 136, "00000000000 ", 12);
	out[156] = '0';
	memcpy(out + 257, "ustar\00000", 8);
	memcpy(out + 329, "000000 ", 8);
	memcpy(out + 337, "000000 ", 8);
	put_octal(out + 148, 6, checksum(out));
	out[154] = '\0';
	out[155] = ' ';
	return 0;
}

int ustar_size(uint64_t *size_bytes, const uint8_t header[USTAR_BLOCK_BYTES])
{
	uint64_t size = 0;
	for (unsigned i = 124; i < 135; i++) {
		if (header[i] < '0' || header[i] > '7')
			return -1;
		size = size << 3 | (uint64_t)(header[i] - '0');
	}
	if (header[135] != ' ')
		return -1;
	*size_bytes = size;
	return 0;
}

size_t ustar_padding(uint64_t size_bytes)
{
	return (USTAR_BLOCK_BYTES - size_bytes % USTAR_BLOCK_BYTES) % USTAR_BLOCK_BYTES;
}

const char *ustar_difference(const uint8_t got[USTAR_BLOCK_BYTES], const uint8_t want[USTAR_BLOCK_BYTES])
{
	static const uint8_t zeros[USTAR_BLOCK_BYTES];
	if (memcmp(got, zeros, USTAR_BLOCK_BYTES) == 0)
		return "the end of the archive";
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (memcmp(got + fields[i].at, want + fields[i].at, fields[i].len) != 0)
			return fields[i].says;
	return "no difference";
}
