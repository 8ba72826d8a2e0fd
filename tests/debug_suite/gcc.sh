#!/bin/sh
# Bare-metal programs of the suite with a C library: Debian package picolibc-riscv64-unknown-elf.
exec riscv64-unknown-elf-gcc --specs=picolibc.specs -Wl,--no-gc-sections "$@"
