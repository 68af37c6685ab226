#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch for the tests is there; they themselves then need no download within their limits.
# time limit: 600
. "$abs_top_srcdir/t/tap/tap.sh"
. "$abs_top_srcdir/t/python/python.sh"
. "$abs_top_srcdir/t/python/torch.sh"
torch_environment "${HOOP_TEST_TORCH_VERSION:-2.15}"
plan_lazy
ok 'PyTorch is there' "$torch_python" -c 'import torch'
done_testing
