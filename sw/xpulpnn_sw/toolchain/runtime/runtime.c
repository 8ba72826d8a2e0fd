/* The whole library as one unit: programs are linked with it in one go, and a single run of the compiler is faster. */
#include "exit.c"
#include "output.c"
#include "files.c"
#include "cplusplus.c"
#include "malloc.c"
#include "atomic.c"
#include "math.c"
#include "perf.c"
#include "team.c"
#include "timing.c"
#ifdef XP_CLUSTER
#include "cluster.c"
#endif
