#!/bin/sh
# SPDX-License-Identifier: MIT
# What configure makes of a CUDA compiler, with scripts in its place: none, one that works, one that does not, one that is
# not wanted; which chips the kernels are made for.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
[ ! -e "$abs_top_srcdir/config.status" ] || skip_all 'the sources themselves are configured'
plan 12
cd "$tmp" || bail "no $tmp"
unset NVCC NVCC_FLAGS CONFIG_SITE

# compiler RELEASE: a script that answers as nvcc of that release.
compiler()
{
    mkdir -p "cuda$1/bin"
    cat >"cuda$1/bin/nvcc" <<END
#!/bin/sh
case "\$*" in
*--version*) echo 'Cuda compilation tools, release $1.1, V$1.1.1' ;;
*--list-gpu-arch*) printf 'compute_70\ncompute_75\ncompute_90\n' ;;
*--help*) echo '--compress-mode <mode>' ;;
-fatbin*) : >"\$3" ;;
*) exit 1 ;;
esac
END
    chmod +x "cuda$1/bin/nvcc"
}
compiler 12
compiler 13
mkdir -p broken/bin
printf '#!/bin/sh\nexit 1\n' >broken/bin/nvcc
chmod +x broken/bin/nvcc

# configure ARGUMENT...: its status, what it says of the kernels, and the flags that the Makefile has, or with --no-create,
# which saves half of the time, config.log. What the first run has found out the others take over, but for the CUDA
# compiler.
configure()
{
    rm -rf tree && mkdir tree && touch first
    grep -v NVCC first >cache
    for argument; do
        case $argument in
        NVCC*=*) printf "ac_cv_env_%s_set=set ac_cv_env_%s_value='%s'\n" "${argument%%=*}" "${argument%%=*}" \
            "${argument#*=}" >>cache ;;
        esac
    done
    (cd tree && CONFIG_SHELL=/bin/sh timeout 200 "$abs_top_srcdir/configure" --cache-file=../cache "$@") >log 2>&1 </dev/null
    status=$?
    [ -s first ] || mv cache first
    kernels=$(sed -n 's/^ *GPU kernels *//p' log)
    case " $* " in
    *' --no-create '*) flags=$(sed -n "s/^NVCC_FLAGS='\(.*\)'$/\1/p" tree/config.log) ;;
    *) flags=$(sed -n 's/^NVCC_FLAGS = //p' tree/Makefile 2>/dev/null) ;;
    esac
}
chips='-gencode arch=compute_75,code=sm_75 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_75,code=compute_75'

configure --no-create --without-cuda
is 0 "$status" '--without-cuda: configure succeeds'
is 'no: built without the GPU kernels (--without-cuda)' "$kernels" '... and its summary says so'
configure --with-cuda="$tmp/cuda12"
is "yes: $tmp/cuda12/bin/nvcc" "$kernels" '--with-cuda=DIR: its nvcc is taken'
is "$chips" "$flags" '... for the chips from sm_75 on that it knows, and with PTX for those to come'
like 'GPU example +no: programs do not link with cuBLAS' "$(cat log)" '... and the example is left out without cuBLAS'
configure --no-create --with-cuda="$tmp/cuda13"
is "$chips --compress-mode=size" "$flags" 'nvcc 13 packs them'
configure --no-create --with-cuda="$tmp/cuda13" NVCC_FLAGS=-arch=sm_90
is -arch=sm_90 "$flags" 'NVCC_FLAGS that are given are kept'
configure --no-create NVCC="$tmp/cuda12/bin/nvcc"
is "yes: $tmp/cuda12/bin/nvcc" "$kernels" 'so is NVCC'
configure --no-create NVCC="$tmp/broken/bin/nvcc"
is 0 "$status" 'an nvcc that does not work: configure succeeds'
is "no: $tmp/broken/bin/nvcc does not work (see config.log)" "$kernels" '... without the kernels, and says why'
configure --no-create --with-cuda="$tmp/nowhere"
is 1 "$status" '--with-cuda=DIR without an nvcc: configure fails'
like "error: --with-cuda=$tmp/nowhere was asked for, but no working nvcc was found there" "$(cat log)" '... with a sentence'
done_testing
