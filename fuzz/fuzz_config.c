/* SPDX-License-Identifier: MIT */
/*
 * fuzz_config: everything that a user writes as text. Byte 0 of the input chooses: settings by hoop_config_set, by the
 * environment and in hoop.conf, divided by bytes 0xFF; a port range; a list of interfaces, on a machine that is made
 * up here; an address; a secret. What is accepted is what an independent reading says, in its range, and by
 * precedence; it means the same when it is written out and read again. What is refused has a sentence.
 */
#include "base/err.h"
#include "fuzz/fuzz.h"
#include "lib/config.h"
#include "net/addr.h"
#include "net/interface.h"
#include "net/secret.h"
#include "net/sock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char fuzz_name[] = "config";

enum { SETTINGS, PORTS, INTERFACES, ADDRESS, SECRET, KINDS };
enum { TEXT_MAX = 8192, VARIABLES_MAX = 64, MARK = 0xff };

extern char **environ;

static void
check_refused(hoop_result result, const hoop_error *error)
{
    fuzz_check(result == error->code && error->text[0] && strlen(error->text) < sizeof(error->text));
}

/* --- settings --- */

/* One line "KEY=value" of those that were accepted from one source. */
typedef struct given {
    int count;
    char *line[VARIABLES_MAX];
} given;

/* The value of the last line with this key; NULL: there is none. skip: characters in front of the key. */
static const char *
last_of(const given *g, const char *key, size_t skip)
{
    size_t n = strlen(key);
    for (int i = g->count - 1; i >= 0; i--)
        if (strncasecmp(g->line[i] + skip, key, n) == 0 && g->line[i][skip + n] == '=')
            return g->line[i] + skip + n + 1;
    return NULL;
}

/* Takes a number and its unit apart, as hoop.conf(5) describes them. */
static int64_t
number_of(const char *text)
{
    char *end;
    int64_t number = strtoll(text, &end, 10);
    int shift = tolower((unsigned char)*end) == 'k' ? 10 : tolower((unsigned char)*end) == 'm' ? 20 : *end ? 30 : 0;
    return number * (INT64_C(1) << shift);
}

static void
check_value(const hp_setting_row *row, const hp_value *value)
{
    fuzz_check(memchr(value->text, 0, sizeof(value->text)));
    if (row->type == HP_TYPE_NUMBER || row->type == HP_TYPE_BYTES)
        fuzz_check(value->number >= row->least && value->number <= row->most &&
                   value->number == number_of(value->text));
    if (row->type != HP_TYPE_CHOICE)
        return;
    const char *word = row->text;
    for (int64_t skip = value->number; skip > 0; skip--)
        word = strchr(word, '|') + 1;
    fuzz_check(strcspn(word, "|:") == strlen(value->text) && strncmp(word, value->text, strlen(value->text)) == 0);
}

/* The call wins over the environment, and that over the file. */
static void
check_precedence(int i, const hp_value *value, const given *calls, const given *variables)
{
    const char *key = hp_setting_table[i].key;
    const char *call = last_of(calls, key, 0), *variable = last_of(variables, key, 5);
    const char *wanted = call ? call : variable;
    fuzz_check(call       ? value->source == HP_FROM_CALL
               : variable ? value->source == HP_FROM_ENVIRONMENT
                          : value->source <= HP_FROM_FILE);
    if (hp_setting_table[i].type != HP_TYPE_SECRET)
        fuzz_check(!wanted || strcasecmp(wanted, value->text) == 0);
    fuzz_check(value->source != HP_FROM_DEFAULT || strcmp(value->text, hp_setting_table[i].value) == 0);
}

/* It comes from a call only, and is nowhere in the text. */
static void
check_secret(const hoop_config *config, const hp_value *value)
{
    fuzz_check(value->source == (config->secret ? HP_FROM_CALL : HP_FROM_DEFAULT));
    fuzz_check(strcmp(value->text, config->secret ? "(a secret)" : "") == 0);
}

