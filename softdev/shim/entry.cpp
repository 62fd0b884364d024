// SPDX-License-Identifier: MIT
// The one exported function and the table that it returns.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "softdev/shim/functions.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/not_supported.hpp"

// verbs.h hides some of its functions behind macros.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::softdev {
namespace {

template <class Function>
verbena_soft_function entry(const char* name, Function* function) noexcept {
  return {name, reinterpret_cast<void (*)()>(function)};
}

constexpr std::size_t function_count = 0
#define SUPPORTED(name, how) +1
#define NOT_SUPPORTED_FUNCTION(name, how, feature) +1
#include "softdev/shim/not_supported.inc"
#include "softdev/shim/supported.inc"
#undef SUPPORTED
    ;

using function_table = std::array<verbena_soft_function, function_count>;

function_table make_table() noexcept {
  function_table table{
#define SUPPORTED(name, how) entry(#name, guarded<&::name, convention::how>::call),
#define NOT_SUPPORTED_FUNCTION(name, how, feature) \
  entry(#name, &refused_call<decltype(::name), convention::how, &refusals::name>::call),
#include "softdev/shim/not_supported.inc"
#include "softdev/shim/supported.inc"
#undef SUPPORTED
  };
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) {
    return std::string_view(a.name) < std::string_view(b.name);
  });
  return table;
}

}  // namespace
}  // namespace verbena::softdev

extern "C" __attribute__((visibility("default"))) const verbena_soft_functions* verbena_soft_entry(
    std::uint32_t abi) {
  using namespace verbena::softdev;
  if (abi != verbena::soft_abi) return nullptr;
  static const function_table table = make_table();
  static const verbena_soft_functions functions{
      verbena::soft_abi, static_cast<std::uint32_t>(table.size()), table.data()};
  return &functions;
}
