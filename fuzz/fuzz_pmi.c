/* SPDX-License-Identifier: MIT */
/*
 * fuzz_pmi: what a launcher's key-value channel says, to the client of PMI-1 (lib/pmi.c). The input is a script of answers:
 * the length of each, a byte, and behind it the bytes. After the last answer the channel is closed. Its socket keeps answers
 * apart, since the client refuses bytes behind an answer.
 */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "lib/pmi.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char fuzz_name[] = "pmi";

enum { ANSWERS = 16 };

static void
answer_all(int fd, const uint8_t *in, size_t n)
{
    for (int i = 0; i < ANSWERS && n > 0; i++) {
        size_t length = *in < n ? *in : n - 1;
        fuzz_check(send(fd, in + 1, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length);
        in += 1 + length;
        n -= 1 + length;
    }
    shutdown(fd, SHUT_WR);
}

/* A word of a line ends there, and has no blank. */
static void
check_word(const char *word, size_t size)
{
    fuzz_check(memchr(word, 0, size) && !strpbrk(word, " \n"));
}

static hoop_result
talk(hp_pmi *pmi, int fd, char *value, size_t size, hoop_error *error)
{
    hp_bounded_wait wait = hp_bounded_wait_of(0, 1);
    hoop_result result = hp_pmi_open(pmi, fd, &wait, error);
    if (result != HOOP_SUCCESS)
        return result;
    check_word(pmi->space, sizeof(pmi->space));
    fuzz_check(pmi->open && pmi->most >= 1);
    result = hp_pmi_put(pmi, "key", "value", &wait, error);
    if (result == HOOP_SUCCESS)
        result = hp_pmi_barrier(pmi, &wait, error);
    if (result == HOOP_SUCCESS)
        result = hp_pmi_get(pmi, "key", value, size, &wait, error);
    if (result == HOOP_SUCCESS)
        check_word(value, size);
    return result;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    hp_pmi pmi;
    hoop_error error = {.size = sizeof(error)};
    char value[64];
    fuzz_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    answer_all(ends[1], data, size);
    hoop_result result = talk(&pmi, ends[0], value, sizeof(value), &error);
    fuzz_check(result == HOOP_SUCCESS || (result == HOOP_ERR_RENDEZVOUS && error.text[0] != '\0'));
    if (result != HOOP_SUCCESS) /* which quotes no value: that may be the secret */
        fuzz_check(hp_text_is_tame(error.text, strlen(error.text), 0) && !strstr(error.text, "value="));
    hp_pmi_finalize(&pmi);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
