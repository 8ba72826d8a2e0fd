/* vfprintf in place of the C library's: every digit of a number is exact, and long double, wide text, %n and positions
   are taken. Numbers are converted in base 10^9, in as many words as their exponents need. */

#include <stdio.h>
#include <wchar.h>

#include "conversion.h"

enum { BASE = 1000000000, BASE_DIGITS = 9, LEFT_SHIFT = 29, RIGHT_SHIFT = 9 };
enum { MOST_DIGITS = 24 }; /* of an integer in octal */

struct writer {
    FILE *file;
    int count;
    bool failed;
};

static void put(struct writer *writer, int character) {
    ++writer->count;
    if (writer->file->put((char)character, writer->file) < 0)
        writer->failed = true;
}

static void put_many(struct writer *writer, int character, int count) {
    while (count-- > 0)
        put(writer, character);
}

static void put_text(struct writer *writer, const char *text, int count) {
    while (count-- > 0)
        put(writer, *text++);
}

/* Opens a field of so many characters behind its prefix; returns the number of blanks that close it. */
static int put_prefix(struct writer *writer, const struct conversion *conversion, const char *prefix, int count) {
    int length = (int)strlen(prefix), free = conversion->width - length - count;
    if (!(conversion->flags & (LEFT | ZERO)))
        put_many(writer, ' ', free);
    put_text(writer, prefix, length);
    if ((conversion->flags & (LEFT | ZERO)) == ZERO)
        put_many(writer, '0', free);
    return conversion->flags & LEFT ? free : 0;
}

static void put_padded(struct writer *writer, const struct conversion *conversion, const char *text, int count) {
    int behind = put_prefix(writer, conversion, "", count);
    put_text(writer, text, count);
    put_many(writer, ' ', behind);
}

static void put_wide(struct writer *writer, const struct conversion *conversion, const wchar_t *text) {
    int count = (int)wcsnlen(text, conversion->precision < 0 ? SIZE_MAX : (size_t)conversion->precision);
    int behind = put_prefix(writer, conversion, "", count);
    for (int place = 0; place < count; ++place) {
        char bytes[8];
        size_t length = wcrtomb(bytes, text[place], NULL);
        if (length > sizeof bytes)
            writer->failed = true;
        else
            put_text(writer, bytes, (int)length);
    }
    put_many(writer, ' ', behind);
}

static const char *sign(const struct conversion *conversion, bool negative) {
    return negative ? "-" : conversion->flags & PLUS ? "+" : conversion->flags & SPACE ? " " : "";
}

static unsigned bits_of(char length) { return length == 'q' ? 64 : length == 'H' ? 8 : length == 'h' ? 16 : 32; }

static void put_integer(struct writer *writer, struct conversion conversion, uint64_t bits) {
    char digits[MOST_DIGITS], letter = conversion.letter;
    const char *prefix = "";
    unsigned cut = 64 - bits_of(conversion.length);
    uint64_t value = bits << cut >> cut;
    if (letter == 'd' || letter == 'i') {
        int64_t number = (int64_t)(bits << cut) >> cut;
        prefix = sign(&conversion, number < 0);
        value = number < 0 ? -(uint64_t)number : (uint64_t)number;
    }
    unsigned base = letter == 'o' ? 8 : letter == 'x' || letter == 'X' || letter == 'p' ? 16 : 10;
    const char *names = letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    if (letter == 'p' || (base == 16 && conversion.flags & ALTERNATE && value != 0))
        prefix = letter == 'X' ? "0X" : "0x";
    int count = 0, place = MOST_DIGITS;
    for (; value > UINT32_MAX; value /= base, ++count)
        digits[--place] = names[value % base];
    for (uint32_t rest = (uint32_t)value; rest != 0; rest /= base, ++count)
        digits[--place] = names[rest % base];
    int least = conversion.precision < 0 ? 1 : conversion.precision;
    if (base == 8 && conversion.flags & ALTERNATE && least <= count)
        least = count + 1;
    if (conversion.precision >= 0)
        conversion.flags &= ~(unsigned)ZERO;
    int zeros = least > count ? least - count : 0, behind = put_prefix(writer, &conversion, prefix, zeros + count);
    put_many(writer, '0', zeros);
    put_text(writer, digits + place, count);
    put_many(writer, ' ', behind);
}

