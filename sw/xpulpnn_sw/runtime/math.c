/* Functions of real numbers over the soft arithmetic of the compiler's library.
 *
 * Errors in units of the last place, the largest found by tests/sw/test_library.py against the host's library: trunc,
 * floor, ceil, round, fmod, frexp, ldexp, sqrt and everything in single precision whose result is not a subnormal
 * number are right to the last place but for a tie; double precision: exp, exp2, log, log2, log10, atan, atan2, pow,
 * sin, cos within 2, tan and tanh within 4. Single precision is computed in double precision. errno is not set.
 */

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

/* Mantissa with its hidden bit, and the exponent of its last place. The number is finite and not 0. */
static uint64_t parts(double x, int *exponent) {
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

/* c[0] + c[1] x + ... */
static double polynomial(double x, const double *c, int count) {
    double sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
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

/* The halves of a factor, exact. */
static double upper_half(double x) { return of_bits(bits_of(x) & ~((1ull << 27) - 1)); }

/* What rounding takes from the product of x and y. */
static double product_rest(double x, double y, double product) {
    double a = upper_half(x), b = x - a, c = upper_half(y), d = y - c;
    return a * c - product + (a * d + b * c) + b * d;
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

/* The binary digits of 2 / pi behind the point. */
static const uint32_t TWO_OVER_PI[] = {
    0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561, 0xB7246E3A,
    0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41,
    0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF,
    0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7, 0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08,
    0x56033046, 0xFC7B6BAB,
};
enum { DIGITS_USED = 7, PRODUCT = DIGITS_USED + 2 };

/* 32 bits of a number of words, the lowest first, from bit `place` up. */
static uint32_t word_at(const uint32_t *words, int place) {
    int index = place >> 5, shift = place & 31;
    uint32_t low = index >= 0 && index < PRODUCT ? words[index] : 0;
    uint32_t high = index + 1 >= 0 && index + 1 < PRODUCT ? words[index + 1] : 0;
    return shift ? low >> shift | high << (32 - shift) : low;
}

/* The rest of x by pi / 2, at most pi / 4 on either side of 0, as a sum of two; `quarter` counts the quarters, modulo 4.
   x is finite and at least 2^-30. Exact but for the digits of 2 / pi below the 130th behind the point of the product. */
static double reduced(double x, int *quarter, double *low) {
    int exponent, first = 0;
    uint64_t mantissa = parts(fabs(x), &exponent);
    /* digits that contribute multiples of 4 only are left out */
    if (exponent > 34)
        first = (exponent - 2) / 32;
    uint32_t product[PRODUCT] = {0}, factor[2] = {(uint32_t)mantissa, (uint32_t)(mantissa >> 32)};
    for (int i = 0; i < DIGITS_USED; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < 2; j++) {
            carry += (uint64_t)TWO_OVER_PI[first + DIGITS_USED - 1 - i] * factor[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + 2] = (uint32_t)carry;
    }
    int point = 32 * (first + DIGITS_USED) - exponent;
    uint32_t whole = word_at(product, point), digits[4];
    for (int i = 0; i < 4; i++)
        digits[i] = word_at(product, point - 32 * (i + 1));
    int negative = digits[0] >> 31;
    double fraction = 0;
    if (negative) {
        whole++;
        for (int i = 0; i < 4; i++)
            digits[i] = ~digits[i];
    }
    /* smallest first; an all-ones complement is the negative number but for 2^-128 */
    double tail = digits[3] * 0x1p-128 + digits[2] * 0x1p-96, head = digits[1] * 0x1p-64 + digits[0] * 0x1p-32;
    fraction = head + tail;
    double lost = head - fraction + tail;
    double high = fraction * M_PI_2;
    double rest = product_rest(fraction, M_PI_2, high) + lost * M_PI_2 + fraction * 6.123233995736766e-17;
    double sum = high + rest;
    *low = high - sum + rest;
    *quarter = (int)(whole & 3);
    if (negative) {
        sum = -sum;
        *low = -*low;
    }
    if (x < 0) {
        *quarter = -*quarter & 3;
        *low = -*low;
        return -sum;
    }
    return sum;
}

static const double SIN[] = {
    -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
    1.0 / 355687428096000,
};
static const double COS[] = {
    1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000,
    -1.0 / 6402373705728000,
};

static double small_sin(double x, double low) {
    double square = x * x;
    return x + (x * square * polynomial(square, SIN, 8) + low * (1 - square * 0.5));
}

static double small_cos(double x, double low) {
    double square = x * x, half = 0.5 * square, most = 1 - half;
    return most + (1 - most - half + (square * square * polynomial(square, COS, 8) - x * low));
}

/* sin(x + shift quarters). */
static double wave(double x, int shift) {
    if (!isfinite(x))
        return NAN;
    double low = 0;
    int quarter = 0;
    if (fabs(x) > 0.785)
        x = reduced(x, &quarter, &low);
    quarter += shift;
    double size = quarter & 1 ? small_cos(x, low) : small_sin(x, low);
    return quarter & 2 ? -size : size;
}

double sin(double x) { return x == 0 ? x : wave(x, 0); }
double cos(double x) { return wave(x, 1); }
double tan(double x) { return x == 0 ? x : wave(x, 0) / wave(x, 1); }

/* Values of atan at multiples of 1/8 up to 1, high and low parts. */
static const double ATAN[][2] = {
    {0.0, 0.0},
    {0.12435499454676144, -3.1253241424539383e-18},
    {0.24497866312686414, 1.0698755618734451e-17},
    {0.35877067027057225, -2.4623815582638635e-17},
    {0.4636476090008061, 2.2698777452961687e-17},
    {0.5585993153435624, -5.4556305485916264e-18},
    {0.6435011087932844, 1.5834785051444286e-17},
    {0.7188299996216245, -2.1478388444456983e-17},
    {0.7853981633974483, 3.061616997868383e-17},
};

double atan(double x) {
    double size = fabs(x), high, low;
    int over = size > 1;
    if (isnan(x) || size < 0x1p-30)
        return x;
    double number = over ? 1 : size, divisor = over ? size : 1;
    int step = (int)(8 * number / divisor + 0.5);
    /* (n/d - s/8) / (1 + n/d * s/8) */
    double place = step / 8.0, top = number - divisor * place, bottom = divisor + number * place;
    if (isinf(size)) {
        top = 0;
        bottom = 1;
    } else if (step != 0) {
        top += -product_rest(divisor, place, divisor * place);
    }
    double t = top / bottom, square = t * t, sum = 0;
    for (int i = 19; i >= 3; i -= 2)
        sum = square * ((i & 2 ? -1.0 : 1.0) / i + sum);
    high = ATAN[step][0];
    low = ATAN[step][1] + t * sum;
    double result = high + (low + t);
    if (over)
        result = M_PI_2 - high - ((low + t) - 6.123233995736766e-17);
    return copysign(result, x);
}

double atan2(double y, double x) {
    if (isnan(x) || isnan(y))
        return NAN;
    double angle;
    if (y == 0)
        angle = 0;
    else if (x == 0)
        angle = M_PI_2;
    else if (isinf(x) && isinf(y))
        angle = M_PI_4;
    else
        angle = atan(fabs(y / x));
    if (signbit(x))
        angle = M_PI - (angle - 1.2246467991473532e-16);
    return copysign(angle, y);
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
float sinf(float x) { return (float)sin(x); }
float cosf(float x) { return (float)cos(x); }
float tanf(float x) { return (float)tan(x); }
float atanf(float x) { return (float)atan(x); }
float atan2f(float y, float x) { return (float)atan2(y, x); }
float tanhf(float x) { return (float)tanh(x); }
