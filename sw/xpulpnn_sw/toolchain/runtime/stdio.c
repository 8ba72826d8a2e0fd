/* Formatted output.
 *
 * Conversions d i u x X o c s p %, flags - + space 0 #, width and precision (also *), lengths hh h l ll j z t. A
 * floating-point argument is taken but shown as its conversion, since the core has no floating point. Everything else is
 * printed as it stands.
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <xpulpnn_rt.h>

#include "locks.h"

enum { LINE = 256, DIGITS = 22, NO_PRECISION = -1 };

struct xp_line {
    unsigned count;
    char text[LINE];
};

struct xp_file {
    int number;
    struct xp_line lines[XP_CALLERS]; /* each core's own, so that cores do not print into each other's lines */
};

FILE xp_stdout = {.number = 1};
FILE xp_stderr = {.number = 2};

/* Where characters go: a file, or the first `size` places of `text`. */
struct sink {
    FILE *file;
    char *text;
    size_t size;
    size_t count;
};

static void send(FILE *file, unsigned caller) {
    struct xp_line *line = &file->lines[caller];
    if (line->count != 0)
        xp_write(file->number, line->text, line->count);
    line->count = 0;
}

static void send_all(FILE *file) {
    for (unsigned caller = 0; caller < XP_CALLERS; ++caller)
        send(file, caller);
}

int fflush(FILE *file) {
    if (file == NULL) {
        send_all(stdout);
        send_all(stderr);
    } else {
        send(file, XP_CALLER);
    }
    return 0;
}

int fputc(int character, FILE *file) {
    unsigned caller = XP_CALLER;
    struct xp_line *line = &file->lines[caller];
    line->text[line->count++] = (char)character;
    if (character == '\n' || line->count == LINE)
        send(file, caller);
    return (unsigned char)character;
}

int fputs(const char *text, FILE *file) {
    while (*text)
        fputc(*text++, file);
    return 0;
}

/* Compilers also call it for an fprintf without conversions. */
size_t fwrite(const void *items, size_t size, size_t count, FILE *file) {
    const char *bytes = items;
    for (size_t i = 0; i < size * count; i++)
        fputc(bytes[i], file);
    return count;
}

int putchar(int character) {
    return fputc(character, stdout);
}

int puts(const char *text) {
    fputs(text, stdout);
    return putchar('\n');
}

static void put(struct sink *sink, char character) {
    if (sink->file != NULL)
        fputc(character, sink->file);
    else if (sink->count < sink->size)
        sink->text[sink->count] = character;
    sink->count++;
}

static void put_many(struct sink *sink, const char *text, int count) {
    while (count-- > 0)
        put(sink, *text++);
}

static void pad(struct sink *sink, char character, int count) {
    while (count-- > 0)
        put(sink, character);
}

struct conversion {
    int left, zero, alternate;
    char sign; /* what stands before a positive number, or 0 */
    int width, precision;
    int longs; /* -2 char, -1 short, 0 int, 1 long, 2 long long */
};

/* Text with prefix and zeros, padded to the width. */
static void put_field(struct sink *sink, const struct conversion *c, const char *prefix, int zeros, const char *text, int count) {
    int fill = c->width - (int)strlen(prefix) - zeros - count;
    if (!c->left)
        pad(sink, ' ', fill);
    put_many(sink, prefix, (int)strlen(prefix));
    pad(sink, '0', zeros);
    put_many(sink, text, count);
    if (c->left)
        pad(sink, ' ', fill);
}

static void put_number(struct sink *sink, const struct conversion *c, uint64_t value, unsigned base, int upper, const char *prefix) {
    const char *alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char digits[DIGITS];
    int first = DIGITS;
    /* most numbers are short, and a 64-bit division is slow */
    while (value > UINT32_MAX) {
        digits[--first] = alphabet[value % base];
        value /= base;
    }
    for (uint32_t low = (uint32_t)value; low != 0; low /= base)
        digits[--first] = alphabet[low % base];
    int count = DIGITS - first;
    int minimum = c->precision == NO_PRECISION ? 1 : c->precision;
    if (c->alternate && base == 8 && minimum <= count)
        minimum = count + 1;
    int zeros = minimum - count;
    if (zeros < 0)
        zeros = 0;
    if (c->zero && !c->left && c->precision == NO_PRECISION) {
        int room = c->width - (int)strlen(prefix) - count;
        if (zeros < room)
            zeros = room;
    }
    put_field(sink, c, prefix, zeros, digits + first, count);
}

static int64_t signed_argument(int longs, va_list *arguments) {
    switch (longs) {
    case -2: return (signed char)va_arg(*arguments, int);
    case -1: return (short)va_arg(*arguments, int);
    case 2: return va_arg(*arguments, long long);
    default: return va_arg(*arguments, long);
    }
}

static uint64_t unsigned_argument(int longs, va_list *arguments) {
    switch (longs) {
    case -2: return (unsigned char)va_arg(*arguments, unsigned);
    case -1: return (unsigned short)va_arg(*arguments, unsigned);
    case 2: return va_arg(*arguments, unsigned long long);
    default: return va_arg(*arguments, unsigned long);
    }
}

