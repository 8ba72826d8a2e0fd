# Program of test_check.py: loops, traps, Mac&Load, interrupts, talk with the host at 0x3000.
start:
    lui sp, 2
    addi s0, sp, 0x400
    csrr a0, mhartid
    csrr a0, mtvec
    csrw mscratch, s0
    csrr a1, mscratch
    csrrsi a1, mscratch, 3
    csrrc a1, mscratch, s0
    csrr a2, misa
    csrr a3, minstret
    csrr a3, mcycle
    csrr a3, mip
    li a4, 37
    li a5, -5
    div a6, a4, a5
    mul a7, a4, a5
    c.mv s1, a4
    c.add s1, a5
    sub s2, a4, a5
    sw a4, 0(sp)
    sb a5, 1(sp)
    lw t0, 0(sp)
    lh t1, 1(sp)
    lbu t2, 1(sp)
    sh a5, 7(sp)
    lhu t2, 7(sp)
    p.sw a5, 4(s0!)
    p.lw t3, -4(s0!)
    p.lw s0, 4(s0!)
    addi s0, sp, 0x40
    p.mac a6, a4, a5
    pv.sdotsp.b a6, a4, a5
    pv.add.sc.n a7, a6, a4
    pv.qnt.n s5, a5, (sp)
    pv.qnt.c s6, a4, (sp)
    pv.mlsdotup.h x0, (s0!), 8
    pv.mlsdotup.h x0, (s0!), 16
    pv.rqld 0, (s0!)
    pv.rqld 1, (s0!)
    pv.rqu.b s7, a4, a5, 2
    pv.mldotup.n s8, (s0!), 24
    li t4, 6
    lp.setup 0, t4, 1f
    pv.mlsdotsup.n a0, (s0!), 17
    c.addi s2, 1
1:  pv.mlsdotsup.b a1, (s0!), 0
    lp.starti 1, 2f
    lp.endi 1, 3f
    lp.counti 1, 3
2:  lp.setupi 0, 2, 3f
    csrr t5, lpcount1
3:  addi s3, s3, 1
    beq a4, a5, never
    bne a4, a5, 4f
never:
    addi s4, s4, 1
4:  p.beqimm t4, 6, 5f
    addi s4, s4, 1
5:  jal ra, function
    la t0, function
    jalr ra, 0(t0)
    ecall
    c.ebreak
    .word 0xffffffff
    csrw 0x123, a0
    csrw mhartid, a0
    li a0, -1
    csrw mie, a0
    csrsi mstatus, 8
    li t4, 60
6:  addi s5, s5, 3
    mul s6, s5, s5
    addi t4, t4, -1
    bne t4, zero, 6b
    csrci mstatus, 8
    csrr t0, mstatus
    csrr t0, mcause
    li t0, 10240
    li t1, 12288
    sw t0, 0(t1)
wait:
    lw t2, 8(t1)
    beq t2, zero, wait
    lb t2, 3(t1)
    lw t2, 0(t1)
    li t0, 1
    sw t0, 0(t1)
stop:
    j stop
function:
    addi s7, s7, 1
    ret
exception:
    csrw mscratch, t6
    csrr t6, mcause
    csrr t6, mepc
    lhu t6, 0(t6)
    andi t6, t6, 3
    addi t6, t6, -3
    beq t6, zero, 7f
    csrr t6, mepc
    addi t6, t6, 2
    j 8f
7:  csrr t6, mepc
    addi t6, t6, 4
8:  csrw mepc, t6
    csrr t6, mscratch
    mret
interrupt:
    csrw mscratch, t6
    csrr t6, mcause
    csrr t6, mepc
    csrr t6, mstatus
    csrr t6, mscratch
    mret