static void
check_config(const hoop_config *config, const given *calls, const given *variables)
{
    char agreement[HP_AGREE_TEXT], glance[HP_VALUE_TEXT];
    hoop_config *again = hoop_config_new();
    hoop_error error;
    fuzz_check(again);
    for (int i = 0; i < HP_SETTINGS; i++) {
        const hp_value *value = &config->value[i];
        check_value(&hp_setting_table[i], value);
        check_precedence(i, value, calls, variables);
        if (hp_setting_table[i].type == HP_TYPE_SECRET) {
            check_secret(config, value);
            continue;
        }
        fuzz_check(hp_config_put(again, hp_setting_table[i].key, value->text, HP_FROM_CALL, &error) == HOOP_SUCCESS);
        fuzz_check(again->value[i].number == value->number && strcmp(again->value[i].text, value->text) == 0);
    }
    hp_config_agreement(config, agreement);
    fuzz_check(strlen(agreement) > 0 && strlen(agreement) < sizeof(agreement) - 1);
    for (size_t room = 1; room < 600; room = room * 3 + 1) {
        char *text = malloc(room);
        fuzz_check(text);
        hp_config_describe(config, text, room);
        fuzz_check(memchr(text, 0, room));
        free(text);
    }
    hp_config_glance(HP_SET_security, glance);
    fuzz_check(memchr(glance, 0, sizeof(glance)));
    hoop_config_free(again);
}

/* Cuts the text into lines, each in memory of its own and with `prefix` in front. */
static void
cut(given *g, const char *prefix, const char *text, size_t n)
{
    for (const char *end = text + n; text < end && g->count < VARIABLES_MAX - 2;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = newline ? (size_t)(newline - text) : (size_t)(end - text);
        char *line = malloc(strlen(prefix) + length + 1);
        fuzz_check(line);
        sprintf(line, "%s%.*s", prefix, (int)length, text);
        g->line[g->count++] = line;
        text += length + 1;
    }
}

static void
discard(given *g)
{
    for (int i = 0; i < g->count; i++)
        free(g->line[i]);
    g->count = 0;
}

/* Sets them one by one, and keeps those that were accepted. */
static void
call(hoop_config *calls, given *lines)
{
    int kept = 0;
    for (int i = 0; i < lines->count; i++) {
        hoop_error error;
        char *line = lines->line[i], *equals = strchr(line, '=');
        hoop_result result = HOOP_ERR_INVALID_ARGUMENT;
        if (equals) {
            *equals = 0;
            result = hp_config_put(calls, line, equals + 1, HP_FROM_CALL, &error);
            *equals = '=';
        }
        if (equals && result != HOOP_SUCCESS)
            check_refused(result, &error);
        if (result == HOOP_SUCCESS)
            lines->line[kept++] = line;
        else
            free(line);
    }
    lines->count = kept;
}

/* The next section of the text, up to a MARK. */
static size_t
section(const char **text, size_t *left)
{
    const char *mark = *left ? memchr(*text, MARK, *left) : NULL;
    size_t n = mark ? (size_t)(mark - *text) : *left, used = mark ? n + 1 : n;
    *text += used;
    *left -= used;
    return n;
}

static char **
environment_of(given *variables, int fd)
{
    static char conf[64], *entries[VARIABLES_MAX + 2];
    snprintf(conf, sizeof(conf), "HOOP_CONF_FILE=/proc/self/fd/%d", fd);
    entries[0] = conf;
    for (int i = 0; i < variables->count; i++)
        entries[i + 1] = variables->line[i];
    entries[variables->count + 1] = NULL;
    return entries;
}

static void
read_settings(const char *text, size_t left)
{
    static int fd = -1;
    static given calls, variables;
    static hoop_config config;
    hoop_error error;
    hoop_config *called = hoop_config_new();
    char **kept = environ;
    if (fd < 0)
        fd = memfd_create("hoop.conf", MFD_CLOEXEC);
    fuzz_check(called && fd >= 0);
    const char *at = text;
    cut(&calls, "", at, section(&text, &left));
    at = text;
    cut(&variables, "HOOP_", at, section(&text, &left));
    fuzz_check(ftruncate(fd, 0) == 0 && pwrite(fd, text, left, 0) == (ssize_t)left);
    call(called, &calls);
    environ = environment_of(&variables, fd);
    hp_err_clear(&error);
    hoop_result result = hp_config_resolve(&config, called, &error);
    if (result == HOOP_SUCCESS)
        check_config(&config, &calls, &variables);
    else
        check_refused(result, &error);
    environ = kept;
    discard(&calls);
    discard(&variables);
    hoop_config_free(called);
}

