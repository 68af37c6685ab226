/* SPDX-License-Identifier: MIT */
/* ports: port numbers that are this test's alone, on which nobody listens until the test does. */
#ifndef TAP_PORTS_H
#define TAP_PORTS_H

/*
 * The first of n in a row, below those that the system gives to programs that ask for any; -1: there are none. They are held
 * until this process and its children have ended.
 */
int ports_hold(int n);

#endif
