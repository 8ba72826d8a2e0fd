/* Numbers from text, sorting and searching, random numbers. */

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int digit(char character) {
    if (isdigit((unsigned char)character))
        return character - '0';
    return isalpha((unsigned char)character) ? tolower((unsigned char)character) - 'a' + 10 : INT_MAX;
}

struct parsed {
    unsigned long long size;
    int negative, is_over;
};

/* A number at the start of a text; `is_over`: it does not fit. */
static struct parsed parse_number(const char *text, char **end, int base) {
    struct parsed found = {0, 0, 0};
    const char *place = text;
    while (isspace((unsigned char)*place))
        place++;
    found.negative = *place == '-';
    if (*place == '-' || *place == '+')
        place++;
    if ((base == 0 || base == 16) && place[0] == '0' && (place[1] | 0x20) == 'x' && digit(place[2]) < 16) {
        place += 2;
        base = 16;
    }
    if (base == 0)
        base = *place == '0' ? 8 : 10;
    const char *first = place;
    for (; digit(*place) < base; place++) {
        found.is_over |= __builtin_mul_overflow(found.size, (unsigned)base, &found.size);
        found.is_over |= __builtin_add_overflow(found.size, (unsigned)digit(*place), &found.size);
    }
    if (end != NULL)
        *end = (char *)(place == first ? text : place);
    return found;
}

static long long signed_number(struct parsed found, long long most) {
    unsigned long long limit = (unsigned long long)most + (unsigned)found.negative;
    if (found.is_over || found.size > limit)
        found.size = limit;
    return (long long)(found.negative ? -found.size : found.size);
}

static unsigned long long unsigned_number(struct parsed found, unsigned long long most) {
    if (found.is_over || found.size > most)
        return most;
    return found.negative ? -found.size : found.size;
}

long strtol(const char *restrict text, char **restrict end, int base) {
    return (long)signed_number(parse_number(text, end, base), LONG_MAX);
}

long long strtoll(const char *restrict text, char **restrict end, int base) {
    return signed_number(parse_number(text, end, base), LLONG_MAX);
}

unsigned long strtoul(const char *restrict text, char **restrict end, int base) {
    return (unsigned long)unsigned_number(parse_number(text, end, base), ULONG_MAX);
}

unsigned long long strtoull(const char *restrict text, char **restrict end, int base) {
    return unsigned_number(parse_number(text, end, base), ULLONG_MAX);
}

int atoi(const char *text) { return (int)strtol(text, NULL, 10); }
long atol(const char *text) { return strtol(text, NULL, 10); }

static void swap(char *a, char *b, size_t size) {
    while (size-- > 0) {
        char kept = *a;
        *a++ = *b;
        *b++ = kept;
    }
}

/* Heap sort: no recursion, no memory, never quadratic. */
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *)) {
    char *items = base;
    for (size_t start = count / 2, end = count; end > 1;) {
        if (start > 0)
            start--;
        else
            swap(items, items + --end * size, size);
        size_t parent = start;
        for (size_t child; (child = 2 * parent + 1) < end; parent = child) {
            if (child + 1 < end && compare(items + child * size, items + (child + 1) * size) < 0)
                child++;
            if (compare(items + parent * size, items + child * size) >= 0)
                break;
            swap(items + parent * size, items + child * size, size);
        }
    }
}

void *bsearch(const void *key, const void *base, size_t count, size_t size, int (*compare)(const void *, const void *)) {
    const char *items = base;
    while (count > 0) {
        const char *middle = items + count / 2 * size;
        int order = compare(key, middle);
        if (order == 0)
            return (void *)middle;
        if (order > 0) {
            items = middle + size;
            count -= count / 2 + 1;
        } else {
            count /= 2;
        }
    }
    return NULL;
}

static uint64_t random_state = 1;

void srand(unsigned seed) { random_state = seed; }

/* The upper bits of a linear congruential generator with Knuth's factor. */
int rand(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)(random_state >> 33);
}
