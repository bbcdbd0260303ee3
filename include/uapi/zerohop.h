/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/zerohop: processes of one user, on one machine, register memory and copy from and to each other's.
 *
 * An open file belongs to one context from ZEROHOP_JOIN on; the files of a context reach each other's regions. All
 * calls return 0 or -1 with errno. Every structure begins with its size: the kernel reads no more than it knows and
 * refuses with E2BIG what has bytes that are not zero beyond; a shorter one is an older one, whose rest is zero.
 * Fields that are not described are zero. The same for 32 and 64 bits: addresses are 64 bits wide.
 *
 *  errno     everywhere
 *  EFAULT    memory of the caller cannot be read or written
 *  EINVAL    a size, a flag or a field is none
 *  ENOTTY    no such call
 *  EPERM     the caller is of another user than the context
 *  ENOTCONN  the file has joined no context
 *  ENOMEM
 */
#ifndef _UAPI_ZEROHOP_H
#define _UAPI_ZEROHOP_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define ZEROHOP_ABI 1
#define ZEROHOP_SECRET_BYTES 32
#define ZEROHOP_MAX_SEGMENTS 1024 /* of either list of a copy */

/* Joins the context of this secret, made by the first to come. The secret is the members' alone: random, 32 bytes.
 * EPERM: it is another user's. EISCONN: the file has joined one. EINVAL: the secret is zero. EDQUOT: the user has too
 * many contexts. */
struct zerohop_join {
	__u32 size;
	__u32 abi; /* in: ZEROHOP_ABI the caller was built with; out: the kernel's */
	__u8 secret[ZEROHOP_SECRET_BYTES];
	__u32 member; /* out: the number of this file in its context, from 1, never used again there */
	__u32 reserved;
};

#define ZEROHOP_READ 1u /* others may read it */
#define ZEROHOP_WRITE 2u /* others may write it */
#define ZEROHOP_REUSE 4u /* what covers the range is good enough */

/* Pins [address, address + bytes) of the caller, so that others reach it as `region`, until it is unregistered or
 * evicted, the file is closed, or the owner unmaps, remaps, discards, forks over any of it (not: mprotect). The kernel
 * itself may change a mapping too, of huge pages or of files: a region may end at any time, and be registered anew.
 *
 * With ZEROHOP_REUSE a region of this file that covers the whole range, for these directions at least, is given instead
 * of a new one, and counts as used now: called before each message, it makes the module the cache of registrations.
 *
 * Where the pool is full the least recently used region of the user goes. EDQUOT: all others are in use.
 * EAGAIN, EINTR: try again. ENOMEM: RLIMIT_MEMLOCK too (VmPin). EFAULT: there is no such memory, it may not be written,
 * or (files) not pinned. EPERM: the file was joined by another process, which this one has it from. */
struct zerohop_register {
	__u32 size;
	__u32 flags; /* ZEROHOP_READ, ZEROHOP_WRITE, ZEROHOP_REUSE */
	__u64 address; /* out: where the region begins */
	__u64 bytes; /* out: of the region */
	__u64 region; /* out: never used again in this context */
};

/* Of this file's. ENOENT: it is gone. */
struct zerohop_unregister {
	__u32 size;
	__u32 reserved;
	__u64 region;
};

struct zerohop_segment {
	__u64 at; /* an address of the caller; there: an offset into the region, or an address of the member */
	__u64 bytes;
};

#define ZEROHOP_TO_REGION 1u /* else from it */
#define ZEROHOP_TIMES 2u /* fill in the times */
#define ZEROHOP_OF_MEMBER 4u /* `region` is a member's number: its addresses, not offsets */

/* Copies between the caller's memory and a region, until the shorter of both lists ends. `copied` is always true: what
 * was done from the front on, also where an error is returned. A signal ends a copy early, with EINTR only where
 * nothing was copied.
 * ENOENT: there is no such region now: it must be registered anew. ERANGE: a segment lies outside the region.
 * EACCES: the region was registered for the other direction alone. EFAULT: memory of the caller.
 *
 * With ZEROHOP_OF_MEMBER each segment there lies in some region of the member, registered for the direction; segments
 * may lie in different ones. ENOENT: no region covers one of them; what was before it is copied. */
struct zerohop_copy {
	__u32 size;
	__u32 flags;
	__u64 region;
	__u64 here; /* address of struct zerohop_segment[], of the caller's memory */
	__u64 there; /* the same, of the region or the member */
	__u32 here_count;
	__u32 there_count;
	__u64 copied; /* out: bytes */
	__u64 lookup_ns; /* out, with ZEROHOP_TIMES: lists and region found */
	__u64 copy_ns; /* out, with ZEROHOP_TIMES: bytes moved */
};

/* Of the file's context, all since it was made, but for the first two. */
struct zerohop_statistics {
	__u32 size;
	__u32 members; /* files now */
	__u64 regions; /* now */
	__u64 pages; /* now pinned */
	__u64 registered;
	__u64 pin_ns; /* spent in pinning */
	__u64 evicted; /* to make room */
	__u64 revoked; /* since the owner changed the mapping */
	__u64 copies;
	__u64 bytes; /* copied */
};

#define ZEROHOP_IOC_JOIN _IOWR('Z', 0xE0, struct zerohop_join)
#define ZEROHOP_IOC_REGISTER _IOWR('Z', 0xE1, struct zerohop_register)
#define ZEROHOP_IOC_UNREGISTER _IOW('Z', 0xE2, struct zerohop_unregister)
#define ZEROHOP_IOC_COPY _IOWR('Z', 0xE3, struct zerohop_copy)
#define ZEROHOP_IOC_STATISTICS _IOWR('Z', 0xE4, struct zerohop_statistics)

#endif /* _UAPI_ZEROHOP_H */
