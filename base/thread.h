/* SPDX-License-Identifier: MIT */
/*
 * thread: the library's own threads, which take no signals of the program's, and what they wait on: conditions by the
 * clock of hp_now(), which setting the host's time does not move.
 */
#ifndef HP_THREAD_H
#define HP_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* 1: it runs; 0: the system has no room for another thread (errno). */
int hp_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

void hp_thread_cond_init(pthread_cond_t *cond);

/* Waits on the condition until `deadline`, by hp_now(); HP_NEVER: without an end. 0: the deadline has passed. */
int hp_thread_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline);

#endif
