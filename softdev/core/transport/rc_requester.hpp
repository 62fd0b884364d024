// SPDX-License-Identifier: MIT
// The send side over RC: a window of requests that are answered in order, RNR and timeout retries.
#pragma once

#include "softdev/core/requester.hpp"

namespace verbena::softdev {

/// Executes requests over RC. Every request takes one packet sequence number when a path accepts
/// it. An answer also acknowledges earlier sends and writes. Threads: as requester.
class rc_requester : public requester {
 public:
  rc_requester(queue_pair& self, const queue_pair_options& options, std::byte* memory)
      : rc_requester(self, options, true, memory) {}

  void retry_now() noexcept override;
  bool answer(const request_id& which, const response& what) noexcept override;
  bool place(const request_id& which, std::uint64_t offset,
             std::span<const std::byte> bytes) noexcept final;
  bool place_early(const request_id& which, std::uint64_t offset,
                   std::span<const std::byte> bytes) noexcept final;
  /// Ends the oldest request with retry_exceeded; later requests are flushed.
  void process_lost(std::uint32_t slot, const failure& why) noexcept override;

 protected:
  rc_requester(queue_pair& self, const queue_pair_options& options, bool takes_followers,
               std::byte* memory)
      : requester(self, options, takes_followers, memory) {}

  [[nodiscard]] send_entry* in_flight(const request_id& which, std::uint64_t& index) noexcept;

 private:
  enum class wait : std::uint8_t { none, receiver, answer };

  void start_requests() noexcept override;
  [[nodiscard]] bool wake_up() noexcept override;
  void forget_window() noexcept override;
  start_decision apply(send_entry& entry, const fault_rule& rule) noexcept override;

  [[nodiscard]] bool may_start(const send_entry& entry) noexcept;
  [[nodiscard]] bool start(send_entry& entry) noexcept;
  [[nodiscard]] bool settle(send_entry& entry, const response& what) noexcept;
  void wait_for_receiver(send_entry& entry, const response& what) noexcept;
  void wait_for_answer(const failure& why) noexcept;
  void stop_waiting() noexcept;
  [[nodiscard]] bool comes_from_peer(std::uint32_t from) noexcept;
  [[nodiscard]] bool finish_earlier(std::uint64_t index) noexcept;
  void finish_in_flight(send_entry& entry) noexcept;
  void rewind_to(std::uint64_t index) noexcept;

  std::uint8_t reads_in_flight_ = 0;
  std::uint8_t receiver_retries_ = 0;
  std::uint8_t answer_retries_ = 0;
  wait waiting_ = wait::none;
};
// Two cache lines: a queue pair that was not used for a while must load them.
static_assert(sizeof(rc_requester) <= 128);

}  // namespace verbena::softdev
