/* A library without the lab: a store has the defaults. */
#include "kvstore/core/variants.h"

const struct store_variants store_variants = {.strategies = {NULL}};
