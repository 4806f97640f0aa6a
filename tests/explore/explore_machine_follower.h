/*
 * explore_machine_follower: somebody who follows the changes of a store on the machine, over deaths
 * and cuts of the power: what they have is right, or they are told that they missed some.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_FOLLOWER_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_FOLLOWER_H

#include "tests/explore/store_model.h"

/* Follows nothing yet. */
void machine_forget_follower(void);

/* Takes the changes that there are, while others write. */
void machine_follow(void);

/* The same while nobody writes, with what was found in the store: it is what the follower has. */
void machine_judge_follower(const struct model_finding found[MODEL_KEYS]);

#endif
