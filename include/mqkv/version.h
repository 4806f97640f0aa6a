/*
 * version: which mqkv this is: what a program was compiled with. clientk_version() and
 * kvstore_version() tell what it runs with.
 */
#ifndef MQKV_VERSION_H
#define MQKV_VERSION_H

#define MQKV_VERSION_STRING "0.1.0"

/* 10,000 times the major number, 100 times the minor number, and the patch: for #if. */
#define MQKV_VERSION_NUMBER 100

#endif
