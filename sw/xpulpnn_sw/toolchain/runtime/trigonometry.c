/* Sine, cosine, tangent and their inverses; accuracy is stated in math.c. */

#include "math_parts.h"

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

float sinf(float x) { return (float)sin(x); }
float cosf(float x) { return (float)cos(x); }
float tanf(float x) { return (float)tan(x); }
float atanf(float x) { return (float)atan(x); }
float atan2f(float y, float x) { return (float)atan2(y, x); }