/* A finite number: mantissa * 2^exponent, and the bits of its format's mantissa. */
struct real {
    struct argument mantissa;
    int exponent, bits;
    bool negative, special;
};

static struct real unpack(struct argument argument, char length) {
    struct real real = {.bits = 52, .special = false};
    int bias = 1023, high_bits = 52, exponent_mask = 0x7FF;
    uint64_t *high = &real.mantissa.low, word = argument.low;
    if (length == 'L') {
        real.bits = 112, bias = 16383, high_bits = 48, exponent_mask = 0x7FFF;
        high = &real.mantissa.high, word = argument.high;
    }
    real.mantissa = length == 'L' ? argument : (struct argument){argument.low, 0};
    int exponent = (int)(word >> high_bits) & exponent_mask;
    *high = word & ((1ull << high_bits) - 1);
    if (exponent != 0 && exponent != exponent_mask)
        *high |= 1ull << high_bits;
    real.negative = word >> 63;
    real.special = exponent == exponent_mask;
    real.exponent = (exponent != 0 ? exponent : 1) - bias - real.bits;
    return real;
}

static bool is_zero(const struct real *real) { return (real->mantissa.low | real->mantissa.high) == 0; }

static void shift_left(uint32_t *words, int count, int bits, uint32_t carry) {
    while (count-- > 0) {
        uint64_t product = ((uint64_t)words[count] << bits) + carry;
        carry = (uint32_t)(product / BASE);
        words[count] = (uint32_t)(product % BASE);
    }
}

static void shift_right(uint32_t *words, int count, int bits) {
    uint32_t carry = 0;
    for (int place = 0; place < count; ++place) {
        uint32_t word = words[place];
        words[place] = (word >> bits) + carry;
        carry = (word & ((1u << bits) - 1)) * ((uint32_t)BASE >> bits);
    }
}

/* Bits of the mantissa from `place` on. */
static uint32_t mantissa_bits(const struct real *real, int place) {
    uint64_t low = place < 64 ? real->mantissa.low >> place : 0;
    uint64_t high = place == 0 ? 0 : place < 64 ? real->mantissa.high << (64 - place) : real->mantissa.high >> (place - 64);
    return (uint32_t)(low | high) & ((1u << LEFT_SHIFT) - 1);
}

/* Adds one to the digit before `place` of a text that begins with 0 if what is cut off there is more than half, or half
   behind an odd digit. */
static void round_text(char *text, int place, int count, int base) {
    bool rest = false;
    for (int behind = place + 1; behind < count; ++behind)
        rest |= text[behind] != 0;
    if (place >= count || text[place] < base / 2 || (text[place] == base / 2 && !rest && text[place - 1] % 2 == 0))
        return;
    while (++text[--place] == base)
        text[place] = 0;
}

static void put_digits(struct writer *writer, const char *text, int first, int last, int count, const char *names) {
    for (int place = first; place < last; ++place)
        put(writer, place >= 0 && place < count ? names[(unsigned char)text[place]] : '0');
}

static int exponent_text(char *text, char mark, int exponent, int least) {
    unsigned size = (unsigned)(exponent < 0 ? -exponent : exponent);
    int count = 1;
    for (unsigned rest = size / 10; rest != 0 || count < least; rest /= 10)
        ++count;
    text[0] = mark;
    text[1] = exponent < 0 ? '-' : '+';
    for (int place = count; place > 0; --place, size /= 10)
        text[1 + place] = (char)('0' + size % 10);
    return 2 + count;
}

