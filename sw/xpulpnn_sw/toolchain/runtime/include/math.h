/* The C library's, in which log2 is also a macro: programs for PULP have one of their own. */
#include_next <math.h>
#undef log2
