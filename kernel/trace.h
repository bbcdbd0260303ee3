/* SPDX-License-Identifier: GPL-2.0 */
/* clang-format off */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM zerohop

#if !defined(_ZEROHOP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _ZEROHOP_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(zerohop_register,
	TP_PROTO(u64 region, u64 bytes, u64 ns),
	TP_ARGS(region, bytes, ns),
	TP_STRUCT__entry(__field(u64, region) __field(u64, bytes) __field(u64, ns)),
	TP_fast_assign(__entry->region = region; __entry->bytes = bytes; __entry->ns = ns;),
	TP_printk("region=%llu bytes=%llu ns=%llu", __entry->region, __entry->bytes, __entry->ns)
);

TRACE_EVENT(zerohop_copy,
	TP_PROTO(u64 region, u64 bytes, int err),
	TP_ARGS(region, bytes, err),
	TP_STRUCT__entry(__field(u64, region) __field(u64, bytes) __field(int, err)),
	TP_fast_assign(__entry->region = region; __entry->bytes = bytes; __entry->err = err;),
	TP_printk("region=%llu bytes=%llu err=%d", __entry->region, __entry->bytes, __entry->err)
);

TRACE_EVENT(zerohop_revoke,
	TP_PROTO(u64 region, int event),
	TP_ARGS(region, event),
	TP_STRUCT__entry(__field(u64, region) __field(int, event)),
	TP_fast_assign(__entry->region = region; __entry->event = event;),
	TP_printk("region=%llu event=%d", __entry->region, __entry->event)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