/* Puts the digits of a text, with the point behind so many of them, and the exponent. */
static void put_real(struct writer *writer, const struct conversion *conversion, const char *prefix, const char *text,
                     int first, int count, int whole, int decimals, const char *exponent, int exponent_count) {
    const char *names = conversion->flags & UPPER ? "0123456789ABCDEF" : "0123456789abcdef";
    bool has_point = decimals > 0 || conversion->flags & ALTERNATE;
    int behind = put_prefix(writer, conversion, prefix, whole + has_point + decimals + exponent_count);
    put_digits(writer, text, first, first + whole, count, names);
    if (has_point)
        put(writer, '.');
    put_digits(writer, text, first + whole, first + whole + decimals, count, names);
    put_text(writer, exponent, exponent_count);
    put_many(writer, ' ', behind);
}

static void put_hexadecimal(struct writer *writer, const struct conversion *conversion, const struct real *real) {
    int count = real->bits / 4 + 2, decimals = conversion->precision;
    bool is_upper = conversion->flags & UPPER;
    char text[30] = {0}, exponent[8], prefix[4];
    for (int place = 1; place < count; ++place)
        text[place] = (char)(mantissa_bits(real, 4 * (count - 1 - place)) & 15);
    if (decimals < 0)
        for (decimals = count - 2; decimals > 0 && text[decimals + 1] == 0;)
            --decimals;
    round_text(text, decimals + 2, count, 16);
    strcpy(prefix, sign(conversion, real->negative));
    strcat(prefix, is_upper ? "0X" : "0x");
    int length = exponent_text(exponent, is_upper ? 'P' : 'p', is_zero(real) ? 0 : real->exponent + real->bits, 1);
    put_real(writer, conversion, prefix, text, 1, count, 1, decimals, exponent, length);
}

static __attribute__((noinline)) void put_decimal(struct writer *writer, const struct conversion *conversion,
                                                  struct real real) {
    while (real.exponent < 0 && !is_zero(&real) && (real.mantissa.low & 1) == 0) {
        real.mantissa.low = real.mantissa.low >> 1 | real.mantissa.high << 63;
        real.mantissa.high >>= 1;
        ++real.exponent;
    }
    if (is_zero(&real))
        real.exponent = 0;
    int left = real.exponent > 0 ? real.exponent : 0, right = real.exponent < 0 ? -real.exponent : 0;
    int whole = (real.bits + 1 + left) / LEFT_SHIFT + 1, words = whole + (right + RIGHT_SHIFT - 1) / RIGHT_SHIFT;
    uint32_t numbers[words];
    memset(numbers, 0, sizeof numbers);
    for (int place = real.bits / LEFT_SHIFT * LEFT_SHIFT; place >= 0; place -= LEFT_SHIFT)
        shift_left(numbers, whole, LEFT_SHIFT, mantissa_bits(&real, place));
    for (; left > 0; left -= LEFT_SHIFT)
        shift_left(numbers, whole, left < LEFT_SHIFT ? left : LEFT_SHIFT, 0);
    for (; right > 0; right -= RIGHT_SHIFT)
        shift_right(numbers, words, right < RIGHT_SHIFT ? right : RIGHT_SHIFT);

    /* digits behind a 0 for the carry; the point is behind the whole words */
    int count = 1 + BASE_DIGITS * words, point = 1 + BASE_DIGITS * whole, first = 1;
    char text[count], exponent[8], letter = conversion->letter | 32;
    text[0] = 0;
    for (int word = 0; word < words; ++word)
        for (int place = BASE_DIGITS; place > 0; --place, numbers[word] /= 10)
            text[word * BASE_DIGITS + place] = (char)(numbers[word] % 10);
    while (first < count - 1 && text[first] == 0)
        ++first;
    if (is_zero(&real))
        first = point - 1;
    int decimals = conversion->precision < 0 ? 6 : conversion->precision, length = 0;
    if (letter == 'g' && decimals > 0)
        --decimals;
    int end = letter == 'f' ? point + decimals : first + decimals + 1;
    round_text(text, end, count, 10);
    if (text[first - 1] != 0)
        --first;
    int power = point - 1 - first;
    if (letter == 'g') {
        bool is_fixed = power >= -4 && power <= decimals;
        int shown = decimals + 1; /* digits */
        if (!(conversion->flags & ALTERNATE))
            while (shown > 1 && (first + shown - 1 >= count || text[first + shown - 1] == 0))
                --shown;
        decimals = is_fixed ? shown - 1 - power : shown - 1;
        decimals = decimals < 0 ? 0 : decimals;
        letter = is_fixed ? 'f' : 'e';
        end = first + shown;
    }
    if (letter == 'e')
        length = exponent_text(exponent, conversion->flags & UPPER ? 'E' : 'e', is_zero(&real) ? 0 : power, 2);
    int digits = letter == 'f' && power > 0 ? power + 1 : 1, start = letter == 'f' ? point - digits : first;
    put_real(writer, conversion, sign(conversion, real.negative), text, start, count < end ? count : end, digits, decimals,
             exponent, length);
}

