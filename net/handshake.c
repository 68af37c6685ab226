/* SPDX-License-Identifier: MIT */
/*
 * handshake: see handshake.h. The four messages lie one behind the other in `transcript`, and every MAC covers
 * all that lies before it. The state machine does no I/O, reads no clock and allocates nothing; hp_handshake_io, at the
 * end, carries its bytes, and closes nothing. No field of a message is believed before that message's MAC was found right.
 * Whether a rank joined twice, and how many may, is the owner's decision (hp_handshake_judge).
 */
#include "net/handshake.h"

#include "base/mem.h"
#include "base/wire.h"
#include "net/frame.h"
#include "net/loop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Where the fields lie; those of M1 are in hp_hello_put. */
enum { QUOTE_MOST = 40 };
enum { M1_MEMORY = 66, M1_FEATURES = 72, M1_GENERATION = 78 };
enum { M2_EPOCH = 16, M2_RANK = 20, M2_VERSION = 24, M2_STATUS = 26, M2_RESERVED = 28, M2_FEATURES = 32 };
enum { M2_RESERVED_8 = 40, M2_NONCE = 48 };
enum { M4_STATUS = 16, M4_SHARES = 18, M4_RANK = 20, M4_RESERVED_8 = 24 };

/* For each of the four messages: where it lies in the transcript, its size, and its header, which never changes. */
typedef struct message {
    size_t at, bytes;
    uint8_t header[HP_COMMON_BYTES];
} message;

static const message messages[] = {
    [HP_HELLO] = {0, HP_M1, {'H', 'O', 'O', 'P', 1, 1, 0, 0, 128, 0, 0, 0, 0x2a, 0x5b, 0xac, 0x23}},
    [HP_CHALLENGE] = {HP_M1, HP_M2, {'H', 'O', 'O', 'P', 1, 2, 0, 0, 96, 0, 0, 0, 0x21, 0xac, 0x8a, 0xb5}},
    [HP_CONFIRM] = {HP_M1 + HP_M2, HP_M3, {'H', 'O', 'O', 'P', 1, 3, 0, 0, 32, 0, 0, 0, 0x0e, 0xdf, 0x2f, 0x76}},
    [HP_WELCOME] = {HP_M1 + HP_M2 + HP_M3,
                    HP_M4,
                    {'H', 'O', 'O', 'P', 1, 4, 0, 0, 48, 0, 0, 0, 0xba, 0xde, 0xae, 0x82}},
};

static hp_handshake_state on_hello(hp_handshake *handshake);
static hp_handshake_state on_challenge(hp_handshake *handshake);
static hp_handshake_state on_confirm(hp_handshake *handshake);
static hp_handshake_state on_welcome(hp_handshake *handshake);

/*
 * For each state: the message it awaits, the function called when that is complete, and the states that may follow
 * (BAD always may).
 */
#define TO(state) (1u << (state))
static const struct {
    hp_handshake_state (*whole)(hp_handshake *handshake);
    int awaits; /* 0: none */
    unsigned next;
} states[] = {
    [HP_HANDSHAKE_HELLO] = {on_hello, HP_HELLO, TO(HP_HANDSHAKE_CONFIRM) | TO(HP_HANDSHAKE_REFUSED)},
    [HP_HANDSHAKE_CONFIRM] = {on_confirm, HP_CONFIRM, TO(HP_HANDSHAKE_JUDGE)},
    [HP_HANDSHAKE_JUDGE] = {NULL, 0, TO(HP_HANDSHAKE_DONE) | TO(HP_HANDSHAKE_REFUSED)},
    [HP_HANDSHAKE_CHALLENGE] = {on_challenge, HP_CHALLENGE, TO(HP_HANDSHAKE_WELCOME) | TO(HP_HANDSHAKE_REFUSED)},
    [HP_HANDSHAKE_WELCOME] = {on_welcome, HP_WELCOME, TO(HP_HANDSHAKE_DONE) | TO(HP_HANDSHAKE_REFUSED)},
    [HP_HANDSHAKE_DONE] = {NULL, 0, 0},
    [HP_HANDSHAKE_REFUSED] = {NULL, 0, 0},
    [HP_HANDSHAKE_BAD] = {NULL, 0, 0},
};

static int
ended(const hp_handshake *handshake)
{
    return handshake->state >= HP_HANDSHAKE_DONE;
}

