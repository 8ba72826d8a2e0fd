/* strtod and strtof: the C library's drop the digits behind the 17th, those of a float behind the 9th. */

#include <stdbool.h>

#define strtod strtod_of_17_digits
#include <strtod.c>
#undef strtod

enum { WORDS = 128, LIBRARY_DIGITS = 17, MOST_DIGITS = 800, LEAST_POWER = -1200, FAR_POWER = -1000000 };

static void multiply(uint32_t *words, uint32_t factor, uint32_t carry) {
    for (int word = 0; word < WORDS; ++word) {
        uint64_t product = (uint64_t)words[word] * factor + carry;
        words[word] = (uint32_t)product;
        carry = (uint32_t)(product >> 32);
    }
}

static void scale(uint32_t *words, uint32_t factor, int power) {
    uint32_t square = factor * factor;
    for (; power >= 8; power -= 8)
        multiply(words, square * square * square * square, 0);
    while (power-- > 0)
        multiply(words, factor, 0);
}

static const char *skip_sign(const char *text) {
    text += strspn(text, " \t\n\v\f\r");
    return text + (*text == '-' || *text == '+');
}

static int count_digits(const char *text) {
    text += strspn(text, "0.");
    size_t whole = strspn(text, "0123456789");
    return (int)(text[whole] == '.' ? whole + strspn(text + whole + 1, "0123456789") : whole);
}

/* Compares a decimal number without sign with the size of another, or with the middle between that and the next greater. */
static int compare(const char *text, double other, bool middle) {
    uint64_t bits = asuint64(other), mantissa = bits & ((1ull << 52) - 1);
    int exponent = bits >> 52 & 0x7FF, digits = 0, power = 0;
    mantissa = 2 * (exponent != 0 ? mantissa | 1ull << 52 : mantissa) + middle;
    exponent = (exponent != 0 ? exponent : 1) - 1076;
    uint32_t decimal[WORDS] = {0}, binary[WORDS] = {(uint32_t)mantissa, (uint32_t)(mantissa >> 32)};
    for (bool fraction = false; ISDIGIT(*text) || (*text == '.' && !fraction); ++text) {
        if (*text == '.') {
            fraction = true;
        } else if ((digits += digits != 0 || *text != '0') <= MOST_DIGITS) {
            multiply(decimal, 10, (uint32_t)(*text - '0'));
            power -= fraction;
        } else {
            decimal[0] |= *text != '0';
            power += !fraction;
        }
    }
    long given = (*text | 32) == 'e' && text[1] > ' ' ? strtol(text + 1, NULL, 10) : 0;
    power += given < FAR_POWER ? FAR_POWER : (int)given;
    if (power < LEAST_POWER)
        return -1;
    scale(decimal, 10, power);
    scale(binary, 10, -power);
    scale(binary, 2, exponent);
    scale(decimal, 2, -exponent);
    int word = WORDS - 1;
    while (word > 0 && decimal[word] == binary[word])
        --word;
    return decimal[word] < binary[word] ? -1 : decimal[word] > binary[word];
}

double strtod(const char *text, char **end) {
    double value = strtod_of_17_digits(text, end);
    if (!isfinite(value) || count_digits(skip_sign(text)) <= LIBRARY_DIGITS)
        return value;
    int order = compare(skip_sign(text), value, true);
    if (order > 0 || (order == 0 && asuint64(value) & 1))
        value = asdouble(asuint64(value) + 1);
    if (isinf(value))
        errno = ERANGE;
    return value;
}

float strtof(const char *text, char **end) {
    double value = strtod(text, end);
    const char *number = skip_sign(text);
    /* in the middle between two floats the text decides */
    if (isfinite(value) && (float)value != value && (asuint64(value) << 36) == 0 && (number[1] | 32) != 'x')
        value = asdouble(asuint64(value) + (uint64_t)compare(number, value, false));
    float result = (float)value;
    if (isfinite(value) && (isinf(result) || (result == 0 && value != 0)))
        errno = ERANGE;
    return result;
}