static void put_number(struct writer *writer, struct conversion conversion, struct argument argument) {
    struct real real = unpack(argument, conversion.length);
    if (conversion.letter < 'a')
        conversion.flags |= UPPER;
    if (real.special) {
        static const char texts[4][4] = {"nan", "inf", "NAN", "INF"};
        conversion.flags &= ~(unsigned)ZERO;
        int behind = put_prefix(writer, &conversion, sign(&conversion, real.negative), 3);
        put_text(writer, texts[is_zero(&real) + (conversion.flags & UPPER ? 2 : 0)], 3);
        put_many(writer, ' ', behind);
    } else if ((conversion.letter | 32) == 'a') {
        put_hexadecimal(writer, &conversion, &real);
    } else {
        put_decimal(writer, &conversion, real);
    }
}

static void put_argument(struct writer *writer, struct conversion conversion, struct argument argument) {
    const char *text = (const char *)(uintptr_t)argument.low;
    char character = (char)argument.low;
    if (conversion.letter == 'n') {
        int64_t count = writer->count;
        memcpy((void *)(uintptr_t)argument.low, &count, bits_of(conversion.length) / 8);
    } else if (conversion.letter == 'c') {
        put_padded(writer, &conversion, &character, 1);
    } else if (conversion.letter == 's' && conversion.length == 'l' && text != NULL) {
        put_wide(writer, &conversion, (const wchar_t *)(uintptr_t)argument.low);
    } else if (conversion.letter == 's') {
        text = text != NULL ? text : "(null)";
        size_t limit = conversion.precision < 0 ? SIZE_MAX : (size_t)conversion.precision;
        put_padded(writer, &conversion, text, (int)strnlen(text, limit));
    } else if (is_real(conversion.letter)) {
        put_number(writer, conversion, argument);
    } else {
        put_integer(writer, conversion, argument.low);
    }
}

int vfprintf(FILE *file, const char *format, va_list given) {
    struct writer writer = {.file = file};
    const char *start = format;
    va_list list, first;
    va_copy(list, given);
    va_copy(first, given);
    while (*format != 0) {
        if (*format != '%') {
            put(&writer, *format++);
            continue;
        }
        struct conversion conversion;
        format = read_conversion(format + 1, &conversion);
        if (conversion.letter == 0 || strchr("diouxXcspnfFeEgGaA", conversion.letter) == NULL) {
            if (conversion.letter != '%')
                put(&writer, '%');
            if (conversion.letter != 0)
                put(&writer, conversion.letter);
            continue;
        }
#define ARGUMENT(position, letter, length)                                                                              \
    ((position) != 0 ? positioned(start, first, position, letter, length) : next_argument(&list, letter, length))
        if (conversion.width == GIVEN) {
            conversion.width = (int)ARGUMENT(conversion.width_position, 'd', 0).low;
            if (conversion.width < 0) {
                conversion.flags |= LEFT;
                conversion.width = -conversion.width;
            }
        }
        if (conversion.precision == GIVEN)
            conversion.precision = (int)ARGUMENT(conversion.precision_position, 'd', 0).low;
        put_argument(&writer, conversion, ARGUMENT(conversion.position, conversion.letter, conversion.length));
    }
    va_end(first);
    va_end(list);
    return writer.failed ? -1 : writer.count;
}

int __d_vfprintf(FILE *file, const char *format, va_list list) __attribute__((alias("vfprintf")));