/* The only place where the state changes. The keys are not used after the handshake. */
static hp_handshake_state
go(hp_handshake *handshake, hp_handshake_state next)
{
    if (next != HP_HANDSHAKE_BAD && !(states[handshake->state].next & TO(next))) {
        handshake->why = "a bug: a wrong order of states in the handshake";
        next = HP_HANDSHAKE_BAD;
    }
    handshake->state = next;
    handshake->have = 0;
    if (ended(handshake))
        handshake->keys = NULL;
    if (next == HP_HANDSHAKE_BAD) {
        handshake->out = NULL;
        handshake->out_n = 0;
    }
    return next;
}

static hp_handshake_state
bad(hp_handshake *handshake, const char *why)
{
    handshake->why = why;
    return go(handshake, HP_HANDSHAKE_BAD);
}

/* The MAC at the end of a message covers the transcript up to there. */
static int
transcript_mac(uint8_t mac[HP_MAC], const hp_handshake *handshake, const message *m, const uint8_t key[32])
{
    return hp_mac(mac, key, handshake->transcript, m->at + m->bytes - HP_MAC) == HOOP_SUCCESS;
}

/*
 * Completes a message whose fields are written with its header and MAC, makes it the next output, and changes the
 * state.
 */
static hp_handshake_state
queue_message(hp_handshake *handshake, int type, const uint8_t key[32], hp_handshake_state next)
{
    const message *m = &messages[type];
    uint8_t *at = handshake->transcript + m->at;
    memcpy(at, m->header, sizeof(m->header));
    if (!transcript_mac(at + m->bytes - HP_MAC, handshake, m, key))
        return bad(handshake, "libcrypto could not compute a MAC");
    handshake->out = at;
    handshake->out_n = m->bytes;
    return go(handshake, next);
}

static int
proven(const hp_handshake *handshake, int type, const uint8_t key[32])
{
    const message *m = &messages[type];
    uint8_t mac[HP_MAC];
    int right =
        transcript_mac(mac, handshake, m, key) && hp_mac_equal(mac, handshake->transcript + m->at + m->bytes - HP_MAC);
    hp_wipe(mac, sizeof(mac));
    return right;
}

static int
zeros(const uint8_t *bytes, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= bytes[i];
    return any == 0;
}

/* The highest version of the protocol that both sides speak; 0: there is none. */
static uint16_t
common_version(const hp_hello *hello)
{
    int low = hello->ver_min > HP_WIRE_MIN ? hello->ver_min : HP_WIRE_MIN;
    int high = hello->ver_max < HP_WIRE_MAX ? hello->ver_max : HP_WIRE_MAX;
    return low <= high ? (uint16_t)high : 0;
}

/* Compares a proven HELLO with what this side accepts. */
static hp_status
examine(const hp_hello *hello, const hp_handshake_policy *policy)
{
    if (common_version(hello) == 0)
        return HP_BAD_VERSION;
    if (hello->mode != policy->mode)
        return HP_BAD_MODE;
    if (hello->role != policy->role)
        return HP_BAD_ROLE;
    if (policy->comm != 0 && hello->comm != policy->comm)
        return HP_BAD_COMM;
    if (hello->epoch != policy->epoch)
        return HP_BAD_EPOCH;
    if (policy->world != 0 && hello->world != policy->world)
        return HP_BAD_WORLD;
    /* The dialled rank must be this one. The dialling rank must be another one (no reflected connection), */
    if (hello->your_rank != policy->my_rank || hello->my_rank == policy->my_rank)
        return HP_BAD_RANK;
    /* and in its world; only a server is dialled by those that have no rank yet. */
    if (hello->my_rank == HP_RANK_UNKNOWN
            ? policy->my_rank != HP_RANK_SERVER
            : hello->my_rank == HP_RANK_SERVER || (hello->world != 0 && hello->my_rank >= hello->world))
        return HP_BAD_RANK;
    return policy->busy ? HP_BUSY : HP_OK;
}

/* Responder: makes M2. Its nonce was written by hp_handshake_accept. */
static hp_handshake_state
challenge(hp_handshake *handshake)
{
    uint8_t *m2 = handshake->m2;
    uint16_t version = common_version(&handshake->hello);
    handshake->status = (uint16_t)examine(&handshake->hello, &handshake->policy);
    handshake->version = version != 0 ? version : handshake->hello.ver_max;
    handshake->features = handshake->hello.features & handshake->policy.features;
    hp_put32(m2 + M2_EPOCH, handshake->policy.epoch);
    hp_put32(m2 + M2_RANK, handshake->policy.my_rank);
    hp_put16(m2 + M2_VERSION, version != 0 ? version : HP_WIRE_MAX);
    hp_put16(m2 + M2_STATUS, handshake->status);
    hp_put64(m2 + M2_FEATURES, handshake->policy.features);
    int fits = handshake->status == HP_OK;
    handshake->why = fits ? handshake->why : hp_status_text(handshake->status);
    return queue_message(handshake, HP_CHALLENGE, handshake->keys->resp,
                         fits ? HP_HANDSHAKE_CONFIRM : HP_HANDSHAKE_REFUSED);
}

