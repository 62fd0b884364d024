// SPDX-License-Identifier: MIT
// The owners of event channels and identifiers of the C API. Handles share them.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>

#include "verbena/cm/port_space.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// Owns an event channel. Threads: immutable.
class channel_state {
 public:
  channel_state(const verbena::provider& from, rdma_event_channel* native) noexcept
      : provider_(&from), native_(native) {}
  channel_state(const channel_state&) = delete;
  channel_state& operator=(const channel_state&) = delete;
  ~channel_state() { provider_->cm->destroy_event_channel(native_); }

  [[nodiscard]] const verbena::provider& provider() const noexcept { return *provider_; }
  [[nodiscard]] rdma_event_channel* native() const noexcept { return native_; }

 private:
  const verbena::provider* provider_;
  rdma_event_channel* native_;
};

/// Owns an identifier, and shares ownership of its event channel. Threads: one thread at a time.
class identifier_state {
 public:
  identifier_state(std::shared_ptr<channel_state> channel, rdma_cm_id* native) noexcept
      : channel_(std::move(channel)), native_(native) {}
  identifier_state(const identifier_state&) = delete;
  identifier_state& operator=(const identifier_state&) = delete;
  /// Destroys the identifier. If this fails, reports it and leaks the identifier and its channel.
  ~identifier_state();

  [[nodiscard]] const verbena::provider& provider() const noexcept { return channel_->provider(); }
  [[nodiscard]] const sys::cm_table& calls() const noexcept { return *provider().cm; }
  [[nodiscard]] rdma_cm_id* native() const noexcept { return native_; }
  [[nodiscard]] const std::shared_ptr<channel_state>& channel() const noexcept { return channel_; }
  void set_channel(std::shared_ptr<channel_state> to) noexcept { channel_ = std::move(to); }

 private:
  std::shared_ptr<channel_state> channel_;
  rdma_cm_id* native_;
};

/// Makes the owner of `native`. If this throws an exception, destroys the identifier.
[[nodiscard]] inline std::shared_ptr<identifier_state> own_identifier(
    std::shared_ptr<channel_state> channel, rdma_cm_id* native) {
  struct guard {
    const sys::cm_table& calls;
    rdma_cm_id* native;
    ~guard() {
      // If this fails, the identifier leaks.
      if (native != nullptr) static_cast<void>(calls.destroy_id(native));
    }
  } unowned{*channel->provider().cm, native};
  auto owner = std::make_shared<identifier_state>(std::move(channel), native);
  unowned.native = nullptr;
  return owner;
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
