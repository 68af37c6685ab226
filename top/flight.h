/* SPDX-License-Identifier: MIT */
/* flight: what the flight recorders of a job (hoop_flight(5)) tell. */
#ifndef HP_TOP_FLIGHT_H
#define HP_TOP_FLIGHT_H

/*
 * Prints to standard output what the recorders at these paths tell: files, folders, or files that hooprun has written; the
 * list ends with NULL, and an empty one means this user's recorders on this machine. If there is no recorder in the folders,
 * the newest file that hooprun has written there is told, and named on standard error. job: only those of this job; NULL: all.
 * Returns the exit status: 0, or 1 with a line on standard error, also where there is no recorder.
 */
int hp_top_flight(char **paths, const char *job, int json);

#endif
