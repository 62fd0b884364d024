// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_list.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "src/verbs/device_choice.hpp"
#include "src/verbs/diagnosis.hpp"
#include "verbena/base/log.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

using detail::soft_mode;

result<soft_mode> mode_from_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  return detail::parse_soft_mode(std::getenv("VERBENA_SOFTDEV"));
}

// Returns the devices of a provider, or the error of loading the provider.
result<std::vector<device>> list_of(result<const provider*> from) {
  if (!from) return std::move(from).error();
  return list_devices(**from);
}

void mention(const error& missing) {
  log(log_level::debug, "list_devices: omitted: " + missing.message());
}

}  // namespace

result<std::vector<device>> list_devices(const provider& from) {
  int count = 0;
  const auto& verb = from.verbs.get_device_list;
  const auto made = detail::call_create(verb, &count);
  if (!made)
    return error::from_errno(made.code, verb.name(), to_string(from.origin),
                             detail::explain_listing(made.code));
  const std::shared_ptr<const void> list(
      made.native, [&from](ibv_device** owned) { from.verbs.free_device_list(owned); });
  std::vector<device> found;
  found.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) found.push_back(device::borrow(made.native[i], from, list));
  return found;
}

result<std::vector<device>> list_devices() {
  VERBENA_TRY(const soft_mode mode, mode_from_environment());
  if (mode == soft_mode::off) return list_of(system_provider());
  auto soft = list_of(soft_provider());
  if (mode == soft_mode::only) return soft;
  auto hardware = list_of(system_provider());
  if (!hardware && !soft)
    return error::unavailable(hardware.error().code(), "list_devices", {},
                              fmt::format("neither RDMA hardware nor the software device can be "
                                          "used: {}; {}",
                                          hardware.error().message(), soft.error().message()));
  if (!hardware) mention(hardware.error());
  if (!soft) mention(soft.error());
  return detail::merge_lists(hardware ? *std::move(hardware) : std::vector<device>(),
                             soft ? *std::move(soft) : std::vector<device>());
}

result<context> open_device(devices accepted) {
  VERBENA_TRY(const auto all, list_devices());
  VERBENA_TRY(auto chosen, detail::open_best(all, accepted));
  static std::atomic_flag warned;
  // With VERBENA_SOFTDEV=only the user has selected the software device.
  if (!chosen.warning.empty() && *mode_from_environment() != soft_mode::only &&
      !warned.test_and_set())
    log(log_level::warning, chosen.warning);
  return std::move(chosen).opened;
}

result<context> open_device(std::string_view name) {
  VERBENA_TRY(const auto all, list_devices());
  return detail::open_named(all, name);
}

}  // namespace verbena::inline VERBENA_ABI
