// SPDX-License-Identifier: MIT
// Functions that jump to the real library's function of the same name. Their signatures are
// unknown, so all registers that can contain arguments are preserved. The first call looks up the
// real function.
#include <atomic>
#include <cstdlib>

#include "softdev/abi/failure.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {

using softdev::convention;
using softdev::not_supported;

/// One trampoline. The assembly below requires that `target` is the first member.
struct forwarded {
  std::atomic<plain_function> target;
  const char* name;
  const char* version;  ///< nullptr: the newest
  convention how;       ///< how it fails without a real library
};

}  // namespace verbena::forward

namespace verbena::forward {
namespace {

// Returns a function that replaces a missing one: it reports failure in the convention `How`.
template <class Result, convention How>
plain_function missing() noexcept {
  return reinterpret_cast<plain_function>(&not_supported<Result(), How>::call);
}

plain_function missing_function(convention how) noexcept {
  switch (how) {
    case convention::null:
      return missing<void*, convention::null>();
    case convention::code:
      return missing<int, convention::code>();
    case convention::minus_one:
      return missing<int, convention::minus_one>();
    case convention::negative:
      return missing<long, convention::negative>();
    case convention::zero:
      return missing<unsigned long, convention::zero>();
    case convention::text:
      return missing<const char*, convention::text>();
    case convention::silent:
      break;
  }
  return missing<void, convention::silent>();
}

}  // namespace
}  // namespace verbena::forward

// Stores the real function in `entry` and returns it. Thread-safe.
extern "C" __attribute__((visibility("hidden"), used)) verbena::forward::plain_function
verbena_forward_resolve(verbena::forward::forwarded* entry) {
  auto found = verbena::forward::real_function(entry->name, entry->version);
  if (found == nullptr) found = verbena::forward::missing_function(entry->how);
  entry->target.store(found, std::memory_order_release);
  return found;
}

// Called by a trampoline with the address of its entry in a scratch register.
extern "C" __attribute__((visibility("hidden"))) void verbena_forward_bind();

#if defined(__x86_64__)
#define TRAMPOLINE_BODY(entry) "  endbr64\n  lea " entry "(%rip), %r11\n  jmp *(%r11)\n"
__asm__(R"(
  .text
  .hidden verbena_forward_bind
  .globl verbena_forward_bind
  .type verbena_forward_bind, @function
verbena_forward_bind:
  .cfi_startproc
  endbr64
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %rax
  .cfi_adjust_cfa_offset 56
  sub $128, %rsp
  .cfi_adjust_cfa_offset 128
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  mov %r11, %rdi
  call verbena_forward_resolve
  mov %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $128, %rsp
  .cfi_adjust_cfa_offset -128
  pop %rax
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  .cfi_adjust_cfa_offset -56
  jmp *%r11
  .cfi_endproc
  .size verbena_forward_bind, . - verbena_forward_bind
)");
#elif defined(__aarch64__)
#define TRAMPOLINE_BODY(entry)                                      \
  "  hint #34\n  adrp x16, " entry "\n  add x16, x16, :lo12:" entry \
  "\n"                                                              \
  "  ldr x17, [x16]\n  br x17\n"
__asm__(R"(
  .text
  .hidden verbena_forward_bind
  .globl verbena_forward_bind
  .type verbena_forward_bind, %function
verbena_forward_bind:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-224]!
  .cfi_adjust_cfa_offset 224
  .cfi_rel_offset x29, 0
  .cfi_rel_offset x30, 8
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  mov x0, x16
  bl verbena_forward_resolve
  mov x17, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  .cfi_restore x29
  .cfi_restore x30
  .cfi_adjust_cfa_offset -224
  br x17
  .cfi_endproc
  .size verbena_forward_bind, . - verbena_forward_bind
)");
#else
#error "the drop-in needs a trampoline for this processor; the preload library does without"
#endif

// Defines the exported function `symbol`, whose entry is the variable `entry`.
#define TRAMPOLINE(symbol, entry)                                                              \
  __asm__("  .text\n  .balign 16\n  .globl " symbol "\n  .type " symbol ", %function\n" symbol \
          ":\n" TRAMPOLINE_BODY(entry) "  .size " symbol ", . - " symbol "\n")

#define NODE_IBVERBS_1_0 "IBVERBS_1.0"
#define NODE_IBVERBS_1_1 "IBVERBS_1.1"

// The entries are constant-initialised: libraries call trampolines before constructors have run.
#define ENTRY(entry, name, version, how)                                                   \
  extern "C" {                                                                             \
  __attribute__((visibility("hidden"), used)) constinit verbena::forward::forwarded entry{ \
      &verbena_forward_bind, name, version, verbena::forward::convention::how};            \
  }
#define PRIVATE(name, how)                         \
  ENTRY(verbena_entry_##name, #name, nullptr, how) \
  TRAMPOLINE(#name, "verbena_entry_" #name);
#define COMPAT(node, name, how)                              \
  ENTRY(verbena_compat_##name, #name, NODE_##node, how)      \
  TRAMPOLINE("verbena_old_" #name, "verbena_compat_" #name); \
  __asm__("  .symver verbena_old_" #name "," #name "@" NODE_##node "\n");
#define PRIVATE_OF(macro, how) PRIVATE(macro, how)
#include "softdev/forward/forwarded.inc"
PRIVATE_OF(VERBENA_REGISTER_DRIVER, silent)
#undef PRIVATE
#undef PRIVATE_OF
#undef COMPAT

// A variable of the private node: if it is true, a driver whose device was removed ignores a failed
// destruction. rdma-core reads it from the environment; its drivers may find this copy.
extern "C" {
__attribute__((visibility("default"))) constinit bool verbs_allow_disassociate_destroy = false;
}

namespace {

__attribute__((constructor)) void read_environment() {
  verbs_allow_disassociate_destroy = secure_getenv("RDMAV_ALLOW_DISASSOC_DESTROY") != nullptr;
}

}  // namespace
