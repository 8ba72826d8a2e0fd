/* The whole library as one unit: programs are linked with it in one go, and a single run of the compiler is faster. */
#include "exit.c"
#include "stdio.c"
#include "stdlib.c"
#include "string.c"
#include "perf.c"
#ifdef XP_CLUSTER
#include "cluster.c"
#endif