/* --- ports --- */

/* A port in digits; 0: none. *text moves behind the digits. */
static unsigned
digits(const char **text)
{
    unsigned port = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        port = port > UINT16_MAX ? port : port * 10 + (unsigned)(**text - '0');
    return port > UINT16_MAX ? 0 : port;
}

static void
read_ports(const char *text)
{
    hp_ports ports, again;
    hoop_error error;
    char written[32];
    const char *at = text;
    unsigned first = digits(&at), last = first;
    if (*at == '-') {
        at++;
        last = digits(&at);
    }
    int right = !*text || (first && last >= first && !*at);
    hoop_result result = hp_ports_parse(&ports, text, &error);
    fuzz_check((result == HOOP_SUCCESS) == right);
    if (result != HOOP_SUCCESS) {
        check_refused(result, &error);
        return;
    }
    fuzz_check(ports.first == first && ports.last == last);
    snprintf(written, sizeof(written), "%u-%u", ports.first, ports.last);
    fuzz_check(!*text || (hp_ports_parse(&again, written, &error) == HOOP_SUCCESS && again.first == ports.first &&
                          again.last == ports.last));
}

/* --- interfaces --- */

typedef struct interface {
    const char *name, *address;
    unsigned flags;
} interface;

static const interface machine[] = {
    {"lo", "127.0.0.1", IFF_UP | IFF_RUNNING},
    {"lo", "::1", IFF_UP | IFF_RUNNING},
    {"eth0", "10.1.2.3", IFF_UP | IFF_RUNNING},
    {"eth0", "fe80::1", IFF_UP | IFF_RUNNING},
    {"eth1", "192.168.0.9", IFF_UP},
    {"ib0", "fd00:1::7", IFF_UP | IFF_RUNNING},
    {"docker0", "172.17.0.1", IFF_UP | IFF_RUNNING},
};

enum { INTERFACES_HERE = sizeof(machine) / sizeof(*machine) };

/* Instead of libc's: the machine above. */
int
getifaddrs(struct ifaddrs **all)
{
    static struct ifaddrs entries[INTERFACES_HERE];
    static union {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } addresses[INTERFACES_HERE];
    for (int i = 0; i < INTERFACES_HERE; i++) {
        entries[i] = (struct ifaddrs){.ifa_next = i + 1 < INTERFACES_HERE ? &entries[i + 1] : NULL,
                                      .ifa_name = (char *)(uintptr_t)machine[i].name,
                                      .ifa_flags = machine[i].flags,
                                      .ifa_addr = (struct sockaddr *)&addresses[i]};
        addresses[i].v4.sin_family = AF_INET;
        if (inet_pton(AF_INET, machine[i].address, &addresses[i].v4.sin_addr) == 1)
            continue;
        addresses[i].v6.sin6_family = AF_INET6;
        inet_pton(AF_INET6, machine[i].address, &addresses[i].v6.sin6_addr);
    }
    *all = entries;
    return 0;
}

void
freeifaddrs(struct ifaddrs *all)
{
    (void)all;
}

/* Whether the first `bits` bits of both are the same. */
static int
same_bits(const uint8_t *a, const uint8_t *b, long bits)
{
    for (long i = 0; i < bits; i++)
        if ((a[i / 8] >> (7 - i % 8) & 1) != (b[i / 8] >> (7 - i % 8) & 1))
            return 0;
    return 1;
}

