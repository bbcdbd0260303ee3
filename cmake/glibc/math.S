// As versions.S, of libm: since 2.29 (hypot: 2.35) without the error handling of older standards. A file of its own, as
// not everything that is shipped needs libm.
#include "bind.inc"

BIND(exp, OLDEST)
BIND(hypot, OLDEST)
BIND(log, OLDEST)
BIND(pow, OLDEST)

.section .note.GNU-stack, "", %progbits
