# Settings of gdb for cores that OpenOCD serves.
set architecture riscv:rv32
# Debian's gdb assumes Linux, and then steps with breakpoints, which do not follow traps
set osabi none
set remotetimeout 60
if $simulated
    set remote hardware-watchpoint-limit 3
    set remote hardware-watchpoint-length-limit 16
else
    # a trigger compares the lowest address of an access
    set remote hardware-watchpoint-limit $triggers
    set remote hardware-watchpoint-length-limit 4
end
# run starts the program afresh, as its file is now: when gdb has asked whether it may
define hook-run
    if $simulated
        python gdb.execute("set remote exec-file " + gdb.current_progspace().filename)
    else
        python gdb.execute("monitor set PROGRAM {" + gdb.current_progspace().filename + "}", to_string=True)
    end
end
define hook-start
    hook-run
end
# OpenOCD's commands, such as a reset, change registers that gdb has read
define hookpost-monitor
    maintenance flush register-cache
end