/* Responder: M1 is complete. Only its job may be used before its tag is found right. */
static hp_handshake_state
on_hello(hp_handshake *handshake)
{
    if (!hp_hello_get(&handshake->hello, handshake->m1))
        return bad(handshake, "a HELLO with reserved bytes that are not 0");
    if (memcmp(handshake->hello.job_id, handshake->keys->job_id, HP_JOB_ID_BYTES) != 0)
        return bad(handshake, "a HELLO of another job");
    if (!handshake->hello_proven && !proven(handshake, HP_HELLO, handshake->keys->hello))
        return bad(handshake, "a HELLO made with another secret");
    return challenge(handshake);
}

/* Responder: M3 is complete. */
static hp_handshake_state
on_confirm(hp_handshake *handshake)
{
    if (!proven(handshake, HP_CONFIRM, handshake->keys->init))
        return bad(handshake, "a CONFIRM made with another secret, or a replay");
    return go(handshake, HP_HANDSHAKE_JUDGE);
}

/*
 * Initiator: M2 is complete. A refusal counts only if it comes from the rank that was dialled: otherwise an attacker
 * that redirects a connection could end a job.
 */
static hp_handshake_state
on_challenge(hp_handshake *handshake)
{
    const uint8_t *m2 = handshake->m2;
    const hp_hello *hello = &handshake->hello;
    if (!proven(handshake, HP_CHALLENGE, handshake->keys->resp))
        return bad(handshake, "a CHALLENGE made with another secret");
    if (!zeros(m2 + M2_RESERVED, 4) || !zeros(m2 + M2_RESERVED_8, 8))
        return bad(handshake, "a CHALLENGE with reserved bytes that are not 0");
    if (hp_get32(m2 + M2_RANK) != hello->your_rank)
        return bad(handshake, "a CHALLENGE from another rank than the one that was dialled");
    handshake->version = hp_get16(m2 + M2_VERSION);
    handshake->status = hp_get16(m2 + M2_STATUS);
    handshake->epoch = hp_get32(m2 + M2_EPOCH);
    if (handshake->status != HP_OK) {
        handshake->why = hp_status_text(handshake->status);
        return go(handshake, HP_HANDSHAKE_REFUSED);
    }
    if (handshake->epoch != hello->epoch)
        return bad(handshake, "a CHALLENGE of another epoch");
    if (handshake->version < hello->ver_min || handshake->version > hello->ver_max)
        return bad(handshake, "a CHALLENGE that chose a version which was not offered");
    handshake->features = hello->features & hp_get64(m2 + M2_FEATURES);
    return queue_message(handshake, HP_CONFIRM, handshake->keys->init, HP_HANDSHAKE_WELCOME);
}

/* Initiator: M4 is complete. */
static hp_handshake_state
on_welcome(hp_handshake *handshake)
{
    const uint8_t *m4 = handshake->m4;
    if (!proven(handshake, HP_WELCOME, handshake->keys->welcome))
        return bad(handshake, "a WELCOME made with another secret");
    if (!zeros(m4 + M4_RESERVED_8, 8))
        return bad(handshake, "a WELCOME with reserved bytes that are not 0");
    handshake->shares = hp_get16(m4 + M4_SHARES);
    if (handshake->shares > (handshake->hello.memory_pid != 0))
        return bad(handshake, "a WELCOME that has opened memory which was not offered");
    handshake->status = hp_get16(m4 + M4_STATUS);
    if (handshake->status != HP_OK) {
        handshake->why = hp_status_text(handshake->status);
        return go(handshake, HP_HANDSHAKE_REFUSED);
    }
    handshake->assigned_rank = hp_get32(m4 + M4_RANK);
    return go(handshake, HP_HANDSHAKE_DONE);
}

static void
begin(hp_handshake *handshake, hp_handshake_state state, uint64_t deadline)
{
    memset(handshake, 0, sizeof(*handshake));
    handshake->state = state;
    handshake->initiator = state == HP_HANDSHAKE_CHALLENGE;
    handshake->assigned_rank = HP_RANK_UNKNOWN;
    handshake->deadline = deadline;
    handshake->why = "";
}

