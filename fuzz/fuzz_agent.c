/* SPDX-License-Identifier: MIT */
/*
 * fuzz_agent: both ends of the conversation of launcher and agent (launch/agent_msg.h). Byte 0 of the input chooses the
 * end, byte 1 how the bytes are cut; then come commands that write them: messages with a right head, raw bytes, the
 * greeting. The agent's end reads a spec: what it accepts is possible, and encodes to the same spec again. The
 * launcher's end is a host with ranks 2 to 4, behind a fake process: it hears of those ranks only, in order. Both
 * ends do the same when the bytes come in other parts.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "fuzz/fuzz.h"
#include "launch/host.h"
#include "launch/xalloc.h"
#include "t/launch/fake_loop.h"
#include "t/launch/fake_process.h"

#include <string.h>
#include <sys/wait.h>

const char fuzz_name[] = "agent";

enum { STREAM_MAX = 200000, LONG = 0xf0, PAGE = 4096, PART_MAX = 32768, READS = 60, FIRST_RANK = 2, RANKS = 3 };
enum { MESSAGE, RAW, GREETING, ERROR_TEXT, COMMANDS };

/* --- the stream --- */

/* n bytes: those of the input, and zeros behind it; many bytes are all the same one. */
static void
add_bytes(hp_buffer *out, fuzz_script *s, uint8_t code)
{
    static uint8_t bytes[(0x100 - LONG) * PAGE];
    size_t n = code < LONG ? code : (size_t)(code - LONG + 1) * PAGE;
    if (code >= LONG)
        memset(bytes, fuzz_next(s), n);
    for (size_t i = 0; code < LONG && i < n; i++)
        bytes[i] = fuzz_next(s);
    hp_xbuffer_add(out, bytes, n);
}

static void
add_message(hp_buffer *out, fuzz_script *s)
{
    hp_buffer payload = {0};
    int type = fuzz_next(s);
    add_bytes(&payload, s, fuzz_next(s));
    hp_agent_msg_put(out, (hp_agent_msg_type)type, hp_buffer_first(&payload), hp_buffer_size(&payload), NULL, 0);
    hp_buffer_free(&payload);
}

static void
write_stream(hp_buffer *out, hp_buffer *error_text, fuzz_script *s)
{
    static const char greeting[] = "\n" HP_AGENT_GREETING "0.1.0 192.0.2.7\n";
    while (s->left > 0 && hp_buffer_size(out) < STREAM_MAX)
        switch (fuzz_next(s) % COMMANDS) {
        case MESSAGE: add_message(out, s); break;
        case RAW: add_bytes(out, s, fuzz_next(s)); break;
        case GREETING: hp_xbuffer_add(out, greeting, sizeof(greeting) - 1); break;
        default: add_bytes(error_text, s, fuzz_next(s) & 127);
        }
}

/* --- the agent's end --- */

static hoop_result
take_spec(hp_spec *spec, const hp_buffer *stream, size_t part, hoop_error *error)
{
    hp_buffer in = {0};
    hoop_result result = HOOP_SUCCESS;
    hp_err_clear(error);
    for (size_t at = 0, size = hp_buffer_size(stream); at < size && result == HOOP_SUCCESS && !spec->complete;) {
        size_t n = part < size - at ? part : size - at;
        hp_agent_msg msg;
        int got = 0;
        hp_xbuffer_add(&in, hp_buffer_first(stream) + at, n);
        at += n;
        while (result == HOOP_SUCCESS && !spec->complete &&
               (got = hp_agent_msg_get(&in, HP_TO_AGENT, &msg, error)) > 0) {
            result = hp_spec_take(spec, &msg, error);
            hp_agent_msg_done(&in, &msg);
        }
        if (got < 0)
            result = error->code;
    }
    hp_buffer_free(&in);
    fuzz_check(result == HOOP_SUCCESS || (result == HOOP_ERR_PROTOCOL && error->text[0]));
    return result;
}

