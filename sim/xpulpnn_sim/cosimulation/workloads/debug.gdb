# Settings of gdb for cores that OpenOCD serves.
set architecture riscv:rv32
# Debian's gdb assumes Linux, and then steps with breakpoints, which do not follow traps
set osabi none
set remotetimeout 60
# OpenOCD's commands, such as a reset, change registers that gdb has read
define hookpost-monitor
    maintenance flush register-cache
end
