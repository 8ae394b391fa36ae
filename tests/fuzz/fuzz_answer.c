/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are not streamed: any bytes as the body, on each wire (first byte); second byte: bytes a read.
 */
#include "answer_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	struct reading_as as = { .proto = proto_of(ENGINE_ATTACH, (enum api)(data[0] % N_APIS)),
		                 .http = data[0] & 0x80 ? 500 : 200,
		                 .whole = true };
	read_both_ways((const char *)data + 2, size - 2, as, data[1]);
	return 0;
}
