/* GCC without a C library: its own definitions, which it uses by itself only where there is no main. */
#include <stdint-gcc.h>
