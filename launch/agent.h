/* SPDX-License-Identifier: MIT */
/*
 * agent: hoop-launch --agent, the launcher's program on each host. It reads the secret and its spec from standard
 * input, runs the ranks, and reports their output and how they end. If standard input ends, the launcher is gone, and
 * the agent ends its ranks within three seconds.
 */
#ifndef HP_LAUNCH_AGENT_H
#define HP_LAUNCH_AGENT_H

int hp_agent_main(void); /* the whole program; returns its exit status */

#endif
