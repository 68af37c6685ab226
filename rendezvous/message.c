/* SPDX-License-Identifier: MIT */
/*
 * message: see message.h. A cursor walks the input, notices the end and never goes past it. A get succeeds only if
 * the cursor met no error, every value is in its range and no byte is left.
 */
#include "rendezvous/message.h"

#include "base/text.h"
#include "base/wire.h"

#include <string.h>

enum { PART_HEAD = 28, MEMBER_MAX = 4 + 4 + 8 + 4 + 4 + (1 + HP_OTHERS) * HP_ADDR_BYTES + 2 + HP_HOST_TEXT };

typedef struct cursor {
    const uint8_t *at;
    size_t left;
    int bad;
} cursor;

static const uint8_t *
take(cursor *c, size_t n)
{
    static const uint8_t nothing[HP_ADDR_BYTES];
    if (c->bad || c->left < n) {
        c->bad = 1;
        return n <= sizeof(nothing) ? nothing : NULL;
    }
    const uint8_t *at = c->at;
    c->at += n;
    c->left -= n;
    return at;
}

static uint32_t
take32(cursor *c)
{
    return hp_get32(take(c, 4));
}

static uint64_t
take64(cursor *c)
{
    return hp_get64(take(c, 8));
}

/* Takes a signed number that must be in [least, most]. */
static int
take_int(cursor *c, int least, int most)
{
    int32_t value = (int32_t)take32(c);
    if (value < least || value > most) {
        c->bad = 1;
        return least;
    }
    return value;
}

/* The number of its name has taken the upper bits of a byte. */
static int
take_call(cursor *c, hp_call *call)
{
    hp_call_get(call, take(c, HP_CALL_BYTES));
    int name = call->fused >> 1;
    call->fused &= 1;
    return name;
}

static void
take_addr(cursor *c, hp_addr *addr)
{
    if (!hp_addr_get(addr, take(c, HP_ADDR_BYTES)))
        c->bad = 1;
}

static void
take_others(cursor *c, hp_addr other[HP_OTHERS])
{
    int n = *take(c, 1);
    if (n > HP_OTHERS)
        c->bad = 1;
    for (int i = 0; i < HP_OTHERS; i++)
        other[i].length = 0;
    for (int i = 0; i < n && !c->bad; i++)
        take_addr(c, &other[i]);
}

