/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target is one file fuzz_NAME.c with this function and a folder corpus/NAME of seeds. The same file
 * is built twice: with replay.c for ordinary CI, with clang's -fsanitize=fuzzer where that is asked for
 * (meson.build). A target aborts (assert, sanitizer) when something is wrong. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
