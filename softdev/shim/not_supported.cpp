// SPDX-License-Identifier: MIT
#include "softdev/shim/not_supported.hpp"

#include <array>
#include <cstdio>
#include <type_traits>

#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

constinit thread_local const refusal* last_refusal = nullptr;

std::size_t write_refusal(const refusal& what, char* text, std::size_t capacity) noexcept {
  const int length =
      std::snprintf(text, capacity, "%s: EOPNOTSUPP: %s%s%s; %s", what.verb, what.option,
                    *what.option != '\0' ? ": " : "", what.reason, what.remedy);
  return length > 0 ? static_cast<std::size_t>(length) : 0;
}

}  // namespace

int refuse(const refusal& what) noexcept {
  last_refusal = &what;
  if (is_logged(log_level::info)) {
    std::array<char, 512> text;
    write_refusal(what, text.data(), text.size());
    log(log_level::info, text.data());
  }
  return EOPNOTSUPP;
}

std::size_t describe_refusal(char* text, std::size_t capacity) noexcept {
  return last_refusal != nullptr ? write_refusal(*last_refusal, text, capacity) : 0;
}

void fill_not_supported(verbs_context& context) noexcept {
#define NOT_SUPPORTED_MEMBER(name, how, feature)                                     \
  context.name = &refused_call<std::remove_pointer_t<decltype(verbs_context::name)>, \
                               convention::how, &refusals::name>::call;
#define NOT_SUPPORTED_OPERATION(name, how, feature)                                                \
  context.context.ops.name = &refused_call<std::remove_pointer_t<decltype(ibv_context_ops::name)>, \
                                           convention::how, &refusals::name>::call;
#include "softdev/shim/not_supported.inc"
}

int refuse_transport(ibv_qp_type type) noexcept {
#define NOT_SUPPORTED_TRANSPORT(name, feature)                                          \
  if (type == name) {                                                                   \
    static constexpr refusal why =                                                      \
        refusals::make("ibv_create_qp", "qp_type " #name, refusals::features::feature); \
    return refuse(why);                                                                 \
  }
#include "softdev/shim/not_supported.inc"
  return 0;
}

int refuse_access(unsigned flags) noexcept {
#define NOT_SUPPORTED_ACCESS(flag, feature)                               \
  if ((flags & unsigned{flag}) != 0) {                                    \
    static constexpr refusal why =                                        \
        refusals::make("ibv_reg_mr", #flag, refusals::features::feature); \
    return refuse(why);                                                   \
  }
#include "softdev/shim/not_supported.inc"
  return 0;
}

}  // namespace verbena::softdev
