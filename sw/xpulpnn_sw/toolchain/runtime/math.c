/* Instead of those of this picolibc: its trunc shifts large numbers by more bits than there are, and its floor and ceil
   compare a carry as a signed number. */

#include <math.h>
#include <stdint.h>

double trunc(double x) { return fabs(x) < 0x1p52 ? copysign((double)(int64_t)x, x) : x; }
float truncf(float x) { return (float)trunc(x); }

double floor(double x) {
    double whole = trunc(x);
    return x < whole ? whole - 1 : whole;
}

double ceil(double x) { return -floor(-x); }

/* This picolibc's is another name of hypot. */
long double hypotl(long double x, long double y) { return hypot((double)x, (double)y); }
