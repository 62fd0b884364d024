// SPDX-License-Identifier: MIT
// Refusals of functions and options that the device does not support (not_supported.inc). The last
// refusal of each thread is stored, so that verbena_soft_explain can describe it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <string_view>

#include "softdev/abi/failure.hpp"

namespace verbena::softdev {

/// The reason why a call fails with EOPNOTSUPP. Threads: immutable.
struct refusal {
  const char* verb;    ///< the function, as programs call it
  const char* option;  ///< an argument, flag or type; empty for the function itself
  const char* reason;  ///< what the device lacks
  const char* remedy;  ///< what to use instead
};

/// Stores the refusal as the last one of the calling thread, and logs it (`info`). Returns
/// EOPNOTSUPP.
int refuse(const refusal& what) noexcept;

/// Writes "VERB: EOPNOTSUPP: OPTION: REASON; REMEDY" of the last refusal of the calling thread.
/// Writes at most `capacity` bytes with a terminating zero. Returns the length of the whole text,
/// or 0 if there was no refusal.
std::size_t describe_refusal(char* text, std::size_t capacity) noexcept;

/// Returns the name of a function of verbs.h: removes the second prefix of a name that has two.
consteval const char* verb_named(const char* name) {
  constexpr std::string_view twice = "ibv_ibv_";
  return std::string_view(name).starts_with(twice) ? name + 4 : name;
}

/// The refusals of not_supported.inc.
namespace refusals {
struct feature {
  const char* reason;
  const char* remedy;
};
namespace features {
// lint: allow(macro): a row of not_supported.inc
#define NOT_SUPPORTED_FEATURE(name, why, instead) inline constexpr feature name{why, instead};
#include "softdev/shim/not_supported.inc"
}  // namespace features
consteval refusal make(const char* verb, const char* option, const feature& what) {
  return {verb_named(verb), option, what.reason, what.remedy};
}
// lint: allow(macro): a row of not_supported.inc
#define NOT_SUPPORTED_FUNCTION(name, how, feature) \
  inline constexpr refusal name = make(#name, "", features::feature);
// lint: allow(macro): a row of not_supported.inc
#define NOT_SUPPORTED_MEMBER(name, how, feature) \
  inline constexpr refusal name = make("ibv_" #name, "", features::feature);
// lint: allow(macro): a row of not_supported.inc
#define NOT_SUPPORTED_OPERATION(name, how, feature) \
  inline constexpr refusal name = make("ibv_" #name, "", features::feature);
// lint: allow(macro): a row of not_supported.inc
#define NOT_SUPPORTED_REQUEST(name, feature) \
  inline constexpr refusal name = make("ibv_" #name, "", features::feature);
// lint: allow(macro): a row of not_supported.inc
#define NOT_SUPPORTED_OPTION(name, verb, option, feature) \
  inline constexpr refusal name = make(verb, option, features::feature);
#include "softdev/shim/not_supported.inc"
}  // namespace refusals

/// `refused_call<Signature, How, &refusal>::call` has this signature, refuses the call, and returns
/// the failure in its convention.
template <class Signature, convention How, const refusal* What>
struct refused_call;

template <class Return, class... Arguments, convention How, const refusal* What>
struct refused_call<Return(Arguments...), How, What> {
  static Return call(Arguments... /*arguments*/) {
    return report_failure<Return, How>(refuse(*What));
  }
};

/// Sets the functions of not_supported.inc in a new context.
void fill_not_supported(verbs_context& context) noexcept;

/// Refuses a transport that verbs.h defines but the device does not support. Returns 0 for other
/// types.
[[nodiscard]] int refuse_transport(ibv_qp_type type) noexcept;
/// Refuses `flags` (ibv_access_flags) that verbs.h defines but the device does not support. Returns
/// 0 for others.
[[nodiscard]] int refuse_access(unsigned flags) noexcept;

}  // namespace verbena::softdev
