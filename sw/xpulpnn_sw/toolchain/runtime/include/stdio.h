/* Formatted output over the exit channel: integers, characters, strings and pointers. */
#ifndef XPULPNN_STDIO_H
#define XPULPNN_STDIO_H

#include <stdarg.h>
#include <stddef.h>

#define EOF (-1)

typedef struct xp_file FILE;
extern FILE xp_stdout, xp_stderr;
#define stdout (&xp_stdout)
#define stderr (&xp_stderr)

#define XP_PRINTF(text, arguments) __attribute__((format(printf, text, arguments)))
int printf(const char *format, ...) XP_PRINTF(1, 2);
int fprintf(FILE *file, const char *format, ...) XP_PRINTF(2, 3);
int sprintf(char *text, const char *format, ...) XP_PRINTF(2, 3);
int snprintf(char *text, size_t size, const char *format, ...) XP_PRINTF(3, 4);
int vprintf(const char *format, va_list arguments);
int vfprintf(FILE *file, const char *format, va_list arguments);
int vsnprintf(char *text, size_t size, const char *format, va_list arguments);
int putchar(int character);
int puts(const char *text);
int fputc(int character, FILE *file);
int fputs(const char *text, FILE *file);
size_t fwrite(const void *items, size_t size, size_t count, FILE *file);
/* Output leaves line by line; this sends an unfinished line. NULL stands for every file. */
int fflush(FILE *file);

#endif
