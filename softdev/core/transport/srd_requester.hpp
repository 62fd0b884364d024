// SPDX-License-Identifier: MIT
// The send side over SRD. A request of the window is in flight, completed, or queued, which here
// means that it waits for its retry time. Other requests do not wait for it. Requests complete in
// the order in which they end. A failed request does not change the state of the queue pair, as on
// EFA.
#pragma once

#include "softdev/core/requester.hpp"
#include "softdev/core/transport/delivery.hpp"

namespace verbena::softdev {

/// Executes requests over SRD. Threads: as requester.
class srd_requester final : public requester {
 public:
  srd_requester(queue_pair& self, const queue_pair_options& options, std::byte* memory)
      : requester(self, options, false, memory) {}

  /// In `place`, `offset` is relative to the part in flight.
  bool answer(const request_id& which, const response& what) noexcept override;
  bool place(const request_id& which, std::uint64_t offset,
             std::span<const std::byte> bytes) noexcept override;
  void process_lost(std::uint32_t slot, const failure& why) noexcept override;

 private:
  void start_requests() noexcept override;
  [[nodiscard]] bool wake_up() noexcept override;
  start_decision apply(send_entry& entry, const fault_rule& rule) noexcept override;

  [[nodiscard]] delivery& delivery_of(std::uint64_t index) noexcept;
  [[nodiscard]] bool start(send_entry& entry) noexcept;
  [[nodiscard]] bool deliver(std::uint64_t index) noexcept;
  [[nodiscard]] bool settle(std::uint64_t index, const response& what) noexcept;
  void wait_for_receiver(std::uint64_t index, std::uint8_t rnr_timer) noexcept;
  void wait_for(std::uint64_t index, time_ns when) noexcept;
  void postpone(std::uint64_t index, time_ns when) noexcept;
  void try_again_or_end(std::uint64_t index, const failure& why) noexcept;
  void finish(std::uint64_t index) noexcept;
  void fail(std::uint64_t index, completion_status status, const failure& why) noexcept;
  [[nodiscard]] bool find(const request_id& which, std::uint64_t& index) noexcept;
};

}  // namespace verbena::softdev
