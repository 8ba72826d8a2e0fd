/* Conversions of printf's formats, and their arguments. */
#ifndef XP_CONVERSION_H
#define XP_CONVERSION_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LEFT = 1, PLUS = 2, SPACE = 4, ALTERNATE = 8, ZERO = 16, UPPER = 32 };

/* A conversion of the format; positions count from 1, 0: the next argument. */
struct conversion {
    unsigned flags, position, width_position, precision_position;
    int width, precision; /* precision -1: none; -2 and less of both: an argument */
    char length;          /* of hh, ll: H and q */
    char letter;
};

enum { GIVEN = -2 };

/* Bits of an argument. */
struct argument {
    uint64_t low, high;
};

static const char *read_number(const char *format, int *number) {
    for (*number = 0; *format >= '0' && *format <= '9'; ++format)
        *number = *number * 10 + (*format - '0');
    return format;
}

/* Reads a width or precision behind its mark; a star makes it GIVEN, by the argument at the position if not 0. */
static const char *read_size(const char *format, int *size, unsigned *position) {
    if (*format != '*')
        return read_number(format, size);
    int number;
    const char *end = read_number(++format, &number);
    *size = GIVEN;
    *position = *end == '$' ? (unsigned)number : 0;
    return *end == '$' ? end + 1 : format;
}

static const char *read_conversion(const char *format, struct conversion *conversion) {
    static const char marks[] = "-+ #0";
    memset(conversion, 0, sizeof *conversion);
    conversion->precision = -1;
    int number;
    const char *end = read_number(format, &number);
    if (*end == '$' && number > 0) {
        conversion->position = (unsigned)number;
        format = end + 1;
    }
    for (const char *mark; *format != 0 && (*format == '\'' || (mark = strchr(marks, *format)) != NULL); ++format)
        conversion->flags |= *format == '\'' ? 0 : 1u << (mark - marks);
    format = read_size(format, &conversion->width, &conversion->width_position);
    if (*format == '.')
        format = read_size(format + 1, &conversion->precision, &conversion->precision_position);
    while (*format != 0 && strchr("hljztL", *format) != NULL) {
        bool again = conversion->length == *format;
        conversion->length = again ? (*format == 'h' ? 'H' : 'q') : *format == 'j' ? 'q' : *format;
        ++format;
    }
    conversion->letter = *format;
    return *format != 0 ? format + 1 : format;
}

static bool is_real(char letter) { return letter != 0 && strchr("fFeEgGaA", letter) != NULL; }

static struct argument next_argument(va_list *list, char letter, char length) {
    struct argument argument = {0, 0};
    if (is_real(letter) && length == 'L') {
        long double value = va_arg(*list, long double);
        memcpy(&argument, &value, sizeof value);
    } else if (is_real(letter)) {
        double value = va_arg(*list, double);
        memcpy(&argument.low, &value, sizeof value);
    } else if (length == 'q' && letter != 'c' && letter != 's') {
        argument.low = va_arg(*list, uint64_t);
    } else {
        argument.low = va_arg(*list, uint32_t);
    }
    return argument;
}

/* Returns the argument at a position, behind those before it, whose types the conversions of the format tell. */
static struct argument positioned(const char *format, va_list list, unsigned position, char letter, char length) {
    va_list left;
    va_copy(left, list);
    for (unsigned before = 1; before < position; ++before) {
        struct conversion conversion = {0}, match = {0};
        for (const char *place = format; (place = strchr(place, '%')) != NULL;) {
            place = read_conversion(place + 1, &conversion);
            if (conversion.position == before)
                match = conversion;
        }
        (void)next_argument(&left, match.letter, match.length);
    }
    struct argument argument = next_argument(&left, letter, length);
    va_end(left);
    return argument;
}

#endif
