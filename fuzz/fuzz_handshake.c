/* SPDX-License-Identifier: MIT */
/*
 * fuzz_handshake: bytes of a pending connection, or of a member that breaks the protocol, into both sides of the
 * handshake, with the clock running. The input is a list of actions: one byte, then its bytes. The secret is that of
 * the test vectors, so the target can complete a message as a member would (header, job, MAC): both sides of every
 * check are reached by the product's own code. After each action: no byte is sent unless M1's tag was right, no key
 * is kept after the end, and no state is reached that the peer did not prove.
 */
#include "fuzz/fuzz.h"
#include "net/handshake.h"

#include <string.h>

const char fuzz_name[] = "handshake";

/* NOTHING keeps the numbers of the other actions, of which the corpus is made. */
enum { FEED, FEED_PROVEN, TICK, WROTE, JUDGE, NOTHING, ACTIONS };

/* The rest of the input. */
typedef struct input {
    const uint8_t *at;
    size_t n;
} input;

static hp_keys keys;

static const struct {
    size_t at, bytes;
    uint8_t header[16];
} messages[] = {
    {0, HP_M1, {'H', 'O', 'O', 'P', 1, 1, 0, 0, 128, 0, 0, 0, 0x2a, 0x5b, 0xac, 0x23}},
    {HP_M1, HP_M2, {'H', 'O', 'O', 'P', 1, 2, 0, 0, 96, 0, 0, 0, 0x21, 0xac, 0x8a, 0xb5}},
    {HP_M1 + HP_M2, HP_M3, {'H', 'O', 'O', 'P', 1, 3, 0, 0, 32, 0, 0, 0, 0x0e, 0xdf, 0x2f, 0x76}},
    {HP_M1 + HP_M2 + HP_M3, HP_M4, {'H', 'O', 'O', 'P', 1, 4, 0, 0, 48, 0, 0, 0, 0xba, 0xde, 0xae, 0x82}},
};

static uint8_t
take(input *in)
{
    uint8_t byte = in->n > 0 ? *in->at : 0;
    if (in->n > 0) {
        in->at++;
        in->n--;
    }
    return byte;
}

static const uint8_t *
key_of(int m)
{
    return m == 0 ? keys.hello : m == 1 ? keys.resp : m == 2 ? keys.init : keys.welcome;
}

/* Which message the state awaits (0 to 3); -1: none. */
static int
awaited(const hp_handshake *handshake)
{
    switch (handshake->state) {
    case HP_HANDSHAKE_HELLO: return handshake->have < HP_M1 ? 0 : -1;
    case HP_HANDSHAKE_CHALLENGE: return 1;
    case HP_HANDSHAKE_CONFIRM: return 2;
    case HP_HANDSHAKE_WELCOME: return 3;
    default: return -1;
    }
}

/* Whether message m of this transcript ends in the right MAC. */
static int
proven(const hp_handshake *handshake, int m)
{
    uint8_t mac[HP_MAC];
    size_t end = messages[m].at + messages[m].bytes - HP_MAC;
    hp_mac(mac, key_of(m), handshake->transcript, end);
    return memcmp(mac, handshake->transcript + end, HP_MAC) == 0;
}

/* Feeds up to `n` bytes of the input, perhaps more than are wanted. */
static void
feed(hp_handshake *handshake, input *in, uint64_t now)
{
    size_t n = take(in);
    n = n < in->n ? n : in->n;
    hp_handshake_feed(handshake, in->at, n, now);
    in->at += n;
    in->n -= n;
}

/*
 * Feeds the awaited message: its fields from the input, the rest as a member would make it. trusting: M1 as an
 * acceptor feeds it, which has found its tag right; not if part of another tag was fed before.
 */
static void
feed_proven(hp_handshake *handshake, input *in, int trusting, uint64_t now)
{
    uint8_t all[sizeof(handshake->transcript)];
    int m = awaited(handshake);
    if (m < 0)
        return;
    size_t at = messages[m].at, body = messages[m].bytes - 16 - HP_MAC;
    size_t n = body < in->n ? body : in->n;
    memcpy(all, handshake->transcript, sizeof(all));
    if (handshake->have < 16)
        memcpy(all + at, messages[m].header, 16);
    for (size_t k = handshake->have > 16 ? handshake->have - 16 : 0; k < n; k++)
        all[at + 16 + k] = in->at[k];
    if (m == 0 && handshake->have <= 16)
        memcpy(all + at + 16, keys.job_id, HP_JOB_ID_BYTES);
    in->at += n;
    in->n -= n;
    hp_mac(all + at + 16 + body, key_of(m), all, at + 16 + body);
    if (m == 0 && trusting && handshake->have <= HP_M1 - HP_MAC)
        handshake->hello_proven = 1;
    hp_handshake_feed(handshake, all + at + handshake->have, messages[m].bytes - handshake->have, now);
}

