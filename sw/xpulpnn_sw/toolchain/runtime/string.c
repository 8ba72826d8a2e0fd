/* The functions of string.h, which compilers also call on their own account. */

#include <stdint.h>
#include <string.h>

enum { WORD = sizeof(uint32_t) };

typedef uint32_t __attribute__((may_alias)) word_t;

static int aligned(const void *a, const void *b) {
    return (((uintptr_t)a | (uintptr_t)b) & (WORD - 1)) == 0;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    char *out = to;
    const char *in = from;
    if (aligned(out, in))
        for (; count >= WORD; count -= WORD, out += WORD, in += WORD)
            *(word_t *)out = *(const word_t *)in;
    while (count--)
        *out++ = *in++;
    return to;
}

void *memmove(void *to, const void *from, size_t count) {
    char *out = to;
    const char *in = from;
    if ((uintptr_t)out - (uintptr_t)in >= count)
        return memcpy(to, from, count);
    while (count--)
        out[count] = in[count];
    return to;
}

void *memset(void *to, int value, size_t count) {
    char *out = to;
    if (aligned(out, out)) {
        uint32_t word = (uint8_t)value * 0x01010101u;
        for (; count >= WORD; count -= WORD, out += WORD)
            *(word_t *)out = word;
    }
    while (count--)
        *out++ = (char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t count) {
    const uint8_t *x = a, *y = b;
    for (; count--; x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *text) {
    const char *end = text;
    while (*end)
        end++;
    return (size_t)(end - text);
}

int strncmp(const char *a, const char *b, size_t count) {
    for (; count--; a++, b++)
        if (*a != *b || *a == 0)
            return (uint8_t)*a - (uint8_t)*b;
    return 0;
}

int strcmp(const char *a, const char *b) {
    return strncmp(a, b, SIZE_MAX);
}

char *strcpy(char *restrict to, const char *restrict from) {
    memcpy(to, from, strlen(from) + 1);
    return to;
}

char *strncpy(char *restrict to, const char *restrict from, size_t count) {
    size_t i = 0;
    for (; i < count && from[i]; i++)
        to[i] = from[i];
    memset(to + i, 0, count - i);
    return to;
}

char *strcat(char *restrict to, const char *restrict from) {
    strcpy(to + strlen(to), from);
    return to;
}

char *strncat(char *restrict to, const char *restrict from, size_t count) {
    char *end = to + strlen(to);
    while (count-- && *from)
        *end++ = *from++;
    *end = 0;
    return to;
}

void *memchr(const void *memory, int value, size_t count) {
    for (const uint8_t *place = memory; count--; place++)
        if (*place == (uint8_t)value)
            return (void *)place;
    return NULL;
}

char *strchr(const char *text, int character) {
    return memchr(text, character, strlen(text) + 1);
}

char *strrchr(const char *text, int character) {
    for (const char *place = text + strlen(text); place >= text; place--)
        if (*place == (char)character)
            return (char *)place;
    return NULL;
}

char *strstr(const char *text, const char *wanted) {
    size_t count = strlen(wanted);
    for (; *text || count == 0; text++)
        if (strncmp(text, wanted, count) == 0)
            return (char *)text;
    return NULL;
}