void
hp_handshake_start(hp_handshake *handshake, const hp_keys *keys, const hp_hello *hello, const uint8_t nonce[32],
                   uint64_t deadline)
{
    begin(handshake, HP_HANDSHAKE_CHALLENGE, deadline);
    handshake->keys = keys;
    handshake->hello = *hello;
    hp_hello_put(handshake->m1, hello, nonce);
    if (!transcript_mac(handshake->m1 + HP_M1 - HP_MAC, handshake, &messages[HP_HELLO], keys->hello)) {
        bad(handshake, "libcrypto could not compute a MAC");
        return;
    }
    handshake->out = handshake->m1;
    handshake->out_n = HP_M1;
}

void
hp_handshake_accept(hp_handshake *handshake, const hp_keys *keys, const hp_handshake_policy *policy,
                    const uint8_t nonce[32], uint64_t deadline)
{
    begin(handshake, HP_HANDSHAKE_HELLO, deadline);
    memcpy(handshake->m2 + M2_NONCE, nonce, 32);
    handshake->keys = keys;
    handshake->policy = *policy;
}

size_t
hp_handshake_want(const hp_handshake *handshake)
{
    int type = states[handshake->state].awaits;
    return type != 0 ? messages[type].bytes - handshake->have : 0;
}

hp_handshake_state
hp_handshake_feed(hp_handshake *handshake, const uint8_t *bytes, size_t n, uint64_t now)
{
    if (hp_handshake_tick(handshake, now) == HP_HANDSHAKE_BAD || n == 0 || states[handshake->state].awaits == 0)
        return handshake->state;
    if (n > hp_handshake_want(handshake))
        return bad(handshake, "more bytes than expected");
    const message *m = &messages[states[handshake->state].awaits];
    uint8_t *at = handshake->transcript + m->at;
    size_t i = handshake->have;
    memcpy(at + i, bytes, n);
    handshake->have += n;
    for (; i < handshake->have && i < sizeof(m->header); i++) {
        if (at[i] == m->header[i])
            continue;
        handshake->strange = i < 4 && m == &messages[HP_CHALLENGE] ? handshake->have : 0;
        return bad(handshake, i < 4 ? "not hoop's protocol (wrong first bytes)" : "not the expected message");
    }
    return handshake->have == m->bytes ? states[handshake->state].whole(handshake) : handshake->state;
}

hp_handshake_state
hp_handshake_tick(hp_handshake *handshake, uint64_t now)
{
    if (!ended(handshake) && now >= handshake->deadline)
        return bad(handshake, "the handshake did not end in time");
    return handshake->state;
}

void
hp_handshake_quote(const hp_handshake *handshake, char *out, size_t size)
{
    size_t n = 0;
    while (n < handshake->strange && handshake->m2[n] >= ' ' && handshake->m2[n] <= '~')
        n++;
    if (n)
        snprintf(out, size, "\"%.*s\"", n < QUOTE_MOST ? (int)n : QUOTE_MOST, (const char *)handshake->m2);
    else
        snprintf(out, size, "bytes that are no text");
}

void
hp_handshake_wrote(hp_handshake *handshake, size_t n)
{
    n = n < handshake->out_n ? n : handshake->out_n;
    handshake->out_n -= n;
    handshake->out = handshake->out_n > 0 ? handshake->out + n : NULL;
}

void
hp_handshake_judge(hp_handshake *handshake, hp_status status, uint32_t assigned_rank)
{
    if (handshake->state != HP_HANDSHAKE_JUDGE)
        return;
    handshake->status = (uint16_t)status;
    handshake->assigned_rank = status == HP_OK ? assigned_rank : HP_RANK_UNKNOWN;
    handshake->why = status == HP_OK ? "" : hp_status_text(handshake->status);
    hp_put16(handshake->m4 + M4_STATUS, handshake->status);
    hp_put16(handshake->m4 + M4_SHARES, (uint16_t)handshake->shares);
    hp_put32(handshake->m4 + M4_RANK, handshake->assigned_rank);
    queue_message(handshake, HP_WELCOME, handshake->keys->welcome,
                  status == HP_OK ? HP_HANDSHAKE_DONE : HP_HANDSHAKE_REFUSED);
}