static void
check(const hp_handshake *handshake, const hp_handshake *before)
{
    int end = handshake->state >= HP_HANDSHAKE_DONE;
    fuzz_check(handshake->state <= HP_HANDSHAKE_BAD && handshake->why);
    fuzz_check(!end || !handshake->keys);
    fuzz_check(before->state < HP_HANDSHAKE_DONE || handshake->state == before->state);
    fuzz_check(handshake->state != HP_HANDSHAKE_BAD || (handshake->out_n == 0 && !handshake->out));
    fuzz_check(handshake->out_n == 0 ||
               (handshake->out >= handshake->transcript &&
                handshake->out + handshake->out_n <= handshake->transcript + sizeof(handshake->transcript)));
    fuzz_check(hp_handshake_want(handshake) <= HP_M1 && (!end || hp_handshake_want(handshake) == 0));
    if (handshake->state == HP_HANDSHAKE_BAD || handshake->state == HP_HANDSHAKE_HELLO ||
        handshake->state == HP_HANDSHAKE_CHALLENGE) {
        fuzz_check(handshake->initiator || handshake->out_n == 0);
        return;
    }
    fuzz_check(proven(handshake, handshake->initiator ? 1 : 0));
    if (handshake->state == HP_HANDSHAKE_JUDGE)
        fuzz_check(proven(handshake, 2) && handshake->status == HP_OK);
    if (handshake->state == HP_HANDSHAKE_DONE)
        fuzz_check(proven(handshake, 2) && proven(handshake, 3) && handshake->status == HP_OK &&
                   handshake->version >= handshake->hello.ver_min && handshake->version <= handshake->hello.ver_max);
    if (handshake->state == HP_HANDSHAKE_REFUSED)
        fuzz_check(handshake->status != HP_OK);
}

static void
act(hp_handshake *handshake, input *in, int trusting, uint64_t *now)
{
    switch (take(in) % ACTIONS) {
    case FEED: feed(handshake, in, *now); break;
    case FEED_PROVEN: feed_proven(handshake, in, trusting, *now); break;
    case TICK: hp_handshake_tick(handshake, *now += take(in)); break;
    case WROTE: hp_handshake_wrote(handshake, take(in)); break;
    case JUDGE: hp_handshake_judge(handshake, (hp_status)(take(in) % HP_STATUSES), take(in)); break;
    case NOTHING: take(in); break;
    default: break;
    }
}

static void
begin(hp_handshake *handshake, uint8_t how, const hp_handshake_policy *policy)
{
    uint8_t nonce[32];
    hp_hello hello = {.comm = 5,
                      .my_rank = 3,
                      .your_rank = 4,
                      .world = 8,
                      .role = HP_ROLE_DATA,
                      .ver_min = 1,
                      .ver_max = (uint16_t)(1 + (how >> 7))};
    memcpy(hello.job_id, keys.job_id, HP_JOB_ID_BYTES);
    memset(nonce, how & 1 ? 0x11 : 0x22, sizeof(nonce));
    if (how & 1)
        hp_handshake_start(handshake, &keys, &hello, nonce, 1000);
    else
        hp_handshake_accept(handshake, &keys, policy, nonce, 1000);
}

static void
make_keys(void)
{
    uint8_t secret[HP_SECRET], job_id[HP_JOB_ID_BYTES];
    for (size_t k = 0; k < sizeof(secret); k++)
        secret[k] = (uint8_t)k;
    for (size_t k = 0; k < sizeof(job_id); k++)
        job_id[k] = (uint8_t)(0xa0 + k);
    fuzz_check(hp_keys_derive(&keys, secret, job_id, HP_MODE_AUTH, NULL) == HOOP_SUCCESS);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hp_handshake handshake, before;
    input in = {data, size};
    uint64_t now = 0;
    if (!keys.job_id[0])
        make_keys();
    uint8_t how = take(&in);
    hp_handshake_policy policy = {.my_rank = how & 4 ? HP_RANK_SERVER : 4,
                                  .world = how & 8 ? 8 : 0,
                                  .comm = how & 16 ? 5 : 0,
                                  .role = how & 32 ? HP_ROLE_CONTROL : HP_ROLE_DATA,
                                  .features = how};
    begin(&handshake, how, &policy);
    do {
        before = handshake;
        act(&handshake, &in, how & 2, &now);
        check(&handshake, &before);
    } while (in.n > 0);
    return 0;
}
