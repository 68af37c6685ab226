/* SPDX-License-Identifier: MIT */
/*
 * cudacpu_stream: kernel launches of a program, on a stream of the stand-in runtime. C++ cannot parse
 *     kernel<<<blocks, threads, shared, stream>>>(arguments);
 * so LAUNCHES in t/sys/part.am replaces it, if it is on one line, by
 *     cudacpu_launch(kernel, blocks, threads, shared, stream)(arguments);
 * Pointers are the device's: a kernel gets the addresses of their bytes when it runs.
 */
#ifndef T_CUDACPU_STREAM_H
#define T_CUDACPU_STREAM_H

#include "t/tools/cudacpu.h"
#include "t/tools/libcudart.h"

#include <math.h>
#include <new>
#include <stdlib.h>
#include <tuple>

#define __global__

template <class T>
static inline T
cudacpu_reach(T value)
{
    return value;
}

template <class T>
static inline T *
cudacpu_reach(T *memory)
{
    return (T *)hoop_fake_cudart_reach(memory, sizeof(T));
}

template <class... Parameters> struct cudacpu_launch {
    void (*kernel)(Parameters...);
    unsigned blocks, threads, shared;
    cudaStream_t stream;

    cudacpu_launch(void (*kernel_)(Parameters...), unsigned blocks_, unsigned threads_, unsigned shared_,
                   cudaStream_t stream_)
        : kernel(kernel_), blocks(blocks_), threads(threads_), shared(shared_), stream(stream_)
    {
    }

    void operator()(Parameters... arguments) const
    {
        auto run = [kernel = kernel, blocks = blocks, threads = threads, given = std::make_tuple(arguments...)] {
            auto reached = std::apply([](auto... each) { return std::make_tuple(cudacpu_reach(each)...); }, given);
            cudacpu_grid(blocks, threads, [&] { std::apply(kernel, reached); });
        };
        using closure = decltype(run);
        void *memory = malloc(sizeof(run));
        hoop_fake_cudart_launch(
            stream, (uintptr_t)kernel, blocks, threads, [](void *it) { (*(closure *)it)(); },
            new (memory) closure(run));
    }
};

#endif
