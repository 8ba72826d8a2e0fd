/* Functions of the C library by their results; exits with the line of the first wrong one. */
#include "check.h"
#include <ctype.h>
#include <limits.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xpulpnn_rt.h>

static char received[64];
static unsigned received_count;

/* Instead of the one of the runtime: what is printed to file 1 goes to a buffer, all else to the host's. */
void xp_write(int file, const void *bytes, uint32_t count) {
    CHECK(file == 1 && received_count + count < sizeof received);
    memcpy(received + received_count, bytes, count);
    received_count += count;
}

/* A function of the library, defined by the program. */
int atoi(const char *text) { return text[0] == 'x' ? 4711 : (int)strtol(text, NULL, 10); }

static int by_value(const void *a, const void *b) { return *(const int16_t *)a - *(const int16_t *)b; }

static void sorting(void) {
    int16_t values[201], sorted;
    for (int count = 0; count <= 201; count += 67) {
        long sum = 0;
        for (int i = 0; i < count; i++)
            sum += values[i] = (int16_t)(rand() % 100 - 50);
        qsort(values, (size_t)count, sizeof values[0], by_value);
        for (int i = 0; i < count; i++)
            sum -= values[i];
        CHECK(sum == 0);
        for (int i = 1; i < count; i++)
            CHECK(values[i - 1] <= values[i]);
    }
    for (int wanted = -60; wanted <= 60; wanted++) {
        sorted = (int16_t)wanted;
        int16_t *found = bsearch(&sorted, values, 201, sizeof values[0], by_value);
        int there = 0;
        for (int i = 0; i < 201; i++)
            there |= values[i] == wanted;
        CHECK(there ? *found == wanted : found == NULL);
    }
}

static void numbers(void) {
    char *end;
    CHECK(strtol("  -123abc", &end, 10) == -123 && *end == 'a');
    CHECK(strtol("0x1Fg", &end, 0) == 31 && *end == 'g' && strtol("0778", &end, 0) == 63 && *end == '8');
    CHECK(strtol("0x", &end, 16) == 0 && *end == 'x' && strtol("-", &end, 10) == 0 && *end == '-');
    CHECK(strtol("zz", NULL, 36) == 35 * 37 && strtol("2147483648", NULL, 10) == LONG_MAX);
    CHECK(strtol("-2147483648", NULL, 10) == LONG_MIN && strtol("-99999999999999999999999", NULL, 10) == LONG_MIN);
    CHECK(strtoul("4294967295", NULL, 10) == ULONG_MAX && strtoul("-1", NULL, 10) == ULONG_MAX);
    CHECK(strtoul("4294967296", NULL, 10) == ULONG_MAX && strtoll("-9223372036854775808", NULL, 10) == LLONG_MIN);
    CHECK(strtoull("18446744073709551615", NULL, 10) == ULLONG_MAX && strtoull("18446744073709551616", NULL, 10) == ULLONG_MAX);
    CHECK(atol("-42") == -42 && atoi("x") == 4711 && abs(-5) == 5 && labs(-5) == 5 && div(-7, 2).rem == -1);
}

static void texts(void) {
    char text[16] = "ab";
    strcat(text, "cd");
    strncat(text, "efgh", 2);
    CHECK(strcmp(text, "abcdef") == 0 && strchr(text, 'd') == text + 3 && strchr(text, 'x') == NULL);
    CHECK(strchr(text, 0) == text + 6 && strrchr("abab", 'a') != NULL && *strrchr("abab", 'b') == 'b');
    CHECK(strrchr(text, 'a') == text && strrchr(text, 'z') == NULL && memchr(text, 'c', 2) == NULL);
    CHECK(strstr(text, "cde") == text + 2 && strstr(text, "cdf") == NULL && strstr(text, "") == text);
    strncpy(text, "xyz", 8);
    CHECK(strcmp(text, "xyz") == 0 && text[7] == 0 && strncpy(text, "12345", 3)[3] == 0);
    CHECK(isdigit('7') && !isdigit('a') && isalpha('Q') && isspace('\n') && !isprint('\t') && ispunct('~'));
    CHECK(toupper('z') == 'Z' && tolower('A') == 'a' && tolower('1') == '1' && isxdigit('F') && !isxdigit('g'));
}

int saved_registers(void);
static jmp_buf place;
static volatile int depth;

static void deep(int level) {
    volatile int kept = level;
    if (level == 0)
        longjmp(place, depth == 1 ? 0 : 5);
    deep(level - 1);
    CHECK(kept == level);
}

static void jumps(void) {
    register int a = rand(), b = rand();
    int first = a, second = b, got = setjmp(place);
    depth++;
    if (depth == 1 || depth == 2) {
        CHECK(got == (depth == 1 ? 0 : 1));
        deep(10);
    }
    CHECK(got == 5 && depth == 3 && first == a && second == b);
    CHECK(saved_registers() == 0);
}

static int ended;
static void at_exit(void) {
    CHECK(ended == 1 && received_count == 13);
    ended = 2;
}
static void at_exit_first(void) { ended = 1; }

int main(void) {
    srand(1);
    int one = rand();
    srand(1);
    CHECK(one == rand() && one != rand() && one >= 0);
    numbers();
    sorting();
    texts();
    jumps();
    printf("%s %d\n", "retargeted", 7 * 3);
    CHECK(received_count == 14 && memcmp(received, "retargeted 21\n", 14) == 0);
    received_count = 13;
    atexit(at_exit);
    atexit(at_exit_first);
    bool fine = true;
    return fine ? 0 : 1;
}
