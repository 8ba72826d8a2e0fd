/* Time of the C library since the start of the program, from mcycle at a nominal frequency. */

#include <sys/time.h>
#include <time.h>
#include <xpulpnn_rt.h>

#ifndef XP_CLOCK_HZ
#define XP_CLOCK_HZ 100000000
#endif
enum { MICROSECONDS = 1000000 };

clock_t clock(void) { return (clock_t)(xp_cycles64() / (XP_CLOCK_HZ / CLOCKS_PER_SEC)); }

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    uint64_t passed = xp_cycles64() / (XP_CLOCK_HZ / MICROSECONDS);
    (void)zone;
    now->tv_sec = (time_t)(passed / MICROSECONDS);
    now->tv_usec = (suseconds_t)(passed % MICROSECONDS);
    return 0;
}

time_t time(time_t *result) {
    time_t now = (time_t)(xp_cycles64() / XP_CLOCK_HZ);
    if (result != NULL)
        *result = now;
    return now;
}
