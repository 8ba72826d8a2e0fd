#!/bin/sh
# Debian's gdb takes bare-metal programs for those of Linux, and then steps by breakpoints, which traps pass by.
exec gdb-multiarch -iex "set osabi none" "$@"