/* A host name is used in messages: bytes that do not print become question marks. */
static void
take_host(cursor *c, char host[HP_HOST_TEXT])
{
    size_t n = *take(c, 1);
    if (c->bad || n >= HP_HOST_TEXT || n > c->left) {
        c->bad = 1;
        host[0] = 0;
        return;
    }
    memcpy(host, take(c, n), n);
    host[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (host[i] <= ' ' || host[i] > '~')
            host[i] = '?';
}

static int
whole(const cursor *c)
{
    return !c->bad && c->left == 0;
}

static uint8_t *
put32(uint8_t *p, uint32_t v)
{
    hp_put32(p, v);
    return p + 4;
}

static uint8_t *
put64(uint8_t *p, uint64_t v)
{
    hp_put64(p, v);
    return p + 8;
}

static uint8_t *
put_addr(uint8_t *p, const hp_addr *addr)
{
    hp_addr_put(p, addr);
    return p + HP_ADDR_BYTES;
}

static uint8_t *
put_others(uint8_t *p, const hp_addr other[HP_OTHERS])
{
    uint8_t *number = p++;
    for (*number = 0; *number < HP_OTHERS && other[*number].length; ++*number)
        p = put_addr(p, &other[*number]);
    return p;
}

static uint8_t *
put_call(uint8_t *p, const hp_call *call, int name)
{
    hp_call sent = *call;
    sent.fused |= (uint8_t)(name << 1);
    hp_call_put(p, &sent);
    return p + HP_CALL_BYTES;
}

static uint8_t *
put_host(uint8_t *p, const char *host)
{
    size_t n = strnlen(host, HP_HOST_TEXT - 1);
    *p = (uint8_t)n;
    memcpy(p + 1, host, n);
    return p + 1 + n;
}

size_t
hp_join_put(uint8_t *out, const hp_join *join)
{
    if (join->agree_n > HP_AGREE_MAX)
        return 0;
    uint8_t *p = put32(out, (uint32_t)join->member.rank);
    p = put32(p, (uint32_t)join->size);
    p = put32(p, join->patience);
    p = put32(p, join->member.pid);
    p = put64(p, join->member.host_id);
    p = put32(p, join->member.processors);
    p = put32(p, join->member.pid_space);
    p = put64(p, join->op_timeout);
    p = put64(p, join->warn_after);
    p = put64(p, join->peer_timeout);
    p = put_addr(p, &join->member.addr);
    p = put_others(p, join->member.other);
    *p++ = join->member.proxied != 0;
    p = put64(p, join->ring);
    p = put32(p, join->epoch);
    p = put64(p, join->digest);
    p = put64(p, join->started);
    p = put64(p, join->completed);
    p = put64(p, join->parent);
    p = put32(p, join->split);
    p = put32(p, (uint32_t)join->parent_rank);
    p = put32(p, (uint32_t)join->parent_size);
    p = put32(p, (uint32_t)join->color);
    p = put32(p, (uint32_t)join->key);
    p = put_host(p, join->member.host);
    hp_put16(p, (uint16_t)join->agree_n);
    p += 2;
    if (join->agree_n)
        memcpy(p, join->agree, join->agree_n);
    return (size_t)(p - out) + join->agree_n;
}

/* A member that connects again names its ring; the same JOIN cannot be for a split. */
static void
take_ring(cursor *c, hp_join *join)
{
    join->ring = take64(c);
    join->epoch = take32(c);
    join->digest = take64(c);
    join->started = take64(c);
    join->completed = take64(c);
    if (join->completed > join->started)
        c->bad = 1;
}

static void
take_split(cursor *c, hp_join *join)
{
    join->parent = take64(c);
    join->split = take32(c);
    int part = join->parent != 0;
    join->parent_rank = take_int(c, part ? 0 : -1, HP_WORLD_MAX - 1);
    join->parent_size = take_int(c, part ? 1 : 0, HP_WORLD_MAX);
    join->color = take_int(c, INT32_MIN, INT32_MAX);
    join->key = take_int(c, INT32_MIN, INT32_MAX);
    if (part && join->parent_rank >= join->parent_size)
        c->bad = 1;
}

int
hp_join_get(hp_join *join, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    memset(join, 0, sizeof(*join));
    join->member.rank = take_int(&c, -1, HP_WORLD_MAX - 1);
    join->size = take_int(&c, 0, HP_WORLD_MAX);
    join->patience = take32(&c);
    join->member.pid = take32(&c);
    join->member.host_id = take64(&c);
    join->member.processors = take32(&c);
    join->member.pid_space = take32(&c);
    join->op_timeout = take64(&c);
    join->warn_after = take64(&c);
    join->peer_timeout = take64(&c);
    take_addr(&c, &join->member.addr);
    take_others(&c, join->member.other);
    join->member.proxied = *take(&c, 1) != 0;
    take_ring(&c, join);
    take_split(&c, join);
    take_host(&c, join->member.host);
    join->agree_n = hp_get16(take(&c, 2));
    if (c.bad || join->agree_n > HP_AGREE_MAX || join->agree_n > c.left)
        return 0;
    join->agree = (const char *)take(&c, join->agree_n);
    if (!hp_text_is_tame(join->agree, join->agree_n, '\n')) /* settings are quoted in messages */
        return 0;
    if (!join->parent && (join->size < 1 || join->member.rank >= join->size))
        return 0;
    if (join->ring && (join->parent || join->member.rank < 0))
        return 0;
    return whole(&c);
}

static uint8_t *
put_member(uint8_t *p, const hp_member *member, int at_position)
{
    p = put32(p, (uint32_t)at_position);
    p = put32(p, member->pid);
    p = put64(p, member->host_id);
    p = put32(p, member->processors);
    p = put32(p, member->pid_space);
    p = put_addr(p, &member->addr);
    p = put_others(p, member->other);
    return put_host(p, member->host);
}

size_t
hp_part_put(uint8_t *out, const hp_ring *ring, int rank, int first, int *next)
{
    uint8_t *p = out + PART_HEAD;
    if (ring->epoch)
        p = put64(put64(p, ring->least), ring->most);
    int i = first;
    for (; i < ring->size && (size_t)(p - out) + MEMBER_MAX <= HP_CONTROL_MAX; i++)
        p = put_member(p, &ring->members[i], ring->order[i]);
    uint8_t *head = put64(out, ring->comm);
    head = put32(head, ring->epoch);
    head = put32(head, (uint32_t)rank);
    head = put32(head, (uint32_t)ring->size);
    head = put32(head, (uint32_t)first);
    put32(head, (uint32_t)(i - first));
    *next = i;
    return (size_t)(p - out);
}

int
hp_part_get(hp_part *part, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    memset(part, 0, sizeof(*part));
    part->comm = take64(&c);
    part->epoch = take32(&c);
    part->rank = take_int(&c, -1, HP_WORLD_MAX - 1);
    part->size = take_int(&c, 0, HP_WORLD_MAX);
    part->first = take_int(&c, 0, part->size);
    part->count = take_int(&c, 0, part->size - part->first);
    part->least = part->epoch ? take64(&c) : 0;
    part->most = part->epoch ? take64(&c) : 0;
    part->entries = c.at;
    part->entries_n = c.left;
    if (c.bad || part->comm == 0 || part->least > part->most)
        return 0;
    if (part->size == 0)
        return part->rank == -1 && c.left == 0;
    return part->rank >= 0 && part->rank < part->size && part->count > 0;
}

int
hp_part_members(const hp_part *part, hp_member *members, int *order)
{
    cursor c = {part->entries, part->entries_n, 0};
    for (int i = part->first; i < part->first + part->count && !c.bad; i++) {
        hp_member *member = &members[i];
        member->rank = -1;
        order[i] = take_int(&c, 0, part->size - 1);
        member->pid = take32(&c);
        member->host_id = take64(&c);
        member->processors = take32(&c);
        member->pid_space = take32(&c);
        take_addr(&c, &member->addr);
        take_others(&c, member->other);
        take_host(&c, member->host);
    }
    return whole(&c);
}

int
hp_ring_close(hp_ring *ring)
{
    for (int i = 0; i < ring->size; i++) {
        hp_member *member = &ring->members[ring->order[i]];
        if (member->rank != -1)
            return 0;
        member->rank = ring->order[i];
    }
    return 1;
}

uint64_t
hp_ring_digest(const hp_ring *ring)
{
    uint8_t bytes[MEMBER_MAX];
    uint64_t hash = HP_HASH_START;
    put32(put64(bytes, ring->comm), ring->epoch);
    hash = hp_hash_bytes(hash, bytes, 12);
    for (int i = 0; i < ring->size; i++) {
        const uint8_t *end = put_member(bytes, &ring->members[i], ring->order[i]);
        hash = hp_hash_bytes(hash, bytes, (size_t)(end - bytes));
    }
    return hash ? hash : 1;
}

size_t
hp_refusal_put(uint8_t out[HP_REFUSAL_BYTES], uint32_t split, const hoop_error *cause)
{
    hp_put32(out, split);
    return 4 + hp_abort_put(out + 4, cause);
}

int
hp_refusal_get(uint32_t *split, hoop_error *cause, const uint8_t *in, size_t n)
{
    if (n < 4)
        return 0;
    *split = hp_get32(in);
    return hp_abort_get(cause, in + 4, n - 4);
}

void
hp_report_put(uint8_t out[HP_REPORT_BYTES], const hp_report *report)
{
    uint8_t *p = put64(out, report->sequence);
    p = put64(p, report->step);
    p = put64(p, report->bytes);
    p = put64(p, report->since);
    p = put64(p, report->limit);
    p = put64(p, report->overdue);
    p = put32(p, (uint32_t)report->awaited.rank);
    p = put32(p, report->awaited.what == HP_WAIT_LINK);
    put_call(p, &report->call, report->call_name);
}

int
hp_report_get(hp_report *report, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    report->sequence = take64(&c);
    report->step = take64(&c);
    report->bytes = take64(&c);
    report->since = take64(&c);
    report->limit = take64(&c);
    report->overdue = take64(&c);
    report->awaited.rank = take_int(&c, -1, HP_WORLD_MAX - 1);
    int sending = take_int(&c, 0, 1);
    report->awaited.what = report->awaited.rank < 0 ? HP_WAIT_DEVICE : sending ? HP_WAIT_LINK : HP_WAIT_PEER;
    report->call_name = take_call(&c, &report->call);
    return whole(&c) && report->sequence > 0;
}

void
hp_waiting_put(uint8_t out[HP_WAITING_BYTES], const hp_waiting *waiting)
{
    uint8_t *p = put64(out, waiting->sequence);
    p = put64(p, waiting->since);
    p = put32(p, (uint32_t)waiting->awaited.rank);
    p = put32(p, waiting->awaited.what ? (uint32_t)waiting->awaited.what - 1 : 0);
    put_call(p, &waiting->call, waiting->call_name);
}

/* A message waits for a rank, or for this rank's own stream or device; an operation for the stream alone. */
int
hp_waiting_get(hp_waiting *waiting, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    waiting->sequence = take64(&c);
    waiting->since = take64(&c);
    waiting->awaited.rank = take_int(&c, -1, HP_WORLD_MAX - 1);
    waiting->awaited.what = (hp_wait)(take_int(&c, 0, HP_WAITS - 2) + 1);
    waiting->call_name = take_call(&c, &waiting->call);
    int for_rank = hp_wait_is_for_rank(waiting->awaited.what);
    int right = waiting->sequence ? waiting->awaited.what == HP_WAIT_STREAM : hp_kind_is_message(waiting->call.kind);
    return whole(&c) && (!waiting->call.kind || (right && for_rank == (waiting->awaited.rank >= 0)));
}

void
hp_vitals_put(uint8_t out[HP_VITALS_BYTES], const hp_vitals *vitals)
{
    uint8_t *p = put64(out, vitals->at);
    p = put64(p, vitals->operations);
    p = put64(p, vitals->messages);
    p = put64(p, vitals->levels);
    p = put64(p, vitals->sent);
    p = put64(p, vitals->received);
    p = put64(p, vitals->wire_sent);
    for (int i = HP_WAIT_PEER; i < HP_WAITS; i++)
        p = put64(p, vitals->waited[i]);
    p = put64(p, vitals->retransmits);
    p = put64(p, vitals->most_resent);
    p = put64(p, vitals->delivery_rate);
    p = put64(p, vitals->entries);
    p = put64(p, vitals->entered);
    p = put64(p, vitals->entered_error);
    put32(put32(p, vitals->rtt), (uint32_t)vitals->most_to);
}

int
hp_vitals_get(hp_vitals *vitals, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    vitals->at = take64(&c);
    vitals->operations = take64(&c);
    vitals->messages = take64(&c);
    vitals->levels = take64(&c);
    vitals->sent = take64(&c);
    vitals->received = take64(&c);
    vitals->wire_sent = take64(&c);
    for (int i = HP_WAIT_PEER; i < HP_WAITS; i++)
        vitals->waited[i] = take64(&c);
    vitals->retransmits = take64(&c);
    vitals->most_resent = take64(&c);
    vitals->delivery_rate = take64(&c);
    vitals->entries = take64(&c);
    vitals->entered = take64(&c);
    vitals->entered_error = take64(&c);
    vitals->rtt = take32(&c);
    vitals->most_to = take_int(&c, -1, HP_WORLD_MAX - 1);
    return whole(&c);
}

void
hp_loss_put(uint8_t out[HP_LOSS_BYTES], const hp_loss *loss)
{
    uint8_t *p = put32(out, (uint32_t)loss->peer);
    p = put32(p, (uint32_t)loss->number);
    put32(put64(p, loss->sequence), loss->repaired != 0);
}

int
hp_loss_get(hp_loss *loss, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    loss->peer = take_int(&c, 0, HP_WORLD_MAX - 1);
    loss->number = take_int(&c, 0, INT32_MAX);
    loss->sequence = take64(&c);
    loss->repaired = take_int(&c, 0, 1);
    return whole(&c);
}

size_t
hp_unstarted_put(uint8_t out[HP_UNSTARTED_BYTES], const hp_unstarted *unstarted)
{
    uint8_t *p = put64(out, unstarted->sequence);
    p = put_call(p, &unstarted->call, unstarted->call_name);
    return (size_t)(p - out) + hp_abort_put(p, &unstarted->cause);
}

int
hp_unstarted_get(hp_unstarted *unstarted, const uint8_t *in, size_t n)
{
    cursor c = {in, n, 0};
    unstarted->sequence = take64(&c);
    unstarted->call_name = take_call(&c, &unstarted->call);
    return !c.bad && unstarted->sequence > 0 && hp_abort_get(&unstarted->cause, c.at, c.left);
}

size_t
hp_name_put(uint8_t out[HP_NAME_TEXT], const char *name)
{
    size_t n = strnlen(name, HP_NAME_TEXT - 1);
    memcpy(out, name, n);
    return n;
}

int
hp_name_get(char name[HP_NAME_TEXT], const uint8_t *in, size_t n)
{
    if (n >= HP_NAME_TEXT || !hp_text_is_name((const char *)in, n))
        return 0;
    if (n)
        memcpy(name, in, n);
    name[n] = '\0';
    return 1;
}

size_t
hp_call_name_put(uint8_t out[HP_CALL_NAME_BYTES], int number, const char *name)
{
    size_t n = strnlen(name, HP_CALL_NAME_TEXT - 1);
    out[0] = (uint8_t)number;
    memcpy(out + 1, name, n);
    return 1 + n;
}

int
hp_call_name_get(int *number, char name[HP_CALL_NAME_TEXT], const uint8_t *in, size_t n)
{
    if (n < 2 || n > HP_CALL_NAME_BYTES || in[0] < 1 || in[0] > HP_CALL_NAMES ||
        !hp_text_is_name((const char *)in + 1, n - 1))
        return 0;
    *number = in[0];
    memcpy(name, in + 1, n - 1);
    name[n - 1] = '\0';
    return 1;
}

void
hp_question_put(uint8_t out[HP_QUESTION_BYTES], uint64_t asked)
{
    hp_put64(out, asked);
}

void
hp_answer_put(uint8_t out[HP_ANSWER_BYTES], const uint8_t question[HP_QUESTION_BYTES], uint64_t clock)
{
    memcpy(out, question, HP_QUESTION_BYTES);
    hp_put64(out + HP_QUESTION_BYTES, clock);
}

void
hp_answer_get(const uint8_t in[HP_ANSWER_BYTES], uint64_t *asked, uint64_t *clock)
{
    *asked = hp_get64(in);
    *clock = hp_get64(in + HP_QUESTION_BYTES);
}
