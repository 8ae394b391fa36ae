/* SPDX-License-Identifier: Apache-2.0 */
/* Release by scope. `auto_X` variables are released when they leave scope; `steal_ptr` and `steal_fd`
 * hand a value over to the caller so that the scope no longer owns it. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct cJSON;
void cJSON_Delete(struct cJSON *item);

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}
static inline void cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}
static inline void cleanup_json(struct cJSON **j)
{
	cJSON_Delete(*j);
}
static inline int steal_fd(int *fd)
{
	int keep = *fd;
	*fd = -1;
	return keep;
}

#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_fd __attribute__((cleanup(cleanup_fd))) int
#define auto_file __attribute__((cleanup(cleanup_file))) FILE *
#define auto_json __attribute__((cleanup(cleanup_json))) struct cJSON *
#define auto_buf __attribute__((cleanup(buf_done))) struct buf

#define steal_ptr(pp)                                                                                        \
	__extension__({                                                                                      \
		__typeof__(*(pp)) stolen_ = *(pp);                                                           \
		*(pp) = NULL;                                                                                \
		stolen_;                                                                                     \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
