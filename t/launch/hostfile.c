/* SPDX-License-Identifier: MIT */
/* The hostfile parser: what the dialects mean, and what each mistake is answered with. Hosts are printed and compared.
 */
#include "launch/hostfile.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct good {
    const char *text, *hosts; /* "name slots/mentions iface addr;" for each */
} good;

static const good accepted[] = {
    {"node1", "node1 0/1;"},
    {"node1\nnode2\n", "node1 0/1;node2 0/1;"},
    {"\n\n  # nothing\n\t\nnode1 # here\n#node2", "node1 0/1;"},
    {"node1 slots=4\nnode2 slots=2", "node1 4/0;node2 2/0;"},
    {"node1 slots = 4\nnode2 slots= 3\nnode3 slots =2", "node1 4/0;node2 3/0;node3 2/0;"},
    {"node1:4\nnode2:2", "node1 4/0;node2 2/0;"},
    {"node1:4,node2:2,node3", "node1 4/0;node2 2/0;node3 0/1;"},
    {"node1, node2 slots=2 , node3", "node1 0/1;node2 2/0;node3 0/1;"},
    {"node1 cpu=2\nnode2 count=3\nnode3 SLOTS=4 max_slots=8", "node1 2/0;node2 3/0;node3 4/0;"},
    {"node1 slots=2 max-slots=2", "node1 2/0;"},
    {"alice@node1:2\nbob@node1:2", "alice@node1 2/0;bob@node1 2/0;"},
    {"node1\nnode1\nnode1", "node1 0/3;"},
    {"node1:2\nnode2\nnode1:3\nnode1", "node1 5/1;node2 0/1;"},
    {"node[1-4,7]", "node1 0/1;node2 0/1;node3 0/1;node4 0/1;node7 0/1;"},
    {"node[08-11]:2", "node08 2/0;node09 2/0;node10 2/0;node11 2/0;"},
    {"r[1-2]n[1,3].cluster slots=2", "r1n1.cluster 2/0;r1n3.cluster 2/0;r2n1.cluster 2/0;r2n3.cluster 2/0;"},
    {"a[1-2],b[3]", "a1 0/1;a2 0/1;b3 0/1;"},
    {"bob@n[1-2]:3", "bob@n1 3/0;bob@n2 3/0;"},
    {"node1 iface=eth1 addr=10.0.0.3", "node1 0/1 eth1 10.0.0.3;"},
    {"node1 ifname==eth1 addr = fd00::3 slots=2", "node1 2/0 =eth1 fd00::3;"},
    {"node1 iface=eth1\nnode1 iface=eth1 addr=10.0.0.3", "node1 0/2 eth1 10.0.0.3;"},
    {"10.0.0.1:4", "10.0.0.1 4/0;"},
    {"fd00::1", "fd00::1 0/1;"},
    {"[fd00::1]:4", "fd00::1 4/0;"},
    {"[fd00::1]", "fd00::1 0/1;"},
    {"alice@[fd00::1]:4, bob@[fd00::2]", "alice@fd00::1 4/0;bob@fd00::2 0/1;"},
    {"fe80::1%eth0 slots=2", "fe80::1%eth0 2/0;"},
    {"node1 slots=2\r\nnode2 slots=2\r\n", "node1 2/0;node2 2/0;"},
    {"\xef\xbb\xbfnode1 slots=2\r\n", "node1 2/0;"},
    {"node_1.example.org", "node_1.example.org 0/1;"},
    {"", ""},
    {"# only words", ""},
};

typedef struct bad {
    const char *text, *error;
} bad;

