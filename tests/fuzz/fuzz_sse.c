/* SPDX-License-Identifier: Apache-2.0 */
/* sse, scan, wire and answer: any bytes as the body of a 200 (or, first byte odd, of a 500), read as one of
 * the wires that come as events (its next three bits); second byte: bytes a read. */
#include "answer_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum api apis[8] = { API_CHAT,        API_LLAMACPP, API_TGI,    API_SGLANG,
		                          API_COMPLETIONS, API_TRITON,   API_SGLANG, API_TGI };
	if (size < 2)
		return 0;
	struct reading_as as = { .proto = proto_of(ENGINE_ATTACH, apis[data[0] >> 1 & 7]),
		                 .http = data[0] & 1 ? 500 : 200 };
	read_both_ways((const char *)data + 2, size - 2, as, data[1]);
	return 0;
}
