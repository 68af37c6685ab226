/* SPDX-License-Identifier: MIT */
/*
 * hostfile: the parser. A text is lines; a line is words; a word with a '=' after a host is an attribute of it. Blanks
 * around '=' are removed first, because Open MPI's hostfiles have them. Names are checked, because they become
 * arguments of a remote shell: none begins with '-'. Nothing is resolved; the kernel (bind) tells which addresses are ours.
 */
#include "launch/hostfile.h"

#include "base/buffer.h"
#include "base/err.h"
#include "base/number.h"
#include "base/wire.h"
#include "launch/xalloc.h"
#include "net/interface.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 64 * 1024, FILE_MAX = 16 << 20, MENTIONS_MAX = 1 << 20, BRACKETS_MAX = 4 };

/* A part of the text. */
typedef struct span {
    const char *at;
    size_t size;
} span;

/* One entry while it is read: its name may still hold ranges. */
typedef struct draft {
    span word; /* for errors */
    span pattern;
    int slots, max_slots;
    char plain[HP_HOST_NAME]; /* "me@fd00::1", the pattern of what had brackets */
    char iface[HP_HOST_IFACE], addr[HP_HOST_ADDR];
} draft;

typedef struct parser {
    hp_host_list *hosts;
    const char *source;
    int lines, line;
    hoop_error *error;
    draft entry;
    int open; /* entry is being read */
} parser;

__attribute__((format(printf, 3, 4))) static hoop_result
complain(parser *p, span word, const char *format, ...)
{
    char where[24] = "", quoted[41], what[200];
    va_list ap;
    size_t i;
    if (p->lines)
        snprintf(where, sizeof(where), "%d: ", p->line);
    for (i = 0; i < word.size && i < sizeof(quoted) - 1; i++)
        quoted[i] = isprint((unsigned char)word.at[i]) ? word.at[i] : '?';
    quoted[i] = '\0';
    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    return hp_err_set(p->error, HOOP_ERR_INVALID_ARGUMENT, "%s:%s%sword \"%s\" %s", p->source, p->lines ? "" : " ",
                      where, quoted, what);
}

/* From `at` to the end of the span that it is in. */
static span
behind(span all, const char *at)
{
    return (span){at, all.size - (size_t)(at - all.at)};
}

/* A whole number up to `most` made of all digits; -1 when it is not. */
static int
number(span text, int most)
{
    int value = -1;
    hp_number_parse_digits(text.at, text.size, most, &value);
    return value;
}

/* --- the list of hosts --- */

/* A name and its place in the list, as a node of the tree. */
typedef struct name_place {
    int at;
    char name[];
} name_place;

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const name_place *)a)->name, ((const name_place *)b)->name);
}

/* The entry of a name; a new one at the first mention. NULL: there are too many. */
static hp_host_entry *
host_of(hp_host_list *hosts, const char *name)
{
    size_t n = strlen(name) + 1;
    name_place *new = hp_xcalloc(1, sizeof(*new) + n);
    memcpy(new->name, name, n);
    new->at = hosts->count;
    name_place *known = *(name_place **)hp_xcheck(tsearch(new, &hosts->names, by_name));
    if (known != new) {
        free(new);
        return &hosts->entry[known->at];
    }
    if (hosts->count == HP_HOSTS_MAX)
        return NULL;
    hosts->entry = hp_xgrow(hosts->entry, &hosts->room, (size_t)hosts->count + 1, sizeof(*hosts->entry));
    snprintf(hosts->entry[hosts->count].name, HP_HOST_NAME, "%s", name);
    return &hosts->entry[hosts->count++];
}

/* Takes a value that a host may be given once; 0 when it contradicts the one it has. */
static int
agree(char *has, size_t size, const char *given)
{
    if (given[0] == '\0')
        return 1;
    if (has[0] == '\0')
        snprintf(has, size, "%s", given);
    return strcmp(has, given) == 0;
}

