/* Formats of the fixed-width types: 64 bits are long long, the others are passed as int. */
#ifndef XPULPNN_INTTYPES_H
#define XPULPNN_INTTYPES_H

#include <stdint.h>

#define PRId8 "d"
#define PRIi8 "i"
#define PRIu8 "u"
#define PRIx8 "x"
#define PRIX8 "X"
#define PRId16 "d"
#define PRIi16 "i"
#define PRIu16 "u"
#define PRIx16 "x"
#define PRIX16 "X"
#define PRId32 __INT32_FMTd__
#define PRIi32 __INT32_FMTi__
#define PRIu32 __UINT32_FMTu__
#define PRIx32 __UINT32_FMTx__
#define PRIX32 __UINT32_FMTX__
#define PRId64 "lld"
#define PRIi64 "lli"
#define PRIu64 "llu"
#define PRIx64 "llx"
#define PRIX64 "llX"

/* clang names the formats itself; int32_t of GCC is long here. */
#ifndef __INT32_FMTd__
#define __INT32_FMTd__ "ld"
#define __INT32_FMTi__ "li"
#define __UINT32_FMTu__ "lu"
#define __UINT32_FMTx__ "lx"
#define __UINT32_FMTX__ "lX"
#endif

#endif
