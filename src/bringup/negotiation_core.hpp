// SPDX-License-Identifier: MIT
// The steps of a negotiation, without the type of the queue pair. No socket, no clock, no thread:
// negotiation.hpp documents the calls.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/detail/negotiating_side.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/negotiation_options.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/verbs/address_vector.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Returns the agreed path from this side to the peer.
[[nodiscard]] address_vector path_of(const negotiated& what, const connection_wishes& wishes);

class probe_pair;

/// Threads: one thread at a time.
class negotiation_core {
 public:
  using time_point = deadline::clock::time_point;

  negotiation_core(const negotiating_side& side, const negotiation_options& options,
                   negotiation_peer peer);
  negotiation_core(const negotiation_core&) = delete;
  negotiation_core& operator=(const negotiation_core&) = delete;
  ~negotiation_core();

  [[nodiscard]] negotiation_status status() const noexcept;
  [[nodiscard]] std::span<const std::byte> outgoing() const noexcept {
    return std::span(out_).subspan(sent_);
  }
  void sent(std::size_t count);
  [[nodiscard]] std::size_t bytes_wanted() const noexcept;
  std::size_t received(std::span<const std::byte> bytes);
  void advance(time_point now);
  [[nodiscard]] std::optional<time_point> next_advance() const noexcept;
  /// Returns whether a probe message is in flight. It may complete within microseconds.
  [[nodiscard]] bool is_probing() const noexcept { return phase_ == phase::probe; }
  void set_ready();
  void abandon(error why);
  void peer_closed();
  void time_out();

  [[nodiscard]] const error& failure() const;
  [[nodiscard]] const std::optional<negotiated>& terms() const noexcept { return terms_; }
  [[nodiscard]] std::vector<std::byte> take_message() noexcept { return std::move(message_); }

 private:
  enum class phase : std::uint8_t {
    greeting,  // the peer's greeting is incomplete
    round,     // the next round begins
    port,      // the local port is down or has no address
    offer,     // the peer's offer is missing
    verdict,   // the peer's verdict is missing
    probe,     // a probe message is in flight
    endpoint,  // version 1: the peer's endpoint is missing
    receives,  // the program posts its receives
    ready,     // the peer's `ready` is missing
    finished,
    failed,
  };

  // Each step returns whether the next one may follow at once.
  bool step(time_point now);
  bool read_greeting();
  bool wait_for_port(time_point now);
  bool read_offer();
  bool read_verdict();
  bool poll_probe();
  bool read_endpoint();
  bool read_ready();

  void begin_frames(std::uint16_t version);
  void send(frame_type type, std::span<const std::byte> payload);
  void fail(error why);
  [[nodiscard]] result<void> make_offer();
  [[nodiscard]] result<void> connect_queue_pair();
  [[nodiscard]] result<void> reset();
  /// Returns the payload of the next frame; nullopt if it is incomplete. If the frame has another
  /// type than `type`, the negotiation fails.
  [[nodiscard]] std::optional<std::vector<std::byte>> take(frame_type type);
  bool begin_again();
  bool settle();

  negotiating_side side_;
  probing probing_;
  std::chrono::nanoseconds port_timeout_;
  std::vector<std::byte> own_message_;
  negotiation_peer peer_;

  phase phase_ = phase::greeting;
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::array<std::byte, greeting_bytes> greeting_{};
  std::size_t greeting_count_ = 0;
  frame_decoder decoder_{max_bringup_bytes};
  int rounds_ = 0;
  bool changed_ = false;  // the port changed in this round
  time_point port_until_{};
  std::optional<error> lacks_gid_;  // while this side waits for an address of `.gid_index`
  std::optional<time_point> next_;
  offer plain_;  // this side's offer without the probe queue pair
  offer ours_;
  std::shared_ptr<probe_pair> probe_;  // until both sides are ready
  std::optional<negotiated> terms_;
  std::vector<std::byte> message_;
  std::optional<error> failure_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