static hoop_result
add(parser *p, const char *name)
{
    const draft *e = &p->entry;
    hp_host_entry *host;
    if (++p->hosts->mentions > MENTIONS_MAX || !(host = host_of(p->hosts, name)))
        return complain(p, e->word, "makes more than %d hosts; make the range smaller", HP_HOSTS_MAX);
    if (!agree(host->iface, sizeof(host->iface), e->iface) || !agree(host->addr, sizeof(host->addr), e->addr))
        return complain(p, e->word, "was listed before with another iface= or addr=; a host has one, write it once");
    host->mentions += e->slots == 0;
    host->slots += e->slots;
    if (host->slots + host->mentions > HP_SLOTS_MAX)
        return complain(p, e->word, "gives its host more than %d slots; write fewer", HP_SLOTS_MAX);
    return HOOP_SUCCESS;
}

/* --- host names and ranges --- */

static hoop_result
check_name(parser *p, const char *name)
{
    const char *host = strchr(name, '@') ? strchr(name, '@') + 1 : name;
    if (host[0] == '\0' || name[0] == '@')
        return complain(p, p->entry.word, "has no %s; write host or user@host",
                        host[0] == '\0' ? "host name" : "user name");
    if (host[0] == '-' || name[0] == '-')
        return complain(p, p->entry.word, "begins with '-', as no name does; write host:SLOTS");
    for (const char *c = name; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-:%", *c) && c + 1 != host)
            return complain(p, p->entry.word,
                            "has a character that no host name has; write letters, digits, '.', '-' and '_'");
    return HOOP_SUCCESS;
}

static hoop_result expand(parser *p, char name[HP_HOST_NAME], size_t done, span rest, int depth);

/* One item of a range, "7" or "01-16": a name for each number, with as many zeros as the first has. */
static hoop_result
expand_item(parser *p, char name[HP_HOST_NAME], size_t done, span item, span rest, int depth)
{
    const char *dash = memchr(item.at, '-', item.size);
    span first = {item.at, dash ? (size_t)(dash - item.at) : item.size};
    int low = number(first, 99999999);
    int high = dash ? number(behind(item, dash + 1), 99999999) : low;
    int zeros = first.size > 1 && item.at[0] == '0' ? (int)first.size : 0;
    if (low < 0 || high < low || high - low >= HP_HOSTS_MAX)
        return complain(p, item, "is not a range; write numbers as in node[1-4,7], low before high%s",
                        done == 0 && low < 0 ? "; a hostfile has no [groups]" : "");
    for (; low <= high; low++) {
        int digits = snprintf(name + done, HP_HOST_NAME - done, "%0*d", zeros, low);
        if (digits < 0 || (size_t)digits >= HP_HOST_NAME - done)
            return complain(p, p->entry.word, "makes a host name of more than %d bytes; write a shorter one",
                            HP_HOST_NAME - 1);
        if (expand(p, name, done + (size_t)digits, rest, depth + 1) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
    }
    return HOOP_SUCCESS;
}

/* Appends `rest` to name[0 .. done), once for each number of its ranges, and adds the hosts. */
static hoop_result
expand(parser *p, char name[HP_HOST_NAME], size_t done, span rest, int depth)
{
    const char *bracket = rest.size ? memchr(rest.at, '[', rest.size) : NULL;
    size_t plain = bracket ? (size_t)(bracket - rest.at) : rest.size;
    if (done + plain >= HP_HOST_NAME)
        return complain(p, p->entry.word, "makes a host name of more than %d bytes; write a shorter one",
                        HP_HOST_NAME - 1);
    memcpy(name + done, rest.at, plain);
    name[done + plain] = '\0';
    if (!bracket)
        return check_name(p, name) == HOOP_SUCCESS ? add(p, name) : HOOP_ERR_INVALID_ARGUMENT;
    const char *close = memchr(bracket, ']', rest.size - plain);
    if (!close || depth == BRACKETS_MAX)
        return complain(p, p->entry.word,
                        close ? "has too many ranges; write several words"
                              : "has a '[' that is not closed; write ranges as in node[1-4,7]");
    for (const char *item = bracket + 1, *end; item <= close; item = end + 1) {
        end = memchr(item, ',', (size_t)(close - item));
        end = end ? end : close;
        span one = {item, (size_t)(end - item)};
        if (expand_item(p, name, done + plain, one, behind(rest, close + 1), depth) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
    }
    return HOOP_SUCCESS;
}

/* --- words --- */

static hoop_result
finish_entry(parser *p)
{
    char name[HP_HOST_NAME];
    if (!p->open)
        return HOOP_SUCCESS;
    p->open = 0;
    if (p->entry.max_slots != 0 && p->entry.max_slots < p->entry.slots)
        return complain(p, p->entry.word, "has max_slots=%d, less than its %d slots; write a larger one",
                        p->entry.max_slots, p->entry.slots);
    return expand(p, name, 0, p->entry.pattern, 0);
}

static hoop_result
set_slots(parser *p, int *slots, span word, span value)
{
    int given = number(value, HP_SLOTS_MAX);
    if (given <= 0)
        return complain(p, word, "has no valid number of slots; write a whole number from 1 to %d", HP_SLOTS_MAX);
    if (*slots != 0)
        return complain(p, word, "gives a host its slots twice; write host:N or slots=N, not both");
    *slots = given;
    return HOOP_SUCCESS;
}

/* Also with a scope behind '%'. */
static int
is_ipv6(span host)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    const char *scope = memchr(host.at, '%', host.size);
    int n = (int)(scope ? (size_t)(scope - host.at) : host.size);
    return snprintf(text, sizeof(text), "%.*s", n, host.at) == n && n < (int)sizeof(text) &&
           inet_pton(AF_INET6, text, bytes) == 1;
}

/* "[fd00::1]:4", "me@[fd00::1]", "fd00::1", "node[1-4]:8", "node1:8": cuts the slots off; what is left is the pattern. */
static hoop_result
begin_entry(parser *p, span word)
{
    const char *at = memchr(word.at, '@', word.size);
    span host = at ? behind(word, at + 1) : word;
    const char *colon = memrchr(host.at, ':', host.size), *close = memrchr(host.at, ']', host.size);
    int literal = colon && (memchr(host.at, ':', host.size) != colon || (close && colon < close));
    p->entry = (draft){.word = word, .pattern = word};
    p->open = 1;
    if (literal && host.at[0] == '[' && close) {
        int n = snprintf(p->entry.plain, sizeof(p->entry.plain), "%.*s%.*s", (int)(host.at - word.at), word.at,
                         (int)(close - host.at) - 1, host.at + 1);
        if (n >= (int)sizeof(p->entry.plain) || !is_ipv6((span){host.at + 1, (size_t)(close - host.at) - 1}))
            return complain(p, word, "is no address; write [fd00::1]:4");
        p->entry.pattern = (span){p->entry.plain, strlen(p->entry.plain)};
        colon = close + 1 < host.at + host.size ? close + 1 : NULL;
        if (colon && *colon != ':')
            return complain(p, word, "has text after ']' that is not :SLOTS; write [fd00::1]:4");
    } else if (literal) {
        if (!is_ipv6(host))
            return complain(p, word, "has several ':' and is no IPv6 address; write HOST:SLOTS, or [fd00::1]:4");
        return HOOP_SUCCESS;
    } else if (colon) {
        p->entry.pattern.size = (size_t)(colon - word.at);
    }
    return colon ? set_slots(p, &p->entry.slots, word, behind(word, colon + 1)) : HOOP_SUCCESS;
}

static hoop_result
set_text(parser *p, char *out, size_t room, span word, span value)
{
    for (size_t i = 0; i < value.size; i++)
        if (!isalnum((unsigned char)value.at[i]) && !strchr("._-:@=^", value.at[i]))
            return complain(p, word, "has a character that no interface or address has; write iface=NAME or addr=IP");
    if (value.size == 0 || value.size >= room)
        return complain(p, word, "has %s; write iface=NAME or addr=IP", value.size ? "too long a value" : "no value");
    memcpy(out, value.at, value.size);
    out[value.size] = '\0';
    return HOOP_SUCCESS;
}

static int
is_key(span word, const char *key)
{
    return strlen(key) == word.size && strncasecmp(word.at, key, word.size) == 0;
}

static hoop_result
attribute(parser *p, span word, const char *equals)
{
    span key = {word.at, (size_t)(equals - word.at)}, value = behind(word, equals + 1);
    draft *e = &p->entry;
    uint8_t bytes[16];
    if (is_key(key, "slots") || is_key(key, "cpu") || is_key(key, "count"))
        return set_slots(p, &e->slots, word, value);
    if (is_key(key, "max_slots") || is_key(key, "max-slots"))
        return set_slots(p, &e->max_slots, word, value);
    if (is_key(key, "iface") || is_key(key, "ifname"))
        return set_text(p, e->iface, sizeof(e->iface), word, value);
    if (!is_key(key, "addr"))
        return complain(p, word, "is not known; write slots=N, iface=NAME or addr=IP");
    if (set_text(p, e->addr, sizeof(e->addr), word, value) != HOOP_SUCCESS)
        return HOOP_ERR_INVALID_ARGUMENT;
    if (inet_pton(AF_INET, e->addr, bytes) == 1 || inet_pton(AF_INET6, e->addr, bytes) == 1)
        return HOOP_SUCCESS;
    return complain(p, word, "is not an IP address; write addr=10.0.0.3 or addr=fd00::3");
}

static hoop_result
take_word(parser *p, span word)
{
    const char *equals = memchr(word.at, '=', word.size);
    if (!p->open && equals)
        return complain(p, word, "comes before its host; write host slots=N");
    if (!p->open)
        return begin_entry(p, word);
    if (equals)
        return attribute(p, word, equals);
    if (number(word, HP_SLOTS_MAX) > 0)
        return complain(p, word, "has no meaning alone; write slots=%.*s", (int)word.size, word.at);
    return complain(p, word,
                    "is no attribute; write one host a line, or a comma between, and slots=N, iface=NAME or addr=IP");
}

/* --- lines --- */

/* Copies a line without its comment and without blanks round '='; returns its size. */
static size_t
tidy(char *out, const char *line, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n && line[i] != '#'; i++) {
        int blank = line[i] == ' ' || line[i] == '\t' || line[i] == '\r';
        if (blank && size > 0 && out[size - 1] == '=')
            continue;
        while (line[i] == '=' && size > 0 && out[size - 1] == ' ')
            size--;
        out[size++] = (char)(blank ? ' ' : line[i]);
    }
    return size;
}

static hoop_result
take_line(parser *p, const char *line, size_t n)
{
    size_t at = 0;
    while (at < n) {
        span word = {line + at, 0};
        /* A word ends at a blank, or at a comma outside brackets. */
        for (int inside = 0; at + word.size < n && word.at[word.size] != ' ' && (inside || word.at[word.size] != ',');
             word.size++)
            inside = word.at[word.size] == '[' ? 1 : word.at[word.size] == ']' ? 0 : inside;
        if (word.size > 0 && take_word(p, word) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
        at += word.size;
        if (at < n && line[at] == ',' && finish_entry(p) != HOOP_SUCCESS)
            return HOOP_ERR_INVALID_ARGUMENT;
        at++;
    }
    return finish_entry(p);
}

hoop_result
hp_hostfile_parse(hp_host_list *hosts, const char *source, int lines, const char *text, size_t n, hoop_error *error)
{
    parser p = {.hosts = hosts, .source = source, .lines = lines, .error = error};
    char *tidied = hp_xcalloc(n + 1, 1);
    hoop_result result = HOOP_SUCCESS;
    size_t at = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* behind the mark of some editors for UTF-8 */
    while (at < n && result == HOOP_SUCCESS) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t size = newline ? (size_t)(newline - text) - at : n - at;
        p.line++;
        if ((lines && size > LINE_MAX_BYTES) || memchr(text + at, '\0', size))
            result = complain(&p, (span){text + at, size}, "is not text; a hostfile has one host a line");
        else
            result = take_line(&p, tidied, tidy(tidied, text + at, size));
        at += size + 1;
    }
    free(tidied);
    return result;
}

/* --- files --- */

static hoop_result
slurp(hp_buffer *bytes, int fd, const char *source, hoop_error *error)
{
    enum { PIECE = 64 * 1024 };
    ssize_t n;
    while ((n = read(fd, hp_xbuffer_room(bytes, PIECE), PIECE)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hp_err_sys(error, HOOP_ERR_INVALID_ARGUMENT, errno, "cannot read the hostfile %s", source);
        hp_buffer_grown(bytes, (size_t)n);
        if (hp_buffer_size(bytes) > FILE_MAX)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s is larger than 16 MiB; is it a hostfile?", source);
    }
    return HOOP_SUCCESS;
}

hoop_result
hp_hostfile_read(hp_host_list *hosts, const char *path, hoop_error *error)
{
    int standard = strcmp(path, "-") == 0;
    const char *source = standard ? "standard input" : path;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    hp_buffer bytes = {0};
    if (fd < 0)
        return hp_err_sys(error, HOOP_ERR_INVALID_ARGUMENT, errno, "cannot open the hostfile %s", path);
    hoop_result result = slurp(&bytes, fd, source, error);
    if (result == HOOP_SUCCESS && hp_buffer_size(&bytes) > 0)
        result =
            hp_hostfile_parse(hosts, source, 1, (const char *)hp_buffer_first(&bytes), hp_buffer_size(&bytes), error);
    if (result == HOOP_SUCCESS && hosts->count == 0)
        result = hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s names no host; write one a line, as in node1 slots=4",
                            source);
    hp_buffer_free(&bytes);
    if (!standard)
        close(fd);
    return result;
}

void
hp_hostfile_free(hp_host_list *hosts)
{
    free(hosts->entry);
    tdestroy(hosts->names, free);
    *hosts = (hp_host_list){0};
}

/* --- this machine --- */

/* Reads a numeric address without a port; 0: it is none. */
static int
numeric(hp_addr *addr, const char *text)
{
    hp_addr a = {0};
    if (inet_pton(AF_INET, text, &a.u.v4.sin_addr) == 1) {
        a.u.v4.sin_family = AF_INET;
        a.length = sizeof(a.u.v4);
    } else if (inet_pton(AF_INET6, text, &a.u.v6.sin6_addr) == 1) {
        a.u.v6.sin6_family = AF_INET6;
        a.length = sizeof(a.u.v6);
    }
    *addr = a;
    return a.length != 0;
}

static int
can_bind(const hp_addr *addr)
{
    int fd = socket(addr->u.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int can = fd >= 0 && bind(fd, &addr->u.any, addr->length) == 0;
    if (fd >= 0)
        close(fd);
    return can;
}

/* Whether an address is this machine's. bind alone does not tell: with net.ipv4.ip_nonlocal_bind it succeeds for any. */
static int
is_own(const hp_addr *addr)
{
    struct ifaddrs *all = NULL;
    hp_addr plain = *addr;
    hp_addr_unmap(&plain);
    if (!can_bind(&plain) || getifaddrs(&all) < 0)
        return 0;
    int own = hp_addr_is_loopback(&plain) || hp_addr_is_any(&plain);
    for (const struct ifaddrs *entry = all; entry && !own; entry = entry->ifa_next) {
        hp_addr has;
        own = hp_interface_addr(&has, entry) && hp_addr_same_host(&has, &plain);
    }
    freeifaddrs(all);
    return own;
}

const char *
hp_local_name(void)
{
    static char name[256];
    if (name[0] == '\0' && gethostname(name, sizeof(name) - 1) < 0)
        snprintf(name, sizeof(name), "localhost");
    return name;
}

const char *
hp_local_bare_name(const char *name)
{
    const char *at = strchr(name, '@');
    return at ? at + 1 : name;
}

int
hp_local_same_name(const char *a, const char *b)
{
    size_t na = strcspn(a, "."), nb = strcspn(b, ".");
    if (strcasecmp(a, b) == 0)
        return 1;
    return na == nb && strncasecmp(a, b, na) == 0 && (a[na] == '\0' || b[nb] == '\0');
}

int
hp_local_address(hp_addr *addr, const char *text)
{
    return numeric(addr, text) && is_own(addr);
}

int
hp_local_is_host(const char *name)
{
    hp_addr addr;
    if (strchr(name, '@'))
        return 0;
    if (numeric(&addr, name))
        return is_own(&addr);
    return strcasecmp(name, "localhost") == 0 || hp_local_same_name(name, hp_local_name());
}

int
hp_local_ifname(const hp_host_entry *host, char *out, size_t size)
{
    if (host->addr[0] != '\0')
        snprintf(out, size, "%s/%d", host->addr, strchr(host->addr, ':') ? 128 : 32);
    else if (host->iface[0] != '\0')
        snprintf(out, size, "%s", host->iface);
    return host->addr[0] != '\0' || host->iface[0] != '\0';
}
