/* The C library's; it lacks the longest name of a file, and how many can be open at a time. */
#include_next <stdio.h>
#ifndef FILENAME_MAX
#define FILENAME_MAX 101
#define FOPEN_MAX 19
#endif
