/* SPDX-License-Identifier: Apache-2.0 */
/* ndjson, and the wire that comes as lines: any bytes as a body; first byte: bytes a read. */
#include "answer_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct reading_as as = { .proto = proto_of(ENGINE_ATTACH, API_OLLAMA), .http = 200 };
	read_both_ways((const char *)data + 1, size - 1, as, data[0]);
	return 0;
}