/* Number or *, from `text` on; returns what follows. */
static const char *number(const char *text, int *value, va_list *arguments) {
    if (*text == '*') {
        *value = va_arg(*arguments, int);
        return text + 1;
    }
    for (*value = 0; *text >= '0' && *text <= '9'; text++)
        *value = *value * 10 + (*text - '0');
    return text;
}

static const char *parse(const char *text, struct conversion *c, va_list *arguments) {
    for (;; text++) {
        switch (*text) {
        case '-': c->left = 1; continue;
        case '0': c->zero = 1; continue;
        case '#': c->alternate = 1; continue;
        case '+': c->sign = '+'; continue;
        case ' ':
            if (c->sign == 0)
                c->sign = ' ';
            continue;
        default: break;
        }
        break;
    }
    text = number(text, &c->width, arguments);
    if (c->width < 0) {
        c->left = 1;
        c->width = -c->width;
    }
    if (*text == '.') {
        text = number(text + 1, &c->precision, arguments);
        if (c->precision < 0)
            c->precision = NO_PRECISION;
    }
    for (;; text++) {
        switch (*text) {
        case 'h': c->longs--; continue;
        case 'l': c->longs++; continue;
        case 'j': c->longs = 2; continue;
        case 'z':
        case 't': c->longs = 1; continue;
        default: return text;
        }
    }
}

static void put_conversion(struct sink *sink, const struct conversion *c, const char *start, const char *end, va_list *arguments) {
    char prefix[2] = {c->sign, 0};
    switch (*end) {
    case 'd':
    case 'i': {
        int64_t value = signed_argument(c->longs, arguments);
        if (value < 0)
            prefix[0] = '-';
        put_number(sink, c, value < 0 ? -(uint64_t)value : (uint64_t)value, 10, 0, prefix);
        break;
    }
    case 'u': put_number(sink, c, unsigned_argument(c->longs, arguments), 10, 0, ""); break;
    case 'o': put_number(sink, c, unsigned_argument(c->longs, arguments), 8, 0, ""); break;
    case 'x':
    case 'X': {
        uint64_t value = unsigned_argument(c->longs, arguments);
        const char *mark = !c->alternate || value == 0 ? "" : *end == 'x' ? "0x" : "0X";
        put_number(sink, c, value, 16, *end == 'X', mark);
        break;
    }
    case 'p': put_number(sink, c, (uintptr_t)va_arg(*arguments, void *), 16, 0, "0x"); break;
    case 'c': {
        char character = (char)va_arg(*arguments, int);
        put_field(sink, c, "", 0, &character, 1);
        break;
    }
    case 's': {
        const char *text = va_arg(*arguments, const char *);
        if (text == NULL)
            text = "(null)";
        int count = 0;
        while (count != c->precision && text[count])
            count++;
        put_field(sink, c, "", 0, text, count);
        break;
    }
    case '%': put(sink, '%'); break;
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A':
        (void)va_arg(*arguments, double);
        put_many(sink, start, (int)(end - start) + 1);
        break;
    default: put_many(sink, start, (int)(end - start) + (*end != 0)); break;
    }
}

static int format_to(struct sink *sink, const char *text, va_list arguments) {
    va_list rest;
    va_copy(rest, arguments);
    while (*text) {
        if (*text != '%') {
            put(sink, *text++);
            continue;
        }
        struct conversion c = {.precision = NO_PRECISION};
        const char *end = parse(text + 1, &c, &rest);
        put_conversion(sink, &c, text, end, &rest);
        text = *end ? end + 1 : end;
    }
    va_end(rest);
    return (int)sink->count;
}

int vfprintf(FILE *file, const char *format, va_list arguments) {
    struct sink sink = {.file = file};
    return format_to(&sink, format, arguments);
}

int vsnprintf(char *text, size_t size, const char *format, va_list arguments) {
    struct sink sink = {.text = text, .size = size == 0 ? 0 : size - 1};
    int count = format_to(&sink, format, arguments);
    if (size != 0)
        text[sink.count < sink.size ? sink.count : sink.size] = 0;
    return count;
}

int vprintf(const char *format, va_list arguments) {
    return vfprintf(stdout, format, arguments);
}

/* A function with the arguments themselves, after the one that takes them as a list. */
#define WITH_ARGUMENTS(declaration, call)                                                          \
    declaration {                                                                                  \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        int count = call;                                                                          \
        va_end(arguments);                                                                         \
        return count;                                                                              \
    }

WITH_ARGUMENTS(int printf(const char *format, ...), vprintf(format, arguments))
WITH_ARGUMENTS(int fprintf(FILE *file, const char *format, ...), vfprintf(file, format, arguments))
WITH_ARGUMENTS(int snprintf(char *text, size_t size, const char *format, ...), vsnprintf(text, size, format, arguments))
WITH_ARGUMENTS(int sprintf(char *text, const char *format, ...), vsnprintf(text, SIZE_MAX, format, arguments))
