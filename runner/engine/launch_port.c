/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: a free one, and who has one that is not. Listeners are found by /proc/net/tcp and the socket inodes
 * behind /proc/PID/fd; what belongs to other users cannot be seen there. */
#include "engine/launch_parts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static int bind_socket(const char *host, unsigned port, unsigned *got)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t len = sizeof(a);
	int one = 1;
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&a, &len))
		return -1;
	*got = ntohs(a.sin_port);
	return 0;
}

int launch_free_port(unsigned *port, struct err *err)
{
	if (bind_socket(LAUNCH_LOCAL, 0, port))
		return err_sys(err, ERR_ENV, errno, "cannot get a free port on 127.0.0.1");
	return 0;
}

/* --- who listens --- */

#define INODES_MAX 16

/* Inodes of the sockets that listen on `port`. */
static size_t listeners(uint64_t inodes[INODES_MAX], unsigned port)
{
	static const char *const files[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	char line[512];
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_file f = fopen(files[i], "re");
		while (f && n < INODES_MAX && fgets(line, sizeof(line), f)) {
			unsigned local, state;
			unsigned long long inode;
			if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*u %*d %llu",
			           &local, &state, &inode) == 3 &&
			    local == port && state == 0x0a && inode)
				inodes[n++] = inode;
		}
	}
	return n;
}

static bool holds(pid_t pid, const uint64_t *inodes, size_t n)
{
	char path[64], link[64];
	struct dirent *d;
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	while (dir && !found && (d = readdir(dir))) {
		unsigned long long inode;
		ssize_t len = readlinkat(dirfd(dir), d->d_name, link, sizeof(link) - 1);
		if (len <= 0)
			continue;
		link[len] = '\0';
		if (sscanf(link, "socket:[%llu]", &inode) != 1)
			continue;
		for (size_t i = 0; i < n && !found; i++)
			found = inodes[i] == inode;
	}
	if (dir)
		closedir(dir);
	return found;
}

static void name_of(pid_t pid, char who[LAUNCH_TEXT_BYTES])
{
	char path[64], name[64] = "";
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	auto_file f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = '\0';
	snprintf(who, LAUNCH_TEXT_BYTES, "pid %d (%s)", (int)pid, name[0] ? name : "name not told");
}

static pid_t find_holder(const uint64_t *inodes, size_t n)
{
	struct dirent *d;
	pid_t found = 0;
	DIR *dir = n ? opendir("/proc") : NULL;
	while (dir && !found && (d = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)d->d_name[0]) ? (pid_t)strtol(d->d_name, NULL, 10) : 0;
		if (pid && holds(pid, inodes, n))
			found = pid;
	}
	if (dir)
		closedir(dir);
	return found;
}

int launch_port_check(const char *host, unsigned port, struct err *err)
{
	uint64_t inodes[INODES_MAX];
	char who[LAUNCH_TEXT_BYTES] = "a process that cannot be seen from here";
	unsigned got;
	if (!bind_socket(host, port, &got))
		return 0;
	if (errno == EACCES)
		return err_sys(err, ERR_ENV, errno, "port %u", port);
	if (errno != EADDRINUSE) /* an address of another machine, or none at all: the engine will say */
		return 0;
	pid_t pid = find_holder(inodes, listeners(inodes, port));
	if (pid)
		name_of(pid, who);
	return err_set(err, ERR_ENV, "port %u is taken by %s: end it, or let args use {port}", port, who);
}

enum port_owner launch_port_owner(unsigned port, pid_t root, char who[LAUNCH_TEXT_BYTES])
{
	uint64_t inodes[INODES_MAX];
	size_t n_inodes = listeners(inodes, port), n = 0;
	if (n_inodes == 0)
		return OWNER_UNKNOWN;
	auto_free pid_t *tree = proc_tree(root, &n);
	for (size_t i = 0; i < n; i++)
		if (holds(tree[i], inodes, n_inodes))
			return OWNER_TREE;
	pid_t pid = find_holder(inodes, n_inodes);
	if (!pid)
		return OWNER_UNKNOWN;
	name_of(pid, who);
	return OWNER_OTHER;
}