/* Whether an item names the interface: as a network or an address, else by its name. */
static int
names(const char *item, const interface *it, int exact)
{
    uint8_t net[16], own[16];
    char text[64];
    snprintf(text, sizeof(text), "%s", item);
    char *slash = strchr(text, '/');
    if (slash)
        *slash = 0;
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (strlen(item) < INET6_ADDRSTRLEN + 4 && inet_pton(family, text, net) == 1)
        return inet_pton(family, it->address, own) == 1 && same_bits(net, own,
                                                                     slash               ? atol(slash + 1)
                                                                     : family == AF_INET ? 32
                                                                                         : 128);
    return exact ? strcmp(it->name, item) == 0 : strncmp(it->name, item, strlen(item)) == 0;
}

static int
is_listed(const char *list, const interface *it, int exact)
{
    char *copy = strdup(list), *rest = copy;
    int listed = 0;
    fuzz_check(copy);
    for (const char *item; (item = strsep(&rest, ","));)
        listed |= *item && names(item, it, exact);
    free(copy);
    return listed;
}

static const interface *
find_interface(const char *name, const char *address)
{
    for (int i = 0; i < INTERFACES_HERE; i++)
        if (strcmp(machine[i].name, name) == 0 && strcmp(machine[i].address, address) == 0)
            return &machine[i];
    return NULL;
}

static void
read_interfaces(const char *wanted)
{
    hp_addr addr;
    hoop_error error;
    char name[32], host[HP_ADDR_TEXT], why[100];
    int exclude = wanted[0] == '^', exact = wanted[exclude] == '=';
    const char *list = wanted + exclude + exact;
    hoop_result result = hp_interface_choose(&addr, wanted, NULL, name, why, sizeof(why), &error);
    if (result != HOOP_SUCCESS) {
        check_refused(result, &error);
        return;
    }
    const interface *chosen = find_interface(name, hp_addr_host(&addr, host));
    fuzz_check(chosen && chosen->flags == (IFF_UP | IFF_RUNNING) && hp_addr_port(&addr) == 0);
    fuzz_check(memchr(why, 0, sizeof(why)));
    fuzz_check(!*wanted || is_listed(list, chosen, exact) == !exclude);
}

/* --- addresses and secrets --- */

/* Instead of libc's: numbers are read, and no name is known. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return hints->ai_flags & AI_NUMERICHOST ? real(host, service, hints, found) : EAI_NONAME;
}

static void
read_address(const char *text)
{
    hp_addr addr, again;
    hoop_error error;
    char written[HP_ADDR_TEXT];
    hoop_result result = hp_addr_parse(&addr, text, &error);
    if (result != HOOP_SUCCESS) {
        check_refused(result, &error);
        return;
    }
    hp_addr_print(&addr, written);
    fuzz_check(hp_addr_parse(&again, written, &error) == HOOP_SUCCESS && hp_addr_same_host(&addr, &again));
    fuzz_check(hp_addr_port(&addr) == hp_addr_port(&again));
    fuzz_check(hp_addr_port(&addr) == strtoul(strrchr(text, ':') + 1, NULL, 10));
}

static void
read_secret(const char *text, size_t n)
{
    hp_secret secret, again;
    hoop_error error;
    char written[HP_SECRET_TEXT];
    hoop_result result = hp_secret_parse(&secret, text, n, &error);
    if (result != HOOP_SUCCESS) {
        check_refused(result, &error);
        return;
    }
    hp_secret_format(written, &secret);
    fuzz_check(hp_secret_parse(&again, written, strlen(written), &error) == HOOP_SUCCESS);
    fuzz_check(memcmp(again.key, secret.key, sizeof(secret.key)) == 0 && again.of_job == secret.of_job);
    fuzz_check(!secret.of_job || memcmp(again.job_id, secret.job_id, sizeof(secret.job_id)) == 0);
    fuzz_check(n >= strlen(written) - 1 && strncasecmp(text, written, strlen(written) - 1) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > TEXT_MAX)
        return 0;
    char *text = malloc(size); /* the bytes behind the first, and a NUL */
    fuzz_check(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % KINDS) {
    case SETTINGS: read_settings(text, size - 1); break;
    case PORTS: read_ports(text); break;
    case INTERFACES: read_interfaces(text); break;
    case ADDRESS: read_address(text); break;
    default: read_secret(text, size - 1);
    }
    free(text);
    return 0;
}
