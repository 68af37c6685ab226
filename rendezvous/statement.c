/* SPDX-License-Identifier: MIT */
/* statement: see statement.h. */
#include "rendezvous/statement.h"

#include "base/wire.h"

void
hp_statement_put(uint8_t out[HP_RECALL_BYTES], const hp_statement *s)
{
    hp_put64(out, s->origin.lineage);
    hp_put64(out + 8, s->origin.parent);
    hp_put32(out + 16, s->origin.split);
    hp_put32(out + 20, (uint32_t)s->origin.color);
    hp_put32(out + 24, s->epoch);
    hp_put32(out + 28, s->standing);
    hp_put32(out + 32, s->patience);
    hp_put32(out + 36, s->placed);
}

int
hp_statement_get(hp_statement *s, const uint8_t *in, size_t n)
{
    if (n != HP_RECALL_BYTES)
        return 0;
    uint32_t standing = hp_get32(in + 28);
    *s = (hp_statement){.origin = {.lineage = hp_get64(in),
                                   .parent = hp_get64(in + 8),
                                   .split = hp_get32(in + 16),
                                   .color = (int)hp_get32(in + 20)},
                        .epoch = hp_get32(in + 24),
                        .standing = (hp_standing)standing,
                        .patience = hp_get32(in + 32),
                        .placed = hp_get32(in + 36)};
    return s->origin.lineage != 0 && standing <= HP_STANDS_RUNNING;
}
