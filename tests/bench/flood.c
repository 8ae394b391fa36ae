/* SPDX-License-Identifier: Apache-2.0 */
/* bench_flood EVENTS: a server that answers each request with EVENTS token events as fast as it is read, a
 * thread a connection. Prints its port. Ends with its parent. */
#include "base/buf.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOK                                                                                                  \
	"data: "                                                                                             \
	"{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1790000000," \
	"\"model\":\"bench-model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},"             \
	"\"logprobs\":null,\"finish_reason\":null}]}\n\n"
#define TAIL                                                                                                 \
	"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"

static struct buf all = BUF_INIT(256u << 20);

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char in[8192];
	while (recv(fd, in, sizeof in, 0) > 0) {
		for (size_t at = 0; at < all.len;) {
			ssize_t n = send(fd, all.p + at, all.len - at, MSG_NOSIGNAL);
			if (n <= 0) {
				close(fd);
				return NULL;
			}
			at += (size_t)n;
		}
	}
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	struct sockaddr *addr = (struct sockaddr *)(void *)&at;
	int n_events = argc > 1 ? atoi(argv[1]) : 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	buf_addf(&all,
	         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < n_events; i++)
		buf_addf(&all, "%zx\r\n" TOK "\r\n", sizeof TOK - 1);
	buf_addf(&all, "%zx\r\n" TAIL "\r\n0\r\n\r\n", sizeof TAIL - 1);
	if (all.failed || bind(fd, addr, len) < 0 || listen(fd, 1024) < 0 ||
	    getsockname(fd, addr, &len) < 0) {
		perror("bench_flood");
		return 1;
	}
	printf("%u\n", ntohs(at.sin_port));
	fflush(stdout);
	for (;;) {
		int c = accept(fd, NULL, NULL);
		pthread_t t;
		if (c >= 0 && pthread_create(&t, NULL, serve_one, (void *)(intptr_t)c) == 0)
			pthread_detach(t);
	}
}