static void
check_spec(const hp_spec *spec)
{
    fuzz_check(spec->argv.count > 0 && !spec->argv.item[spec->argv.count]);
    for (size_t i = 0; i < spec->variables.count; i++)
        fuzz_check(strchr(spec->variables.item[i] + 1, '='));
    fuzz_check(spec->ranks > 0 && spec->ranks <= spec->world && spec->ranks <= HP_SPEC_RANKS);
    for (int i = 0; i < spec->ranks; i++)
        fuzz_check(spec->rank[i] > (i ? spec->rank[i - 1] : -1) && spec->rank[i] < spec->world);
    fuzz_check(spec->local_first >= 0 && spec->local_size <= spec->world);
    fuzz_check(spec->local_first + spec->ranks <= spec->local_size);
    fuzz_check((!spec->dir || spec->dir[0]) && (!spec->home || spec->home[0]) && (!spec->prefix || spec->prefix[0]));
#define HP_AGENT_OPTION(field, kind, names, value, help) fuzz_check(spec->options.field >= 0);
#include "launch/options.def"
}

static void
check_same_bytes(const hp_buffer *a, const hp_buffer *b)
{
    fuzz_check(hp_buffer_size(a) == hp_buffer_size(b));
    fuzz_check(memcmp(hp_buffer_first(a), hp_buffer_first(b), hp_buffer_size(a)) == 0);
}

static void
to_agent(const hp_buffer *stream, size_t part)
{
    hp_spec spec = {0}, other = {0}, again = {0};
    hp_buffer bytes = {0}, other_bytes = {0};
    hoop_error error, other_error;
    hoop_result result = take_spec(&spec, stream, STREAM_MAX, &error);
    fuzz_check(take_spec(&other, stream, part, &other_error) == result && spec.complete == other.complete);
    fuzz_check(strcmp(error.text, other_error.text) == 0);
    hp_spec_put(&bytes, &spec);
    hp_spec_put(&other_bytes, &other);
    check_same_bytes(&bytes, &other_bytes);
    hp_buffer_free(&other_bytes);
    if (spec.complete) {
        check_spec(&spec);
        fuzz_check(take_spec(&again, &bytes, part, &error) == HOOP_SUCCESS && again.complete);
        hp_spec_put(&other_bytes, &again);
        check_same_bytes(&bytes, &other_bytes);
    }
    hp_spec_free(&spec);
    hp_spec_free(&other);
    hp_spec_free(&again);
    hp_buffer_free(&bytes);
    hp_buffer_free(&other_bytes);
}

/* --- the launcher's end --- */

/* What was heard of the hosts: a checksum of every event, and how often of what. */
typedef struct heard {
    uint32_t crc;
    int greeted, failed, over, done;
    int refused; /* a message that is none */
} heard;

static hp_hosts hosts;
static heard now;

static void
note(int what, uint64_t a, uint64_t b, const void *bytes, size_t n)
{
    uint8_t numbers[24];
    hp_put64(numbers, (uint64_t)what);
    hp_put64(numbers + 8, a);
    hp_put64(numbers + 16, b);
    now.crc = hp_crc32c_more(now.crc, numbers, sizeof(numbers));
    now.crc = n > 0 ? hp_crc32c_more(now.crc, bytes, n) : now.crc;
    fuzz_check(now.greeted == 1 && !now.over);
}

static void
check_rank(int rank)
{
    fuzz_check(rank >= FIRST_RANK && rank < FIRST_RANK + RANKS);
}

/* As run.c does once the server runs: the spec is sent, and reports count from there on. */
static void
take(const hp_host_event *e)
{
    const char *seen_from = e->host->conn->seen_from;
    const hp_rank_exit *end = &e->ended;
    switch (e->what) {
    case HP_HOST_GREETED:
        fuzz_check(now.greeted++ == 0 && strlen(seen_from) < 64 && !strchr(seen_from, ' '));
        e->host->has_spec = 1;
        note(1, 0, 0, seen_from, strlen(seen_from));
        break;
    case HP_HOST_STARTED:
        check_rank(e->rank);
        note(2, (uint64_t)e->rank, e->pid, NULL, 0);
        break;
    case HP_HOST_PROCESS:
        check_rank(e->rank);
        fuzz_check(e->number == 0 || e->number == 1);
        note(7, (uint64_t)e->rank, e->pid, NULL, 0);
        break;
    case HP_HOST_OUTPUT:
        check_rank(e->rank);
        fuzz_check((e->number == 1 || e->number == 2) && e->n > 0 && e->n <= HP_AGENT_MSG_TEXT);
        note(3, (uint64_t)e->rank, (uint64_t)e->number, e->bytes, e->n);
        break;
    case HP_HOST_EXITED:
        check_rank(end->rank);
        fuzz_check(end->cause <= HP_EXIT_PERHAPS_MEMORY);
        note(4, (uint64_t)end->rank << 32 | (uint32_t)end->pid, end->ms ^ (uint32_t)end->status, NULL, 0);
        break;
    case HP_HOST_TAKEN: note(5, e->n, 0, NULL, 0); break;
    case HP_HOST_FAILED:
        fuzz_check(e->host->done && e->number >= 0 && e->number <= 255 && e->n > 0);
        note(6, (uint64_t)e->number, 0, e->bytes, e->n);
        break;
    case HP_HOST_OVER: fuzz_check(now.over++ == 0); break;
    }
}

