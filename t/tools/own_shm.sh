# SPDX-License-Identifier: MIT
# own_shm.sh: where this machine permits it, the test runs in a mount namespace with a /dev/shm of its own, so that it sees no
# jobs of others there, and others none of its own. Read it before tap.sh. HOOP_TEST_SHM is own or shared then.
if [ -z "${HOOP_TEST_SHM:-}" ]; then
    for shm_way in -m -rm; do
        if unshare $shm_way mount -t tmpfs none /dev/shm 2>/dev/null; then
            HOOP_TEST_SHM=own exec unshare $shm_way sh -c 'mount -t tmpfs none /dev/shm && exec sh "$0" "$@"' "$0" "$@"
        fi
    done
    HOOP_TEST_SHM=shared
fi
