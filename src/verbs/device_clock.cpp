// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_clock.hpp"

#include <cerrno>

#include "src/verbs/clock_mask.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

std::uint64_t clock_mask_of(const context& device) {
  auto& known = internals::state_of(device)->parents().memory->clock_mask;
  if (const std::uint64_t mask = known.load(std::memory_order_relaxed); mask != 0) return mask;
  const auto found = device.query_extended();
  if (!found) return ~std::uint64_t{0};
  const std::uint64_t mask = found->completion_timestamp_mask();
  known.store(mask != 0 ? mask : ~std::uint64_t{0}, std::memory_order_relaxed);
  return known.load(std::memory_order_relaxed);
}

}  // namespace detail

result<device_clock_time> context::read_clock() const {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  const auto& verb = provider().verbs.query_rt_values_ex;
  const auto status = detail::call(verb, native(), &values);
  const char* const has_none = "the device has no clock that can be read";
  if (status.failed)
    return error::from_errno(status.code, verb.name(), name(),
                             status.code == EOPNOTSUPP ? has_none : "");
  if ((values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0)
    return error::not_supported(verb.name(), name(), has_none);
  // Drivers that do not count seconds store all ticks in tv_nsec, which may then exceed 10^9.
  const auto ticks = static_cast<std::uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000U +
                     static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  return device_clock_time({.ticks = ticks, .mask = detail::clock_mask_of(*this)});
}

std::string to_string(device_clock_time time) { return std::to_string(time.ticks()) + " ticks"; }

}  // namespace verbena::inline VERBENA_ABI
