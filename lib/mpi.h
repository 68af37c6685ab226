/* SPDX-License-Identifier: MIT */
/* mpi: the MPI library of this process, if it has one: it uses the launcher's key-value channel, too. */
#ifndef HP_MPI_H
#define HP_MPI_H

/* Any thread may call both. A library counts however it was loaded, also one whose names are not global, as Python's. */
int hp_mpi_is_loaded(void); /* MPI_Init may come */
int hp_mpi_is_here(void);   /* from MPI_Init to the end of the process */

#endif
