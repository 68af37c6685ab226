/* SPDX-License-Identifier: MIT */
/*
 * cuda_kernel: the kernels' names and their one parameter, for cuda_launch.c, kernels.cu and the tests' stand-in
 * driver. It is plain C and CUDA C++.
 *
 *   hp_copy_<1|2|4|8>            elements of that many bytes: src[0] to every dst; exchange: dst[0] = src[1] and back
 *   hp_<op>_<dtype>              wire type = element type; op is sum, prod, max or min (avg sums, then divides)
 *   hp_any_<dtype>               the same for 8-bit floats and bool; op is in the parameter, for a bool any of them
 *   hp_bits_<1|2|4|8>            band, bor and bxor of integers of that many bytes; op is in the parameter
 *   hp_mean_<dtype>              of 16- and 8-bit floats: a command with `ranks`
 *   hp_wire                      wire type other than the element type; both and the op are in the parameter
 *   hp_scaled                    float32 with a wire type of HP_SCALED; no exchange
 *   hp_stamp                     *dst[0] = value (64 bits), after all earlier writes of the stream are visible
 *   hp_gate                      ends when the 32-bit counter at src[0] has reached `value`
 */
#ifndef HP_CUDA_KERNEL_H
#define HP_CUDA_KERNEL_H

#include <stdint.h>

enum { HP_KERNEL_THREADS = 512 }; /* a block; the grid is hp_cuda_options.blocks at most */

typedef struct hp_kernel_args {
    const void *src[2];
    void *dst[2];
    uint64_t count; /* elements */
    uint64_t value; /* hp_stamp, hp_gate */
    uint32_t divisor, ranks[2];
    uint8_t sources, destinations, exchange, remainder;
    uint8_t elem, wire, op;           /* hoop_dtype and hoop_op */
    uint8_t src_wire[2], dst_wire[2]; /* hp_wire, hp_scaled: this operand is in the wire type */
} hp_kernel_args;

#endif