static void
take_all(void)
{
    hp_host_event event;
    while (hp_hosts_hear(&hosts, &event))
        take(&event);
}

/* All that the agent says, then its end. Returns what was heard. */
static heard
hear(const hp_mapping *mapping, const hp_buffer *stream, const hp_buffer *error_text, size_t part)
{
    hp_loop *loop = hp_loop_new();
    hoop_error error;
    now = (heard){0};
    hp_hosts_open(&hosts, loop, mapping);
    hp_host *host = &hosts.host[1];
    fuzz_check(host->count == RANKS && hp_host_start(host, &error) == HOOP_SUCCESS);
    fake_process *agent = fake_process_at(0);
    if (hp_buffer_size(error_text) > 0)
        fake_process_write(agent, 2, hp_buffer_first(error_text), hp_buffer_size(error_text));
    for (size_t at = 0, n; at < hp_buffer_size(stream) && !host->conn->protocol_error[0]; at += n) {
        n = part < hp_buffer_size(stream) - at ? part : hp_buffer_size(stream) - at;
        fake_process_write(agent, 1, hp_buffer_first(stream) + at, n);
        fake_loop_settle(loop);
        take_all();
    }
    now.refused = host->conn->protocol_error[0] != 0;
    fake_process_exit(agent, 256);
    hp_hosts_reaped(&hosts, waitpid(-1, NULL, 0), 256);
    fake_loop_advance(loop, 3 * HP_SEC);
    take_all();
    fuzz_check(now.over == 1 && host->conn->state == HP_AGENT_CONN_OVER);
    now.done = host->done;
    hp_hosts_close(&hosts);
    hp_loop_free(loop);
    fake_process_forget();
    return now;
}

static hp_mapping *
two_hosts(void)
{
    static char *program[] = {"./train", NULL};
    static const char list[] = "node1:2,node2:3";
    static hp_options options;
    static hp_mapping mapping;
    hoop_error error;
    if (mapping.list)
        return &mapping;
    options = (hp_options){.argv = program, .here = hp_xstrdup("/work")};
    hp_strings_add(&options.rsh, hp_xstrdup("ssh"));
    fuzz_check(hp_hostfile_parse(&options.hosts, "-H", 0, list, sizeof(list) - 1, &error) == HOOP_SUCCESS);
    fuzz_check(hp_mapping_make(&mapping, &options, &error) == HOOP_SUCCESS);
    return &mapping;
}

static void
to_launcher(const hp_buffer *stream, const hp_buffer *error_text, size_t part)
{
    heard whole = hear(two_hosts(), stream, error_text, PART_MAX);
    heard other = hear(two_hosts(), stream, error_text, part);
    fuzz_check(memcmp(&whole, &other, sizeof(whole)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_script s = {data, size};
    hp_buffer stream = {0}, error_text = {0};
    int launcher = fuzz_next(&s) & 1;
    size_t part = 1u + fuzz_next(&s);
    write_stream(&stream, &error_text, &s);
    if (part < hp_buffer_size(&stream) / READS)
        part = hp_buffer_size(&stream) / READS; /* so that a long input does not take long */
    if (launcher)
        to_launcher(&stream, &error_text, part);
    else
        to_agent(&stream, part);
    hp_buffer_free(&stream);
    hp_buffer_free(&error_text);
    return 0;
}
