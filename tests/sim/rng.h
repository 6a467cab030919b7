/*
 * rng - the simulation's only source of chance: xoshiro256**, seeded through splitmix64. The same
 * seed gives the same numbers on every machine, so a seed is a whole history.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n);                 /* 0 to n - 1; n > 0 */
int64_t rng_between(struct rng *r, int64_t low, int64_t high); /* both included */
bool rng_chance(struct rng *r, uint32_t per_mille);

#endif
