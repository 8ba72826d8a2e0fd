/* What the parts of the mathematics share: the bits of a number, polynomials, exact products. */
#ifndef XPULPNN_MATH_PARTS_H
#define XPULPNN_MATH_PARTS_H

#include <math.h>
#include <stdint.h>

enum { MANTISSA = 52, BIAS = 1023, LARGEST_EXPONENT = 0x7FF };
#define HIDDEN (1ull << MANTISSA)
#define SIGN (1ull << 63)

static inline uint64_t bits_of(double x) {
    union { double number; uint64_t bits; } both = {x};
    return both.bits;
}

static inline double of_bits(uint64_t bits) {
    union { uint64_t bits; double number; } both = {bits};
    return both.number;
}

/* Exponent of a number, as stored. */
static inline int stored_exponent(double x) { return (int)(bits_of(x) >> MANTISSA & LARGEST_EXPONENT); }

/* Mantissa with its hidden bit, and the exponent of its last place. The number is finite and not 0. */
static inline uint64_t parts(double x, int *exponent) {
    uint64_t mantissa = bits_of(x) & (HIDDEN - 1);
    *exponent = stored_exponent(x);
    if (*exponent != 0)
        mantissa |= HIDDEN;
    else
        for (*exponent = 1; mantissa < HIDDEN; --*exponent)
            mantissa <<= 1;
    *exponent -= BIAS + MANTISSA;
    return mantissa;
}

/* c[0] + c[1] x + ... */
static inline double polynomial(double x, const double *c, int count) {
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* The halves of a factor, exact. */
static inline double upper_half(double x) { return of_bits(bits_of(x) & ~((1ull << 27) - 1)); }

/* What rounding takes from the product of x and y. */
static inline double product_rest(double x, double y, double product) {
    double a = upper_half(x), b = x - a, c = upper_half(y), d = y - c;
    return a * c - product + (a * d + b * c) + b * d;
}

#endif
