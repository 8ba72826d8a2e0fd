/* Instead of picolibc's, which is wrong from 2^64 up: it shifts a mask by more bits than that has. */

#include <math.h>
#include <stdint.h>

double trunc(double x) { return fabs(x) < 0x1p52 ? copysign((double)(int64_t)x, x) : x; }
