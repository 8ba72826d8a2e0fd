#ifndef XPULPNN_STDLIB_H
#define XPULPNN_STDLIB_H

#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 0x7FFFFFFF

/* Ends the run: 0 passes, any other code of 31 bits fails with it. */
void exit(int code) __attribute__((noreturn));
void abort(void) __attribute__((noreturn));
/* The function is called by exit, the last one first; at most 32 of them. */
int atexit(void (*function)(void));

/* The heap has a fixed size (xpulpnn cc --heap); memory is at multiples of 16. NULL: there is not enough left. */
void *malloc(size_t size) __attribute__((malloc));
void *calloc(size_t count, size_t size) __attribute__((malloc));
void *realloc(void *memory, size_t size);
void free(void *memory);

int atoi(const char *text);
long atol(const char *text);
long strtol(const char *restrict text, char **restrict end, int base);
unsigned long strtoul(const char *restrict text, char **restrict end, int base);
long long strtoll(const char *restrict text, char **restrict end, int base);
unsigned long long strtoull(const char *restrict text, char **restrict end, int base);

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
void *bsearch(const void *key, const void *base, size_t count, size_t size, int (*compare)(const void *, const void *));

int rand(void);
void srand(unsigned seed);

static inline int abs(int value) { return value < 0 ? -value : value; }
static inline long labs(long value) { return value < 0 ? -value : value; }
static inline long long llabs(long long value) { return value < 0 ? -value : value; }

typedef struct {
    int quot, rem;
} div_t;
static inline div_t div(int a, int b) { return (div_t){a / b, a % b}; }

#endif
