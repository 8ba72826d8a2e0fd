/* Exceptions, such as ecall of a task that yields, and the timer go to the kernel, other lines to the runtime. */
    .globl xp_vector_exception, xp_vector_7
    .type xp_vector_exception, @function
xp_vector_exception:
xp_vector_7:
    j freertos_risc_v_trap_handler
