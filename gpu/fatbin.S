/* SPDX-License-Identifier: MIT */
/*
 * fatbin: the compiled GPU kernels (gpu/kernels.fatbin, made by nvcc from kernels.cu) as bytes of the library, at
 * hp_fatbin. Built without nvcc hp_fatbin_size is 0. (Two end labels would not do: C takes arrays to be apart.)
 */
    .section .rodata
    .globl hp_fatbin
    .globl hp_fatbin_size
    .hidden hp_fatbin
    .hidden hp_fatbin_size
    .balign 64
hp_fatbin:
#ifdef HP_FATBIN
    .incbin HP_FATBIN
#endif
1:
    .balign 8
hp_fatbin_size:
    .quad 1b - hp_fatbin
    .section .note.GNU-stack,"",%progbits
