// Entry points of libzerohop.so: each jumps through a slot of its own, whatever the function's arguments are; first the
// slots of MPI_F, which may lead to a profiler, then those of PMPI_F. Until the host is known each slot leads to
// zh_first_call, which keeps the argument registers, has the slots filled, and jumps again. Knows nothing of MPI but the
// names in functions.table.

#if defined(__ELF__)
        .section .note.GNU-stack, "", %progbits
#endif

        .text
#if defined(__x86_64__)
#define ENTRY_MARK endbr64
#define JUMP_SLOT jmp *(zh_slots + 8 * index)(%rip)
#define LAZY_JUMP pushq $index; jmp zh_first_call
#elif defined(__aarch64__)
#define ENTRY_MARK hint 34
#define JUMP_SLOT adrp x16, zh_slots + 8 * index; ldr x16, [x16, :lo12:(zh_slots + 8 * index)]; br x16
#define LAZY_JUMP mov x17, index; b zh_first_call
#else
#error "no entry points for this processor"
#endif

#define ENTRY(name)                                                                    \
        .globl name;                                                                   \
        .type name, %function;                                                         \
        .balign 16; name: ENTRY_MARK; JUMP_SLOT;                                        \
        .size name, .-name;                                                            \
        zh_lazy_##name: ENTRY_MARK; LAZY_JUMP; .set index, index + 1;

        .set index, 0
#define ZH_F(name) ENTRY(MPI_##name)
#include "functions.table"
#define ZH_F(name) ENTRY(PMPI_##name)
#include "functions.table"

#if defined(__x86_64__)
        .type zh_first_call, @function
        .balign 16
zh_first_call:                          // stack: index, return address of the caller
        pushq %rbp
        movq %rsp, %rbp
        pushq %rdi
        pushq %rsi
        pushq %rdx
        pushq %rcx
        pushq %r8
        pushq %r9
        pushq %rax
        pushq %rbx                      // eight registers: the stack's alignment follows from rbp below
        movq %rsp, %rbx
        andq $-16, %rsp
        call zh_fill_slots
        movq %rbx, %rsp
        popq %rbx
        popq %rax
        popq %r9
        popq %r8
        popq %rcx
        popq %rdx
        popq %rsi
        popq %rdi
        popq %rbp
        popq %r11                       // index
        leaq zh_slots(%rip), %r10
        jmp *(%r10, %r11, 8)
        .size zh_first_call, .-zh_first_call
#else
        .type zh_first_call, %function
        .balign 16
zh_first_call:                          // x17: index
        stp x29, x30, [sp, #-112]!
        mov x29, sp
        stp x0, x1, [sp, #16]
        stp x2, x3, [sp, #32]
        stp x4, x5, [sp, #48]
        stp x6, x7, [sp, #64]
        stp x8, x17, [sp, #80]
        bl zh_fill_slots
        ldp x8, x17, [sp, #80]
        ldp x6, x7, [sp, #64]
        ldp x4, x5, [sp, #48]
        ldp x2, x3, [sp, #32]
        ldp x0, x1, [sp, #16]
        ldp x29, x30, [sp], #112
        adrp x16, zh_slots
        add x16, x16, :lo12:zh_slots
        ldr x16, [x16, x17, lsl #3]
        br x16
        .size zh_first_call, .-zh_first_call
#endif

        .data
        .balign 64
        .globl zh_slots
        .hidden zh_slots
        .type zh_slots, %object
zh_slots:
#define ZH_F(name) .quad zh_lazy_MPI_##name;
#include "functions.table"
#define ZH_F(name) .quad zh_lazy_PMPI_##name;
#include "functions.table"
        .size zh_slots, .-zh_slots
