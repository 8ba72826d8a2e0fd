# Every core draws addresses in the same few words of the TCDM, under all of its addresses, and of L2; loads and stores
# there at any width and alignment, takes and marks words by test&set, sends events to all and clears its own, counts
# under a mutex, and now and then meets the others at a barrier. Constants: tcdm, tohost, l2, rounds.
start:
    csrr s0, mhartid
    andi s0, s0, 31
    li s1, tcdm
    li s2, 0x10204000
    li s3, 0x10100000
    li s4, l2
    li t0, 0x30000
    sw t0, 8(s2)
    bne s0, x0, begin
    li t0, cores_mask
    sw t0, 0x220(s2)
    sw t0, 0x22c(s2)
    sw x0, 0xc0(s2)
    li t0, 1
    sw t0, 0x40(s1)
begin:
    lw t0, 0x40(s1)
    beq t0, x0, begin
    li t0, 0x12345
    mul s6, s0, t0
    addi s6, s6, 77
    li s7, rounds
    li s8, 0
round:
    li s9, 12
draw:
    slli t0, s6, 13
    xor s6, s6, t0
    srli t0, s6, 17
    xor s6, s6, t0
    slli t0, s6, 5
    xor s6, s6, t0
    andi t1, s6, 0x1f
    add t2, t1, s1
    sw s6, 0(t2)
    lw a0, 0(t1)
    andi t3, s6, 0x1c
    add t4, t3, s3
    sw a0, 0(t4)
    srli t5, s6, 8
    andi t5, t5, 3
    bne t5, x0, elsewhere
    lw a1, 0(t4)
    lbu a2, 1(t4)
    xor s6, s6, a1
    add t6, t1, s4
    sh a2, 0(t6)
    lh a3, 1(t6)
    sw t5, 0x100(s2)
    lw a4, 0x1c(s2)
    li t0, 0xff
    sw t0, 0x28(s2)
elsewhere:
    sb a0, 2(t2)
    lh a2, 0(t2)
    add s6, s6, a2
    p.lw a3, 4(t3!)
    sh a3, 0(t3)
    addi s9, s9, -1
    bne s9, x0, draw
    p.elw t0, 0xc0(s2)
    lw t1, 0x48(s1)
    addi t1, t1, 1
    sw t1, 0x48(s1)
    sw s6, 0xc0(s2)
    addi s8, s8, 1
    andi t0, s8, 3
    bne t0, x0, next
    p.elw t0, 0x23c(s2)
next:
    bne s8, s7, round
    p.elw t0, 0x23c(s2)
    bne s0, x0, rest
    lw t0, 0x48(s1)
    li t1, expected
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