static const bad refused[] = {
    {"node1 slots=x", "hosts:1: word \"slots=x\" has no valid number of slots; write a whole number from 1 to 65536"},
    {"node1\nnode2 slots=0",
     "hosts:2: word \"slots=0\" has no valid number of slots; write a whole number from 1 to 65536"},
    {"node1 slots=", "hosts:1: word \"slots=\" has no valid number of slots; write a whole number from 1 to 65536"},
    {"node1 slots=-1", "hosts:1: word \"slots=-1\" has no valid number of slots; write a whole number from 1 to 65536"},
    {"node1:", "hosts:1: word \"node1:\" has no valid number of slots; write a whole number from 1 to 65536"},
    {"node1:4:2",
     "hosts:1: word \"node1:4:2\" has several ':' and is no IPv6 address; write HOST:SLOTS, or [fd00::1]:4"},
    {"node1:2:3:x y",
     "hosts:1: word \"node1:2:3:x\" has several ':' and is no IPv6 address; write HOST:SLOTS, or [fd00::1]:4"},
    {"[node1:4]:2", "hosts:1: word \"[node1:4]:2\" is no address; write [fd00::1]:4"},
    {"fd00::3 y", "hosts:1: word \"y\" is no attribute; write one host a line, or a comma between, and slots=N, "
                  "iface=NAME or addr=IP"},
    {"node1:99999999999999999999",
     "hosts:1: word \"node1:99999999999999999999\" has no valid number of slots; write a whole number from 1 to 65536"},
    {"node1:2 slots=2", "hosts:1: word \"slots=2\" gives a host its slots twice; write host:N or slots=N, not both"},
    {"node1 4", "hosts:1: word \"4\" has no meaning alone; write slots=4"},
    {"node1 slot=4", "hosts:1: word \"slot=4\" is not known; write slots=N, iface=NAME or addr=IP"},
    {"slots=4 node1", "hosts:1: word \"slots=4\" comes before its host; write host slots=N"},
    {"node1 addr=10.0.0", "hosts:1: word \"addr=10.0.0\" is not an IP address; write addr=10.0.0.3 or addr=fd00::3"},
    {"node1 addr=node7", "hosts:1: word \"addr=node7\" is not an IP address; write addr=10.0.0.3 or addr=fd00::3"},
    {"node1 iface=", "hosts:1: word \"iface=\" has no value; write iface=NAME or addr=IP"},
    {"node1 iface=a;b",
     "hosts:1: word \"iface=a;b\" has a character that no interface or address has; write iface=NAME or addr=IP"},
    {"node1 slots=4 max_slots=2", "hosts:1: word \"node1\" has max_slots=2, less than its 4 slots; write a larger one"},
    {"node1 iface=eth0\nnode1 iface=eth1",
     "hosts:2: word \"node1\" was listed before with another iface= or addr=; a host has one, write it once"},
    {"-oProxyCommand=id", "hosts:1: word \"-oProxyCommand=id\" comes before its host; write host slots=N"},
    {"-l", "hosts:1: word \"-l\" begins with '-', as no name does; write host:SLOTS"},
    {"root@-oX", "hosts:1: word \"root@-oX\" begins with '-', as no name does; write host:SLOTS"},
    {"@node1", "hosts:1: word \"@node1\" has no user name; write host or user@host"},
    {"bob@", "hosts:1: word \"bob@\" has no host name; write host or user@host"},
    {"a@b@c", "hosts:1: word \"a@b@c\" has a character that no host name has; write letters, digits, '.', '-' and '_'"},
    {"no$de", "hosts:1: word \"no$de\" has a character that no host name has; write letters, digits, '.', '-' and '_'"},
    {"n`id`", "hosts:1: word \"n`id`\" has a character that no host name has; write letters, digits, '.', '-' and '_'"},
    {"node[1-4", "hosts:1: word \"node[1-4\" has a '[' that is not closed; write ranges as in node[1-4,7]"},
    {"node[4-1]", "hosts:1: word \"4-1\" is not a range; write numbers as in node[1-4,7], low before high"},
    {"node[]", "hosts:1: word \"\" is not a range; write numbers as in node[1-4,7], low before high"},
    {"node[1-]", "hosts:1: word \"1-\" is not a range; write numbers as in node[1-4,7], low before high"},
    {"node[a-b]", "hosts:1: word \"a-b\" is not a range; write numbers as in node[1-4,7], low before high"},
    {"node[1-99999999]",
     "hosts:1: word \"1-99999999\" is not a range; write numbers as in node[1-4,7], low before high"},
    {"n[1-60000]x[1-60000]", "hosts:1: word \"n[1-60000]x[1-60000]\" makes more than 65536 hosts; make the range "
                             "smaller"},
    {"n[1][1][1][1][1]", "hosts:1: word \"n[1][1][1][1][1]\" has too many ranges; write several words"},
    {"[fd00::1]x4", "hosts:1: word \"[fd00::1]x4\" has text after ']' that is not :SLOTS; write [fd00::1]:4"},
    {"a\nb\n\x01\x02",
     "hosts:3: word \"??\" has a character that no host name has; write letters, digits, '.', '-' and '_'"},
};

