/* SPDX-License-Identifier: MIT */
/* fake_net: see fake_net.h. Listener and alarm are event counters, so that the acceptor's epoll set sees them. */
#include "fuzz/fake_net.h"

#include "base/clock.h"
#include "fuzz/fuzz.h"
#include "net/auth.h"
#include "net/sock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

uint64_t fake_net_now, fake_net_random;
int fake_net_spare, fake_net_shortage, fake_net_failures, fake_net_accepted;

static struct {
    int fd;
    hp_addr addr;
} waiting[FAKE_NET_MOST];

static int queued, listener, alarm_fd;
static uint64_t alarm_at;

uint64_t __wrap_hp_now(void);
int __wrap_hp_alarm_open(hp_alarm *alarm);
uint64_t __wrap_hp_alarm_time(hp_alarm *alarm);
void __wrap_hp_alarm_set(hp_alarm *alarm, uint64_t when);
int __wrap_hp_alarm_rang(hp_alarm *alarm);
int __wrap_hp_ports_listen(const hp_ports *ports, const hp_addr *addr, int backlog, hoop_error *error);
int __wrap_hp_sock_accept(int fd, hp_addr *addr);
int __wrap_hp_sock_spare(int newest);
void __wrap_hp_sock_tune(int fd, const hp_sock_options *options);
hoop_result __wrap_hp_sock_name(int fd, hp_addr *local, hoop_error *error);
hoop_result __wrap_hp_random(void *out, size_t n, hoop_error *error);

void
fake_net_reset(void)
{
    fake_net_now = 1000 * HP_SEC;
    fake_net_spare = FAKE_NET_PLENTY;
    fake_net_shortage = fake_net_failures = fake_net_accepted = queued = 0;
    fake_net_random = 0;
}

static void
count(int counter)
{
    fuzz_check(write(counter, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
}

void
fake_net_connect(int fd, const hp_addr *addr)
{
    fuzz_check(queued < FAKE_NET_MOST);
    waiting[queued].fd = fd;
    waiting[queued++].addr = *addr;
    count(listener);
}

void
fake_net_ring(void)
{
    if (fake_net_now < alarm_at)
        return;
    alarm_at = HP_NEVER;
    count(alarm_fd);
}

/* --- instead of the system --- */

uint64_t
__wrap_hp_now(void)
{
    return fake_net_now;
}

int
__wrap_hp_alarm_open(hp_alarm *alarm)
{
    alarm_at = HP_NEVER;
    alarm->fd = alarm_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return alarm->fd;
}

uint64_t
__wrap_hp_alarm_time(hp_alarm *alarm)
{
    (void)alarm;
    return fake_net_now;
}

void
__wrap_hp_alarm_set(hp_alarm *alarm, uint64_t when)
{
    (void)alarm;
    alarm_at = when;
}

int
__wrap_hp_alarm_rang(hp_alarm *alarm)
{
    uint64_t rings;
    return read(alarm->fd, &rings, sizeof(rings)) == sizeof(rings);
}

int
__wrap_hp_ports_listen(const hp_ports *ports, const hp_addr *addr, int backlog, hoop_error *error)
{
    (void)ports, (void)addr, (void)backlog, (void)error;
    return listener = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
}

/* Every connection that waits is one count of the listener. */
int
__wrap_hp_sock_accept(int fd, hp_addr *addr)
{
    uint64_t one;
    if (fake_net_shortage) {
        fake_net_failures++;
        errno = fake_net_shortage;
        return -1;
    }
    fake_net_failures = 0;
    if (read(fd, &one, sizeof(one)) != sizeof(one)) {
        errno = EAGAIN;
        return -1;
    }
    *addr = waiting[fake_net_accepted].addr;
    return waiting[fake_net_accepted++].fd;
}

int
__wrap_hp_sock_spare(int newest)
{
    (void)newest;
    return fake_net_spare;
}

void
__wrap_hp_sock_tune(int fd, const hp_sock_options *options)
{
    (void)fd, (void)options;
}

hoop_result
__wrap_hp_sock_name(int fd, hp_addr *local, hoop_error *error)
{
    (void)fd, (void)error;
    *local = (hp_addr){.length = 0};
    return HOOP_SUCCESS;
}

hoop_result
__wrap_hp_random(void *out, size_t n, hoop_error *error)
{
    (void)error;
    memset(out, 0, n);
    memcpy(out, &(uint64_t){++fake_net_random}, sizeof(uint64_t));
    return HOOP_SUCCESS;
}
