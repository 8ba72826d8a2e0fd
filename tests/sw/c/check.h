/* The exit code of a program is the line of the first check that fails. */
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            exit(__LINE__);                                                                                            \
    } while (0)