static const char *
print(const hp_host_list *hosts)
{
    static char out[4096];
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < hosts->count; i++) {
        const hp_host_entry *h = &hosts->entry[i];
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s %d/%d%s%s%s%s;", h->name, h->slots, h->mentions,
                                 h->iface[0] ? " " : "", h->iface, h->addr[0] ? " " : "", h->addr);
    }
    return out;
}

static void
check_accepted(const good *g)
{
    hp_host_list hosts = {0};
    hoop_error error;
    hp_err_clear(&error);
    is_int(HOOP_SUCCESS, hp_hostfile_parse(&hosts, "hosts", 1, g->text, strlen(g->text), &error), "accepted: %s%s",
           g->text, error.text);
    is_string(g->hosts, print(&hosts), "and what it means");
    hp_hostfile_free(&hosts);
}

static void
check_refused(const bad *b)
{
    hp_host_list hosts = {0};
    hoop_error error;
    hp_err_clear(&error);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_hostfile_parse(&hosts, "hosts", 1, b->text, strlen(b->text), &error),
           "refused: %s", b->text);
    is_string(b->error, error.text, "and how");
    hp_hostfile_free(&hosts);
}

static void
check_others(void)
{
    hp_host_list hosts = {0};
    hoop_error error;
    char *name = malloc(400);
    hp_hostfile_parse(&hosts, "-H", 0, "node1:2,node2:x", 15, &error);
    is_string("-H: word \"node2:x\" has no valid number of slots; write a whole number from 1 to 65536", error.text,
              "-H has no lines");
    hp_hostfile_free(&hosts);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_hostfile_parse(&hosts, "hosts", 1, "a\0b", 3, &error), "a NUL is no text");
    memset(name, 'n', 400);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_hostfile_parse(&hosts, "hosts", 1, name, 400, &error), "a name of 400 bytes");
    is_int(HOOP_SUCCESS, hp_hostfile_parse(&hosts, "hosts", 1, name, 255, &error), "a name of 255 bytes");
    hp_hostfile_free(&hosts);
    free(name);
    is_int(HOOP_SUCCESS, hp_hostfile_parse(&hosts, "hosts", 1, "n[1-60000]\nn[1-60000]", 21, &error),
           "a large cluster");
    is_int(60000, hosts.count, "has 60000 hosts");
    is_int(2, hosts.entry[59999].mentions, "each mentioned twice");
    hp_hostfile_free(&hosts);
    enum { MANY = 9000, EACH = 10 };
    char *list = malloc(MANY * EACH + 1);
    for (int i = 0; i < MANY; i++)
        sprintf(list + (size_t)i * EACH, "node%05d,", i);
    is_int(HOOP_SUCCESS, hp_hostfile_parse(&hosts, "-H", 0, list, MANY * EACH, &error), "a list of 90,000 bytes");
    is_int(MANY, hosts.count, "has all its hosts");
    hp_hostfile_free(&hosts);
    free(list);
}

static void
check_files(void)
{
    char path[4096];
    hp_host_list hosts = {0};
    hoop_error error;
    FILE *file;
    snprintf(path, sizeof(path), "%s/hosts", tap_tmpdir());
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_hostfile_read(&hosts, path, &error), "a file that is not there");
    ok(strstr(error.text, path) && strstr(error.text, "No such file"), "is named: %s", error.text);
    file = fopen(path, "w");
    fputs("# nobody\n", file);
    fclose(file);
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_hostfile_read(&hosts, path, &error), "a file without hosts");
    file = fopen(path, "w");
    fputs("node1 slots=2\nnode[2-3]", file);
    fclose(file);
    is_int(HOOP_SUCCESS, hp_hostfile_read(&hosts, path, &error), "a file with hosts");
    is_string("node1 2/0;node2 0/1;node3 0/1;", print(&hosts), "is read to its end without a newline");
    hp_hostfile_free(&hosts);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++)
        check_accepted(&accepted[i]);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        check_refused(&refused[i]);
    check_others();
    check_files();
    return 0;
}
