/* Formatted output, recursion, division and 64-bit arithmetic; the test knows what it prints. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xpulpnn_rt.h>

static unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b == 0 ? a : gcd(b, a % b); }

struct record {
    char name[12];
    int64_t value;
    uint8_t pad[33];
};

static volatile int64_t big = -0x123456789ABCDEFLL;
static volatile uint64_t huge = 0xFEDCBA9876543210u;
static volatile int32_t small = -1234567;
static int counted = 41;
volatile unsigned char cleared[1000];

int main(int argc, char **argv) {
    struct record a = {"first", 1LL << 40, {1, 2, 3}}, b = a;
    uint64_t cycles = xp_cycles64(), instructions = xp_instructions64();

    printf("%d %i|%5d|%-5d|%05d|%+d|% d\n", 0, -1, 42, 42, -42, 42, 42);
    printf("%u %x %X %#x %#o %o|%8.3x|%c%%\n", 4000000000u, 0xBEEFu, 0xBEEFu, 255u, 8u, 8u, 10u, 'z');
    printf("%s|%8s|%-8s|%.2s|%*.*s|%p\n", "text", "right", "left", "cut", 5, 1, "xyz", (void *)0x1234);
    printf("%hhd %hd %ld %zu %" PRIu32 " %" PRIx64 " %" PRId64 "\n", 257, 65537, -7L, sizeof a, UINT32_MAX, huge, big);
    printf("[%10lld][%-22llu][%020lld][%%][%q]\n", (long long)small, (unsigned long long)huge, (long long)big);

    printf("%" PRId64 " %" PRId64 "\n", big / small, big % small);
    printf("%" PRIu64 " %" PRIu64 "\n", huge / 1000003, huge % 1000003);
    printf("%" PRId64 " %" PRIu64 " %" PRId64 "\n", big * small, huge >> 13, big >> 13);
    printf("%" PRId32 " %" PRId32 " %" PRIu32 "\n", small / 1000, small % 1000, (uint32_t)small / 7);
    printf("%u %" PRIu64 "\n", ackermann(2, 3), gcd(1071ull << 33, 462ull << 35));

    b.value++;
    memmove(b.name + 2, b.name, 6);
    memset(a.pad, 0xA5, sizeof a.pad);
    printf("%s %d %d %d %d\n", b.name, memcmp(&a, &b, 8) > 0, strcmp("ab", "abc") < 0, (int)strlen(b.name), a.pad[32]);
    for (size_t i = 0; i < sizeof cleared; i++)
        counted += cleared[i];
    char text[8];
    printf("%d %d %d %s\n", ++counted, argc, argv == NULL, (snprintf(text, sizeof text, "%d-%s", 12, "overflow"), text));

    assert(xp_cycles64() > cycles && xp_instructions64() > instructions + 100);
    fprintf(stderr, "to the error output, unfinished");
    printf("no new line");
}
