/* The C library's, whose functions of long double compute in double precision; and in which log2 is also a macro: programs
   for PULP have one of their own. */
#define _LDBL_EQ_DBL
#include_next <math.h>
#undef log2
