# Every core reads and writes its registers, the barrier's and the triggers of events in the shared view of the event unit,
# where the others do the same, and in its own. Constants: tcdm, tohost, rounds.
start:
    csrr s0, mhartid
    andi s0, s0, 31
    li s1, tcdm
    li s2, 0x10204000
    li s5, 0x10200800
    li s6, 0x10200c00
    li s7, 0x10200e00
    slli t0, s0, 6
    add s8, s5, t0
    li t0, 0x10003
    sw t0, 8(s2)
    bne s0, x0, begin
    li t0, cores_mask
    sw t0, 0(s6)
    sw t0, 0xc(s6)
    lw t1, 0(s6)
    lw t1, 0xc(s6)
    li t0, 1
    sw t0, 0x40(s1)
begin:
    lw t0, 0x40(s1)
    beq t0, x0, begin
    li s9, rounds
loop:
    lw t0, 0(s8)
    li t1, 0x1000
    sw t1, 8(s8)
    lw t0, 0x1c(s8)
    sw t1, 4(s8)
    lw t2, 0x1c(s2)
    lw t0, 4(s6)
    p.elw t0, 0x21c(s2)
    lw t0, 0x1c(s8)
    sw x0, 4(s7)
    lw t3, 0x1c(s2)
    lw t0, 0x20(s8)
    addi s9, s9, -1
    bne s9, x0, loop
    bne s0, x0, rest
    li t0, tohost
    li t1, 1
    sw t1, 0(t0)
rest: j rest
