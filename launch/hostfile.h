/* SPDX-License-Identifier: MIT */
/*
 * hostfile: the hosts, and how many ranks each takes. One grammar for a hostfile, for -H and for standard input;
 * hoop_hostfile(5) is its manual. mapping.c decides how many ranks run on each. And which of the hosts is this machine.
 *
 *     [user@]host[:SLOTS] [slots=N] [max_slots=N] [iface=NAME] [addr=IP]      # comment
 *     host[1-4,07-12].cluster:8, other                                        ranges, several entries a line
 */
#ifndef HP_LAUNCH_HOSTFILE_H
#define HP_LAUNCH_HOSTFILE_H

#include "net/addr.h"

enum { HP_HOST_NAME = 256, HP_HOST_IFACE = 64, HP_HOST_ADDR = 64, HP_HOSTS_MAX = 65536, HP_SLOTS_MAX = 65536 };

typedef struct hp_host_entry {
    char name[HP_HOST_NAME];   /* as written, with user@ */
    int slots;                 /* the sum of what was written; 0: never given */
    int mentions;              /* how often it was listed without slots */
    char iface[HP_HOST_IFACE]; /* "": not given */
    char addr[HP_HOST_ADDR];
} hp_host_entry;

typedef struct hp_host_list {
    hp_host_entry *entry; /* in the order of first mention, no name twice */
    int count;
    size_t room;
    void *names;   /* a tree (tsearch) of the places of names */
    long mentions; /* entries seen, ranges expanded */
} hp_host_list;

/*
 * Adds the hosts of a text to *hosts (zeroed memory at first). `source` names the text in errors: with `lines` they
 * begin "SOURCE:LINE: ", else "SOURCE: ". Errors are HOOP_ERR_INVALID_ARGUMENT: `word "x" is not known; write y`.
 */
hoop_result hp_hostfile_parse(hp_host_list *hosts, const char *source, int lines, const char *text, size_t n,
                              hoop_error *error);
hoop_result hp_hostfile_read(hp_host_list *hosts, const char *path, hoop_error *error); /* "-": standard input */
void hp_hostfile_free(hp_host_list *hosts);

/* Whether `name` is this machine: its usual names and its own addresses. Resolves nothing. user@ means elsewhere. */
int hp_local_is_host(const char *name);
int hp_local_address(hp_addr *addr,
                     const char *text); /* whether it is a numeric address of this machine, without a port */
const char *hp_local_name(void);
const char *hp_local_bare_name(const char *name); /* without user@ */

/* Whether two names mean the same machine: "node1" and "node1.cluster" do. */
int hp_local_same_name(const char *a, const char *b);

/* What a host's ranks get as HOOP_SOCKET_IFNAME for its iface= or addr=; 0: neither was given. */
int hp_local_ifname(const hp_host_entry *host, char *out, size_t size);

#endif
