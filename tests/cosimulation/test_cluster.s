# All cores count under a lock that is a test&set, exchange words of the TCDM and of L2 around barriers, and look whether
# the others had arrived. Constants: tcdm, tohost, l2, rounds, late (a core that takes its time).
start:
    csrr s0, mhartid
    andi s0, s0, 31
    li s1, tcdm
    li s2, 0x10204000
    li s4, l2
    li t0, 0x10000
    sw t0, 8(s2)
    bne s0, x0, begin
    li t0, cores_mask
    sw t0, 0x200(s2)
    sw t0, 0x20c(s2)
    li t0, 1
    sw t0, 0x40(s1)
begin:
    lw t0, 0x40(s1)
    beq t0, x0, begin
    p.elw t0, 0x21c(s2)
go:
    slli s5, s0, 2
    add s6, s1, s5
    add s7, s4, s5
    li s8, 0
    li s9, 0x10100044
round:
    addi s8, s8, 1
    li t0, late
    bne s0, t0, lock
    li t0, 60
delay:
    addi t0, t0, -1
    bne t0, x0, delay
lock:
    lw t0, 0(s9)
    bne t0, x0, lock
    lw t1, 0x48(s1)
    addi t1, t1, 1
    sw t1, 0x48(s1)
    sw x0, 0x44(s1)
    sw s8, 0(s6)
    sw s8, 0(s7)
    lw t2, 0(s7)
    bne t2, s8, wrong
    slli t3, s0, 4
    add t3, t3, s1
    sw s8, 0x82(t3)
    lhu t2, 0x84(t3)
    sb t2, 0x8b(t3)
    p.elw t0, 0x21c(s2)
    add t4, s1, x0
    li t5, cores
look:
    lw t2, 0(t4)
    bne t2, s8, wrong
    addi t4, t4, 4
    addi t5, t5, -1
    bne t5, x0, look
    p.elw t0, 0x21c(s2)
    li t0, rounds
    bne s8, t0, round
    bne s0, x0, rest
    lw t0, 0x48(s1)
    li t1, rounds * cores
    bne t0, t1, wrong
    li t0, tohost
    li t1, 1
    sw t1, 0(t0)
rest:
    j rest
wrong:
    li t0, tohost
    li t1, 3
    sw t1, 0(t0)
    j rest