void
hp_hello_put(uint8_t out[HP_M1], const hp_hello *hello, const uint8_t nonce[32])
{
    memcpy(out, messages[HP_HELLO].header, HP_COMMON_BYTES);
    memcpy(out + 16, hello->job_id, HP_JOB_ID_BYTES);
    hp_put64(out + 32, hello->comm);
    hp_put32(out + 40, hello->epoch);
    hp_put32(out + 44, hello->my_rank);
    hp_put32(out + 48, hello->your_rank);
    hp_put32(out + 52, hello->world);
    out[56] = hello->role;
    out[57] = hello->mode;
    hp_put16(out + 58, hello->channel);
    hp_put16(out + 60, hello->stripe);
    hp_put16(out + 62, hello->ver_min);
    hp_put16(out + 64, hello->ver_max);
    hp_put32(out + M1_MEMORY, hello->memory_pid);
    hp_put16(out + M1_MEMORY + 4, hello->memory_fd);
    hp_put64(out + M1_FEATURES, hello->features | (uint64_t)hello->generation << 48);
    memcpy(out + HP_M1_NONCE, nonce, 32);
}

int
hp_hello_begins(const uint8_t *in, size_t n)
{
    return memcmp(in, messages[HP_HELLO].header, n < HP_COMMON_BYTES ? n : HP_COMMON_BYTES) == 0;
}

int
hp_hello_get(hp_hello *hello, const uint8_t in[HP_M1])
{
    if (memcmp(in, messages[HP_HELLO].header, HP_COMMON_BYTES) != 0)
        return 0;
    memcpy(hello->job_id, in + 16, HP_JOB_ID_BYTES);
    hello->comm = hp_get64(in + 32);
    hello->epoch = hp_get32(in + 40);
    hello->my_rank = hp_get32(in + 44);
    hello->your_rank = hp_get32(in + 48);
    hello->world = hp_get32(in + 52);
    hello->role = in[56];
    hello->mode = in[57];
    hello->channel = hp_get16(in + 58);
    hello->stripe = hp_get16(in + 60);
    hello->ver_min = hp_get16(in + 62);
    hello->ver_max = hp_get16(in + 64);
    hello->memory_pid = hp_get32(in + M1_MEMORY);
    hello->memory_fd = hp_get16(in + M1_MEMORY + 4);
    hello->features = hp_get64(in + M1_FEATURES) & ~(UINT64_C(0xffff) << 48);
    hello->generation = hp_get16(in + M1_GENERATION);
    return hello->role == HP_ROLE_DATA || (!hello->generation && zeros(in + M1_MEMORY, M1_FEATURES - M1_MEMORY));
}

const char *
hp_status_text(int status)
{
    static const char *const texts[] = {
        [HP_OK] = "accepted",
        [HP_BAD_VERSION] = "the two sides speak no common version of the protocol",
        [HP_BAD_EPOCH] = "the others are at another epoch",
        [HP_DUPLICATE] = "another rank of that number has already joined",
        [HP_BAD_WORLD] = "the two sides disagree about the number of ranks",
        [HP_BAD_MODE] = "the two sides are set to different security modes",
        [HP_BAD_RANK] = "that rank number does not fit: another rank uses this address, or it is out of range",
        [HP_BAD_COMM] = "the connection belongs to another communicator",
        [HP_FULL] = "there is no room for another connection of this rank",
        [HP_LATE] = "the communicator is not open yet, or no longer",
        [HP_BUSY] = "there is no room for another connection now",
        [HP_BAD_ROLE] = "a control connection was made to a data port, or the other way round",
    };
    if (status < 0 || status >= HP_STATUSES)
        return "refused for a reason unknown to this version";
    return texts[status];
}

int
hp_handshake_io(hp_handshake *handshake, int fd, uint64_t now)
{
    for (size_t want; (want = hp_handshake_want(handshake)) > 0 || handshake->out_n > 0;) {
        uint8_t bytes[HP_M1];
        int writes = handshake->out_n > 0;
        ssize_t n = writes ? send(fd, handshake->out, handshake->out_n, MSG_NOSIGNAL)
                           : recv(fd, bytes, want < sizeof(bytes) ? want : sizeof(bytes), 0);
        if (n > 0 && writes)
            hp_handshake_wrote(handshake, (size_t)n);
        else if (n > 0)
            hp_handshake_feed(handshake, bytes, (size_t)n, now);
        else if (n < 0 && errno == EAGAIN)
            return writes ? HP_WRITE : HP_READ;
        else if (n == 0 || errno != EINTR) {
            errno = n < 0 ? errno : 0;
            return HP_HANDSHAKE_IO_LOST;
        }
    }
    return HP_HANDSHAKE_IO_STOP;
}
