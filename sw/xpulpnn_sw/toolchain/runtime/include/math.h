/* The C library's, in which log2 is also a macro: programs for PULP have one of their own; and functions of long double,
   which compute in double precision. */
#include_next <math.h>
#undef log2

#ifndef XP_MATH_H
#define XP_MATH_H
#ifdef __cplusplus
extern "C" {
#endif
#define XP_L(name) name##l(long double), /* a declaration of one more function of one number, and of two numbers */
#define XP_LL(name) name##l(long double, long double),
long double XP_L(acos) XP_L(acosh) XP_L(asin) XP_L(asinh) XP_L(atan) XP_L(atanh) XP_L(cbrt) XP_L(ceil) XP_L(cos) XP_L(cosh)
    XP_L(erf) XP_L(erfc) XP_L(exp) XP_L(exp2) XP_L(expm1) XP_L(fabs) XP_L(floor) XP_L(log) XP_L(log10) XP_L(log1p) XP_L(log2)
    XP_L(logb) XP_L(nearbyint) XP_L(rint) XP_L(round) XP_L(sin) XP_L(sinh) XP_L(sqrt) XP_L(tan) XP_L(tanh) XP_L(trunc)
    XP_LL(atan2) XP_LL(copysign) XP_LL(fdim) XP_LL(fmax) XP_LL(fmin) XP_LL(fmod) XP_LL(hypot) XP_LL(nextafter) XP_LL(pow)
    XP_LL(remainder) frexpl(long double, int *), ldexpl(long double, int), modfl(long double, long double *),
    nanl(const char *), remquol(long double, long double, int *), scalblnl(long double, long), scalbnl(long double, int);
long lrintl(long double), lroundl(long double);
long long llrintl(long double), llroundl(long double);
int ilogbl(long double);
#ifdef __cplusplus
}
#endif
#endif
