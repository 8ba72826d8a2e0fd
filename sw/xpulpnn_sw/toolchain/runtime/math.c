/* Functions of real numbers over the soft arithmetic of the compiler's library.
 *
 * Largest errors in units of the last place, as tests/sw/test_library.py checks them against the host's library: none in
 * trunc, floor, ceil, round, modf, fmod, frexp, ldexp and sqrt; 1 in single precision, which is computed in double
 * precision; 2 in exp, exp2, log, log2, log10, pow, sin, cos, atan and atan2, for arguments of any size; 4 in tan and tanh.
 * errno is not set.
 */

#include "math_parts.h"

double fabs(double x) { return of_bits(bits_of(x) & ~SIGN); }
double copysign(double x, double sign) { return of_bits((bits_of(x) & ~SIGN) | (bits_of(sign) & SIGN)); }
double fmin(double x, double y) { return isnan(x) || y < x ? y : x; }
double fmax(double x, double y) { return isnan(x) || y > x ? y : x; }

double trunc(double x) {
    int exponent = stored_exponent(x) - BIAS;
    if (exponent >= MANTISSA)
        return x;
    return of_bits(bits_of(x) & (exponent < 0 ? SIGN : ~((HIDDEN - 1) >> exponent)));
}

double floor(double x) {
    double whole = trunc(x);
    return x < whole ? whole - 1 : whole;
}

double ceil(double x) { return -floor(-x); }

double round(double x) {
    double whole = trunc(x);
    return fabs(x - whole) >= 0.5 ? whole + copysign(1, x) : whole;
}

double modf(double x, double *whole) {
    *whole = trunc(x);
    return copysign(isinf(x) ? 0 : x - *whole, x);
}

double ldexp(double x, int exponent) {
    /* three steps reach from one end of the range to the other; only the last one can round */
    for (int step = 0; step < 2; step++) {
        if (exponent > BIAS) {
            x *= 0x1p1023;
            exponent -= BIAS;
        } else if (exponent < 1 - BIAS) {
            x *= 0x1p-1022 * 0x1p53;
            exponent += BIAS - 1 - 53;
        }
    }
    exponent = exponent > BIAS ? BIAS : exponent < 1 - BIAS ? 1 - BIAS : exponent;
    return x * of_bits((uint64_t)(exponent + BIAS) << MANTISSA);
}

double frexp(double x, int *exponent) {
    *exponent = 0;
    if (x == 0 || !isfinite(x))
        return x;
    uint64_t mantissa = parts(x, exponent);
    *exponent += MANTISSA + 1;
    return of_bits((bits_of(x) & SIGN) | (uint64_t)(BIAS - 1) << MANTISSA | (mantissa & (HIDDEN - 1)));
}

double fmod(double x, double y) {
    if (!isfinite(x) || isnan(y) || y == 0)
        return NAN;
    if (x == 0 || isinf(y))
        return x;
    int from, to;
    uint64_t rest = parts(x, &from), divisor = parts(y, &to);
    if (from < to - 1)
        return x;
    if (from < to) {
        /* at most one place apart: as far as they overlap, the divisor is the larger one */
        if (rest >> 1 < divisor)
            return x;
        divisor <<= 1;
        to--;
    }
    for (rest %= divisor; from > to && rest != 0; from--)
        rest = rest << 1 >= divisor ? (rest << 1) - divisor : rest << 1;
    return copysign(ldexp((double)rest, to), x);
}

