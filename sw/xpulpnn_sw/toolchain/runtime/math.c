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

/* Of these the C library has none, or one that stores or takes a double. */
#define LONG(name) long double name##l(long double x) { return name((double)x); }
LONG(ceil) LONG(erfc) LONG(floor) LONG(trunc)
long double hypotl(long double x, long double y) { return hypot((double)x, (double)y); }
long double modfl(long double x, long double *whole) {
    double part, rest = modf((double)x, &part);
    return *whole = part, rest;
}
