/* How the C library, picolibc, is configured. */
#ifndef XP_PICOLIBC_H
#define XP_PICOLIBC_H

#define TINY_STDIO
#define POSIX_IO
#define FORMAT_DEFAULT_DOUBLE
#define _WANT_IO_C99_FORMATS
#define NEWLIB_GLOBAL_ERRNO
#define __SINGLE_THREAD__
#define _IEEE_LIBM
#define __OBSOLETE_MATH_DEFAULT 0
#define _HAVE_ALIAS_ATTRIBUTE
#define _HAVE_WEAK_ATTRIBUTE
#define _HAVE_FORMAT_ATTRIBUTE
#define _HAVE_LONG_DOUBLE
#define _HAVE_BUILTIN_MUL_OVERFLOW 1
#define _HAVE_BUILTIN_ADD_OVERFLOW 1
#ifndef __clang__
#define _HAVE_CC_INHIBIT_LOOP_TO_LIBCALL /* memcpy is not compiled to a call of memcpy */
#endif

#endif
