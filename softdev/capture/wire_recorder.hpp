// SPDX-License-Identifier: MIT
// Records the packets that a process exchanges with other hosts.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "softdev/capture/frame_writer.hpp"
#include "softdev/wire/packet_watcher.hpp"

namespace verbena::softdev::capture {

/// Threads: as packet_watcher states. Writes to the file at the end of each batch.
class wire_recorder final : public wire::packet_watcher {
 public:
  /// `to` must outlive the recorder.
  explicit wire_recorder(frame_writer& to) noexcept : to_(to) {}
  ~wire_recorder() = default;
  wire_recorder(const wire_recorder&) = delete;
  wire_recorder& operator=(const wire_recorder&) = delete;

  void sending() noexcept override { sent_at_ = wall_clock(); }
  void sent(const wire::network_header& around,
            std::span<const std::byte> packet) noexcept override;
  void sent_all() noexcept override { to_.flush(); }
  void arrived(const wire::network_header& around,
               std::span<const std::byte> packet) noexcept override;
  void settled(std::string_view note) noexcept override;
  void dismissed() noexcept override { taker_.store(pthread_t{}, std::memory_order_relaxed); }
  void settled_all() noexcept override { to_.flush(); }

 private:
  /// The packet that is being processed.
  struct arrival {
    std::uint64_t time_ns = 0;
    wire::network_header around;
    std::span<const std::byte> packet;
  };

  frame_writer& to_;
  std::uint64_t sent_at_ = 0;
  arrival last_;
  std::atomic<pthread_t> taker_{};  ///< the thread that processes `last_`; reset when written
};

}  // namespace verbena::softdev::capture
