/* SPDX-License-Identifier: MIT */
/*
 * gloo_bench: Gloo under the harness of bench.h. The argument chooses the algorithm: ring or bcube (its present
 * interface), ring_chunked or hd (halving and doubling; the older classes, made once for each size). BENCH_STORE is an
 * empty folder where the ranks meet, BENCH_ADDRESS this rank's address.
 */
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "bench.h"

namespace
{
struct Run {
    std::string algorithm;
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::unique_ptr<gloo::Algorithm> made;
};

void
prepare(void *context, float *data, size_t count)
{
    Run *run = static_cast<Run *>(context);
    std::vector<float *> arrays{data};
    run->made.reset();
    if (run->algorithm == "ring_chunked")
        run->made = std::make_unique<gloo::AllreduceRingChunked<float>>(run->context, arrays, static_cast<int>(count));
    else if (run->algorithm == "hd")
        run->made =
            std::make_unique<gloo::AllreduceHalvingDoubling<float>>(run->context, arrays, static_cast<int>(count));
}

void
allreduce(void *context, float *data, size_t count)
{
    using Options = gloo::AllreduceOptions;
    Run *run = static_cast<Run *>(context);
    if (run->made) {
        run->made->run();
        return;
    }
    void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<float>;
    Options options(run->context);
    options.setAlgorithm(run->algorithm == "bcube" ? Options::Algorithm::BCUBE : Options::Algorithm::RING);
    options.setOutput(data, count);
    options.setReduceFunction(sum);
    gloo::allreduce(options);
}

} // namespace

int
main(int argc, char **argv)
{
    Run run;
    int rank = bench_number("BENCH_RANK"), size = bench_number("BENCH_RANKS");
    gloo::transport::tcp::attr address(bench_text("BENCH_ADDRESS"));
    auto device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(bench_text("BENCH_STORE"));
    run.algorithm = argc > 1 ? argv[1] : "ring";
    run.context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    run.context->connectFullMesh(store, device);
    bench_join(rank, size);
    bench_peer peer{&run, prepare, allreduce, 0};
    int bad = bench_run(&peer);
    bench_barrier();
    _exit(bad); /* its threads do not always end when the context is freed */
}
