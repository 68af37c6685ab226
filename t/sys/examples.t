#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples as a user meets them: copied out of the tree, built with their own Makefile by pkg-config alone against
# an installed hoop, and run.
# time limit: 300
. "$abs_top_srcdir/t/tap/tap.sh"
: "${PKG_CONFIG:=pkg-config}" "${CC:=cc}"
plan_lazy
unset MAKEFLAGS MFLAGS MAKELEVEL LD_LIBRARY_PATH HOOP_DIGITS

install() { ${MAKE:-make} -C "$abs_top_builddir" install DESTDIR="$tmp/root"; }
ok 'make install DESTDIR' install || bail 'nothing is installed'
pc=$(find "$tmp/root" -name hoop.pc)
prefix=$tmp/root$(sed -n 's/^prefix=//p' "$pc")
export PKG_CONFIG_PATH="${pc%/*}${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="${pc%/pkgconfig/*}"

installed=$(find "$tmp/root" -path '*/examples/Makefile')
ok 'the examples are installed, to be copied' test -n "$installed" || bail 'there are no examples'
listed=$(sed -n 's/^| \(`[^|]*\)|.*/\1/p' "${installed%/*}/README.md" | tr -d '`,')
is '' "$(cd "${installed%/*}" && for file in $listed; do [ -e "$file" ] || echo "$file"; done)" 'with all that their README lists'
mkdir "$tmp/mine"
cp "${installed%/*}"/* "$tmp/mine"
build()
{
    ${MAKE:-make} -C "$tmp/mine" CC="$CC" CFLAGS='-O2 -Wall -Werror' \
        PKG_CONFIG="$PKG_CONFIG --define-variable=prefix=$prefix"
}
ok 'they build with pkg-config alone' build || bail 'there is nothing to run'
cd "$tmp/mine" || bail 'the copy of the examples is gone'

hooprun=$prefix/bin/hooprun
is "rank 0 of 1: the sum of 1 to 1 is 1" "$(./hello)" 'hello, alone'
is "rank 0 of 3: the sum of 1 to 3 is 6
rank 1 of 3: the sum of 1 to 3 is 6
rank 2 of 3: the sum of 1 to 3 is 6" "$("$hooprun" -n 3 ./hello | sort)" 'hello, three ranks'
for ranks in 1 2 3; do
    like 'results are the same$' "$("$hooprun" -n $ranks ./overlap)" "overlap, $ranks ranks"
    is "$ranks" "$("$hooprun" -n $ranks ./halo | grep -c ', 0 differ from the whole rod')" "halo, $ranks ranks"
    like "^5 rounds over $ranks ranks" "$("$hooprun" -n $ranks ./eventloop)" "eventloop, $ranks ranks"
done
sum_of_3='rank 0 of 3: the sum of 1 to 3 is 6
rank 1 of 3: the sum of 1 to 3 is 6
rank 2 of 3: the sum of 1 to 3 is 6'
is "$sum_of_3" "$(./fork_pipe 3 | sort)" 'fork_pipe, three workers'
for workers in x 0 -3 3x 3000000000; do
    is 2 "$(./fork_pipe $workers >/dev/null 2>err; echo $?)" "fork_pipe $workers: status 2"
    like '^usage: fork_pipe ' "$(cat err)" 'and a sentence'
done
file_meeting()
{
    for rank in 1 2 0; do
        HOOP_SOCKET_IFNAME=lo ./shared_file "$tmp/meeting" $rank 3 &
    done
    wait
}
is "$sum_of_3" "$(file_meeting | sort)" 'shared_file, three ranks'
is '' "$(ls "$tmp" | grep meeting)" 'and the file with the secret is gone'
is 1 "$(HOOP_SOCKET_IFNAME=lo ./shared_file "$tmp/meeting" 0 none 2>err; echo $?)" 'a rank 0 that cannot join ends with 1'
is '' "$(ls "$tmp" | grep meeting)" 'and leaves no file either'
mkdir "$tmp/meeting"
is 1 "$(HOOP_SOCKET_IFNAME=lo ./shared_file "$tmp/meeting" 0 3 2>err; echo $?)" 'so does one that cannot write its file'
is meeting "$(ls "$tmp" | grep meeting)" 'and leaves none'
rmdir "$tmp/meeting"

# Each MPI of Debian has a compiler and a launcher of its own; on loopback, also as root, also with few processors.
mpi_meeting()
{
    rm -f mpi_bcast
    ${MAKE:-make} -s mpi_bcast MPICC="mpicc.$1" CFLAGS='-O2 -Wall' PKG_CONFIG="$PKG_CONFIG --define-variable=prefix=$prefix" &&
        timeout 60 env HOOP_SOCKET_IFNAME="$2" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 "mpirun.$1" -n 3 ./mpi_bcast 2>err | sort
}
for mpi in openmpi mpich; do
    if command -v mpicc.$mpi >/dev/null && command -v mpirun.$mpi >/dev/null; then
        is 'rank 0 of 3: hoop and MPI agree
rank 1 of 3: hoop and MPI agree
rank 2 of 3: hoop and MPI agree' "$(mpi_meeting $mpi lo)" "mpi_bcast, $mpi"
        is '' "$(mpi_meeting $mpi nosuch0)" '... without a server'
        is 1 "$(grep '^mpi_bcast: ' err | grep -cv ' joins no ring: rank 0 could not start its server$')" \
            '... only rank 0 says why' || diag "$(cat err)"
    else
        skip 3 "no $mpi: apt-get install openmpi-bin libopenmpi-dev mpich libmpich-dev"
    fi
done

like 'bit-identical on all ranks \(ranks 2' "$("$hooprun" -n 2 ./digits --epochs 2)" \
    'digits finds its images beside the program'
# The one for GPUs takes CUDA; it finds no GPU here, whatever the machine has, and says so.
cuda=${NVCC%/bin/nvcc}
if [ -n "$cuda" ] && [ -e "$abs_top_builddir/examples/digits_gpu" ]; then
    gpu_build() { ${MAKE:-make} -C "$tmp/mine" CC="$CC" CUDA="$cuda" CFLAGS='-O2 -Wall -Werror' \
        PKG_CONFIG="$PKG_CONFIG --define-variable=prefix=$prefix" digits_gpu; }
    ok 'digits_gpu builds with nvcc' gpu_build
    like 'no GPU here' "$(CUDA_VISIBLE_DEVICES= ./digits_gpu 2>&1)" 'and says that there is no GPU'
else
    skip 2 'there is no nvcc with cuBLAS: configure --with-cuda=DIR'
fi
for c in *.c *.cu; do
    ok "$c knows no room of hoop's but its public face" test -z "$(grep -E '#include "(lib|net|gpu|bin|rendezvous)/' "$c")"
done
done_testing
