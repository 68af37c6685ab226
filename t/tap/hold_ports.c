/* SPDX-License-Identifier: MIT */
/* hold_ports N: prints the first of N ports in a row that are nobody else's until it is killed (own_ports in t/tap/tap.sh). */
#include "t/tap/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    int first = ports_hold(argc > 1 ? atoi(argv[1]) : 1);
    if (first < 0)
        return 1;
    printf("%d\n", first);
    fclose(stdout);
    for (;;)
        pause();
}
