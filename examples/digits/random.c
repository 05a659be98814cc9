#include "random.h"

uint64_t random_bits(uint64_t *state)
{
    uint64_t bits;

    *state += UINT64_C(0x9e3779b97f4a7c15);
    bits = *state;
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

double random_signed(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-52 - 1.0;
}
