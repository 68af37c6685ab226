/* SPDX-License-Identifier: MIT */
/*
 * agent: hoop-launch --agent, the launcher's hand on one host. It takes the secret and its orders from standard input,
 * runs the ranks, sends back what they write and how they end. When standard input ends, the launcher is gone, and so
 * are the ranks within three seconds.
 */
#ifndef HP_LAUNCH_AGENT_H
#define HP_LAUNCH_AGENT_H

int hp_agent_main(void); /* the whole program; returns its exit status */

#endif