/* Digit by digit; the remainder tells how to round. */
double sqrt(double x) {
    if (x == 0 || isnan(x) || x == HUGE_VAL)
        return x;
    if (x < 0)
        return NAN;
    int exponent;
    uint64_t mantissa = parts(x, &exponent), root = 0, rest = 0;
    if (exponent & 1) {
        mantissa <<= 1;
        exponent--;
    }
    /* 54 digits, of which the last one rounds: the number has 54 bits, the rest of its pairs are 0 */
    for (int pair = 26; pair >= -27; pair--) {
        rest = rest << 2 | (pair >= 0 ? mantissa >> (2 * pair) & 3 : 0);
        uint64_t trial = root << 2 | 1;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    /* never a tie: the root of a number with 54 bits has no 54-bit end */
    root = (root + 1) >> 1;
    return ldexp((double)root, exponent / 2 - 26);
}

float sqrtf(float x) {
    union { float number; uint32_t bits; } both = {x};
    if (x == 0 || isnan(x) || x == HUGE_VALF)
        return x;
    if (x < 0)
        return NAN;
    int exponent = (int)(both.bits >> 23);
    uint32_t mantissa = both.bits & 0x7FFFFF, root = 0, rest = 0;
    if (exponent != 0)
        mantissa |= 0x800000;
    else
        for (exponent = 1; mantissa < 0x800000; exponent--)
            mantissa <<= 1;
    /* 25 or 26 bits, so that the root has 13 before the point */
    exponent -= 151;
    mantissa <<= 1;
    if (exponent & 1) {
        mantissa <<= 1;
        exponent--;
    }
    for (int pair = 12; pair >= -12; pair--) {
        rest = rest << 2 | (pair >= 0 ? mantissa >> (2 * pair) & 3 : 0);
        uint32_t trial = root << 2 | 1;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    root = (root + 1) >> 1;
    /* the exponent of a root is far from both ends of the range */
    both.number = (float)root;
    both.bits += (uint32_t)(exponent / 2 - 11) << 23;
    return both.number;
}

#define LN2_HIGH 0x1.62e42fee00000p-1 /* 32 bits, so that its multiples are exact */
#define LN2_LOW 0x1.a39ef35793c76p-33

static const double EXP[] = {
    1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
    1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
};

/* exp(x + low) - 1 for a small sum. */
static double small_exp(double x, double low) { return x + (low + x * x * polynomial(x, EXP, 12)); }

/* exp(x + low). */
static double exp_sum(double x, double low) {
    if (isnan(x))
        return x;
    if (x > 710)
        return HUGE_VAL;
    if (x < -746)
        return 0;
    int power = (int)(x * 1.4426950408889634 + copysign(0.5, x));
    double high = x - power * LN2_HIGH;
    low -= power * LN2_LOW;
    double rest = high + low;
    return ldexp(1 + small_exp(rest, high - rest + low), power);
}

double exp(double x) { return exp_sum(x, 0); }

double exp2(double x) {
    double whole = round(x);
    if (!(fabs(x) < 1100))
        return isnan(x) ? x : x > 0 ? HUGE_VAL : 0;
    return ldexp(1 + small_exp((x - whole) * M_LN2, (x - whole) * 2.3190468138462996e-17), (int)whole);
}

static const double LOG[] = {
    2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23,
};

/* The logarithm of a finite positive number as a sum of two; `power`: of which power of two it is a multiple near 1. */
static double log_parts(double x, int *power, double *low) {
    double m = frexp(x, power);
    if (m < 0.70710678118654752) {
        m *= 2;
        --*power;
    }
    double f = m - 1, sum = 2 + f, s = f / sum;
    /* what the quotient and the sum have lost */
    double product = s * sum;
    double lost = (f - product - product_rest(s, sum, product) - s * (f - (sum - 2))) / sum;
    *low = 2 * lost + s * s * s * polynomial(s * s, LOG, 11);
    return 2 * s;
}

/* Logarithm to the base with 1 / ln(base) = scale, log2(base) = 1 / unit. */
static double log_sum(double x, double *low) {
    int power;
    double rest, small = log_parts(x, &power, &rest);
    double whole = power * LN2_HIGH, high = whole + small;
    *low = (fabs(whole) > fabs(small) ? whole - high + small : small - high + whole) + (rest + power * LN2_LOW);
    double sum = high + *low;
    *low = high - sum + *low;
    return sum;
}

/* What is no positive finite number, for all logarithms. */
static double log_special(double x) { return isnan(x) || x == HUGE_VAL ? x : x == 0 ? -HUGE_VAL : NAN; }

double log(double x) {
    double low;
    return x > 0 && x < HUGE_VAL ? log_sum(x, &low) : log_special(x);
}

/* log(x) times high + low. */
static double scaled_log(double x, double high, double low) {
    double rest, value = log_sum(x, &rest), product = value * high;
    return product + (product_rest(value, high, product) + rest * high + value * low);
}

double log2(double x) {
    if (!(x > 0 && x < HUGE_VAL))
        return log_special(x);
    int power;
    double low, high = log_parts(x, &power, &low), product = high * M_LOG2E;
    double rest = product_rest(high, M_LOG2E, product) + low * M_LOG2E + high * 2.0355273740931033e-17;
    double sum = power + product;
    return sum + ((power != 0 ? power - sum + product : product - sum) + rest);
}

double log10(double x) {
    return x > 0 && x < HUGE_VAL ? scaled_log(x, 0.4342944819032518, 1.098319650216765e-17) : log_special(x);
}

double pow(double x, double y) {
    if (y == 0 || x == 1)
        return 1;
    if (isnan(x) || isnan(y))
        return NAN;
    int is_whole = trunc(y) == y, is_odd = is_whole && fabs(y) < 0x1p53 && fmod(y, 2) != 0;
    if (isinf(y))
        return fabs(x) == 1 ? 1 : (fabs(x) > 1) == (y > 0) ? HUGE_VAL : 0;
    if (x == 0 || isinf(x)) {
        double size = (x == 0) == (y > 0) ? 0 : HUGE_VAL;
        return is_odd ? copysign(size, x) : size;
    }
    if (x < 0 && !is_whole)
        return NAN;
    double low, high = log_sum(fabs(x), &low), product = high * y;
    double size = fabs(product) > 1000 ? exp_sum(product, 0) : exp_sum(product, product_rest(high, y, product) + low * y);
    return x < 0 && is_odd ? -size : size;
}

double tanh(double x) {
    double size = fabs(x), result;
    if (isnan(x) || size < 0x1p-28)
        return x;
    if (size > 22)
        result = 1;
    else if (size < 0.17) {
        double part = small_exp(2 * size, 0);
        result = part / (part + 2);
    } else {
        result = 1 - 2 / (exp(2 * size) + 1);
    }
    return copysign(result, x);
}

float fabsf(float x) { return (float)fabs(x); }
float copysignf(float x, float sign) { return (float)copysign(x, sign); }
float fminf(float x, float y) { return isnan(x) || y < x ? y : x; }
float fmaxf(float x, float y) { return isnan(x) || y > x ? y : x; }
float truncf(float x) { return (float)trunc(x); }
float floorf(float x) { return (float)floor(x); }
float ceilf(float x) { return (float)ceil(x); }
float roundf(float x) { return (float)round(x); }
float fmodf(float x, float y) { return (float)fmod(x, y); }
float frexpf(float x, int *exponent) { return (float)frexp(x, exponent); }
float ldexpf(float x, int exponent) { return (float)ldexp(x, exponent); }
float expf(float x) { return (float)exp(x); }
float exp2f(float x) { return (float)exp2(x); }
float logf(float x) { return (float)log(x); }
float log2f(float x) { return (float)log2(x); }
float log10f(float x) { return (float)log10(x); }
float powf(float x, float y) { return (float)pow(x, y); }
float tanhf(float x) { return (float)tanh(x); }
